"""Columns whose rows the threads of a GPU's block share out, and lines of scans that a program has whole: what lies
along a middle dim, with few or many columns behind it.

Widths are drawn, anew with each change of this file's seed: whole warps and not, one tile of columns and several, a
last tile of some columns, tiles of several outer places, rows that the threads hold and such as they walk along, a last
step of some rows.
"""

import random

from case_list import case, FLOATS, In, np_, ROUNDING, T

DRAWN = random.Random(19)
NEAR = {"f32": "relative 4e-6", "f64": "relative 1e-12", "f16": "ulp 2", "bf16": "ulp 2"}


def shapes(count, mostRows, mostColumns=200, mostElements=1 << 20):
    """(outer, rows, columns), log-uniform."""
    found = []
    while len(found) < count:
        shape = tuple(max(low, round(2 ** DRAWN.uniform(0, np_().log2(most))))
                      for low, most in [(1, 700), (9, mostRows), (2, mostColumns)])
        if shape[0] * shape[1] * shape[2] <= mostElements:
            found.append(shape)
    return found


def named(shape):
    return "x".join(map(str, shape))


# Composites and several passes: rows are read once, or once a pass.
for dtype, shape in zip(["f32", "bf16", "f16", "f64"] * 4,
                        [(5, 55, 1760), (81, 113, 28), (1, 128, 17), (3, 9, 2), (7, 16, 31), (166, 460, 2), *shapes(10, 2000)]):
    t, r = T(dtype, *shape), T(dtype, shape[0], shape[2])
    for log in ["", "{log = true}"]:
        case(f"block columns softmax {dtype} {named(shape)} {log}", [In("x", t)],
             f"%y = ts.neg %x : {t}\n%r = ts.softmax %y dim 1 {log} : {t}", t, [{}], None,
             "relative 1e-5" if log and dtype == "f32" else "relative 1e-2" if log and dtype in ("f16", "bf16") else NEAR[dtype])
    case(f"block columns and beside them {dtype} {named(shape)}", [In("x", t), In("y", r)],
         f"%m = ts.reduce max %x [1] : {t}\n%r0 = ts.sub %m, %y : {r}\n%w = ts.broadcast %m [0, 2] : {r} to {t}\n"
         f"%r1 = ts.sub %x, %w : {t}", [r, t], [{}],
         lambda x, y: (x.max(axis=1).astype("f8") - y, x.astype("f8") - x.max(axis=1, keepdims=True)), ROUNDING[dtype])
# One pass, of every kind; several results; integers with and without a sign; NaN anywhere.
for dtype, shape in zip(["f32", "bf16", "i32", "ui8", "f16", "i64", "f64", "ui32"] * 3,
                        [(1, 4605, 11), (176, 59, 19), (2, 182, 1326), (8, 782, 16), (300, 24, 4), (2, 33, 7), *shapes(18, 4000)]):
    t, r = T(dtype, *shape), T(dtype, shape[0], shape[2])
    for kinds in [("max", "min"), ("add",)]:
        lines = [f"%r{k} = ts.reduce {kind} %x [1] : {t}" if len(kinds) > 1 else f"%r = ts.reduce {kind} %x [1] : {t}"
                 for k, kind in enumerate(kinds)]
        values = ("special" if kinds[0] == "max" else "positive") if dtype in FLOATS else "normal"
        case(f"block columns {' '.join(kinds)} {dtype} {named(shape)}", [In("x", t, values)], "\n".join(lines), [r] * len(kinds), [{}],
             None, "exact" if kinds[0] == "max" else NEAR.get(dtype, "exact"))
    for kind, last in [("max", ""), ("min", "{last = true}")]:
        for values in ["ties"] + ["special"] * (dtype in FLOATS):
            case(f"block columns index {kind} {dtype} {named(shape)} {values}", [In("x", t, values)],
                 f"%r = ts.arg_reduce {kind} %x dim 1 {last} : {t}", T("i64", *r.dims), [{}])
# Dims that what is read keeps apart: outer, reduced and inner ones of two; outer sizes that only a run knows.
for dtype, shape in [("f32", (3, 5, 6, 11, 2, 7)), ("bf16", (2, 9, 12, 5, 3, 3)), ("f16", (1, 4, 40, 3, 1, 50))]:
    a, b, c, d, e, f = shape
    t, r = T(dtype, *shape), T(dtype, a, b, e, f)
    case(f"block columns of dims apart {dtype} {named(shape)}", [In("x", t), In("u", T(dtype, b, c, e)), In("v", T(dtype, a, d, f))],
         f"%p = ts.broadcast %u [1, 2, 4] : {T(dtype, b, c, e)} to {t}\n%q = ts.broadcast %v [0, 3, 5] : {T(dtype, a, d, f)} to {t}\n"
         f"%y = ts.mul %x, %p : {t}\n%z = ts.sub %y, %q : {t}\n%r = ts.reduce max %z [2, 3] : {t}", r, [{}],
         lambda x, u, v: (x.astype("f8") * u[None, :, :, None, :, None] - v[:, None, None, :, None, :]).max(axis=(2, 3)), ROUNDING[dtype])
for dtype, rows, columns in [("f32", 40, 3), ("bf16", 200, 30), ("f16", 17, 100)]:
    t = T(dtype, "a", rows, columns)
    case(f"block columns of any number {dtype} {rows}x{columns}", [In("x", t)], f"%r = ts.softmax %x dim 1 : {t}", t,
         [dict(a=0), dict(a=1), dict(a=7), dict(a=60)], None, NEAR[dtype])
# Few last dims and others around a kept one.
for dtype, shape, dims in [("bf16", (1, 2823, 9, 6), [0, 1, 3]), ("f32", (70, 3, 5, 40, 2, 3), [0, 3, 5]), ("f16", (700, 11, 33), [0, 2]),
                           ("i32", (40, 50, 7, 7), [0, 2, 3])]:
    t = T(dtype, *shape)
    r = T(dtype, *[d for j, d in enumerate(shape) if j not in dims])
    case(f"reduce around kept dims {dtype} {named(shape)}", [In("x", t, "unit" if dtype in FLOATS else "normal")],
         f"%y = ts.abs %x : {t}\n%r = ts.reduce add %y {dims} : {t}", r, [{}], None, NEAR.get(dtype, "exact"))
    case(f"reduce max around kept dims {dtype} {named(shape)}", [In("x", t, "special" if dtype in FLOATS else "normal")],
         f"%r = ts.reduce max %x {dims} : {t}", r, [{}], lambda x, dims=dims: np_().max(x, axis=tuple(dims)))
# Few rows so long that the programs of a cluster hold them, in one kernel.
for dtype, shape in [("bf16", (30, 84485)), ("f32", (20, 100003)), ("f16", (140, 65536))]:
    t = T(dtype, *shape)
    case(f"reduce held rows {dtype} {named(shape)}", [In("x", t, "special")], f"%r = ts.reduce max %x [1] : {t}", T(dtype, shape[0]), [{}],
         lambda x: np_().max(x, axis=1))

# Scans of lines beside few others: a program has some whole.
for dtype, shape in zip(["f32", "bf16", "i64", "f16", "i8", "f64"] * 3,
                        [(166, 56, 2), (89, 176, 2), (327, 134, 3), (28, 23, 10), (5, 4, 2), (1, 7, 63), (3, 1000, 4), (700, 17, 15),
                         *shapes(10, 1000, 63)]):
    t = T(dtype, *shape)
    for kind, attributes in [("add", ""), ("add", "{exclusive = true, reverse = true}"), ("max", "{reverse = true}"), ("min", "{exclusive = true}")]:
        case(f"scan whole lines {kind} {dtype} {named(shape)} {attributes}",
             [In("x", t, "ties" if kind == "add" and dtype in FLOATS else "special" if dtype in FLOATS else "normal")],
             f"%r = ts.scan {kind} %x dim 1 {attributes} : {t}", t)
for shape in [(2, 8, 0), (2, 40, 0, 3), (0, 8, 3)]:  # beside none, of none
    t = T("f32", *shape)
    case(f"scan whole lines of nothing {named(shape)}", [In("x", t)], f"%r = ts.scan add %x dim 1 : {t}", t)
    r = T("f32", *(shape[:1] + shape[2:]))
    case(f"reduce block columns of nothing {named(shape)}", [In("x", t)], f"%r = ts.reduce max %x [1] : {t}", r)
t = T("f32", "a", 60, 3, 5)
case("scan whole lines of any number", [In("x", t, "ties"), In("y", t, "ties")],
     f"%e = ts.mul %x, %y : {t}\n%s = ts.scan add %e dim 1 : {t}\n%r = ts.add %s, %y : {t}", t,
     [dict(a=0), dict(a=1), dict(a=11), dict(a=333)])

# Columns of a concatenation, which is a result as well.
for dtype, rows, left, right in [("bf16", 64, 320, 320), ("f32", 100, 33, 50), ("f16", 200, 8, 264)]:
    a, b, c, w = T(dtype, 40, rows, left), T(dtype, 40, rows, right), T(dtype, 40, rows, left + right), T("f32", 40, rows, left + right)
    r = T("f32", 40, left + right)
    widened = f"  %w = ts.convert %r0 : {c} to {w}\n" if dtype != "f32" else ""
    case(f"block columns of a concatenation {dtype}", [In("a", a), In("b", b)],
         f"%r0 = ts.concat %a, %b dim 2 : {a}, {b}\n{widened}  %r1 = ts.reduce add %{'w' if widened else 'r0'} [1] : {w}", [c, r], [{}],
         lambda a, b: (np_().concatenate([a, b], 2), np_().concatenate([a, b], 2).astype("f8").sum(axis=1)), "relative 4e-6")
