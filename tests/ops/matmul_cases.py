"""Matmuls."""

from case_list import case, In, np_, T, wide

MATMUL = {"f32": "relative 3e-6", "f64": "relative 1e-12", "f16": "relative 1e-3", "bf16": "relative 8e-3"}
ROWS = [dict(m=1, n=1, k=1), dict(m=1, n=40, k=33), dict(m=3, n=5, k=7), dict(m=17, n=65, k=64),
        dict(m=64, n=96, k=130), dict(m=0, n=4, k=3), dict(m=5, n=6, k=0)]

# Results of another kind than what is multiplied.
for dtype, made in [("i8", "f32"), ("ui8", "f32"), ("i32", "f32"), ("i8", "f64"), ("i16", "bf16"), ("i8", "f16"), ("f64", "f32"), ("f32", "f64"), ("bf16", "f64")]:
    x, y = T(dtype, "m", "k"), T(dtype, "k", "n")
    case(f"dot of {dtype} to {made}", [In("x", x), In("y", y)], f"%r = ts.dot %x, %y batch [] x [] contract [1] x [0] {{result_type = {made}}} : {x}, {y}",
         T(made, "m", "n"), ROWS, lambda x, y: wide(x).astype("f8") @ wide(y).astype("f8"), MATMUL[made if dtype != "bf16" else "f32"])

for dtype in ["f32", "f64", "f16", "bf16", "i32", "i64"]:
    for name, l, r, contract, numpy in [
            ("nn", ("m", "k"), ("k", "n"), ([1], [0]), lambda x, y: wide(x) @ wide(y)),
            ("nt", ("m", "k"), ("n", "k"), ([1], [1]), lambda x, y: wide(x) @ wide(y).T),
            ("tn", ("k", "m"), ("k", "n"), ([0], [0]), lambda x, y: wide(x).T @ wide(y))]:
        x, y = T(dtype, *l), T(dtype, *r)
        case(f"dot {name} {dtype}", [In("x", x), In("y", y)],
             f"%r = ts.dot %x, %y batch [] x [] contract {contract[0]} x {contract[1]} : {x}, {y}",
             T(dtype, "m", "n"), ROWS, numpy, MATMUL.get(dtype, "exact"),
             [dict(m=512, n=512, k=512), dict(m=1024, n=1024, k=1024)] if dtype == "f32" else None)
    x, y = T(dtype, 2, "m", 3, "k"), T(dtype, 2, 3, "k", "n")
    case(f"dot batch {dtype}", [In("x", x), In("y", y)],
         f"%r = ts.dot %x, %y batch [0, 2] x [0, 1] contract [3] x [2] : {x}, {y}", T(dtype, 2, 3, "m", "n"), ROWS,
         lambda x, y: wide(x).transpose(0, 2, 1, 3) @ wide(y), MATMUL.get(dtype, "exact"))
    # A matrix and a vector: no free dim, or one of size 1, in several orders.
    for name, l, r, dims, result in [
            ("rows", ("m", "k"), ("k",), "batch [] x [] contract [1] x [0]", ("m",)),
            ("columns", ("k", "m"), ("k", 1), "batch [] x [] contract [0] x [0]", ("m", 1)),
            ("batch", ("k", 2, "m"), (2, "k"), "batch [1] x [0] contract [0] x [1]", (2, "m")),
            ("two sums", ("m", 3, "k"), ("k", 3), "batch [] x [] contract [1, 2] x [1, 0]", ("m",)),
            ("numbers", ("k",), ("k",), "batch [] x [] contract [0] x [0]", ())]:
        x, y = T(dtype, *l), T(dtype, *r)
        case(f"dot vector {name} {dtype}", [In("x", x), In("y", y)], f"%r = ts.dot %x, %y {dims} : {x}, {y}", T(dtype, *result),
             [dict(m=1, k=1), dict(m=3, k=7), dict(m=130, k=321), dict(m=7, k=1029), dict(m=0, k=3), dict(m=5, k=0)],
             tolerance=MATMUL.get(dtype, "exact"))
# Several dims of columns or depth, apart or together.
EINSUMS = [("heads", "ij,jkl->ikl"), ("around", "ij,kjl->ikl"), ("behind", "ij,klj->ikl"), ("depths apart", "aij,akj->ik"), ("depths transposed", "ija,ajk->ik"),
           ("depths around", "iaj,jka->ik"), ("batch between", "aij,kajl->aikl"), ("both", "baij,kjbl->aikl")]
EINSUM_SIZES = dict(a=3, b=2, i=37, j=50, k=9, l=24)
for name, spelling in EINSUMS:
    for dtype in ["f32", "bf16"]:
        left, right, result = spelling.replace("->", ",").split(",")
        batch = [c for c in left if c in right and c in result]
        depth = [c for c in left if c in right and c not in result]
        x, y, r = (T(dtype, *(EINSUM_SIZES[c] for c in names)) for names in (left, right, result))
        def listed(names, dims):
            return [names.index(c) for c in dims]
        case(f"dot einsum {name} {dtype}", [In("x", x), In("y", y)],
             f"%r = ts.dot %x, %y batch {listed(left, batch)} x {listed(right, batch)} contract {listed(left, depth)} x {listed(right, depth)} : {x}, {y}",
             r, [{}], lambda x, y, spelling=spelling: np_().einsum(spelling, wide(x), wide(y)), MATMUL[dtype])
# Operands that are widened first, one or both.
for name, l, r in [("left", "bf16", "f32"), ("right", "f32", "f16"), ("both", "bf16", "bf16"), ("two kinds", "bf16", "f16")]:
    x, y, f, g = T(l, "m", "k"), T(r, "k", "n"), T("f32", "m", "k"), T("f32", "k", "n")
    body = [f"%a = ts.convert %x : {x} to {f}" if l != "f32" else "", f"%b = ts.convert %y : {y} to {g}" if r != "f32" else "",
            f"%r = ts.dot {'%x' if l == 'f32' else '%a'}, {'%y' if r == 'f32' else '%b'} batch [] x [] contract [1] x [0] : {f}, {g}"]
    case(f"dot widened {name}", [In("x", x), In("y", y)], "\n  ".join(line for line in body if line), T("f32", "m", "n"), ROWS, tolerance=MATMUL["f32"])
# Of sizes that GPUs copy in blocks, whole ones and cut ones.
BLOCKS = [dict(m=200, n=264, k=136), dict(m=257, n=72, k=200), dict(m=1, n=8, k=8), dict(m=70, n=136, k=64)]
# And of sizes that no 16-byte access divides.
ODD = [dict(m=201, n=263, k=137), dict(m=67, n=130, k=331), dict(m=9, n=3, k=5), dict(m=130, n=264, k=66)]
# Few rows: one access of a thread, several passes, threads to spare, columns of another row.
FEW = [dict(m=1, n=70, k=4104), dict(m=4, n=33, k=264), dict(m=3, n=5, k=24), dict(m=2, n=129, k=0)]
for dtype in ["f32", "f16", "bf16"]:
    x, w, y = T(dtype, "m", "k"), T(dtype, "n", "k"), T(dtype, "m", "n")
    case(f"dot few rows {dtype}", [In("x", x), In("w", w), In("z", y)],
         f"%0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : {x}, {w}\n  %r = ts.add %0, %z : {y}", y, FEW + [dict(m=1, n=40, k=9000 if dtype == "f32" else 20000)],
         lambda x, w, z: wide(x) @ wide(w).T + wide(z), MATMUL[dtype])
    for k in [8, 16, 40]:  # less to read of a column than there are threads
        x, w, y = T(dtype, "m", k), T(dtype, "n", k), T(dtype, "m", "n")
        case(f"dot few rows of {k} {dtype}", [In("x", x), In("w", w)],
             f"%r = ts.dot %x, %w batch [] x [] contract [1] x [1] : {x}, {w}", y,
             [dict(m=m, n=n) for m, n in [(1, 70), (2, 3), (4, 300), (5, 64)]],
             lambda x, w: wide(x) @ wide(w).T, MATMUL[dtype])
    x, w, y = T(dtype, 1, 4104), T(dtype, 70, 4104), T(dtype, 1, 70)
    case(f"dot one row {dtype}", [In("x", x), In("w", w)],
         f"%r = ts.dot %x, %w batch [] x [] contract [1] x [1] : {x}, {w}", y, [{}],
         lambda x, w: wide(x) @ wide(w).T, MATMUL[dtype])
for dtype in ["f16", "bf16"]:
    y, b = T(dtype, "m", "n"), T(dtype, "n")
    for name, l, r, contract in [("nn", ("m", "k"), ("k", "n"), ([1], [0])), ("nt", ("m", "k"), ("n", "k"), ([1], [1])),
                                 ("tn", ("k", "m"), ("k", "n"), ([0], [0])), ("tt", ("k", "m"), ("n", "k"), ([0], [1]))]:
        x, w = T(dtype, *l), T(dtype, *r)
        case(f"dot blocks {name} {dtype}", [In("x", x), In("w", w), In("b", b), In("z", y)],
             f"%0 = ts.dot %x, %w batch [] x [] contract {contract[0]} x {contract[1]} : {x}, {w}\n"
             f"  %1 = ts.broadcast %b [1] : {b} to {y}\n  %2 = ts.add %0, %1 : {y}\n"
             f"  %3 = ts.tanh %2 : {y}\n  %r = ts.add %3, %z : {y}", y, BLOCKS + ODD, None, MATMUL[dtype])
    # A long depth and few columns: GPUs share the depth out. Then blocks that copy for each other.
    for k, n, transposed in [(2056, 72, True), (2056, 136, False), (2051, 75, True), (1031, 137, False), (200, 1208, True), (200, 1208, False)]:
        x, w, y = T(dtype, "m", k), T(dtype, *((n, k) if transposed else (k, n))), T(dtype, "m", n)
        case(f"dot deep {k} {n} {'nt' if transposed else 'nn'} {dtype}", [In("x", x), In("w", w), In("b", T(dtype, n))],
             f"%0 = ts.dot %x, %w batch [] x [] contract [1] x [{int(transposed)}] : {x}, {w}\n"
             f"  %1 = ts.broadcast %b [1] : {T(dtype, n)} to {y}\n  %r = ts.add %0, %1 : {y}", y,
             [dict(m=m) for m in [7, 29, 150, 290]], None, MATMUL[dtype])
    # A number of rows a little above a multiple of 64: GPUs exchange the sides. Of several matrices, too; where rows of the
    # result start at any element; with the depth shared out, also by so many that some end no column; by clusters of three.
    for m, n, k, layout, b in [(20, 1600, 2517, "nt", 1), (47, 2792, 1560, "nt", 1),
                               (134, 328, 200, "nt", 1), (69, 264, 1032, "nt", 1), (137, 264, 136, "nn", 1), (70, 267, 136, "nt", 1),
                               (20, 83, 2056, "nt", 1), (72, 200, 264, "tn", 1), (22, 136, 64, "nn", 3), (22, 75, 72, "nt", 3)]:
        x = T(dtype, b, *((k, m) if layout[0] == "t" else (m, k)))
        w = T(dtype, b, *((n, k) if layout[1] == "t" else (k, n)))
        y, v = T(dtype, b, m, n), T(dtype, n)
        case(f"dot swap_ab {m} {n} {k} {layout} {b} {dtype}", [In("x", x), In("w", w), In("b", v)],
             f"%0 = ts.dot %x, %w batch [0] x [0] contract [{1 if layout[0] == 't' else 2}] x [{2 if layout[1] == 't' else 1}] : {x}, {w}\n"
             f"  %1 = ts.broadcast %b [2] : {v} to {y}\n  %r = ts.add %0, %1 : {y}", y, [{}],
             None, MATMUL[dtype])
    x, w, y = T(dtype, 3, "m", "k"), T(dtype, 3, "k", "n"), T("f32", 3, "m", "n")
    case(f"dot blocks batch {dtype}", [In("x", x), In("w", w)],
         f"%r = ts.dot %x, %w batch [0] x [0] contract [2] x [1] {{result_type = f32}} : {x}, {w}", y, BLOCKS + ODD,
         lambda x, w: wide(x) @ wide(w), "relative 2e-5")
    x, w, y = T(dtype, "m", 2, 40), T(dtype, 40, 96), T(dtype, "m", 2, 96)
    h, r = T(dtype, "m", 2, 4, 24), T(dtype, 4, "m", 2, 24)
    case(f"dot blocks heads {dtype}", [In("x", x), In("w", w)],
         f"%0 = ts.dot %x, %w batch [] x [] contract [2] x [0] : {x}, {w}\n"
         f"  %1 = ts.reshape %0 : {y} to {h}\n  %r = ts.transpose %1 [2, 0, 1, 3] : {h}", r,
         [dict(m=70), dict(m=1)], None, MATMUL[dtype])
# Of so little depth that GPUs compute the result's elements one by one: columns that whole accesses reach and others,
# fewer columns than a warp, a depth of one, of few rows a longer one, sizes known at run time only, and what follows;
# many small ones, which fill no tile of 16 bits.
for dtype in ["f32", "f16", "bf16"]:
    for b, m, n, k, layout in [(3, 23, 1560, 14, "nn"), (4, 33, 1063, 3, "nn"), (2, 130, 154, 1, "nn"), (5, 6, 1063, 24, "nn"),
                               (7, 57, 5, 2, "nt"), (6, 1, 317, 10, "nt"), (2, 70, 131, 7, "tn"), (1, 318, 1024, 5, "nt"), (2, "m", "n", 5, "nn"),
                               (254, 3, 401, 8, "nn"), (480, 1, 7, 55, "nn"), (398, 31, 3, 33, "tt"), (600, 2, 5, 64, "nt"), (300, 33, 70, 12, "tn")]:
        x = T(dtype, b, *((k, m) if layout[0] == "t" else (m, k)))
        w = T(dtype, b, *((n, k) if layout[1] == "t" else (k, n)))
        y, v, r = T(dtype, b, m, n), T(dtype, n), T(dtype, m, b, n)
        matmul = f"ts.dot %x, %w batch [0] x [0] contract [{1 if layout[0] == 't' else 2}] x [{2 if layout[1] == 't' else 1}] : {x}, {w}"
        sizes = [dict(m=3, n=70), dict(m=0, n=5), dict(m=65, n=264)] if m == "m" else [{}]
        case(f"dot shallow {b} {m} {n} {k} {layout} {dtype}", [In("x", x), In("w", w)], f"%r = {matmul}", y, sizes, None, MATMUL[dtype])
        left, right = (spelling[::-1] if transposed else spelling for spelling, transposed in [("ij", layout[0] == "t"), ("jk", layout[1] == "t")])
        full = lambda x, w, b, spelling=f"a{left},a{right}->iak": -(np_().einsum(spelling, wide(x), wide(w)) + wide(b))
        case(f"dot shallow {b} {m} {n} {k} {layout} ended {dtype}", [In("x", x, "positive"), In("w", w, "positive"), In("b", v, "positive")],
             f"%0 = {matmul}\n  %1 = ts.broadcast %b [2] : {v} to {y}\n  %2 = ts.add %0, %1 : {y}\n  %3 = ts.neg %2 : {y}\n"
             f"  %r = ts.transpose %3 [1, 0, 2] : {y}", r, sizes, full, MATMUL[dtype])
x, w, y = T("f32", 40, 3, 2), T("f32", 2, 3, 70), T("f32", 40, 70)
case("dot shallow of two depths", [In("x", x), In("w", w)], f"%r = ts.dot %x, %w batch [] x [] contract [1, 2] x [1, 0] : {x}, {w}", y, [{}], None, MATMUL["f32"])
# f32 that may be rounded to tf32, 10 bits of mantissa: an operand by 2^-11 of itself, a product by 2^-10.
for name, l, r, contract in [("nn", ("m", "k"), ("k", "n"), ([1], [0])), ("nt", ("m", "k"), ("n", "k"), ([1], [1])),
                             ("tn", ("k", "m"), ("k", "n"), ([0], [0])), ("tt", ("k", "m"), ("n", "k"), ([0], [1]))]:
    x, w, y, b = T("f32", *l), T("f32", *r), T("f32", "m", "n"), T("f32", "n")
    case(f"dot tf32 {name}", [In("x", x), In("w", w), In("b", b), In("z", y)],
         f"%0 = ts.dot %x, %w batch [] x [] contract {contract[0]} x {contract[1]} {{ts.tf32}} : {x}, {w}\n"
         f"  %1 = ts.broadcast %b [1] : {b} to {y}\n  %2 = ts.add %0, %1 : {y}\n  %r = ts.add %2, %z : {y}",
         y, BLOCKS + ODD, None, "relative 1e-3")
    # Of one sign, what is cut off instead of rounded adds up: 7e-4.
    case(f"dot tf32 to nearest {name}", [In("x", x, "positive"), In("w", w, "positive")],
         f"%r = ts.dot %x, %w batch [] x [] contract {contract[0]} x {contract[1]} {{ts.tf32}} : {x}, {w}", y,
         [dict(m=200, n=264, k=136), dict(m=257, n=72, k=200), dict(m=201, n=263, k=137)], None, "relative 3e-4")
for k, n, transposed in [(2056, 72, True), (2056, 136, False), (2051, 75, True), (200, 1208, True), (200, 1208, False)]:
    x, w, y = T("f32", "m", k), T("f32", *((n, k) if transposed else (k, n))), T("f32", "m", n)
    case(f"dot tf32 deep {k} {n} {'nt' if transposed else 'nn'}", [In("x", x), In("w", w), In("b", T("f32", n))],
         f"%0 = ts.dot %x, %w batch [] x [] contract [1] x [{int(transposed)}] {{ts.tf32}} : {x}, {w}\n"
         f"  %1 = ts.broadcast %b [1] : {T('f32', n)} to {y}\n  %r = ts.add %0, %1 : {y}", y,
         [dict(m=m) for m in [7, 29, 150, 290]], None, "relative 1e-3")
# A variant for every range of rows.
for k, n, transposed in [(520, 200, True), (512, 136, False), (333, 75, False)]:
    x, w, y = T("f32", "m", k), T("f32", *((n, k) if transposed else (k, n))), T("f32", "m", n)
    case(f"dot ranges of rows {k} {n} {'nt' if transposed else 'nn'} f32", [In("x", x), In("w", w)],
         f"%r = ts.dot %x, %w batch [] x [] contract [1] x [{int(transposed)}] : {x}, {w}", y,
         [dict(m=m) for m in [0, 9, 17, 130, 601, 1600, 4100]],
         lambda x, w, transposed=transposed: wide(x) @ (wide(w).T if transposed else wide(w)), "relative 2e-5")
x, w, y = T("f32", 3, "m", "k"), T("f32", 3, "n", "k"), T("f16", 3, "m", "n")
case("dot tf32 batch", [In("x", x), In("w", w)],
     f"%0 = ts.dot %x, %w batch [0] x [0] contract [2] x [2] {{ts.tf32}} : {x}, {w}\n"
     f"  %r = ts.convert %0 : {T('f32', 3, 'm', 'n')} to {y}", y, BLOCKS + ODD, None, "relative 2e-3")
case("dot vector", [In("x", T("f32", "k")), In("y", T("f32", "k"))],
     f'%r = ts.dot %x, %y batch [] x [] contract [0] x [0] : {T("f32", "k")}, {T("f32", "k")}', T("f32"), ROWS,
     lambda x, y: wide(x) @ wide(y), "relative 2e-5")
case("dot outer", [In("x", T("f32", "m")), In("y", T("f32", "n"))],
     f'%r = ts.dot %x, %y batch [] x [] contract [] x [] : {T("f32", "m")}, {T("f32", "n")}', T("f32", "m", "n"),
     ROWS, lambda x, y: np_().outer(x, y))
# No two rows, columns or panels of the weights are alike.
WEIGHTS = [[(i * 40 + j) * 37 % 101 / 64 - 0.75 for j in range(40)] for i in range(24)]
case("dot weights", [In("x", T("f32", "m", 24))],
     f"%w = ts.constant dense<{WEIGHTS}> : tensor<24x40xf32>\n"
     f'  %r = ts.dot %x, %w batch [] x [] contract [1] x [0] : {T("f32", "m", 24)}, {T("f32", 24, 40)}',
     T("f32", "m", 40), ROWS[:5], lambda x: wide(x) @ np_().array(WEIGHTS), "relative 3e-6")
# Rows that threads share, and rows that each thread reads all of (131 * 140 / (131 + 140) = 67).
SHARED = [[(i * 140 + j) * 37 % 101 / 64 - 0.75 for j in range(140)] for i in range(131)]
case("dot weights shared", [In("x", T("f32", "m", 131))],
     f"%w = ts.constant dense<{SHARED}> : tensor<131x140xf32>\n"
     f'  %r = ts.dot %x, %w batch [] x [] contract [1] x [0] : {T("f32", "m", 131)}, {T("f32", 131, 140)}',
     T("f32", "m", 140), [dict(m=m) for m in [0, 1, 13, 49, 67, 68, 201]],
     lambda x: wide(x) @ np_().array(SHARED), "relative 3e-6")
# Blocks of float32: with a bias, a batch, and constant weights.
for name, contract in [("nn", 0), ("nt", 1)]:
    x, w, y, b = T("f32", "m", 200), T("f32", *(("n", 200) if contract else (200, "n"))), T("f32", "m", "n"), T("f32", "n")
    case(f"dot blocks {name} f32", [In("x", x), In("w", w), In("b", b)],
         f"%0 = ts.dot %x, %w batch [] x [] contract [1] x [{contract}] : {x}, {w}\n"
         f"  %1 = ts.broadcast %b [1] : {b} to {y}\n  %r = ts.add %0, %1 : {y}", y,
         [dict(m=m, n=n) for m, n in [(200, 264), (257, 72), (131, 49), (7, 70)]],
         lambda x, w, b, transposed=contract: wide(x) @ (wide(w).T if transposed else wide(w)) + b, "relative 3e-6")
x, w, y = T("f32", 2, "m", 131), T("f32", 131, 140), T("f32", 2, "m", 140)
case("dot blocks weights f32", [In("x", x)],
     f"%w = ts.constant dense<{SHARED}> : {w}\n  %r = ts.dot %x, %w batch [] x [] contract [2] x [0] : {x}, {w}", y,
     [dict(m=m) for m in [0, 3, 66, 150]], lambda x: wide(x) @ np_().array(SHARED), "relative 3e-6")
# So many programs that one call has those of several rows.
x, w, y = T("f32", "m", 32), T("f32", 32, "n"), T("f32", "m", "n")
case("dot many blocks f32", [In("x", x), In("w", w)], f"%r = ts.dot %x, %w batch [] x [] contract [1] x [0] : {x}, {w}", y,
     [dict(m=800, n=2256)], lambda x, w: wide(x) @ wide(w), "relative 3e-6")
# Rows and columns of numbers that are not the sum of a few bf16 (CPUs may multiply such sums): far from 1, and not finite.
FAR = [1.0, 2.0**-60, 2.0**50, 1.0, 0.0, 2.0**-118, -1.0, 2.0**-52, 2.0**60]
NEAR = [1.0, 2.0**-4, 2.0**45, -1.0, 0.0]
NOT_FINITE = {5: "0x7F800000", 8: "0x7FC00000"}
# Few steps of a known depth: a loop that could be unrolled.
for k, n in [(16, 128), (32, 128), (48, 64)]:
    x, w, b, y = T("f32", "m", k), T("f32", k, n), T("f32", n), T("f32", "m", n)
    case(f"dot few steps {k}", [In("x", x), In("w", w), In("b", b)],
         f"%0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : {x}, {w}\n  %1 = ts.broadcast %b [1] : {b} to {y}\n"
         f"  %r = ts.add %0, %1 : {y}", y, [dict(m=9000), dict(m=300), dict(m=1)], lambda x, w, b: wide(x) @ wide(w) + wide(b),
         MATMUL["f32"])
for k, m, n, rows, columns, finite in [(96, 140, 70, FAR, NEAR, True), (131, 170, 50, FAR, NEAR, False), (1600, 133, 96, NEAR, FAR, True)]:
    by_row = [rows[i % len(rows)] for i in range(m)]
    by_column = [columns[j // 7 % len(columns)] if j >= 48 else 1.0 for j in range(n)]
    x, w, y, a, b = T("f32", m, k), T("f32", k, n), T("f32", m, n), T("f32", m), T("f32", n)
    text = lambda values, marks={}: str([marks.get(i % len(FAR), v) for i, v in enumerate(values)]).replace("'", "")
    back = lambda values: [1 / v if v else 1.0 for v in values]
    case(f"dot far from 1 {k}", [In("x", x), In("w", w)],
         f"%s = ts.constant dense<{text(by_row, {} if finite else NOT_FINITE)}> : tensor<{m}xf32>\n"
         f"  %t = ts.constant dense<{text(by_column)}> : tensor<{n}xf32>\n"
         f"  %p = ts.constant dense<{text(back(by_row))}> : tensor<{m}xf32>\n"
         f"  %q = ts.constant dense<{text(back(by_column))}> : tensor<{n}xf32>\n"
         f"  %0 = ts.broadcast %s [0] : {a} to {x}\n  %1 = ts.broadcast %t [1] : {b} to {w}\n"
         f"  %2 = ts.mul %x, %0 : {x}\n  %3 = ts.mul %w, %1 : {w}\n"
         f"  %4 = ts.dot %2, %3 batch [] x [] contract [1] x [0] : {x}, {w}\n"
         f"  %5 = ts.broadcast %p [0] : {a} to {y}\n  %6 = ts.broadcast %q [1] : {b} to {y}\n"
         f"  %7 = ts.mul %4, %5 : {y}\n  %r = ts.mul %7, %6 : {y}", y, [{}], None, "relative 3e-6")
# One number of a row near the largest or past it: what is left of an infinity is no number.
x, w, y, k = T("f32", 140, 96), T("f32", 96, 70), T("f32", 140, 70), T("f32", 96)
case("dot near the largest", [In("x", x), In("w", w)],
     f"%s = ts.constant dense<{[3.2e38 if i == 5 else 1.0 for i in range(96)]}> : {k}\n  %0 = ts.broadcast %s [1] : {k} to {x}\n"
     f"  %1 = ts.mul %x, %0 : {x}\n  %r = ts.dot %1, %w batch [] x [] contract [1] x [0] : {x}, {w}", y, [{}], None, "relative 3e-6")
# Packed in pairs of rows: odd and even, known and not; more columns than a panel has.
PAIR_ROWS = [dict(m=m) for m in [0, 1, 3, 17, 64, 201]]
for k, n in [(22, 40), (23, 70), (64, 96), (131, 49), (1, 16)]:
    weights = [[(i * n + j) * 37 % 101 / 64 - 0.75 for j in range(n)] for i in range(k)]
    x, y, f = T("bf16", "m", k), T("bf16", "m", n), T("f32", "m", n)
    case(f"dot weights of pairs {k} {n}", [In("x", x), In("b", T("f32", n)), In("z", y)],
         f"%w = ts.constant dense<{weights}> : tensor<{k}x{n}xbf16>\n"
         f"  %d = ts.dot %x, %w batch [] x [] contract [1] x [0] {{result_type = f32}} : {x}, tensor<{k}x{n}xbf16>\n"
         f"  %c = ts.broadcast %b [1] : {T('f32', n)} to {f}\n  %s = ts.add %d, %c : {f}\n"
         f"  %t = ts.convert %z : {y} to {f}\n  %u = ts.add %s, %t : {f}\n  %r = ts.convert %u : {f} to {y}", y, PAIR_ROWS,
         lambda x, b, z, w=weights: wide(x) @ np_().array(w) + b + wide(z), MATMUL["bf16"])
    transposed = [list(column) for column in zip(*weights)]
    x, f = T("bf16", 2, "m", k), T("f32", 2, "m", n)
    case(f"dot weights of pairs transposed {k} {n}", [In("x", x)],
         f"%w = ts.constant dense<{transposed}> : tensor<{n}x{k}xbf16>\n"
         f"  %r = ts.dot %x, %w batch [] x [] contract [2] x [1] {{result_type = f32}} : {x}, tensor<{n}x{k}xbf16>",
         f, PAIR_ROWS, lambda x, w=weights: wide(x) @ np_().array(w), "relative 2e-5")
    x = T("bf16", k, "m")
    case(f"dot weights of pairs by columns {k} {n}", [In("x", x)],
         f"%w = ts.constant dense<{weights}> : tensor<{k}x{n}xbf16>\n"
         f"  %r = ts.dot %x, %w batch [] x [] contract [0] x [0] : {x}, tensor<{k}x{n}xbf16>",
         y, PAIR_ROWS, lambda x, w=weights: wide(x).T @ np_().array(w), MATMUL["bf16"])
# Packed in groups of four rows: with a rest, and without; more columns than a panel has.
for k, n in [(22, 40), (64, 70), (3, 5), (1, 16)]:
    bytes_ = [[(i * n + j) * 37 % 256 - 128 for j in range(n)] for i in range(k)]
    x, y = T("ui8", "m", k), T("i32", "m", n)
    case(f"dot byte weights {k} {n}", [In("x", x, "wide"), In("z", y, "wide")],
         f"%w = ts.constant dense<{bytes_}> : tensor<{k}x{n}xi8>\n"
         f"  %d = ts.dot %x, %w batch [] x [] contract [1] x [0] {{result_type = i32}} : {x}, tensor<{k}x{n}xi8>\n"
         f"  %r = ts.add %d, %z : {y}", y, ROWS[:5],
         lambda x, z, w=bytes_: x.astype("i4") @ np_().array(w, "i4") + z)
    transposed = [list(column) for column in zip(*bytes_)]
    x, f = T("ui8", 2, "m", k), T("f32", 2, "m", n)
    case(f"dot byte weights transposed {k} {n}", [In("x", x, "wide"), In("s", T("f32", n))],
         f"%w = ts.constant dense<{transposed}> : tensor<{n}x{k}xi8>\n"
         f"  %d = ts.dot %x, %w batch [] x [] contract [2] x [1] {{result_type = i32}} : {x}, tensor<{n}x{k}xi8>\n"
         f"  %f = ts.convert %d : {T('i32', 2, 'm', n)} to {f}\n  %b = ts.broadcast %s [2] : {T('f32', n)} to {f}\n"
         f"  %r = ts.mul %f, %b : {f}", f, ROWS[:5],
         lambda x, s, w=bytes_: (x.astype("i4") @ np_().array(w, "i4")).astype("f4") * s, "ulp 1")
# Scaled integers: groups with a rest, an odd K, more columns than a panel has.
for kind, k, n, group in [("i8", 22, 40, 8), ("i8", 64, 70, 64), ("i8", 3, 5, 32), ("i4", 22, 40, 8),
                          ("i4", 65, 70, 32), ("i4", 1, 16, 2), ("i4", 7, 5, 32)]:
    steps = [[(i * n + j) * 37 % 101 % (15 if kind == "i4" else 101) - 7 for j in range(n)] for i in range(k)]
    groups = -(-k // group)
    scale = [[(i * n + j) * 29 % 67 / 64 - 0.5 for j in range(n)] for i in range(groups)]
    zero = [[(i * n + j) * 11 % 7 - 3 for j in range(n)] for i in range(groups)]
    for moved in (False, True):
        x, y, s = T("f32", 2, "m", k), T("f32", 2, "m", n), f"tensor<{groups}x{n}xf32>"
        def np_scaled(x, z=None, q=steps, s=scale, p=zero if moved else None, g=group):
            np = np_()
            rows = np.arange(len(q)) // g
            w = (np.array(q) - (np.array(p)[rows] if p else 0)) * np.array(s, "f4").astype("f8")[rows]
            return wide(x) @ w + (0 if z is None else wide(z))
        constants = f"%w = ts.constant dense<{steps}> : tensor<{k}x{n}x{kind}>\n  %s = ts.constant dense<{scale}> : {s}\n  "
        types = f"group {group} : {x}, tensor<{k}x{n}x{kind}>, {s}"
        if moved:
            case(f"scaled_dot {kind} {k} {n} zero", [In("x", x), In("z", y)],
                 f"{constants}%p = ts.constant dense<{[[float(v) for v in row] for row in zero]}> : {s}\n"
                 f"  %d = ts.scaled_dot %x, %w scale %s zero %p : {s} {types}\n  %r = ts.add %d, %z : {y}", y,
                 ROWS[:5], np_scaled, "relative 3e-6")
        else:
            case(f"scaled_dot {kind} {k} {n}", [In("x", x)], f"{constants}%r = ts.scaled_dot %x, %w scale %s {types}", y,
                 ROWS[:5], lambda x, f=np_scaled: f(x), "relative 3e-6")
def np_packed(x, w, s, bits, group):
    np = np_()
    k = x.shape[-1]
    q = w.astype("i4")
    if bits == 4:
        q = np.stack([((q & 15) ^ 8) - 8, q >> 4], -1).reshape(len(q), -1)[:, :k]
    return wide(x) @ (q * s.astype("f8")[:, np.arange(k) // group]).T


# Packed integers: each width of access, one group and many, a last one that is shorter, a depth that takes several rounds, and
# (22, 65) what no access reaches. As many rows as each schedule takes; of more, targets may round the matrix to 16 bits.
PACKED = [(8, 64, 70, 64), (8, 576, 33, 128), (8, 200, 17, 200), (8, 36, 5, 16), (8, 8256, 18, 8256), (8, 4736, 16, 64), (8, 22, 40, 8),
          (4, 128, 16, 128), (4, 1056, 24, 128), (4, 192, 40, 32), (4, 96, 130, 1000), (4, 16448, 20, 128), (4, 65, 70, 32)]
PACKED_ROWS, MANY_ROWS = ([dict(m=m) for m in rows] for rows in ([0, 1, 2, 5, 8, 9, 17, 32], [33, 70, 300]))
for bits, k, n, group in PACKED:
    for dtype in ["f32", "bf16", "f16"]:
        x, w, s, y = T(dtype, "m", k), T("i8", n, -(-k * bits // 8)), T("f32", n, -(-k // group)), T("f32", "m", n)
        case(f"packed_dot i{bits} {dtype} {k} {n} by {group}", [In("x", x), In("w", w, "wide"), In("s", s)],
             f"%r = ts.packed_dot %x, %w scale %s bits {bits} group {group} : {x}, {w}, {s}", y,
             PACKED_ROWS + MANY_ROWS if dtype == "f32" else PACKED_ROWS,
             lambda x, w, s, bits=bits, group=group: np_packed(x, w, s, bits, group), "relative 1e-5")
        if dtype != "f32":
            case(f"packed_dot many rows i{bits} {dtype} {k} {n} by {group}", [In("x", x), In("w", w, "wide"), In("s", s)],
                 f"%r = ts.packed_dot %x, %w scale %s bits {bits} group {group} : {x}, {w}, {s}", y, MANY_ROWS,
                 lambda x, w, s, bits=bits, group=group: np_packed(x, w, s, bits, group), MATMUL[dtype])
for bits, k, n in [(8, 128, 72), (4, 256, 40)]:
    x, w, s, y, f = T("bf16", 2, "m", k), T("i8", n, k * bits // 8), T("f32", n, k // 128), T("bf16", 2, "m", n), T("f32", 2, "m", n)
    case(f"packed_dot ended i{bits}", [In("x", x), In("w", w, "wide"), In("s", s), In("z", y), In("b", T("f32", n))],
         f"%d = ts.packed_dot %x, %w scale %s bits {bits} group 128 : {x}, {w}, {s}\n"
         f"  %c = ts.broadcast %b [2] : {T('f32', n)} to {f}\n  %e = ts.add %d, %c : {f}\n"
         f"  %t = ts.convert %z : {y} to {f}\n  %u = ts.add %e, %t : {f}\n  %r = ts.convert %u : {f} to {y}", y, PACKED_ROWS + MANY_ROWS,
         lambda x, w, s, z, b, bits=bits: np_packed(x, w, s, bits, 128) + wide(z) + b, MATMUL["bf16"])
for l, r in [("i8", "i8"), ("ui8", "i8"), ("ui8", "ui8")]:
    x, y = T(l, "m", "k"), T(r, "k", "n")
    case(f"dot {l} {r}", [In("x", x, "wide"), In("y", y, "wide")],
         f"%r = ts.dot %x, %y batch [] x [] contract [1] x [0] {{result_type = i32}} : {x}, {y}", T("i32", "m", "n"),
         ROWS, lambda x, y: x.astype("i4") @ y.astype("i4"))
