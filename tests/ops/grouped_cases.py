"""Matmuls whose rows are sorted by expert."""

from case_list import case, In, np_, T, wide
from matmul_cases import MATMUL


def np_grouped(x, w, c, transposed):
    np = np_()
    ends = np.cumsum(c)
    result = np.zeros((len(x), w.shape[1 if transposed else 2]))
    for row in range(len(x)):
        after = np.flatnonzero(ends > row)
        if len(after):
            matrix = wide(w[after[0]])
            result[row] = wide(x[row]) @ (matrix.T if transposed else matrix)
    return result


def grouped(name, dtype, experts, k, n, transposed, counts, sizes, adds=False, constant=False):
    """Row counts are random up to `counts`: experts without rows, rows that no expert has, experts cut off."""
    storage = (experts, n, k) if transposed else (experts, k, n)
    x, w, y, c = T(dtype, "t", k), T(dtype, *storage), T(dtype, "t", n), T("i32", experts)
    inputs = [In("x", x), In("w", w), In("c", c, f"index0 {counts}")]
    ends = "%e" if experts > 1 else "%c"
    body, values = f"%e = ts.scan add %c dim 0 : {c}\n  " if experts > 1 else "", None
    if constant:
        del inputs[1]
        values = [[[((e * 5 + i * storage[2] + j) * 37 % 101) / 64 - 0.75 for j in range(storage[2])] for i in range(storage[1])]
                  for e in range(experts)]
        body += f"%w = ts.constant dense<{values}> : {w}\n  "
    matmul = "%p" if adds else "%r"
    body += f"{matmul} = ts.grouped_matmul %x, %w {'transposed ' if transposed else ''}ends {ends} : {x}, {w}, {c}\n  "
    if adds:
        inputs.append(In("z", y))
        body += f"%r = ts.add %p, %z : {y}"
    def numpy(**named):
        matrices = np_().array(values) if constant else named["w"]
        result = np_grouped(named["x"], matrices, named["c"], transposed)
        return result + wide(named["z"]) if adds else result
    # What is added to has been rounded.
    case(f"grouped_matmul {name} {'nt' if transposed else 'nn'} {dtype}", inputs, body, y, sizes,
         numpy if dtype == "f32" or not adds else None, MATMUL[dtype])


ROWS = [dict(t=0), dict(t=1), dict(t=7), dict(t=70), dict(t=300)]
for dtype in ["f32", "f16", "bf16", "f64"]:
    for transposed in [False, True]:
        for experts, k, n, counts in [(1, 33, 17, 90), (8, 64, 96, 60), (8, 31, 45, 20), (64, 40, 72, 9)]:
            grouped(f"{experts} of {k} {n}", dtype, experts, k, n, transposed, counts, ROWS)
for dtype in ["f32", "f16", "bf16"]:
    for transposed in [False, True]:
        # Blocks of GPUs and CPUs, whole and cut; then with something added.
        grouped("blocks", dtype, 4, 136, 264, transposed, 400, [dict(t=800), dict(t=130)])
        grouped("blocks added to", dtype, 3, 128, 256, transposed, 300, [dict(t=400)], adds=True)
        # Packed: whole panels and cut ones, an odd depth.
        for k, n in [(24, 48), (23, 40), (9, 64)]:
            grouped(f"constant {k} {n}", dtype, 3, k, n, transposed, 12, [dict(t=0), dict(t=1), dict(t=30)], constant=True)
        # One expert has all rows, others none or ends that decrease.
        x, w, y, e = T(dtype, "t", 40), T(dtype, 5, *((48, 40) if transposed else (40, 48))), T(dtype, "t", 48), T("i32", 5)
        for name, ends in [("first", [500, 0, 0, 0, 0]), ("last", [0, 0, 0, 0, 500]), ("decreasing", [-3, 20, 10, 60, 30]),
                           ("none", [0, -7, 0, 0, 0])]:
            def numpy(x, w, ends=ends, transposed=transposed):
                return np_grouped(x, w, np_().diff(np_().maximum.accumulate([0, *ends])), transposed)
            case(f"grouped_matmul {name} {'nt' if transposed else 'nn'} {dtype}", [In("x", x), In("w", w)],
                 f"%e = ts.constant dense<{ends}> : {e}\n"
                 f"  %r = ts.grouped_matmul %x, %w {'transposed ' if transposed else ''}ends %e : {x}, {w}, {e}",
                 y, [dict(t=1), dict(t=45), dict(t=200)], numpy, MATMUL[dtype])
