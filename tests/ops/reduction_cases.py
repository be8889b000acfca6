"""Reductions, scans and sorts."""

from case_list import case, FLOATS, INTS, In, np_, NUMBERS, PLANE, ROUNDING, T

NP_REDUCE = dict(add="sum", mul="prod", max="max", min="min")

for kind, name in NP_REDUCE.items():
    for dtype in NUMBERS:
        t = T(dtype, "a", "b", 4)
        values = "unit" if kind == "mul" and dtype in FLOATS else "normal"
        for dims in [(2,), (0,), (1,), (0, 2), (0, 1, 2)]:
            kept = [d for j, d in enumerate(t.dims) if j not in dims]
            # One number of many that cancel has no relative error to speak of.
            if kind == "add" and not kept:
                values = "positive"
            full = lambda x, dims=dims, name=name: (
                getattr(np_(), name)(x.astype("f8") if x.dtype.kind == "f" else x, axis=dims,
                                     **({} if name in ("max", "min") else
                                        dict(dtype="f8" if x.dtype.kind == "f" else x.dtype))))
            # NumPy has no largest of nothing.
            sizes = PLANE[1:] if kind in ("max", "min") else PLANE
            case(f"reduce {kind} {list(dims)} {dtype}", [In("x", t, values)],
                 f"%r = ts.reduce {kind} %x {list(dims)} : {t}", T(dtype, *kept), sizes, full,
                 "exact" if kind in ("max", "min") else ROUNDING.get(dtype, "exact"))
    for dtype in ["f32", "i32"]:
        case(f"reduce {kind} empty {dtype}", [In("x", T(dtype, "a", 0))],
             f'%r = ts.reduce {kind} %x [1] : {T(dtype, "a", 0)}', T(dtype, "a"), PLANE)
for kind in ["max", "min"]:
    case(f"reduce {kind} special", [In("x", T("f32", "a", "b"), "special")],
         f'%r = ts.reduce {kind} %x [1] : {T("f32", "a", "b")}', T("f32", "a"), PLANE[1:],
         lambda x, kind=kind: getattr(np_(), kind)(x, axis=1))
    for length in [2, 7, 10, 16]:
        case(f"reduce {kind} special of {length}", [In("x", T("f32", "a", length), "special")],
             f'%r = ts.reduce {kind} %x [1] : {T("f32", "a", length)}', T("f32", "a"), [dict(a=1), dict(a=16), dict(a=999)],
             lambda x, kind=kind: getattr(np_(), kind)(x, axis=1))
# Few results of many elements: in two steps. Columns of odd widths.
case("reduce all of many", [In("x", T("f32", 65536, "a"))], f'%r = ts.reduce add %x [0] : {T("f32", 65536, "a")}',
     T("f32", "a"), [dict(a=1)], lambda x: x.sum(axis=0, dtype="f8"), "relative 4e-6")
for shape, dims in [((65536,), [0]), ((3, 32768), [1]), ((8192, 3), [0]), ((2048, 16), [0]), ((320, 128, 64), [0, 1]), ((300000, 2), [1]), ((14, 4096, 12, 2), [0]),
                    ((70000, 3, 5), [1, 2]), ((506, 4809), [0, 1]), ((5, 40, 100), [1]),
                    ((300, 1024), [0]), ((1024, 1030), [0])]:
    t = T("f32", *shape)
    case(f"reduce known {'x'.join(map(str, shape))}", [In("x", t, "positive")], f"%r = ts.reduce add %x {dims} : {t}",
         T("f32", *[d for j, d in enumerate(shape) if j not in dims]), [{}],
         lambda x, dims=dims: x.sum(axis=tuple(dims), dtype="f8"), "relative 4e-6")
# Columns of any number: whole tiles and a last one that is cut, of one step and of two, and of fewer than a tile.
for dtype in ["f32", "bf16", "i8"]:
    t = T(dtype, "a", "b", "c")
    sizes = [dict(a=a, b=b, c=c) for a, b, c in [(0, 3, 5), (2, 0, 7), (1, 1, 1), (2, 3, 15), (2, 5, 16), (3, 7, 64), (1, 4, 65), (2, 3, 257), (1, 5, 1031), (5, 2, 512)]]
    numbers = "ties" if dtype != "i8" else "normal"
    case(f"reduce columns of any number {dtype}", [In("x", t, numbers)], f"%r = ts.reduce add %x [1] : {t}", T(dtype, "a", "c"), sizes)
    case(f"reduce columns twice {dtype}", [In("x", t, numbers)],
         f"%m = ts.reduce max %x [1] : {t}\n%n = ts.broadcast %m [0, 2] : {T(dtype, 'a', 'c')} to {t}\n%d = ts.sub %x, %n : {t}\n"
         f"%r0 = ts.reduce add %d [1] : {t}\n%r1 = ts.neg %d : {t}", [T(dtype, "a", "c"), t], sizes[2:],
         None, "exact" if dtype == "i8" else ROUNDING[dtype])
# Columns in several dims, which are one; a mean of rows and columns apart, whose loops stay two.
for dtype in ["f32", "bf16"]:
    for shape, dims in [((3, 41, 5, 3), [0]), ((2, 3, 7, 1, 5), [1]), ((6, 5, 4, 7), [0, 1]), ((5, 1, 3, 2), [0]), ((2, 300, 3, 17), [1]), ((4, 5, 6, 7), [0, 2])]:
        t = T(dtype, *shape)
        r = T(dtype, *[d for j, d in enumerate(shape) if j not in dims])
        kept = [j for j in range(len(shape)) if j not in dims]
        case(f"reduce columns of several dims {dtype} {'x'.join(map(str, shape))} {dims}", [In("x", t), In("y", T(dtype, shape[-1]))],
             f"%m = ts.reduce max %x {dims} : {t}\n%n = ts.broadcast %m {kept} : {r} to {t}\n%d = ts.sub %x, %n : {t}\n"
             f"%e = ts.exp %d : {t}\n%b = ts.broadcast %y [{len(shape) - 1}] : {T(dtype, shape[-1])} to {t}\n"
             f"%r0 = ts.reduce add %e {dims} : {t}\n%r1 = ts.mul %e, %b : {t}", [r, t], [{}], None, "relative 1e-5" if dtype == "f32" else "relative 2e-2")
        case(f"reduce columns of several dims alone {dtype} {'x'.join(map(str, shape))} {dims}", [In("x", t, "ties")],
             f"%r = ts.reduce add %x {dims} : {t}", r, [{}], None, ROUNDING[dtype])
# Lengths that have no divisor near what is wanted: equal parts and a rest, of rows and of columns. Sums of whole
# numbers are exact in any order.
for dtype, shape, dims in [("f32", (1000003,), [0]), ("bf16", (300007,), [0]), ("f32", (3, 100003), [1]), ("i32", (262147,), [0]), ("f16", (2, 131101), [1]),
                           ("f32", (7919, 5), [0]), ("f32", (65537,), [0]), ("f32", (1647407,), [0]), ("f32", (995041,), [0]), ("f32", (8, 187133), [0, 1]), ("f32", (65535,), [0]), ("f32", (131071, 2), [0])]:
    t = T(dtype, *shape)
    r = T(dtype, *[d for j, d in enumerate(shape) if j not in dims])
    for kind in ["add", "max"]:
        case(f"reduce of primes {kind} {dtype} {'x'.join(map(str, shape))}", [In("x", t, "normal" if dtype in INTS else "special" if kind == "max" else "ties")],
             f"%r = ts.reduce {kind} %x {dims} : {t}", r, [{}])
# The same of what is computed before: from numbers that lie in several dims, from one value by two ways, and from what is a result too.
for dtype, shape, dims in [("f32", (8, 187133), [0, 1]), ("bf16", (3, 100003), [0, 1]), ("f16", (2, 131101), [1]), ("f32", (7919, 5), [0]), ("bf16", (11, 7919, 5), [0, 1]),
                           ("bf16", (16, 3, 929, 16), [0, 1, 2, 3]), ("f32", (2, 640, 250), [1, 2])]:
    t = T(dtype, *shape)
    r = T(dtype, *[d for j, d in enumerate(shape) if j not in dims])
    for kind in ["add", "max"]:
        for both in [False, True]:
            case(f"reduce of primes computed {kind} {dtype} {'x'.join(map(str, shape))}{' kept' if both else ''}", [In("x", t, "ties"), In("c", T(dtype), "ties")],
                 f"%b = ts.broadcast %c [] : {T(dtype)} to {t}\n  %s = ts.sub %x, %b : {t}\n  %a = ts.abs %s : {t}\n  %m = ts.min %s, %a : {t}\n"
                 f"  %{'r0' if both else 'k'} = ts.mul %m, %b : {t}\n  %{'r1' if both else 'r'} = ts.reduce {kind} %{'r0' if both else 'k'} {dims} : {t}",
                 [t, r] if both else r, [{}], tolerance=ROUNDING.get(dtype, "exact"))
# The loss behind a linear layer, with a bias of the features: parts that divide the whole and not.
for rows, features in [(4096, 100), (10007, 101)]:
    t = T("f32", rows, features)
    case(f"reduce of a loss behind a dot {rows}x{features}", [In("x", T("f32", rows, 8)), In("w", T("f32", 8, features)), In("c", T("f32", features)), In("t", t)],
         f"%d = ts.dot %x, %w batch [] x [] contract [1] x [0] : {T('f32', rows, 8)}, {T('f32', 8, features)}\n  %b = ts.broadcast %c [1] : {T('f32', features)} to {t}\n"
         f"  %a = ts.add %d, %b : {t}\n  %s = ts.sub %a, %t : {t}\n  %q = ts.mul %s, %s : {t}\n  %r = ts.reduce add %q [0, 1] : {t}", T("f32"), [{}], tolerance="relative 2e-5")
# Narrow columns of several images.
for dtype, shape, dims in [("f16", (2, 67, 31, 16), [1, 2]), ("bf16", (3, 2000, 5), [1]), ("f32", (2, 3, 700, 24), [2])]:
    t = T(dtype, *shape)
    r = T(dtype, *[d for j, d in enumerate(shape) if j not in dims])
    for kind in ["add", "max"]:
        case(f"reduce narrow columns {kind} {dtype} {'x'.join(map(str, shape))}", [In("x", t, "ties"), In("c", T(dtype, shape[-1]), "ties")],
             f"%b = ts.broadcast %c [{len(shape) - 1}] : {T(dtype, shape[-1])} to {t}\n  %s = ts.mul %x, %b : {t}\n  %r = ts.reduce {kind} %s {dims} : {t}", r, [{}],
             tolerance=ROUNDING.get(dtype, "exact"))
# Dims that are one row together, before them what is computed.
for dtype, shape, dims in [("f32", (2560, 3), [0, 1]), ("bf16", (6, 50, 7), [1, 2]), ("f16", (40, 255), [0, 1]), ("i32", (5, 3, 70), [0, 1, 2]),
                           ("f32", (9, 4, 2, 130, 3), [1, 3, 4])]:
    t = T(dtype, *shape)
    r = T(dtype, *[d for j, d in enumerate(shape) if j not in dims])
    for kind in ["add", "max"]:
        case(f"reduce dims together {kind} {dtype} {'x'.join(map(str, shape))}", [In("x", t, "ties" if dtype in FLOATS else "normal"), In("c", T(dtype), "ties")],
             f"%b = ts.broadcast %c [] : {T(dtype)} to {t}\n  %m = ts.mul %x, %x : {t}\n  %s = ts.sub %m, %b : {t}\n  %r = ts.reduce {kind} %s {dims} : {t}", r, [{}],
             tolerance=ROUNDING.get(dtype, "exact"))
# Few rows so long that GPUs take parts of them.
for dtype, shape in [("f32", (1000003,)), ("bf16", (2, 500009)), ("f16", (1, 400000))]:
    t, last = T(dtype, *shape), len(shape) - 1
    w = T(dtype, shape[-1])
    near = {"f32": "relative 2e-5"}.get(dtype, "relative 1e-2")
    for log in ["", "{log = true}"]:
        case(f"softmax of few long rows {dtype} {log}", [In("x", t)], f"%r = ts.softmax %x dim {last} {log} : {t}", t, tolerance=near)
    for rms in ["", "{rms = true}"]:
        case(f"layer_norm of few long rows {dtype} {rms}", [In("x", t), In("w", w)],
             f"%r = ts.layer_norm %x scale %w : {w} dim {last} epsilon 1.0e-5 {rms} : {t}", t, tolerance=near)
# Equal numbers, whose roundings do not cancel, in narrow rows that are no run.
t = T("f32", "a", "b", "c")
for dims, kept in [([0, 1, 2], []), ([0, 1], ["c"])]:
    case(f"reduce equal numbers {dims}",
         [In("x", T("f32", "a", "c"), "positive"), In("y", T("f32", "b", "c"), "positive"), In("z", T("f32"), "positive")],
         f"""  %p = ts.sign %x : {T("f32", "a", "c")}
  %q = ts.sign %y : {T("f32", "b", "c")}
  %u = ts.broadcast %p [0, 2] : {T("f32", "a", "c")} to {t}
  %v = ts.broadcast %q [1, 2] : {T("f32", "b", "c")} to {t}
  %w = ts.broadcast %z [] : {T("f32")} to {t}
  %s = ts.mul %u, %v : {t}
  %m = ts.mul %s, %w : {t}
  %r = ts.reduce add %m {dims} : {t}""", T("f32", *kept), [dict(a=15, b=100, c=2), dict(a=40, b=90, c=3)],
         lambda x, y, z, kept=kept: np_().full(x.shape[1:] if kept else (), z.astype("f8") * x.shape[0] * y.shape[0] * (1 if kept else x.shape[1])),
         "relative 2e-6")
# Columns that end in a narrower register, or in part of one.
for dtype in ["f32", "f16", "i64", "i8"]:
    for columns in [68, 72, 75, 100, 103, 124]:
        t = T(dtype, 5, 40, columns)
        case(f"reduce columns of odd widths {dtype} {columns}", [In("x", t)], f"%r = ts.reduce max %x [1] : {t}",
             T(dtype, 5, columns), [{}], lambda x: x.max(axis=1), "exact")
# Rows in groups of sixteen, some of several dims that are one run.
GROUPS = [dict(a=1), dict(a=16), dict(a=77)]
for shape, dims in [(("a", 32), [1]), (("a", 6, 14), [1, 2]), (("a", 3, 300), [2]), ((3, "a", 40), [2]),
                    (("a", 40, 1), [1]), (("a", 5, 3, 20), [1, 3])]:
    t = T("f32", *shape)
    r = T("f32", *[d for j, d in enumerate(shape) if j not in dims])
    case(f"reduce rows in groups {shape} {dims}", [In("x", t, "positive")], f"%r = ts.reduce add %x {dims} : {t}", r, GROUPS,
         lambda x, dims=dims: x.sum(axis=tuple(dims), dtype="f8"), "relative 4e-6")
for dtype in ["f32", "f16", "i32", "ui32"]:
    t = T(dtype, "a", 3, 20)
    case(f"reduce rows in groups max {dtype}", [In("x", t, "special" if dtype in FLOATS else "normal")],
         f"%r = ts.reduce max %x [1, 2] : {t}", T(dtype, "a"), GROUPS, lambda x: np_().max(x, axis=(1, 2)))
for length in [1000, 33]:
    t = T("f32", "a", length)
    for kind in ["max", "min"]:
        for last in ["", "{last = true}"]:
            case(f"arg_reduce {kind} of {length} {last}", [In("x", t, "special")],
                 f"%r = ts.arg_reduce {kind} %x dim 1 {last} : {t}", T("i64", "a"), [dict(a=1), dict(a=20)])
# What is costly is computed once: for the index and for what comes after it.
for dtype in ["f32", "f64"]:
    t, k, n = T(dtype, "a", "b"), T("i64", "a"), T("i64", "a", "b")
    case(f"arg_reduce of what is needed again {dtype}", [In("x", t)],
         f"%t = ts.tanh %x : {t}\n%e = ts.exp %t : {t}\n%i = ts.arg_reduce max %t dim 1 : {t}\n"
         f"%w = ts.broadcast %i [0] : {k} to {n}\n%c = ts.convert %w : {n} to {t}\n%r = ts.add %e, %c : {t}", t,
         [dict(a=1, b=1), dict(a=5, b=5), dict(a=3, b=200)],
         lambda x: np_().exp(np_().tanh(x.astype("f8"))) + np_().argmax(x, 1)[:, None],
         "relative 1e-6" if dtype == "f32" else "relative 1e-14")
# What is reduced and read in other places too: a tile that the reduction left behind is not what these read.
for t, near, sizes in [(T("f32", "a", "b"), 1, [dict(a=1, b=1), dict(a=5, b=5), dict(a=3, b=200)]),
                       (T("bf16", 5, 2, 20), 2, [{}]), (T("f16", 4, 9, 33), 9, [{}])]:
    for dim in sorted({1, len(t.dims) - 1}):
        i, r = T("i64", *t.dims), T(t.dtype, *[d for j, d in enumerate(t.dims) if j != dim])
        case(f"reduce and gather_elements of the same {t.dtype} {dim}", [In("x", t), In("i", i, f"index {near}")],
             f"%t = ts.tanh %x : {t}\n%r0 = ts.gather_elements %t, %i dim {dim} : {t}, {i}\n"
             f"%r1 = ts.reduce max %t [{dim}] : {t}", [t, r], sizes,
             lambda x, i, dim=dim: (np_().take_along_axis(np_().tanh(x.astype("f8")), i, dim),
                                    np_().tanh(x.astype("f8")).max(axis=dim)),
             ROUNDING[t.dtype])
for kind, name in [("and", "all"), ("or", "any")]:
    for dims in [(0,), (1,), (0, 1)]:
        t = T("i1", "a", "b")
        case(f"reduce {kind} {list(dims)}", [In("x", t, "bool")], f"%r = ts.reduce {kind} %x {list(dims)} : {t}",
             T("i1", *[d for j, d in enumerate(t.dims) if j not in dims]), PLANE,
             lambda x, dims=dims, name=name: getattr(np_(), name)(x, axis=dims))
for shape, dims in [(("a", "b"), [1]), (("a", "b"), [0])]:
    t = T("f32", *shape)
    case(f"reduce long {dims}", [In("x", t)], f"%r = ts.reduce add %x {dims} : {t}",
         T("f32", *[d for j, d in enumerate(shape) if j not in dims]), [dict(a=3, b=10000), dict(a=5000, b=9)],
         lambda x, dims=dims: x.sum(axis=tuple(dims), dtype="f8"), "relative 4e-6", dict(a=4096, b=2048))

# Columns whose rows the programs of a GPU's cluster share: fewer rows than programs, parts of unlike sizes, an edge.
SHARED = [dict(a=1), dict(a=7), dict(a=129), dict(a=2048)]
for dtype in ["f32", "f16", "f64", "i32", "i8"]:
    t, r = T(dtype, "a", 300), T(dtype, 300)
    for kind, name in [("add", "sum"), ("max", "max")]:
        case(f"reduce shared columns {kind} {dtype}", [In("x", t, "positive" if dtype in FLOATS else "normal")],
             f"%r = ts.reduce {kind} %x [0] : {t}", r, SHARED,
             lambda x, name=name: getattr(np_(), name)(x, axis=0, **(
                 {} if name == "max" else dict(dtype="f8" if x.dtype.kind == "f" else x.dtype))),
             "exact" if kind == "max" else "relative 4e-6" if dtype == "f32" else ROUNDING.get(dtype, "exact"), dict(a=2048))
for dtype in ["f32", "bf16"]:
    t, r = T(dtype, "a", 200), T(dtype, 200)
    case(f"softmax shared columns {dtype}", [In("x", t)], f"%r = ts.softmax %x dim 0 : {t}", t, SHARED,
         lambda x: (lambda e: e / e.sum(axis=0))(np_().exp(x.astype("f8") - x.max(axis=0))), ROUNDING[dtype] if dtype == "bf16" else "relative 4e-6", dict(a=2048))
    case(f"reduce shared columns and beside them {dtype}", [In("x", t), In("y", r)],
         f"%m = ts.reduce max %x [0] : {t}\n%r0 = ts.sub %m, %y : {r}\n%w = ts.broadcast %m [1] : {r} to {t}\n"
         f"%r1 = ts.sub %x, %w : {t}", [r, t], SHARED,
         lambda x, y: (x.max(axis=0).astype("f8") - y, x.astype("f8") - x.max(axis=0)), ROUNDING[dtype], dict(a=2048))
# Few known rows, which a GPU's threads hold: below, at and above what they hold; several dims; full and column results.
for dtype, rows in [("f32", 1), ("f32", 7), ("f32", 16), ("f32", 17), ("bf16", 8), ("f16", 9), ("f64", 16)]:
    t, r = T(dtype, rows, "a"), T(dtype, "a")
    case(f"softmax few rows {dtype} {rows}", [In("x", t)], f"%r = ts.softmax %x dim 0 : {t}", t, [dict(a=1), dict(a=33), dict(a=700)],
         lambda x: (lambda e: e / e.sum(axis=0))(np_().exp(x.astype("f8") - x.max(axis=0))), ROUNDING[dtype])
    case(f"reduce few rows and beside them {dtype} {rows}", [In("x", t), In("y", r)],
         f"%m = ts.reduce max %x [0] : {t}\n%r0 = ts.sub %m, %y : {r}\n%w = ts.broadcast %m [1] : {r} to {t}\n"
         f"%r1 = ts.sub %x, %w : {t}", [r, t], [dict(a=1), dict(a=33), dict(a=700)],
         lambda x, y: (x.max(axis=0).astype("f8") - y, x.astype("f8") - x.max(axis=0)), ROUNDING[dtype])
t = T("f32", 14, "a")
case("softmax few rows of three operands", [In("x", t), In("y", t), In("z", t)],
     f"%s = ts.mul %x, %y : {t}\n%p = ts.softmax %s dim 0 : {t}\n%r = ts.mul %p, %z : {t}", t, [dict(a=1), dict(a=700)],
     lambda x, y, z: (lambda e: e / e.sum(axis=0) * z)(np_().exp(x.astype("f8") * y - (x.astype("f8") * y).max(axis=0))), "relative 4e-6")
t = T("i32", 2, 3, "a", 2)
case("reduce few rows of two dims", [In("x", t)], f"%r = ts.reduce add %x [0, 1] : {t}", T("i32", "a", 2),
     [dict(a=1), dict(a=33), dict(a=700)], lambda x: x.sum(axis=(0, 1), dtype="i4"))
t = T("f32", 3, "a", 5, 130)
case("reduce shared columns of two dims", [In("x", t, "positive")], f"%r = ts.reduce add %x [1, 2] : {t}", T("f32", 3, 130),
     SHARED, lambda x: x.sum(axis=(1, 2), dtype="f8"), "relative 4e-6", dict(a=2048))

for kind in ["max", "min"]:
    for dtype in NUMBERS:
        for last in ["", "{last = true}"]:
            t = T(dtype, "a", "b", 5)
            numpy = lambda x, kind=kind, last=last: (
                getattr(np_(), "arg" + kind)(x, 1) if not last else
                x.shape[1] - 1 - getattr(np_(), "arg" + kind)(x[:, ::-1], 1))
            case(f"arg_reduce {kind} {dtype} {last}", [In("x", t, "ties")],
                 f"%r = ts.arg_reduce {kind} %x dim 1 {last} : {t}", T("i64", "a", 5), PLANE[1:], numpy)

# Few long lines are looked through in parts on GPUs.
for dtype, shape, dim in [("f32", (2, 40000), 1), ("bf16", (1, 65536), 1), ("i32", (3, 16384), 1), ("f64", (1, 16384), 1),
                          ("f32", (3, 1024, 7), 1), ("i8", (2, 2048, 3), 1), ("f16", (70000,), 0)]:
    t = T(dtype, *shape)
    r = T("i64", *[d for j, d in enumerate(shape) if j != dim])
    for kind in ["max", "min"]:
        for last in ["", "{last = true}"]:
            for values in ["ties"] + ["special"] * (dtype in FLOATS):
                case(f"arg_reduce {kind} {dtype} {'x'.join(map(str, shape))} {last} {values}", [In("x", t, values)],
                     f"%r = ts.arg_reduce {kind} %x dim {dim} {last} : {t}", r, [{}],
                     None if values == "special" or last else lambda x, kind=kind, dim=dim: getattr(np_(), "arg" + kind)(x, dim))

# Lengths that have no divisor near what is wanted: the best of equal parts' best ones and of a rest.
for dtype, shape, dim in [("f32", (1000003,), 0), ("bf16", (2, 40009), 1), ("i64", (70001,), 0), ("f16", (3, 1201, 27), 1), ("f32", (5, 4099, 2), 1)]:
    t = T(dtype, *shape)
    r = T("i64", *[d for j, d in enumerate(shape) if j != dim])
    for kind, last in [("max", ""), ("min", "{last = true}")]:
        for values in ["ties"] + ["special"] * (dtype in FLOATS):
            case(f"arg_reduce of primes {kind} {dtype} {'x'.join(map(str, shape))} {values}", [In("x", t, values)],
                 f"%r = ts.arg_reduce {kind} %x dim {dim} {last} : {t}", r, [{}])
for kind, numpy in [("add", "cumsum"), ("mul", "cumprod"), ("max", "maximum.accumulate"),
                    ("min", "minimum.accumulate")]:
    for dtype in ["f32", "f16", "i32", "i64", "i8"]:
        for dim in [0, 1]:
            for attributes in ["", "{exclusive = true}", "{reverse = true}", "{exclusive = true, reverse = true}"]:
                t = T(dtype, "a", "b", 3)
                def scan(x, numpy=numpy, dim=dim, reverse="reverse" in attributes):
                    np, f = np_(), np_()
                    for part in numpy.split("."):
                        f = getattr(f, part)
                    x = np.flip(x, dim) if reverse else x
                    options = dict(dtype="f8" if x.dtype.kind == "f" else x.dtype) if "cum" in numpy else {}
                    y = f(x, axis=dim, **options)
                    return np.flip(y, dim) if reverse else y
                case(f"scan {kind} {dim} {dtype} {attributes}",
                     [In("x", t, "unit" if dtype in FLOATS else "normal")],
                     f"%r = ts.scan {kind} %x dim {dim} {attributes} : {t}", t, PLANE,
                     None if "exclusive" in attributes else scan, ROUNDING.get(dtype, "exact"))
# Sizes that are known choose a GPU's form: several lines of a warp, one tile, several, parts of a cluster; along
# the last dim and between others.
SCANNED = [("f32", (40, 64)), ("bf16", (33, 50)), ("i64", (7, 5, 3)), ("i8", (300, 2)), ("f32", (3, 3000)), ("bf16", (5, 16384)),
           ("bf16", (2, 40001)), ("f64", (3, 140000)), ("i32", (3, 20000)), ("i32", (1, 70001)), ("f64", (2, 5, 700)), ("ui8", (2, 9000)),
           ("f32", (5, 301, 200)), ("bf16", (2, 37, 3, 1535)), ("f32", (1, 1001, 512)), ("i64", (2, 2000, 3)),
           ("f32", (1, 40, 300)), ("bf16", (12, 33, 50)), ("f32", (64, 9, 37)), ("f64", (9, 30, 129)), ("i8", (8, 20, 250))]
for dtype, shape in SCANNED:
    dim = 1
    t = T(dtype, *shape)
    for kind, attributes in [("add", ""), ("add", "{exclusive = true, reverse = true}"), ("max", "{exclusive = true}"),
                             ("min", "{reverse = true}"), ("max", "{exclusive = true, reverse = true}")]:
        case(f"scan {kind} {dtype} {'x'.join(map(str, shape))} {attributes}",
             [In("x", t, "unit" if dtype in FLOATS else "normal")],
             f"%r = ts.scan {kind} %x dim {dim} {attributes} : {t}", t, tolerance=ROUNDING.get(dtype, "exact"))
# Long lines of which GPUs give each tile to a program: one line, several, elements of each width, more tiles than
# wait for each other at once, a last tile of one element, lines beside each other. Sums of whole numbers are exact in any order.
for dtype, shape in [("f32", (1, 1000003)), ("i64", (1, 600011)), ("bf16", (3, 500009)), ("i8", (2, 1048577)), ("f16", (1, 2097152)),
                     ("f64", (1, 262145)), ("f32", (1, 300007, 3)), ("bf16", (1, 20011, 66))]:
    t = T(dtype, *shape)
    for kind, attributes in [("add", ""), ("add", "{exclusive = true, reverse = true}"), ("max", "{reverse = true}"), ("min", "{exclusive = true}")]:
        case(f"scan looking back {kind} {dtype} {'x'.join(map(str, shape))} {attributes}",
             [In("x", t, "ties" if kind == "add" and dtype in FLOATS else "normal")],
             f"%r = ts.scan {kind} %x dim 1 {attributes} : {t}", t)
# What is not finite stays behind it, and the same kernel runs twice in a call.
t = T("f32", 400009)
case("scan looking back special", [In("x", t, "special")], f"%r = ts.scan max %x dim 0 : {t}", t)
case("scan looking back twice", [In("x", t, "ties"), In("y", t, "ties")],
     f"%a = ts.scan add %x dim 0 : {t}\n%b = ts.scan add %y dim 0 : {t}\n%r = ts.mul %a, %b : {t}", t)
# Lines of which few lie beside each other.
for dtype, shape, dim in [("f32", (400, 7, 3), 1), ("bf16", (33, 150, 5), 1), ("i64", (2, 3, 9, 40, 3), 2), ("f16", (129, 2), 0),
                          ("f32", (3, "a", "b", 2), 1), ("i8", (50, 16, 1, 7), 1)]:
    t = T(dtype, *shape)
    for kind, attributes in [("add", ""), ("mul", "{reverse = true}"), ("max", "{exclusive = true, reverse = true}")]:
        case(f"scan lines {kind} {dtype} {'x'.join(map(str, shape))} {attributes}",
             [In("x", t, "unit" if dtype in FLOATS else "normal")], f"%r = ts.scan {kind} %x dim {dim} {attributes} : {t}", t,
             PLANE if "a" in shape else ({},), tolerance=ROUNDING.get(dtype, "exact"))
# Sums that only grow: what each step rounds goes in one direction.
for dtype, shape, dim in [("f32", (1, 200003), 1), ("f32", (60001, 3), 0), ("bf16", (1, 30011), 1)]:
    t = T(dtype, *shape)
    case(f"scan growing {dtype} {'x'.join(map(str, shape))}", [In("x", t, "positive")], f"%r = ts.scan add %x dim {dim} : {t}", t, [{}],
         lambda x, dim=dim: np_().cumsum(x.astype("f8"), dim), "relative 4e-7" if dtype == "f32" else ROUNDING[dtype])
# Few long lines beside each other, of which a program has all: lines that fill its threads and ones that do not, a last tile of
# some steps, tiles of one group and of more than wait for each other at once.
for dtype, shape, dim in [("bf16", (25003, 19), 0), ("f32", (3, 9001, 2, 5), 1), ("i64", (20001, 63), 0), ("f64", (2, 20000, 2), 1),
                          ("i8", (300007, 7), 0), ("f16", (40000, 16), 0), ("ui32", (1, 70001, 33), 1)]:
    t = T(dtype, *shape)
    for kind, attributes in [("add", ""), ("add", "{exclusive = true, reverse = true}"), ("max", "{reverse = true}"), ("min", "{exclusive = true}")]:
        case(f"scan narrow {kind} {dtype} {'x'.join(map(str, shape))} {attributes}",
             [In("x", t, "ties" if kind == "add" and dtype in FLOATS else "normal")],
             f"%r = ts.scan {kind} %x dim {dim} {attributes} : {t}", t)
t = T("f32", 30011, 9)
case("scan narrow between others", [In("x", t, "ties"), In("y", t, "ties")],
     f"%e = ts.mul %x, %y : {t}\n%s = ts.scan add %e dim 0 : {t}\n%r = ts.add %s, %y : {t}", t)
case("scan narrow special", [In("x", t, "special")], f"%r = ts.scan max %x dim 0 : {t}", t)
for size in [64, 300, 20000]:
    t = T("f32", 9, size)
    case(f"scan between others {size}", [In("x", t), In("y", t)],
         f"%e = ts.mul %x, %y : {t}\n%s = ts.scan add %e dim 1 : {t}\n%r = ts.add %s, %y : {t}", t, tolerance="relative 4e-6")


# So many columns that tiles are wider, which a symbolic number decides in a run; tiles that are cut.
for kind, values in [("add", "normal"), ("max", "special"), ("min", "ties"), ("mul", "unit")]:
    for dtype in ["f32", "bf16", "i32"]:
        t = T(dtype, "a", "b", "c")
        case(f"reduce many columns {kind} {dtype}", [In("x", t, values if dtype in FLOATS else "normal")], f"%r = ts.reduce {kind} %x [1] : {t}",
             T(dtype, "a", "c"), [dict(a=1, b=9, c=2048), dict(a=2, b=5, c=1500), dict(a=7, b=3, c=513), dict(a=1, b=0, c=4000), dict(a=9, b=2, c=511)],
             None, "exact" if kind in ("max", "min") else ROUNDING.get(dtype, "exact"))


def np_topk(largest):
    def apply(x, k):
        np = np_()
        key = -x.astype("f8") if largest else x
        order = np.argsort(key, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(x, order, 1), order
    return apply


for dtype in NUMBERS:
    for largest in [True, False]:
        t = T(dtype, "a", "b", 2)
        attributes = "" if largest else "{largest = false}"
        for values in ["normal", "ties"]:
            case(f"sort {dtype} {values} {attributes}", [In("x", t, values)],
                 f'%r0, %r1 = ts.topk %x k <"b"> dim 1 {attributes} : {t}', [t, T("i64", "a", "b", 2)], PLANE,
                 lambda x, b, f=np_topk(largest): f(x, b))
    t = T(dtype, "a", 40)
    case(f"topk {dtype}", [In("x", t)], f"%r0, %r1 = ts.topk %x k <7> dim 1 : {t}",
         [T(dtype, "a", 7), T("i64", "a", 7)], PLANE, lambda x: np_topk(True)(x, 7))
# Sizes that are known choose a GPU's form: k small against the line, several tiles, parts of a cluster; ties overflow its list.
for dtype, shape, k in [("bf16", (3, 5000), 50), ("f32", (2, 1021), 5), ("f16", (2, 4097), 300), ("i64", (2, 3000), 100),
                        ("f64", (1, 40001), 33), ("ui8", (2, 5003), 64), ("i32", (1, 70001), 200), ("bf16", (1, 140000), 256),
                        ("i8", (2, 300, 7), 9), ("f32", (1, 33000), 1000), ("ui64", (3, 257), 1), ("f32", (4, 1), 1)]:
    t = T(dtype, *shape)
    picked = [k if j == 1 else d for j, d in enumerate(shape)]
    for largest in [True, False]:
        for values in ["normal", "ties"] + ["special"] * (dtype in FLOATS):
            case(f"topk {dtype} {'x'.join(map(str, shape))} {k} {values}{'' if largest else ' smallest'}", [In("x", t, values)],
                 f"%r0, %r1 = ts.topk %x k <{k}> dim 1 {'' if largest else '{largest = false}'} : {t}",
                 [T(dtype, *picked), T("i64", *picked)], [{}],
                 (lambda x, k=k, f=np_topk(largest): f(x, k)) if values != "special" and dtype != "ui64" else None)
# More than registers hold the best of: lanes in turns, cut by the line's end; equal elements, of which the list is too long. A
# symbolic k takes either form.
for dtype, size, k in [("f32", 4099, 200), ("f32", 9000, 512), ("i64", 5000, 90), ("f64", 8191, 300), ("bf16", 6007, 511), ("ui8", 4500, 140),
                       ("i32", 20000, 257), ("f32", 5120, 513), ("bf16", 8192, 1024), ("f64", 16385, 2000), ("ui8", 9000, 1111), ("i64", 5119, 513), ("f32", 130, 9), ("i8", 200, 3), ("f64", 100, 8), ("f16", 256, 20)]:
    t = T(dtype, 3, size)
    for largest in [True, False]:
        for values in ["normal", "ties"] + ["special"] * (dtype in FLOATS):
            case(f"topk in turns {dtype} {size} {k} {values}{'' if largest else ' smallest'}", [In("x", t, values)],
                 f"%r0, %r1 = ts.topk %x k <{k}> dim 1 {'' if largest else '{largest = false}'} : {t}",
                 [T(dtype, 3, k), T("i64", 3, k)], [{}], (lambda x, k=k, f=np_topk(largest): f(x, k)) if values != "special" else None)
# Elements of one sign, all of which a zero behind the line's end would go before; lengths that end a lane before the last, and others.
for dtype, size, k in [("f32", 127, 5), ("bf16", 191, 3), ("f64", 1023, 40), ("i32", 255, 20), ("f32", 97, 8), ("f32", 5119, 513), ("i64", 4500, 90),
                       ("f16", 8191, 600)]:
    t = T(dtype, 5, size)
    for largest in [True, False]:
        name, body = ("%x", "") if not largest else ("%y", f"%y = ts.neg %x : {t}\n")
        case(f"topk of one sign {dtype} {size} {k}{'' if largest else ' smallest'}", [In("x", t, "positive")],
             f"{body}%r0, %r1 = ts.topk {name} k <{k}> dim 1 {'' if largest else '{largest = false}'} : {t}",
             [T(dtype, 5, k), T("i64", 5, k)], [{}],
             lambda x, k=k, f=np_topk(largest), s=-1 if largest else 1: f(s * x, k))
for dtype in ["f32", "i64"]:
    t = T(dtype, "a", "n")
    for values in ["normal", "ties"]:
        case(f"topk symbolic {dtype} {values}", [In("x", t, values), In("c", T("i1", "k"), "bool")], f'%r0, %r1 = ts.topk %x k <"k"> dim 1 : {t}',
             [T(dtype, "a", "k"), T("i64", "a", "k")], [dict(a=2, n=5000, k=400), dict(a=1, n=4096, k=512), dict(a=1, n=4100, k=513),
             dict(a=1, n=32768, k=4096), dict(a=1, n=32767, k=4096), dict(a=1, n=33000, k=4097), dict(a=2, n=40000, k=600),
             dict(a=3, n=300, k=20), dict(a=2, n=60, k=60), dict(a=2, n=0, k=0), dict(a=4, n=127, k=127), dict(a=4, n=128, k=128)],
             lambda x, c: np_topk(True)(x, len(c)))
    # Which lines are long enough for the lanes is known with the size; values alone.
    for k in [40, 513, 2000]:
        case(f"topk of any length {dtype} {k}", [In("x", t, "ties")], f"%r, %i = ts.topk %x k <{k}> dim 1 : {t}",
             T(dtype, "a", k), [dict(a=2, n=n) for n in (k, 4 * k, 8 * k + 7, 16 * k + 1)], lambda x, k=k: np_topk(True)(x, k)[0])
# All large elements have one place in 64: what the lanes keep says little of them.
for dtype, size, k in [("f32", 140003, 20), ("i64", 90001, 30)]:
    t = T(dtype, 1, size)
    one = "dense<1.0>" if dtype == "f32" else "dense<1>"
    case(f"topk of one lane {dtype} {size} {k}", [In("x", t)],
         f"%p = ts.iota 1 : tensor<1x{size}xi64>\n%c = ts.constant dense<64> : tensor<i64>\n%n = ts.broadcast %c [] : tensor<i64> to tensor<1x{size}xi64>\n"
         f"%m = ts.mod %p, %n : tensor<1x{size}xi64>\n%e = ts.constant dense<3> : tensor<i64>\n%l = ts.broadcast %e [] : tensor<i64> to tensor<1x{size}xi64>\n"
         f"%h = ts.compare eq %m, %l : tensor<1x{size}xi64>\n%o = ts.constant {one.replace('1', '100')} : tensor<{dtype}>\n"
         f"%s = ts.broadcast %o [] : tensor<{dtype}> to {t}\n%a = ts.add %x, %s : {t}\n%y = ts.select %h, %a, %x : tensor<1x{size}xi1>, {t}\n"
         f"%r0, %r1 = ts.topk %y k <{k}> dim 1 : {t}", [T(dtype, 1, k), T("i64", 1, k)], [{}])
# The first of many lines, which is what a reduction finds.
for dtype, shape, dim in [("f32", (200, 90), 1), ("bf16", (130, 1000), 1), ("f16", (20, 70, 7), 1), ("i32", (128, 77), 1), ("ui8", (90, 300), 0),
                          ("f64", (140, 65), 1), ("i64", (3, 50, 70), 2)]:
    t = T(dtype, *shape)
    picked = [1 if j == dim else d for j, d in enumerate(shape)]
    for largest in [True, False]:
        for values in ["normal", "ties"] + ["special"] * (dtype in FLOATS):
            case(f"topk first {dtype} {'x'.join(map(str, shape))} {dim} {values}{'' if largest else ' smallest'}", [In("x", t, values)],
                 f"%r0, %r1 = ts.topk %x k <1> dim {dim} {'' if largest else '{largest = false}'} : {t}",
                 [T(dtype, *picked), T("i64", *picked)], [{}])
# Whole lines: a network of one block, and beyond it runs that are merged (a number of elements that fills them, and one that
# does not); most of a line; values alone.
for dtype, shape, k in [("f32", (3, 300), 300), ("bf16", (2, 1025), 1025), ("i64", (2, 2048), 2048), ("ui8", (2, 4096), 4096),
                        ("f64", (1, 2000), 2000), ("f32", (2, 3000), 1500), ("f32", (2, 5000), 5000), ("bf16", (1, 20001), 20001),
                        ("f16", (1, 9000), 2000), ("i64", (2, 9001), 9001), ("ui32", (2, 8192), 8192), ("i8", (1, 70001), 70001),
                        ("f64", (1, 4099), 4099), ("ui64", (1, 5000), 1100)]:
    t = T(dtype, *shape)
    picked = (shape[0], k)
    for largest in [True, False]:
        for values in ["normal", "ties"] + ["special"] * (dtype in FLOATS):
            case(f"sort {dtype} {'x'.join(map(str, shape))} {k} {values}{'' if largest else ' smallest'}", [In("x", t, values)],
                 f"%r0, %r1 = ts.topk %x k <{k}> dim 1 {'' if largest else '{largest = false}'} : {t}",
                 [T(dtype, *picked), T("i64", *picked)], [{}],
                 (lambda x, k=k, f=np_topk(largest): f(x, k)) if values != "special" and dtype != "ui64" else None)
# Longer ones, by digits: one and several lines, elements of each width, a last tile of one word, tiles that look back at many.
for dtype, shape, k in [("f32", (1, 20481), 20481), ("bf16", (3, 16500), 16500), ("f16", (1, 90001), 90001), ("i64", (2, 17000), 17000),
                        ("i8", (1, 70001), 70001), ("ui16", (2, 33000), 20000), ("f64", (1, 16999), 16999), ("ui32", (5, 16385), 16385),
                        ("f32", (1, 600011), 600011), ("i16", (1, 300000), 300000)]:
    t = T(dtype, *shape)
    picked = (shape[0], k)
    for largest in [True, False]:
        for values in ["normal", "ties"] + ["special"] * (dtype in FLOATS):
            case(f"sort by digits {dtype} {'x'.join(map(str, shape))} {k} {values}{'' if largest else ' smallest'}", [In("x", t, values)],
                 f"%r0, %r1 = ts.topk %x k <{k}> dim 1 {'' if largest else '{largest = false}'} : {t}",
                 [T(dtype, *picked), T("i64", *picked)], [{}],
                 (lambda x, k=k, f=np_topk(largest): f(x, k)) if values != "special" and dtype != "ui64" else None)
for dtype, size in [("i32", 1000), ("i8", 3000), ("ui64", 4096), ("i64", 300)]:
    t = T(dtype, 3, size)
    for largest in [True, False]:
        case(f"sorted {dtype} {size}{'' if largest else ' smallest'}", [In("x", t)],
             f"%r, %i = ts.topk %x k <{size}> dim 1 {'' if largest else '{largest = false}'} : {t}", t, [{}])
# Short lines, of which a GPU's thread holds one: each by itself or through shared memory, along the last dim or beside others,
# whole or a part; a number of lines that fills CTAs and one that does not.
for dtype, shape, dim, k in [("f16", (1003, 2), 1, 1), ("bf16", (517, 1, 3), 2, 1), ("bf16", (700, 5), 1, 3), ("f16", (19, 23, 63), 2, 28),
                             ("f32", (130, 2), 1, 2), ("f32", (260, 64), 1, 64), ("f32", (131, 33), 1, 5), ("f32", (200, 50), 1, 1),
                             ("f32", (7, 16, 33), 1, 16), ("bf16", (64, 300), 0, 64), ("i8", (6, 20, 3, 5), 1, 20), ("ui8", (300, 30), 1, 30),
                             ("i16", (129, 11), 1, 4), ("ui16", (300, 9), 1, 9), ("i32", (2, 8, 65), 1, 1), ("ui32", (90, 32), 1, 32),
                             ("i64", (200, 24), 1, 24), ("i64", (9, 5, 40), 1, 2), ("ui64", (130, 3), 1, 2), ("f64", (129, 17), 1, 4),
                             ("f64", (257, 24), 1, 24), ("bf16", (256, 1, 8), 2, 8), ("bf16", (67, 96), 1, 96), ("f16", (70, 100), 1, 6),
                             ("i8", (2, 64, 40), 1, 64), ("ui16", (64, 128), 1, 64), ("bf16", (200, 128), 1, 8)]:
    t = T(dtype, *shape)
    picked = [k if j == dim else d for j, d in enumerate(shape)]
    for largest in [True, False]:
        for values in ["normal", "ties"] + ["special"] * (dtype in FLOATS):
            case(f"short lines {dtype} {'x'.join(map(str, shape))} {dim} {k} {values}{'' if largest else ' smallest'}", [In("x", t, values)],
                 f"%r0, %r1 = ts.topk %x k <{k}> dim {dim} {'' if largest else '{largest = false}'} : {t}",
                 [T(dtype, *picked), T("i64", *picked)], [{}],
                 (lambda x, k=k, d=dim, f=np_topk(largest): tuple(np_().moveaxis(y, 1, d) for y in f(np_().moveaxis(x, d, 1), k)))
                 if values != "special" and dtype != "ui64" else None)
for dtype, size in [("i8", 20), ("i8", 96), ("ui16", 7), ("i32", 64), ("i64", 24), ("ui32", 2)]:
    t = T(dtype, 301, size)
    for largest in [True, False]:
        case(f"short lines sorted {dtype} {size}{'' if largest else ' smallest'}", [In("x", t)],
             f"%r, %i = ts.topk %x k <{size}> dim 1 {'' if largest else '{largest = false}'} : {t}", t, [{}])
for dtype, size, k in [("f16", 9, 9), ("f32", 3, 1), ("f64", 5, 2)]:
    case(f"short lines indices {dtype} {size}", [In("x", T(dtype, "a", size), "ties")],
         f"%v, %r = ts.topk %x k <{k}> dim 1 : {T(dtype, 'a', size)}", T("i64", "a", k), PLANE)
# What is sorted is what a kernel before would have stored.
t = T("f16", 300, 12)
case("short lines of products", [In("x", t, "unit"), In("y", t, "unit")],
     f"%z = ts.mul %x, %y : {t}\n%r0, %r1 = ts.topk %z k <5> dim 1 : {t}", [T("f16", 300, 5), T("i64", 300, 5)], [{}])
t = T("f32", 6000, 2)
case("sort between others 6000", [In("x", t, "ties")], f"%r0, %r1 = ts.topk %x k <6000> dim 0 : {t}", [t, T("i64", 6000, 2)], [{}])
case("topk special", [In("x", T("f32", "a", 40), "special")],
     f'%r0, %r1 = ts.topk %x k <9> dim 1 : {T("f32", "a", 40)}', [T("f32", "a", 9), T("i64", "a", 9)], PLANE)
