"""Reductions of columns whose rows the programs of a GPU's cluster share, where that is easy to get wrong.

Known rows, so many that a block has several programs: of 4,096 a cluster has 128 programs, of 1,024 it has 16.
"""

from case_list import case, FLOATS, In, np_, ROUNDING, T

MANY = "relative 4e-6"


def columns(name, dtype, shape, dims, body, result, numpy, values="normal", tolerance="exact", sizes=({},), more=()):
    """`body` is text with {t} and {r}, the types of what is reduced and of one number a column."""
    t = T(dtype, *shape)
    r = T(dtype, *[d for j, d in enumerate(shape) if j not in dims])
    results = [{"t": t, "r": r}[k] if isinstance(k, str) else k for k in result]
    case(f"shared columns {name}", [In("x", t, values), *[In(n, {"t": t, "r": r}[k]) for n, k in more]],
         body.format(t=t, r=r), results[0] if len(results) == 1 else results, sizes, numpy, tolerance)


def normalised(x, axis=0):
    x = x.astype("f8")
    return (x - x.mean(axis=axis, keepdims=True)) / np_().sqrt(x.var(axis=axis, keepdims=True) + 1)


# Several reductions in one kernel: what all of them leave in shared memory fits.
for dtype, shape in [("bf16", (4096, 40)), ("f64", (4096, 24)), ("i8", (1024, 2000)), ("ui16", (1024, 600)), ("f16", (1024, 1030))]:
    columns(f"of four kinds {dtype}", dtype, shape, [0],
            "%r0 = ts.reduce max %x [0] : {t}\n%r1 = ts.reduce min %x [0] : {t}\n%r2 = ts.reduce add %x [0] : {t}\n"
            "%r3 = ts.reduce mul %x [0] : {t}", "rrrr",
            lambda x: (x.max(axis=0), x.min(axis=0), x.sum(axis=0, dtype="f8" if x.dtype.kind == "f" else "i8"),
                       x.prod(axis=0, dtype="f8" if x.dtype.kind == "f" else "i8")),
            "unit" if dtype in FLOATS else "normal", {"f64": "relative 1e-12"}.get(dtype, "relative 4e-3" if dtype in FLOATS else "exact"))
columns("of moments f32", "f32", (4096, 40), [0],
        "%a = ts.mul %x, %x : {t}\n%b = ts.mul %a, %x : {t}\n%c = ts.mul %a, %a : {t}\n%d = ts.neg %x : {t}\n"
        "%r0 = ts.reduce add %x [0] : {t}\n%r1 = ts.reduce add %a [0] : {t}\n%r2 = ts.reduce add %b [0] : {t}\n"
        "%r3 = ts.reduce add %c [0] : {t}\n%r4 = ts.reduce max %a [0] : {t}\n%r5 = ts.reduce min %b [0] : {t}\n%r6 = ts.reduce max %d [0] : {t}",
        "rrrrrrr", lambda x: (lambda y: (y.sum(axis=0), (y**2).sum(axis=0), (y**3).sum(axis=0), (y**4).sum(axis=0),
                                         x.max(axis=0).astype("f8") ** 2, x.min(axis=0).astype("f8") ** 3, -x.min(axis=0)))(x.astype("f8")),
        "positive", MANY)
# What is summed is wider than what is read and stored.
for narrow, wide, length in [("i8", "f64", 40), ("i8", "i64", 3), ("f16", "f64", 33), ("i8", "f32", 300)]:
    w, r = T(wide, 4096, length), T(wide, length)
    columns(f"{wide} of {narrow}", narrow, (4096, length), [0],
            f"%w = ts.convert %x : {{t}} to {w}\n%s = ts.reduce add %w [0] : {w}\n%k = ts.constant dense<4096> : tensor<i64>\n"
            f"%n = ts.convert %k : tensor<i64> to {T(wide)}\n%m = ts.broadcast %n [] : {T(wide)} to {r}\n"
            f"%q = ts.div %s, %m : {r}\n%r = ts.convert %q : {r} to {{r}}", "r",
            None, "positive", "exact" if narrow == "i8" else "ulp 1")
for narrow, wide in [("f16", "f32"), ("f32", "f16"), ("bf16", "f64"), ("i8", "i64")]:
    t, w, r = T(narrow, 1024, 100), T(wide, 1024, 100), T(wide, 100)
    columns(f"{narrow} to {wide} less their maximum", narrow, (1024, 100), [0],
            f"%w = ts.convert %x : {t} to {w}\n%m = ts.reduce max %w [0] : {w}\n%n = ts.broadcast %m [1] : {r} to {w}\n"
            f"%r = ts.sub %w, %n : {w}", [w],
            lambda x, wide=wide: (lambda y: y - y.max(axis=0))(x.astype({"f16": "f2", "f32": "f4", "f64": "f8", "i64": "i8"}[wide]).astype(
                "i8" if wide == "i64" else "f8")), "normal", "ulp 1" if wide == "f16" else "exact")

# NaN, zeros of both signs and ties, in any program's rows; integers of every width and sign, extremes.
for dtype in FLOATS:
    columns(f"special {dtype}", dtype, (1030, 33), [0], "%r0 = ts.reduce max %x [0] : {t}\n%r1 = ts.reduce min %x [0] : {t}", "rr",
            lambda x: (x.max(axis=0), x.min(axis=0)), "special")
    # NaN in few columns only.
    columns(f"rare NaN {dtype}", dtype, (2048, 33), [0],
            "%a = ts.sqrt %x : {t}\n%r0 = ts.reduce max %a [0] : {t}\n%r1 = ts.reduce min %a [0] : {t}\n%r2 = ts.reduce add %a [0] : {t}", "rrr",
            lambda x: (lambda y: (y.max(axis=0), y.min(axis=0), y.sum(axis=0)))(np_().sqrt(x.astype("f8"))), "normal", "relative 1e-3")
columns("passing over NaN f32", "f32", (2048, 33), [0], "%r = ts.reduce max %x [0] {{ignores_nan}} : {t}", "r", lambda x: x.max(axis=0))
for dtype in ["i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"]:
    columns(f"extremes {dtype}", dtype, (1025, 37), [0],
            "%r0 = ts.reduce max %x [0] : {t}\n%r1 = ts.reduce min %x [0] : {t}\n%r2 = ts.reduce add %x [0] : {t}", "rrr",
            lambda x: (x.max(axis=0), x.min(axis=0), x.sum(axis=0, dtype=x.dtype)), "special")
t, r = T("i1", 2048, 70), T("i1", 70)
columns("bool", "i1", (2048, 70), [0], "%r0 = ts.reduce and %x [0] : {t}\n%r1 = ts.reduce or %x [0] : {t}", "rr",
        lambda x: (x.all(axis=0), x.any(axis=0)), "bool")
w, n = T("i32", 2048, 70), T("i32", 70)
columns("how many are true", "i1", (2048, 70), [0], f"%w = ts.convert %x : {{t}} to {w}\n%r = ts.reduce add %w [0] : {w}", [n],
        lambda x: x.sum(axis=0), "bool")

# A reduction of what depends on another one; mathematics that asks whether a lane is unusual, before, between and behind.
WIDE = dict(f32=MANY, f64="relative 1e-12", f16="relative 2e-3", bf16="relative 1e-2")
for dtype in FLOATS:
    columns(f"softmax {dtype}", dtype, (4099, 33), [0], "%r = ts.softmax %x dim 0 : {t}", "t",
            lambda x: (lambda e: e / e.sum(axis=0))(np_().exp(x.astype("f8") - x.max(axis=0))), "normal", WIDE[dtype])
    t, r = T(dtype, 2048, 3, 30), T(dtype, 3, 30)
    mean = (f"%k = ts.constant dense<{1 / 2048}> : {T(dtype)}\n%kr = ts.broadcast %k [] : {T(dtype)} to {r}\n"
            f"%s = ts.reduce add %x [0] : {t}\n%m = ts.mul %s, %kr : {r}\n%w = ts.broadcast %m [1, 2] : {r} to {t}\n"
            f"%d = ts.sub %x, %w : {t}\n%q = ts.mul %d, %d : {t}\n%v = ts.reduce add %q [0] : {t}\n%u = ts.mul %v, %kr : {r}\n")
    columns(f"mean and variance {dtype}", dtype, (2048, 3, 30), [0], mean + f"%r0 = ts.add %m, %kr : {r}\n%r1 = ts.sqrt %u : {r}", "rr",
            lambda x: (x.mean(axis=0, dtype="f8") + 1 / 2048, x.std(axis=0, dtype="f8")), "positive", WIDE[dtype])
    columns(f"normalised {dtype}", dtype, (2048, 3, 30), [0],
            mean + f"%o = ts.constant dense<1.0> : {T(dtype)}\n%or = ts.broadcast %o [] : {T(dtype)} to {r}\n%e = ts.add %u, %or : {r}\n"
            f"%f = ts.sqrt %e : {r}\n%g = ts.broadcast %f [1, 2] : {r} to {t}\n%r = ts.div %d, %g : {t}", "t", normalised, "normal", WIDE[dtype])
for op in ["tanh", "erf", "log"]:
    columns(f"of {op}", "f32", (5, 1024, 100), [1],
            f"%a = ts.{op} %x : {{t}}\n%s = ts.reduce add %a [1] : {{t}}\n%b = ts.add %s, %y : {{r}}\n%r = ts.{op} %b : {{r}}", "r",
            None, "positive", "relative 1e-5", more=[("y", "r")])
columns("logarithm of a sum of exp", "f32", (5, 1024, 100), [1],
        "%m = ts.reduce max %x [1] : {t}\n%w = ts.broadcast %m [0, 2] : {r} to {t}\n%d = ts.sub %x, %w : {t}\n%a = ts.exp %d : {t}\n"
        "%s = ts.reduce add %a [1] : {t}\n%l = ts.log %s : {r}\n%r = ts.add %l, %m : {r}", "r",
        lambda x: np_().log(np_().exp(x.astype("f8")).sum(axis=1)), "normal", MANY)

# Here programs of a block turn unlike often, or only some take the long way, where one asks of all of its lanes.
columns("of sin", "f32", (4096, 40), [0], "%a = ts.sin %x : {t}\n%r = ts.reduce add %a [0] : {t}", "r",
        None, "special", "relative 1e-5")
columns("of sin of large and small ones", "f32", (1024, 300), [0],
        "%i = ts.iota 0 : {t}\n%y = ts.mul %i, %i : {t}\n%z = ts.mul %y, %x : {t}\n%a = ts.sin %z : {t}\n%r = ts.reduce max %a [0] : {t}", "r",
        None, "normal", "ulp 2")
columns("of remainders", "f32", (1024, 300), [0],
        "%i = ts.iota 0 : {t}\n%a = ts.rem %i, %x : {t}\n%r = ts.reduce max %a [0] : {t}", "r",
        None, "positive", "relative 1e-6")
for shape, near in [((1024, 600), 50), ((4096, 70), 3)]:
    t, r, i = T("f32", *shape), T("f32", shape[1]), T("i64", *shape)
    case(f"shared columns of elements gathered {near}", [In("x", T("f32", near, shape[1]), "positive"), In("i", i, f"index {near}")],
         f'%g = ts.gather_elements %x, %i dim 0 : {T("f32", near, shape[1])}, {i}\n%r = ts.reduce add %g [0] : {t}', r, [{}],
         lambda x, i: np_().take_along_axis(x, i, 0).sum(axis=0, dtype="f8"), MANY)

# Columns and full shape together; what runs in the same memory afterwards.
columns("full shape and columns", "f32", (1024, 60), [0],
        "%m = ts.reduce max %x [0] : {t}\n%w = ts.broadcast %m [1] : {r} to {t}\n%r0 = ts.sub %x, %w : {t}\n%r1 = ts.add %m, %y : {r}", "tr",
        lambda x, y: (x.astype("f8") - x.max(axis=0), x.max(axis=0).astype("f8") + y), "normal", MANY, more=[("y", "r")])
columns("one after the other", "f32", (1024, 60), [0],
        "%m = ts.reduce max %x [0] : {t}\n%a = ts.sub %m, %y : {r}\n%w = ts.broadcast %a [1] : {r} to {t}\n%b = ts.sub %x, %w : {t}\n"
        "%s = ts.reduce add %b [1] : {t}\n%v = ts.broadcast %s [0] : tensor<1024xf32> to {t}\n%c = ts.mul %b, %v : {t}\n"
        "%r = ts.reduce min %c [0] : {t}", "r",
        None, "normal", MANY, more=[("y", "r")])

# Reduced dims apart from each other, of size 1, the longest of them anywhere; kept ones around them.
for shape, dims in [((600, 3, 7, 5), [0, 2]), ((7, 3, 600, 5), [0, 2]), ((2, 5, 600, 33), [1, 2]), ((2, 600, 5, 33), [1, 2]),
                    ((1, 1024, 1, 17), [1]), ((1024, 17, 1), [0]), ((1024, 17, 1), [0, 2]), ((1, 4, 513, 1, 9), [0, 2, 3]),
                    ((70000, 1), [0]), ((4095, 1, 129), [0, 1]), ((4097, 300), [0]), ((3, 511, 4), [1])]:
    columns(f"{'x'.join(map(str, shape))} {dims}", "f32", shape, dims, "%r = ts.reduce add %x " + str(dims) + " : {t}", "r",
            lambda x, dims=dims: x.sum(axis=tuple(dims), dtype="f8"), "positive", MANY)
# Nothing to reduce, no columns, more programs than rows.
BOUND = [dict(a=0, b=3), dict(a=3, b=0), dict(a=0, b=0), dict(a=1, b=1), dict(a=3, b=129), dict(a=5000, b=1), dict(a=63, b=1000)]
for dims in [[0], [1]]:
    shape = ("a", "b") if dims == [0] else ("b", "a", 3)
    for kind, name in [("add", "sum"), ("max", "max")]:
        columns(f"bound {kind} {dims}", "f32", shape, dims, f"%r = ts.reduce {kind} %x {dims} : {{t}}", "r",
                (lambda x, dims=dims: x.sum(axis=dims[0], dtype="f8")) if kind == "add" else
                (lambda x, dims=dims: x.max(axis=dims[0], initial=-np_().inf)), "positive", MANY if kind == "add" else "exact", BOUND)
    columns(f"bound softmax {dims}", "f32", shape, dims, f"%r = ts.softmax %x dim {dims[0]} : {{t}}", "t", None, "normal", MANY, BOUND)
columns("bound columns of many rows", "f16", (4096, "b"), [0], "%r = ts.reduce add %x [0] : {t}", "r",
        lambda x: x.sum(axis=0, dtype="f8"), "positive", "ulp 1", [dict(b=0), dict(b=1), dict(b=129)])
columns("no columns", "f32", (1024, 0), [0], "%r = ts.reduce max %x [0] : {t}", "r", None)

# Values by their row, and by indices: each program takes its own rows of them.
t, r = T("f32", 1024, 60), T("f32", 60)
columns("weighted by row", "f32", (1024, 60), [0], "%i = ts.iota 0 : {t}\n%a = ts.mul %x, %i : {t}\n%r = ts.reduce add %a [0] : {t}", "r",
        lambda x: (x.astype("f8") * np_().arange(1024)[:, None]).sum(axis=0), "positive", MANY)
case("shared columns gathered", [In("x", T("f32", 50, 60), "positive"), In("i", T("i64", 1024), "index 50")],
     f'%g = ts.gather %x, %i dim 0 : {T("f32", 50, 60)}, {T("i64", 1024)}\n%r = ts.reduce add %g [0] : {t}', r, [{}],
     lambda x, i: x[i].sum(axis=0, dtype="f8"), MANY)
case("shared columns beside what is spread", [In("x", t), In("y", T("f32", 1024)), In("z", r)],
     f"%w = ts.broadcast %y [0] : {T('f32', 1024)} to {t}\n%v = ts.broadcast %z [1] : {r} to {t}\n%a = ts.mul %x, %w : {t}\n"
     f"%b = ts.sub %a, %v : {t}\n%m = ts.reduce max %b [0] : {t}\n%r = ts.tanh %m : {r}", r, [{}],
     lambda x, y, z: np_().tanh((x.astype("f8") * y[:, None] - z).max(axis=0)), MANY)

# Columns so few, or runs of them so narrow, that a program takes one as a row; kept dims that become one, and do not.
for dtype, shape, dims in [("f16", (94, 2), [0]), ("bf16", (1, 2304, 4), [1]), ("f16", (160, 3, 11, 2, 3), [0, 1, 4]), ("f32", (31, 63, 7), [0]),
                           ("bf16", (12, 1030, 3), [1]), ("f32", (40000, 3), [0]), ("bf16", (129, 544, 7), [0]), ("f32", (6, 5, 40, 2, 3), [2])]:
    kept = [d for d in range(len(shape)) if d not in dims]
    t, r = T(dtype, *shape), T(dtype, *[shape[d] for d in kept])
    for kind, name in [("add", "sum"), ("max", "max")]:
        columns(f"as rows {kind} {dtype} {'x'.join(map(str, shape))} {dims}", dtype, shape, dims,
                f"%y = ts.mul %x, %x : {{t}}\n%z = ts.reduce {kind} %y {dims} : {{t}}\n%r = ts.add %z, %b : {{r}}", "r",
                None, "positive", MANY if dtype == "f32" else "ulp 2", more=[("b", "r")])
    if len(dims) == 1 and shape[0] < 10000:  # (of more, f32 sums of neither side are that near)
        columns(f"as rows softmax {dtype} {'x'.join(map(str, shape))} {dims}", dtype, shape, dims,
                f"%y = ts.tanh %x : {{t}}\n%r = ts.softmax %y dim {dims[0]} : {{t}}", "t", None, "normal", MANY if dtype == "f32" else "ulp 2")
    if len(dims) == 1:
        case(f"shared columns as rows index {dtype} {'x'.join(map(str, shape))} {dims}", [In("x", t, "ties")],
             f"%r = ts.arg_reduce min %x dim {dims[0]} : {t}", T("i64", *r.dims), [{}])
# Few long rows, whose tiles the programs of a cluster take: whole tiles, and such as begin anywhere; one tile a program, and several.
for dtype, shape in [("f16", (17, 25088)), ("f32", (3, 20001)), ("bf16", (2, 119547)), ("f32", (1, 65536)), ("f16", (2, 524288)), ("f32", (3, 270001)),
                     ("f16", (2, 435019))]:
    near = MANY if dtype == "f32" else "ulp 2"
    columns(f"long rows softmax {dtype} {'x'.join(map(str, shape))}", dtype, shape, [1], "%y = ts.neg %x : {t}\n%r = ts.softmax %y dim 1 : {t}", "t",
            None, "normal", near)
    columns(f"long rows logarithm of a sum of exp {dtype} {'x'.join(map(str, shape))}", dtype, shape, [1],
            "%m = ts.reduce max %x [1] : {t}\n%w = ts.broadcast %m [0] : {r} to {t}\n%d = ts.sub %x, %w : {t}\n%a = ts.exp %d : {t}\n"
            "%s = ts.reduce add %a [1] : {t}\n%l = ts.log %s : {r}\n%r = ts.add %l, %m : {r}", "r", None, "normal", near)
    columns(f"long rows between their ends {dtype} {'x'.join(map(str, shape))}", dtype, shape, [1],
            "%m = ts.reduce max %x [1] : {t}\n%k = ts.reduce min %x [1] : {t}\n%w = ts.broadcast %m [0] : {r} to {t}\n"
            "%v = ts.broadcast %k [0] : {r} to {t}\n%a = ts.sub %w, %x : {t}\n%b = ts.sub %x, %v : {t}\n%r = ts.mul %a, %b : {t}", "t", None, "normal", near)
# The index of the best of a long row: in any program's part, equal ones in several.
for dtype, shape in [("f16", (5, 40000)), ("f32", (2, 300007)), ("i32", (3, 70001))]:
    for kind in ["max", "min"]:
        case(f"shared columns long rows index {kind} {dtype} {'x'.join(map(str, shape))}", [In("x", T(dtype, *shape), "ties")],
             f"%r = ts.arg_reduce {kind} %x dim 1 : {T(dtype, *shape)}", T("i64", shape[0]), [{}])
# Rows of several dims that a factor a channel keeps apart: programs share the longer one, the run of memory or not.
for dtype, shape in [("bf16", (3, 10, 32000)), ("bf16", (64, 10, 32000)), ("f32", (2, 5, 20003)), ("f32", (2, 3, 200003)), ("f16", (4, 600, 100)), ("f32", (1, 1001, 33))]:
    t, c = T(dtype, *shape), T(dtype, *shape[:2])
    case(f"shared columns group norm {dtype} {'x'.join(map(str, shape))}", [In("x", t), In("g", c, "positive"), In("b", c)],
         f"%y = ts.neg %x : {t}\n%n = ts.layer_norm %y dim 1 epsilon 1.0e-5 : {t}\n%gt = ts.broadcast %g [0, 1] : {c} to {t}\n"
         f"%p = ts.mul %n, %gt : {t}\n%bt = ts.broadcast %b [0, 1] : {c} to {t}\n%r = ts.add %p, %bt : {t}", t, [{}], None,
         {"f32": "relative 1e-5", "f16": "relative 2e-3", "bf16": "relative 1e-2"}[dtype])
