"""The one list of op cases.

Every case is a tensor function, sizes for its symbols, and how its inputs are made. The same list
drives correctness on every target, speed, and the support matrix:

    python3 cases.py OUT.json                  writes the list for the runner
    op_cases OUT.json                          runs the reference evaluator
    op_cases OUT.json --target cpu             and the compiled code against it
    python3 check_numpy.py OUT.json DUMP       compares the reference with NumPy

To add an op, add a call here. `numpy` is what NumPy says the result is (a function of the inputs and,
if it names them, the sizes); leave it out where NumPy has no such function.
"""

import inspect
import json
import sys

FLOATS = ["f32", "f64", "f16", "bf16"]
INTS = ["i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"]
NUMBERS = FLOATS + INTS
SMALL_FLOATS = ["f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "f8E8M0FNU", "f4E2M1FN"]
STORAGE = SMALL_FLOATS + ["i4", "ui4", "i2", "ui2"]

CASES = []


class T:
    """A tensor type. Sizes are numbers or expressions over symbols."""

    def __init__(self, dtype, *dims):
        self.dtype, self.dims = dtype, dims

    def __str__(self):
        shape = "".join("?x" if isinstance(d, str) else f"{d}x" for d in self.dims)
        if not any(isinstance(d, str) for d in self.dims):
            return f"tensor<{shape}{self.dtype}>"
        sizes = ", ".join(f'"{d}"' if isinstance(d, str) else str(d) for d in self.dims)
        return f"tensor<{shape}{self.dtype}, #ts.dims<{sizes}>>"


class In:
    """An input: its type and how its values are made.

    bytes       any byte, for storage types
    normal      around 0, up to a few units     positive   0.1 to 4      unit     inside (-1, 1)
    wide        any finite number               ties       few distinct  bool
    special     NaN, infinities, zeros of both signs, denormals, extremes, mixed with others
    index D     -D to D - 1, for a size D       index0 D   0 to D - 1
    """

    def __init__(self, name, type, values="normal"):
        self.name, self.type, self.values = name, type, values


def case(name, inputs, body, results, sizes=({},), numpy=None, tolerance="exact", speed=None):
    """`body` is ts ops; %input names and %r (or %r0, %r1...) for results are given. `tolerance`:
    "exact" (bit for bit, any NaN, either zero), "ulp N" (of the result's dtype), "relative X" (of
    the largest magnitude in the result). `speed`: sizes to measure at."""
    if isinstance(results, T):
        results = [results]
    # Compiled code takes sizes from its inputs: what none has gets one of its own.
    bound = {d for i in inputs for d in i.type.dims}
    inputs = list(inputs) + [In(f"size_{s}", T("i1", s), "bool") for s in sizes[0] if s not in bound]
    names = ["%r"] if len(results) == 1 else [f"%r{i}" for i in range(len(results))]
    arguments = ", ".join(f"%{i.name}: {i.type}" for i in inputs)
    types = ", ".join(map(str, results))
    text = (f"func.func @main({arguments}) -> ({types}) {{\n  {body.strip()}\n"
            f"  return {', '.join(names)} : {types}\n}}\n")
    CASES.append(dict(name=name, mlir=text, inputs=[i.values for i in inputs],
                      input_names=[i.name for i in inputs], sizes=list(sizes), tolerance=tolerance,
                      speed=[speed] if isinstance(speed, dict) else speed or [], numpy=numpy))


# Empty, one element, odd, just below and above vector widths, several rows.
PLANE = [dict(a=0, b=3), dict(a=1, b=1), dict(a=3, b=5), dict(a=7, b=33), dict(a=16, b=64), dict(a=5, b=257)]
LINE = [dict(n=0), dict(n=1), dict(n=7), dict(n=64), dict(n=1000)]


def np_():
    import numpy
    return numpy


# ---- elementwise ----

def unary(name, dtypes, numpy, values=("normal",), tolerance="exact", attributes=""):
    """`tolerance` for floats: one, or one a dtype."""
    given = tolerance
    for dtype in dtypes:
        tolerance = given.get(dtype) if isinstance(given, dict) else given
        for kind in values:
            if kind == "special" and dtype in INTS:
                kind = "wide"
            t = T(dtype, "a", "b")
            op = name.split(".")[0]
            case(f"{name} {dtype} {kind}", [In("x", t, kind)], f"%r = ts.{op} %x {attributes} : {t}", t, PLANE,
                 numpy, tolerance if dtype in FLOATS else "exact",
                 dict(a=4096, b=4096) if dtype == "f32" and kind != "special" else None)
    case(f"{name} 0-d", [In("x", T(dtypes[0]), "positive" if isinstance(given, dict) else values[0])], f"%r = ts.{op} %x {attributes} : {T(dtypes[0])}",
         T(dtypes[0]), numpy=numpy,
         tolerance="exact" if dtypes[0] not in FLOATS else given["f32"] if isinstance(given, dict) else given)


NS = ("normal", "special")
unary("neg", NUMBERS, lambda x: -x, NS)
# More elements than one program takes, in a row and altogether.
case("neg long", [In("x", T("f32", "a", "b"))], f'%r = ts.neg %x : {T("f32", "a", "b")}', T("f32", "a", "b"),
     [dict(a=3, b=5000), dict(a=70, b=130), dict(a=1, b=8192)], lambda x: -x)
unary("abs", NUMBERS, lambda x: abs(x), NS)
unary("sign", NUMBERS, lambda x: np_().sign(x), NS)
unary("exp", FLOATS, lambda x: np_().exp(x), NS, "ulp 2")
unary("expm1", FLOATS, lambda x: np_().expm1(x), NS, "ulp 4")
unary("log", FLOATS, lambda x: np_().log(x), ("positive", "special"), "ulp 2")
unary("log1p", FLOATS, lambda x: np_().log1p(x), ("positive", "special"), "ulp 4")
unary("sqrt", FLOATS, lambda x: np_().sqrt(x), ("positive", "special"))
unary("rsqrt", FLOATS, lambda x: 1 / np_().sqrt(x), ("positive", "special"), "ulp 2")
unary("tanh", FLOATS, lambda x: np_().tanh(x), NS, "ulp 4")
unary("sigmoid", FLOATS, lambda x: 1 / (1 + np_().exp(-x.astype("f8"))), NS, "ulp 4")
unary("erf", FLOATS, None, NS, "ulp 4")
unary("sin", FLOATS, lambda x: np_().sin(x), NS, "ulp 4")
unary("cos", FLOATS, lambda x: np_().cos(x), NS, "ulp 4")
unary("tan", FLOATS, lambda x: np_().tan(x), NS, "ulp 6")
unary("asin", FLOATS, lambda x: np_().arcsin(x), ("unit", "special"), "ulp 4")
unary("acos", FLOATS, lambda x: np_().arccos(x), ("unit", "special"), "ulp 4")
unary("atan", FLOATS, lambda x: np_().arctan(x), NS, "ulp 4")
unary("sinh", FLOATS, lambda x: np_().sinh(x), NS, "ulp 6")
unary("cosh", FLOATS, lambda x: np_().cosh(x), NS, "ulp 6")
unary("asinh", FLOATS, lambda x: np_().arcsinh(x), NS, "ulp 6")
unary("acosh", FLOATS, lambda x: np_().arccosh(x), ("positive", "special"), "ulp 6")
unary("atanh", FLOATS, lambda x: np_().arctanh(x), ("unit", "special"), "ulp 6")
unary("ceil", FLOATS, lambda x: np_().ceil(x), NS)
unary("floor", FLOATS, lambda x: np_().floor(x), NS)
unary("round_even", FLOATS, lambda x: np_().rint(x), NS)
unary("trunc", FLOATS, lambda x: np_().trunc(x), NS)
unary("not", ["i1"] + INTS, lambda x: ~x, ("wide",))
# Its tail is a difference of nearly equal numbers: small against the largest result, not against itself.
GELU = {"f32": "relative 1e-6", "f64": "relative 1e-14", "f16": "relative 1e-3", "bf16": "relative 4e-3"}
unary("gelu", FLOATS, None, ("normal",), GELU)
unary("gelu.tanh", FLOATS, lambda x: x * (0.5 + 0.5 * np_().tanh(0.7978845608 * (x + 0.044715 * x**3))),
      ("normal",), GELU, "{tanh = true}")


def binary(name, dtypes, numpy, values=("normal",), right=None, tolerance="exact"):
    for dtype in dtypes:
        for kind in values:
            if kind == "special" and dtype not in FLOATS:
                kind = "wide"
            t = T(dtype, "a", "b")
            case(f"{name} {dtype} {kind}", [In("x", t, kind), In("y", t, right or kind)],
                 f"%r = ts.{name} %x, %y : {t}", t, PLANE, numpy, tolerance if dtype in FLOATS else "exact",
                 dict(a=4096, b=4096) if dtype == "f32" and kind == "normal" else None)


def np_divide(x, y):
    np = np_()
    if x.dtype.kind == "f":
        return x / y
    # In Python's integers: truncates; the comparison wraps.
    q = [0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
         for a, b in zip(x.ravel().tolist(), y.ravel().tolist())]
    return np.array(q, dtype=object).reshape(x.shape)


def np_modulo(x, y):
    np = np_()
    if x.dtype.kind == "f":
        return np.mod(x, y)
    return np.where(y == 0, 0, np.mod(x, np.where(y == 0, 1, y)))


def np_remainder(x, y):
    np = np_()
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    return np.where(y == 0, 0, np.fmod(x, np.where(y == 0, 1, y)))


def np_power(x, y):
    if x.dtype.kind == "f":
        return np_().power(x, y)
    return np_().array([(1 if a == 1 else (-1 if b % 2 else 1) if a == -1 else 0) if b < 0 else a**b
                        for a, b in zip(x.ravel().tolist(), y.ravel().tolist())], dtype=object).reshape(x.shape)


binary("add", NUMBERS, lambda x, y: x + y, NS)
binary("sub", NUMBERS, lambda x, y: x - y, NS)
binary("mul", NUMBERS, lambda x, y: x * y, NS)
binary("div", NUMBERS, np_divide, NS, tolerance="ulp 1")
binary("mod", FLOATS, np_modulo, ("normal",), tolerance="ulp 2")
binary("mod", INTS, np_modulo, ("normal", "wide"))
binary("rem", FLOATS, np_remainder, ("normal",), tolerance="ulp 2")
binary("rem", INTS, np_remainder, ("normal", "wide"))
binary("pow", FLOATS, np_power, ("positive",), right="normal", tolerance="ulp 4")
binary("pow", INTS, np_power, ("ties", "normal"), right="ties")
binary("max", NUMBERS, lambda x, y: np_().maximum(x, y), NS)
binary("min", NUMBERS, lambda x, y: np_().minimum(x, y), NS)
binary("atan2", FLOATS, lambda x, y: np_().arctan2(x, y), ("normal",), tolerance="ulp 6")
binary("and", ["i1"] + INTS, lambda x, y: x & y, ("wide",))
binary("or", ["i1"] + INTS, lambda x, y: x | y, ("wide",))
binary("xor", ["i1"] + INTS, lambda x, y: x ^ y, ("wide",))


def shift(left):
    def apply(x, y):
        np = np_()
        bits = 8 * x.dtype.itemsize
        mask = (1 << bits) - 1
        out = [0 if (b & mask) >= bits else ((a & mask) << (b & mask) if left else (a & mask) >> (b & mask))
               for a, b in zip(x.ravel().tolist(), y.ravel().tolist())]
        return np.array(out, dtype=object).reshape(x.shape)
    return apply


binary("shift_left", INTS, shift(True), ("wide",), right="normal")
binary("shift_right", INTS, shift(False), ("wide",), right="normal")

for predicate, symbol in dict(eq="==", ne="!=", lt="<", le="<=", gt=">", ge=">=").items():
    for dtype in NUMBERS + ["i1"]:
        t = T(dtype, "a", "b")
        for values in ["ties"] + (["special"] if dtype in FLOATS else ["wide"]):
            case(f"compare.{predicate} {dtype} {values}", [In("x", t, values), In("y", t, values)],
                 f"%r = ts.compare {predicate} %x, %y : {t}", T("i1", "a", "b"), PLANE[:4],
                 eval(f"lambda x, y: x {symbol} y"))

for dtype in NUMBERS + ["i1"]:
    t, c = T(dtype, "a", "b"), T("i1", "a", "b")
    case(f"select {dtype}", [In("c", c, "bool"), In("x", t, "special" if dtype in FLOATS else "wide"), In("y", t)],
         f"%r = ts.select %c, %x, %y : {c}, {t}", t, PLANE, lambda c, x, y: np_().where(c, x, y))

for source in NUMBERS + ["i1"]:
    for target in NUMBERS + ["i1"]:
        if source != target:
            s, t = T(source, "a", "b"), T(target, "a", "b")
            case(f"convert {source} {target}", [In("x", s, "special" if source in FLOATS else "wide")],
                 f"%r = ts.convert %x : {s} to {t}", t, PLANE[:5])

for storage in STORAGE:
    for other in NUMBERS + ["i1"] + STORAGE:
        s, t = T(storage, "a", "b"), T(other, "a", "b")
        if storage != other:
            case(f"convert {storage} {other}", [In("x", s, "bytes")], f"%r = ts.convert %x : {s} to {t}", t, PLANE[:5])
        if other not in STORAGE:
            case(f"convert {other} {storage}", [In("x", t, "special" if other in FLOATS else "wide")],
                 f"%r = ts.convert %x : {t} to {s}", s, PLANE[:5])
            if other in FLOATS:
                case(f"convert.near {other} {storage}", [In("x", t)], f"%r = ts.convert %x : {t} to {s}", s, PLANE[4:])
for storage in SMALL_FLOATS:
    for other in ["f32", "f16", "f64", "i32"]:
        s, t = T(storage, "a", "b"), T(other, "a", "b")
        values = "special" if other in FLOATS else "wide"
        case(f"convert.no_saturate {other} {storage}", [In("x", t, values)],
             f"%r = ts.convert %x {{saturate = false}} : {t} to {s}", s, PLANE[:5])
    for rounding in ["up", "down"] if storage == "f8E8M0FNU" else []:
        for saturate in ["true", "false"]:
            s, t = T(storage, "a", "b"), T("f32", "a", "b")
            case(f"convert.{rounding} {saturate} {storage}", [In("x", t, "special")],
                 f"%r = ts.convert %x {{saturate = {saturate}, rounding = #ts<rounding {rounding}>}} : {t} to {s}", s,
                 PLANE[2:])

for source, target in [("f32", "i32"), ("i32", "f32"), ("f64", "i64"), ("i64", "f64"), ("f32", "ui32"), ("ui64", "f64"),
                       ("i8", "ui8"), ("ui16", "i16"), ("i16", "bf16"), ("ui16", "f16"), ("bf16", "ui16"),
                       ("i1", "ui8"), ("ui8", "i1"), ("f8E5M2", "ui8"), ("i8", "f8E4M3FN"), ("i4", "ui4"), ("ui4", "i4"),
                       ("f4E2M1FN", "i4"), ("ui4", "f4E2M1FN"), ("ui2", "i2")]:
    s, t = T(source, "a", "b"), T(target, "a", "b")
    values = "bool" if source == "i1" else "bytes" if source in STORAGE else "wide"
    case(f"bitcast {source} {target}", [In("x", s, values)], f"%r = ts.bitcast %x : {s} to {t}", t, PLANE[:5])

for dtype in STORAGE:
    t, c = T(dtype, "a", "b"), T("i1", "a", "b")
    case(f"select {dtype}", [In("c", c, "bool"), In("x", t, "bytes"), In("y", t, "bytes")],
         f"%r = ts.select %c, %x, %y : {c}, {t}", t, PLANE)

for dtype in FLOATS:
    t, b = T(dtype, "a", "b"), T("i1", "a", "b")
    case(f"is_nan {dtype}", [In("x", t, "special")], f"%r = ts.is_nan %x : {t}", b, PLANE, lambda x: np_().isnan(x))
    for attributes, numpy in [("", lambda x: np_().isinf(x)),
                              ("{negative = false}", lambda x: np_().isposinf(x)),
                              ("{positive = false}", lambda x: np_().isneginf(x))]:
        case(f"is_inf {dtype} {attributes}", [In("x", t, "special")], f"%r = ts.is_inf %x {attributes} : {t}", b,
             PLANE, numpy)

# ---- constants and movement ----

case("constant", [In("x", T("f32", 3))],
     "%c = ts.constant dense<[1.0, 2.0, 4.0]> : tensor<3xf32>\n  %r = ts.add %x, %c : tensor<3xf32>", T("f32", 3),
     numpy=lambda x: x + np_().array([1, 2, 4], "f4"))
case("size", [In("x", T("f32", "n", "m"))], '%r = ts.size <"2*n*m + 1"> : tensor<i64>', T("i64"),
     [dict(n=0, m=3), dict(n=5, m=7)], lambda n, m: np_().array(2 * n * m + 1))
case("bind_size", [In("k", T("i64"), "index0 9")],
     f'ts.bind_size %k, "late" : tensor<i64>\n  %r = ts.iota 0 : {T("f32", "late")}', T("f32", "late"),
     numpy=lambda k: np_().arange(int(k), dtype="f4"))
case("dim_cast", [In("x", T("f32", "n")), In("y", T("f32", "m"))],
     f'%c = ts.dim_cast %y : {T("f32", "m")} to {T("f32", "n")}\n  %r = ts.add %x, %c : {T("f32", "n")}',
     T("f32", "n"), [dict(n=5, m=5)], lambda x, y: x + y)

for dtype in ["f32", "i64", "i8", "i1", "bf16", "ui16", "f8E4M3FN", "i4"]:
    t = lambda *dims: T(dtype, *dims)
    move = lambda name, type, op, result, sizes, numpy, **options: case(
        f"{name} {dtype}", [In("x", type, "wide")], f"%r = ts.{op}", result, sizes, numpy, **options)
    move("broadcast row", t("b"), f'broadcast %x [1] : {t("b")} to {t("a", "b")}', t("a", "b"),
         PLANE, lambda x, a, b: np_().broadcast_to(x, (a, b)), speed=dict(a=4096, b=4096) if dtype == "f32" else None)
    move("broadcast column", t("a", 1), f'broadcast %x [0, 2] : {t("a", 1)} to {t("a", "b", 5)}', t("a", "b", 5),
         PLANE[:5], lambda x, a, b: np_().broadcast_to(x[:, :, None], (a, b, 5)))
    move("broadcast 0-d", t(), f'broadcast %x [] : {t()} to {t("a", "b")}', t("a", "b"), PLANE,
         lambda x, a, b: np_().broadcast_to(x, (a, b)))
    move("reshape", t("a", 6, "b"), f'reshape %x : {t("a", 6, "b")} to {t("2*a*b", 3)}', t("2*a*b", 3), PLANE,
         lambda x: x.reshape(-1, 3))
    move("transpose 10", t("a", "b"), f'transpose %x [1, 0] : {t("a", "b")}', t("b", "a"), PLANE,
         lambda x: x.T, speed=dict(a=4096, b=4096) if dtype == "f32" else None)
    move("transpose 0213", t("a", 7, 4, "b"), f'transpose %x [0, 2, 1, 3] : {t("a", 7, 4, "b")}', t("a", 4, 7, "b"),
         PLANE[:5], lambda x: x.transpose(0, 2, 1, 3))
    move("transpose 2031", t("a", 7, 4, "b"), f'transpose %x [2, 0, 3, 1] : {t("a", 7, 4, "b")}', t(4, "a", "b", 7),
         PLANE[:5], lambda x: x.transpose(2, 0, 3, 1))
    move("slice", t("a", "b + 4"), f'slice %x [#ts.dim<0>, #ts.dim<3>] [1, 1] : {t("a", "b + 4")} to {t("a", "b")}',
         t("a", "b"), PLANE, lambda x, b: x[:, 3:3 + b])
    move("slice steps", t("a", 20),
         f'slice %x [#ts.dim<"a - 1">, #ts.dim<18>] [-1, -3] : {t("a", 20)} to {t("a", 6)}', t("a", 6),
         PLANE[1:5], lambda x: x[::-1, 18:0:-3])
    move("slice strided", t("2*a", "b"),
         f'slice %x [#ts.dim<1>, #ts.dim<0>] [2, 1] : {t("2*a", "b")} to {t("a", "b")}', t("a", "b"), PLANE,
         lambda x: x[1::2])
    case(f"pad constant {dtype}", [In("x", t("a", "b"), "wide"), In("v", t(), "wide")],
         f'%r = ts.pad %x value %v : {t()} low [#ts.dim<1>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<"b + 2">] : '
         f'{t("a", "b")}', t("a + 1", "2*b + 2"), PLANE,
         lambda x, v, b: np_().pad(x, ((1, 0), (0, b + 2)), constant_values=v))
    for mode in ["reflect", "edge", "wrap"]:
        move(f"pad {mode}", t("a", "b"),
             f'pad %x low [#ts.dim<2>, #ts.dim<1>] high [#ts.dim<2>, #ts.dim<3>] {{mode = #ts<pad_mode {mode}>}} : '
             f'{t("a", "b")}', t("a + 4", "b + 4"), PLANE[2:5],
             lambda x, mode=mode: np_().pad(x, ((2, 2), (1, 3)), mode=mode))
    case(f"concat 0 {dtype}", [In("x", t("a", "b")), In("y", t(3, "b")), In("z", t("2*a", "b"))],
         f'%r = ts.concat %x, %y, %z dim 0 : {t("a", "b")}, {t(3, "b")}, {t("2*a", "b")}', t("3*a + 3", "b"), PLANE,
         lambda x, y, z: np_().concatenate([x, y, z]))
    case(f"concat 1 {dtype}", [In("x", t("a", "b", 2)), In("y", t("a", 3, 2))],
         f'%r = ts.concat %x, %y dim 1 : {t("a", "b", 2)}, {t("a", 3, 2)}', t("a", "b + 3", 2), PLANE,
         lambda x, y: np_().concatenate([x, y], 1))

for dtype in NUMBERS:
    for dim in [0, 1]:
        case(f"iota {dim} {dtype}", [In("x", T(dtype, "a", "b"))],
             f'%i = ts.iota {dim} : {T(dtype, "a", "b")}\n  %r = ts.add %x, %i : {T(dtype, "a", "b")}',
             T(dtype, "a", "b"), PLANE, tolerance="ulp 1")

for dtype in ["f32", "i64", "i8", "bf16"]:
    for index in ["i64", "i32"]:
        t = lambda *dims: T(dtype, *dims)
        i = lambda *dims: T(index, *dims)
        case(f"gather rows {dtype} {index}", [In("x", t(11, "b")), In("i", i("a", 3), "index 11")],
             f'%r = ts.gather %x, %i dim 0 : {t(11, "b")}, {i("a", 3)}', t("a", 3, "b"), PLANE,
             lambda x, i: np_().take(x, i, 0), speed=dict(a=1024, b=768) if dtype == "f32" else None)
        case(f"gather inner {dtype} {index}", [In("x", t("a", 11, "b")), In("i", i(5), "index 11")],
             f'%r = ts.gather %x, %i dim 1 : {t("a", 11, "b")}, {i(5)}', t("a", 5, "b"), PLANE,
             lambda x, i: np_().take(x, i, 1))
        case(f"gather one {dtype} {index}", [In("x", t("a", 4)), In("i", i(), "index 4")],
             f'%r = ts.gather %x, %i dim 1 : {t("a", 4)}, {i()}', t("a"), PLANE, lambda x, i: np_().take(x, i, 1))
    case(f"gather_elements {dtype}", [In("x", t("a", 9)), In("i", T("i64", "a", 4), "index 9")],
         f'%r = ts.gather_elements %x, %i dim 1 : {t("a", 9)}, {T("i64", "a", 4)}', t("a", 4), PLANE,
         lambda x, i: np_().take_along_axis(x, i, 1))
    case(f"gather_elements 0 {dtype}", [In("x", t(9, "b")), In("i", T("i32", 4, "b"), "index 9")],
         f'%r = ts.gather_elements %x, %i dim 0 : {t(9, "b")}, {T("i32", 4, "b")}', t(4, "b"), PLANE,
         lambda x, i: np_().take_along_axis(x, i.astype("i8"), 0))
    case(f"gather_nd {dtype}", [In("x", t(4, 4, "b")), In("i", T("i64", "a", 2), "index 4")],
         f'%r = ts.gather_nd %x, %i batch_dims 0 : {t(4, 4, "b")}, {T("i64", "a", 2)}', t("a", "b"), PLANE,
         lambda x, i: x[i[:, 0], i[:, 1]])
    case(f"gather_nd batch {dtype}", [In("x", t("a", 5, 3)), In("i", T("i64", "a", 2, 1), "index 5")],
         f'%r = ts.gather_nd %x, %i batch_dims 1 : {t("a", 5, 3)}, {T("i64", "a", 2, 1)}', t("a", 2, 3), PLANE,
         lambda x, i: np_().take_along_axis(x, i, 1))


def np_scatter(x, i, u, dim):
    r = x.copy()
    np_().put_along_axis(r, i.astype("i8"), u, dim)
    return r


def np_scatter_nd(x, i, u):
    r = x.copy()
    for at, value in zip(i, u):
        r[tuple(at)] = value
    return r


for dtype in ["f32", "i64", "i8", "bf16"]:
    t = lambda *dims: T(dtype, *dims)
    s, i, u = t("a", 9), T("i64", "a", 4), t("a", 4)
    for reduction in ["", "add", "mul", "max", "min"]:
        attribute = f"{{reduction = #ts<reduce_kind {reduction}>}}" if reduction else ""
        case(f"scatter_elements {reduction} {dtype}", [In("x", s), In("i", i, "index 9"), In("u", u)],
             f"%r = ts.scatter_elements %x, %i, %u dim 1 {attribute} : {s}, {i}, {u}", s, PLANE,
             None if reduction else lambda x, i, u: np_scatter(x, i, u, 1),
             tolerance="relative 1e-6" if dtype == "f32" else "relative 2e-2" if dtype == "bf16" else "exact")
        s2, i2, u2 = t(5, 6, "b"), T("i64", "a", 2), t("a", "b")
        case(f"scatter_nd {reduction} {dtype}", [In("x", s2), In("i", i2, "index 5"), In("u", u2)],
             f"%r = ts.scatter_nd %x, %i, %u {attribute} : {s2}, {i2}, {u2}", s2, PLANE,
             None if reduction else np_scatter_nd,
             tolerance="relative 1e-6" if dtype == "f32" else "relative 2e-2" if dtype == "bf16" else "exact")

# ---- reductions ----

ROUNDING = {"f32": "relative 2e-6", "f64": "relative 1e-12", "f16": "ulp 2", "bf16": "ulp 2"}
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

for kind in ["max", "min"]:
    for dtype in NUMBERS:
        for last in ["", "{last = true}"]:
            t = T(dtype, "a", "b", 5)
            numpy = lambda x, kind=kind, last=last: (
                getattr(np_(), "arg" + kind)(x, 1) if not last else
                x.shape[1] - 1 - getattr(np_(), "arg" + kind)(x[:, ::-1], 1))
            case(f"arg_reduce {kind} {dtype} {last}", [In("x", t, "ties")],
                 f"%r = ts.arg_reduce {kind} %x dim 1 {last} : {t}", T("i64", "a", 5), PLANE[1:], numpy)

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
case("topk special", [In("x", T("f32", "a", 40), "special")],
     f'%r0, %r1 = ts.topk %x k <9> dim 1 : {T("f32", "a", 40)}', [T("f32", "a", 9), T("i64", "a", 9)], PLANE)

# ---- products and windows ----

PRODUCT = {"f32": "relative 3e-6", "f64": "relative 1e-12", "f16": "relative 1e-3", "bf16": "relative 8e-3"}
ROWS = [dict(m=1, n=1, k=1), dict(m=1, n=40, k=33), dict(m=3, n=5, k=7), dict(m=17, n=65, k=64),
        dict(m=64, n=96, k=130), dict(m=0, n=4, k=3), dict(m=5, n=6, k=0)]
wide = lambda x: x.astype("f8") if x.dtype.kind == "f" else x

for dtype in ["f32", "f64", "f16", "bf16", "i32", "i64"]:
    for name, l, r, contract, numpy in [
            ("nn", ("m", "k"), ("k", "n"), ([1], [0]), lambda x, y: wide(x) @ wide(y)),
            ("nt", ("m", "k"), ("n", "k"), ([1], [1]), lambda x, y: wide(x) @ wide(y).T),
            ("tn", ("k", "m"), ("k", "n"), ([0], [0]), lambda x, y: wide(x).T @ wide(y))]:
        x, y = T(dtype, *l), T(dtype, *r)
        case(f"dot {name} {dtype}", [In("x", x), In("y", y)],
             f"%r = ts.dot %x, %y batch [] x [] contract {contract[0]} x {contract[1]} : {x}, {y}",
             T(dtype, "m", "n"), ROWS, numpy, PRODUCT.get(dtype, "exact"),
             [dict(m=512, n=512, k=512), dict(m=1024, n=1024, k=1024)] if dtype == "f32" else None)
    x, y = T(dtype, 2, "m", 3, "k"), T(dtype, 2, 3, "k", "n")
    case(f"dot batch {dtype}", [In("x", x), In("y", y)],
         f"%r = ts.dot %x, %y batch [0, 2] x [0, 1] contract [3] x [2] : {x}, {y}", T(dtype, 2, 3, "m", "n"), ROWS,
         lambda x, y: wide(x).transpose(0, 2, 1, 3) @ wide(y), PRODUCT.get(dtype, "exact"))
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
         lambda x, w, z: wide(x) @ wide(w).T + wide(z), PRODUCT[dtype])
    for k in [8, 16, 40]:  # less to read of a column than there are threads
        x, w, y = T(dtype, "m", k), T(dtype, "n", k), T(dtype, "m", "n")
        case(f"dot few rows of {k} {dtype}", [In("x", x), In("w", w)],
             f"%r = ts.dot %x, %w batch [] x [] contract [1] x [1] : {x}, {w}", y,
             [dict(m=m, n=n) for m, n in [(1, 70), (2, 3), (4, 300), (5, 64)]],
             lambda x, w: wide(x) @ wide(w).T, PRODUCT[dtype])
    x, w, y = T(dtype, 1, 4104), T(dtype, 70, 4104), T(dtype, 1, 70)
    case(f"dot one row {dtype}", [In("x", x), In("w", w)],
         f"%r = ts.dot %x, %w batch [] x [] contract [1] x [1] : {x}, {w}", y, [{}],
         lambda x, w: wide(x) @ wide(w).T, PRODUCT[dtype])
for dtype in ["f16", "bf16"]:
    y, b = T(dtype, "m", "n"), T(dtype, "n")
    for name, l, r, contract in [("nn", ("m", "k"), ("k", "n"), ([1], [0])), ("nt", ("m", "k"), ("n", "k"), ([1], [1])),
                                 ("tn", ("k", "m"), ("k", "n"), ([0], [0])), ("tt", ("k", "m"), ("n", "k"), ([0], [1]))]:
        x, w = T(dtype, *l), T(dtype, *r)
        case(f"dot blocks {name} {dtype}", [In("x", x), In("w", w), In("b", b), In("z", y)],
             f"%0 = ts.dot %x, %w batch [] x [] contract {contract[0]} x {contract[1]} : {x}, {w}\n"
             f"  %1 = ts.broadcast %b [1] : {b} to {y}\n  %2 = ts.add %0, %1 : {y}\n"
             f"  %3 = ts.tanh %2 : {y}\n  %r = ts.add %3, %z : {y}", y, BLOCKS + ODD, None, PRODUCT[dtype])
    x, w, y = T(dtype, 3, "m", "k"), T(dtype, 3, "k", "n"), T("f32", 3, "m", "n")
    case(f"dot blocks batch {dtype}", [In("x", x), In("w", w)],
         f"%r = ts.dot %x, %w batch [0] x [0] contract [2] x [1] {{result_type = f32}} : {x}, {w}", y, BLOCKS + ODD,
         lambda x, w: wide(x) @ wide(w), "relative 2e-5")
    x, w, y = T(dtype, "m", 2, 40), T(dtype, 40, 96), T(dtype, "m", 2, 96)
    h, r = T(dtype, "m", 2, 4, 24), T(dtype, 4, "m", 2, 24)
    case(f"dot blocks heads {dtype}", [In("x", x), In("w", w)],
         f"%0 = ts.dot %x, %w batch [] x [] contract [2] x [0] : {x}, {w}\n"
         f"  %1 = ts.reshape %0 : {y} to {h}\n  %r = ts.transpose %1 [2, 0, 1, 3] : {h}", r,
         [dict(m=70), dict(m=1)], None, PRODUCT[dtype])
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
         lambda x, b, z, w=weights: wide(x) @ np_().array(w) + b + wide(z), PRODUCT["bf16"])
    turned = [list(column) for column in zip(*weights)]
    x, f = T("bf16", 2, "m", k), T("f32", 2, "m", n)
    case(f"dot weights of pairs transposed {k} {n}", [In("x", x)],
         f"%w = ts.constant dense<{turned}> : tensor<{n}x{k}xbf16>\n"
         f"  %r = ts.dot %x, %w batch [] x [] contract [2] x [1] {{result_type = f32}} : {x}, tensor<{n}x{k}xbf16>",
         f, PAIR_ROWS, lambda x, w=weights: wide(x) @ np_().array(w), "relative 2e-5")
    x = T("bf16", k, "m")
    case(f"dot weights of pairs by columns {k} {n}", [In("x", x)],
         f"%w = ts.constant dense<{weights}> : tensor<{k}x{n}xbf16>\n"
         f"  %r = ts.dot %x, %w batch [] x [] contract [0] x [0] : {x}, tensor<{k}x{n}xbf16>",
         y, PAIR_ROWS, lambda x, w=weights: wide(x).T @ np_().array(w), PRODUCT["bf16"])
# Packed in groups of four rows: with a rest, and without; more columns than a panel has.
for k, n in [(22, 40), (64, 70), (3, 5), (1, 16)]:
    bytes_ = [[(i * n + j) * 37 % 256 - 128 for j in range(n)] for i in range(k)]
    x, y = T("ui8", "m", k), T("i32", "m", n)
    case(f"dot byte weights {k} {n}", [In("x", x, "wide"), In("z", y, "wide")],
         f"%w = ts.constant dense<{bytes_}> : tensor<{k}x{n}xi8>\n"
         f"  %d = ts.dot %x, %w batch [] x [] contract [1] x [0] {{result_type = i32}} : {x}, tensor<{k}x{n}xi8>\n"
         f"  %r = ts.add %d, %z : {y}", y, ROWS[:5],
         lambda x, z, w=bytes_: x.astype("i4") @ np_().array(w, "i4") + z)
    turned = [list(column) for column in zip(*bytes_)]
    x, f = T("ui8", 2, "m", k), T("f32", 2, "m", n)
    case(f"dot byte weights transposed {k} {n}", [In("x", x, "wide"), In("s", T("f32", n))],
         f"%w = ts.constant dense<{turned}> : tensor<{n}x{k}xi8>\n"
         f"  %d = ts.dot %x, %w batch [] x [] contract [2] x [1] {{result_type = i32}} : {x}, tensor<{n}x{k}xi8>\n"
         f"  %f = ts.convert %d : {T('i32', 2, 'm', n)} to {f}\n  %b = ts.broadcast %s [2] : {T('f32', n)} to {f}\n"
         f"  %r = ts.mul %f, %b : {f}", f, ROWS[:5],
         lambda x, s, w=bytes_: (x.astype("i4") @ np_().array(w, "i4")).astype("f4") * s, "ulp 1")
for l, r in [("i8", "i8"), ("ui8", "i8"), ("ui8", "ui8")]:
    x, y = T(l, "m", "k"), T(r, "k", "n")
    case(f"dot {l} {r}", [In("x", x, "wide"), In("y", y, "wide")],
         f"%r = ts.dot %x, %y batch [] x [] contract [1] x [0] {{result_type = i32}} : {x}, {y}", T("i32", "m", "n"),
         ROWS, lambda x, y: x.astype("i4") @ y.astype("i4"))


def np_conv(x, w, strides, dilations, low, high, inputs, groups=1, last=False):
    np = np_()
    x, w = x.astype("f8"), w.astype("f8")
    if last:
        x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, (-1, -2), (0, 1))
    rank = len(strides)
    spread = np.zeros(x.shape[:2] + tuple((n - 1) * d + 1 for n, d in zip(x.shape[2:], inputs)))
    spread[(slice(None),) * 2 + tuple(slice(None, None, d) for d in inputs)] = x
    x = np.pad(spread, [(0, 0), (0, 0)] + list(zip(low, high)))
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], w.shape[2:], dilations, strides)]
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    f = w.reshape(groups, -1, *w.shape[1:])
    y = np.zeros((x.shape[0], groups, f.shape[1], *out))
    for at in np.ndindex(*w.shape[2:]):
        part = x[(...,) + tuple(slice(i * d, i * d + (n - 1) * s + 1, s)
                                for i, d, n, s in zip(at, dilations, out, strides))]
        y += np.einsum("ngc...,gfc->ngf...", part, f[(...,) + at])
    y = y.reshape(x.shape[0], -1, *out)
    return np.moveaxis(y, 1, -1) if last else y


def np_pool(x, kind, window, strides, dilations, low, high, count_padding=False, last=False):
    np = np_()
    x = x.astype("f8") if x.dtype.kind == "f" else x
    if last:
        x = np.moveaxis(x, -1, 1)
    empty = (-np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min) if kind == "max" else 0
    pads = [(0, 0), (0, 0)] + list(zip(low, high))
    inside = np.pad(np.ones(x.shape), pads, constant_values=1 if count_padding else 0)
    x = np.pad(x, pads, constant_values=empty)
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], window, dilations, strides)]
    take = lambda a, at: a[(...,) + tuple(slice(i * d, i * d + (n - 1) * s + 1, s)
                                          for i, d, n, s in zip(at, dilations, out, strides))]
    parts = [take(x, at) for at in np.ndindex(*window)]
    y = np.max(parts, 0) if kind == "max" else np.sum(parts, 0)
    if kind == "average":
        y = y / np.sum([take(inside, at) for at in np.ndindex(*window)], 0)
    return np.moveaxis(y, 1, -1) if last else y


def conv(name, dtype, x, w, result, strides, dilations=None, low=None, high=None, inputs=None, attributes="",
         sizes=({},), speed=None):
    rank = len(strides)
    groups = int(attributes.split("groups = ")[1].split(" ")[0]) if "groups" in attributes else 1
    pads = lambda p: "[" + ", ".join(f"#ts.dim<{v}>" for v in (p or [0] * rank)) + "]"
    case(f"conv {name} {dtype}", [In("x", x), In("w", w)],
         f"%r = ts.conv %x, %w strides {strides} dilations {dilations or [1] * rank} "
         f"input_dilations {inputs or [1] * rank} low {pads(low)} high {pads(high)} {attributes} : {x}, {w}",
         result, sizes,
         lambda x, w: np_conv(x, w, strides, dilations or [1] * rank, low or [0] * rank, high or [0] * rank,
                              inputs or [1] * rank, groups, last="channels_last" in attributes),
         PRODUCT[dtype], speed)


for dtype in ["f32", "bf16"]:
    t = lambda *dims: T(dtype, *dims)
    N = [dict(n=1), dict(n=3)]
    conv("3x3 same", dtype, t("n", 5, 9, 11), t(8, 5, 3, 3), t("n", 8, 9, 11), [1, 1], None, [1, 1], [1, 1], sizes=N)
    conv("1x1", dtype, t("n", 16, 7, 7), t(24, 16, 1, 1), t("n", 24, 7, 7), [1, 1], sizes=N)
    conv("stride 2", dtype, t("n", 3, 16, 15), t(8, 3, 7, 7), t("n", 8, 8, 8), [2, 2], None, [3, 3], [3, 3], sizes=N)
    conv("depthwise", dtype, t("n", 12, 9, 9), t(12, 1, 3, 3), t("n", 12, 9, 9), [1, 1], None, [1, 1], [1, 1],
         attributes="{groups = 12 : i64}", sizes=N)
    conv("depthwise stride 2", dtype, t("n", 20, 9, 9), t(20, 1, 3, 3), t("n", 20, 5, 5), [2, 2], None, [1, 1],
         [1, 1], attributes="{groups = 20 : i64}", sizes=N)
    conv("groups", dtype, t("n", 8, 6, 6), t(12, 4, 3, 3), t("n", 12, 4, 4), [1, 1],
         attributes="{groups = 2 : i64}", sizes=N)
    conv("dilated", dtype, t("n", 4, 12, 12), t(6, 4, 3, 3), t("n", 6, 8, 8), [1, 1], [2, 2], sizes=N)
    conv("transposed", dtype, t("n", 4, 5, 5), t(6, 4, 3, 3), t("n", 6, 11, 11), [1, 1], None, [2, 2], [2, 2],
         [2, 2], sizes=N)
    conv("uneven pads", dtype, t("n", 4, 6, 7), t(5, 4, 2, 3), t("n", 5, 6, 7), [1, 1], None, [1, 0], [0, 2], sizes=N)
    conv("channels last", dtype, t("n", 9, 11, 5), t(3, 3, 5, 8), t("n", 9, 11, 8), [1, 1], None, [1, 1], [1, 1],
         attributes="{channels_last = true}", sizes=N)
    conv("channels last uneven", dtype, t("n", 6, 7, 4), t(2, 3, 4, 5), t("n", 6, 7, 5), [1, 1], None, [1, 0], [0, 2],
         attributes="{channels_last = true}", sizes=N)
    conv("1d", dtype, t("n", 6, "l"), t(10, 6, 3), t("n", 10, "l"), [1], None, [1], [1],
         sizes=[dict(n=1, l=1), dict(n=2, l=17), dict(n=3, l=64)])
    conv("3d", dtype, t("n", 2, 5, 6, 7), t(3, 2, 2, 2, 2), t("n", 3, 4, 5, 6), [1, 1, 1], sizes=N)
    conv("symbolic image", dtype, t(1, 3, "h", "w"), t(4, 3, 3, 3), t(1, 4, "h", "w"), [1, 1], None, [1, 1], [1, 1],
         sizes=[dict(h=5, w=5), dict(h=8, w=33)])
# Filters that are packed in pairs, and one whose rows are no whole pairs; a border, and none.
for kh, kw, c, f, pad in [(1, 1, 16, 24, 0), (1, 1, 7, 50, 0), (3, 3, 4, 40, 1), (3, 2, 5, 8, 0), (3, 3, 5, 8, 1), (1, 3, 3, 17, 0)]:
    taps = [[[[(((i * kw + j) * c + k) * f + l) * 37 % 101 / 64 - 0.75 for l in range(f)] for k in range(c)]
             for j in range(kw)] for i in range(kh)]
    x = T("bf16", "n", 9, 11, c)
    y = T("bf16", "n", 9 + 2 * pad - kh + 1, 11 + 2 * pad - kw + 1, f)
    dims = f"[#ts.dim<{pad}>, #ts.dim<{pad}>]"
    case(f"conv filter of pairs {kh}x{kw} {c} {f}", [In("x", x)],
         f"%w = ts.constant dense<{taps}> : tensor<{kh}x{kw}x{c}x{f}xbf16>\n"
         f"  %r = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low {dims} high {dims} "
         f"{{channels_last = true}} : {x}, tensor<{kh}x{kw}x{c}x{f}xbf16>", y, [dict(n=1), dict(n=3)],
         lambda x, w=taps, pad=pad: np_conv(x, np_().array(w), [1, 1], [1, 1], [pad, pad], [pad, pad], [1, 1], last=True),
         PRODUCT["bf16"])
conv("resnet 3x3", "f32", T("f32", "n", 64, 56, 56), T("f32", 64, 64, 3, 3), T("f32", "n", 64, 56, 56), [1, 1], None,
     [1, 1], [1, 1], sizes=[dict(n=1)], speed=dict(n=1))

for kind in ["max", "average", "sum"]:
    for dtype in ["f32", "bf16", "i32", "i8"]:
        if kind == "average" and dtype in INTS:
            continue
        for attributes in [""] + (["{count_padding = true}"] if kind == "average" else []):
            x = T(dtype, "n", 5, 11, 13)
            case(f"pool {kind} {dtype} {attributes}", [In("x", x)],
                 f"%r = ts.pool {kind} %x window [3, 3] strides [2, 2] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] "
                 f"high [#ts.dim<1>, #ts.dim<1>] {attributes} : {x}", T(dtype, "n", 5, 6, 7),
                 [dict(n=0), dict(n=1), dict(n=3)],
                 lambda x, kind=kind, padding=bool(attributes): np_pool(x, kind, [3, 3], [2, 2], [1, 1], [1, 1], [1, 1], padding),
                 ROUNDING.get(dtype, "exact"))
    x = T("f32", "n", 9, 9, 6)
    case(f"pool {kind} channels last", [In("x", x)],
         f"%r = ts.pool {kind} %x window [2, 3] strides [1, 2] dilations [2, 1] low [#ts.dim<0>, #ts.dim<1>] "
         f"high [#ts.dim<0>, #ts.dim<0>] {{channels_last = true}} : {x}", T("f32", "n", 7, 4, 6),
         [dict(n=1), dict(n=2)],
         lambda x, kind=kind: np_pool(x, kind, [2, 3], [1, 2], [2, 1], [0, 1], [0, 0], last=True), "relative 2e-6")
    x = T("f32", "n", 3, "l")
    case(f"pool {kind} 1d", [In("x", x)],
         f"%r = ts.pool {kind} %x window [4] strides [4] dilations [1] low [#ts.dim<0>] high [#ts.dim<0>] : {x}",
         T("f32", "n", 3, "floordiv(l, 4)"), [dict(n=1, l=4), dict(n=2, l=31)],
         lambda x, kind=kind: np_pool(x, kind, [4], [4], [1], [0], [0]), "relative 2e-6")

# ---- composites ----


def np_softmax(x, dim, log):
    np = np_()
    x = x.astype("f8")
    z = x - x.max(axis=dim, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=dim, keepdims=True)) if log else np.exp(z) / np.exp(z).sum(axis=dim, keepdims=True)


def np_norm(x, epsilon, rms, *parameters):
    np = np_()
    x = x.astype("f8")
    x = x if rms else x - x.mean(-1, keepdims=True)
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)
    for combine, p in zip((np.multiply, np.add), parameters):
        y = combine(y, p)
    return y


ROW_SIZES = [dict(a=1, b=1), dict(a=3, b=5), dict(a=2, b=63), dict(a=7, b=384), dict(a=2, b=1030), dict(a=0, b=4)]
for dtype in FLOATS:
    for dim in [0, 1]:
        for log in [False, True]:
            t = T(dtype, "a", "b")
            case(f"softmax {dim} {'log ' if log else ''}{dtype}", [In("x", t)],
                 f"%r = ts.softmax %x dim {dim} {'{log = true}' if log else ''} : {t}", t,
                 ROW_SIZES[:5] if dim == 0 else ROW_SIZES, lambda x, dim=dim, log=log: np_softmax(x, dim, log),
                 "relative 2e-6" if dtype == "f32" else "relative 1e-12" if dtype == "f64" else "ulp 3",
                 dict(a=4096, b=2048) if dtype == "f32" and dim == 1 else None)
    for rms in [False, True]:
        for count in [0, 1, 2]:
            t, p = T(dtype, "a", "b"), T(dtype, "b")
            names = ["scale", "bias"][:count]
            operands = " ".join(f"{n} %{n} : {p}" for n in names)
            attributes = "{rms = true}" if rms else ""
            case(f"layer_norm {'rms ' if rms else ''}{count} {dtype}", [In("x", t)] + [In(n, p) for n in names],
                 f"%r = ts.layer_norm %x {operands} dim 1 epsilon 1.0e-5 {attributes} : {t}", t, ROW_SIZES,
                 lambda x, rms=rms, **p: np_norm(x, 1e-5, rms, *p.values()),
                 {"f32": "relative 4e-6", "f64": "relative 1e-10"}.get(dtype, "ulp 3"),
                 dict(a=4096, b=2048) if dtype == "f32" and count == 2 else None)
t = T("f32", "a", 3, "b")
case("layer_norm two dims", [In("x", t)], f"%r = ts.layer_norm %x dim 1 epsilon 1.0e-6 : {t}", t, ROW_SIZES,
     tolerance="relative 4e-6")
# Rows that start anywhere, held by the threads of a GPU as one tile.
for dtype in ["f32", "f16", "bf16"]:
    t = T(dtype, "a", 4099)
    case(f"softmax odd rows {dtype}", [In("x", t)], f"%r = ts.softmax %x dim 1 : {t}", t, [dict(a=9)],
         lambda x: np_softmax(x, 1, False), {"f32": "relative 2e-6", "f16": "relative 1e-3", "bf16": "relative 8e-3"}[dtype])
case("softmax 3-d", [In("x", T("f32", "a", "b", 3))], f'%r = ts.softmax %x dim 1 : {T("f32", "a", "b", 3)}',
     T("f32", "a", "b", 3), ROW_SIZES, lambda x: np_softmax(x, 1, False), "relative 2e-6")


def np_attention(q, k, v, mask=None, scale=0.25, causal=None, softcap=0, empty="zero"):
    np = np_()
    q, k, v = (x.astype("f8") for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) * scale
    if softcap:
        s = softcap * np.tanh(s / softcap)
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype.kind == "b" else s + mask
    if causal:
        rows, keys = s.shape[-2:]
        s = np.where(np.tril(np.ones((rows, keys), bool), keys - rows if causal == "bottom" else 0), s, -np.inf)
    top = np.maximum(s.max(-1, keepdims=True, initial=-np.inf), -1e300)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    instead = {"zero": 0, "nan": np.nan, "mean": 1 / max(1, s.shape[-1])}[empty]
    return np.where(total > 0, p / np.where(total > 0, total, 1), instead) @ v


ATTENTION = [dict(b=1, s=1, t=1), dict(b=2, s=5, t=5), dict(b=1, s=33, t=70), dict(b=2, s=64, t=64), dict(b=1, s=1, t=130)]
for dtype in ["f32", "f16", "bf16", "f64"]:
    tolerance = {"f32": "relative 5e-6", "f16": "relative 2e-3", "bf16": "relative 2e-2", "f64": "relative 1e-10"}[dtype]
    for name, groups, mask, attributes, numpy in [
            ("", 4, None, "", np_attention),
            ("grouped", 2, None, "", np_attention),
            ("causal", 4, None, "{causal = true}", lambda q, k, v: np_attention(q, k, v, causal="bottom")),
            ("causal top left", 2, None, "{causal = true, causal_top_left = true}",
             lambda q, k, v: np_attention(q, k, v, causal="top")),
            ("softcap", 4, None, "{softcap = 2.0}", lambda q, k, v: np_attention(q, k, v, softcap=2)),
            ("mask", 4, (dtype, "b", 1, "s", "t"), "", lambda q, k, v, mask: np_attention(q, k, v, mask)),
            ("row mask", 4, (dtype, "b", 1, 1, "t"), "", lambda q, k, v, mask: np_attention(q, k, v, mask)),
            ("keep mask", 4, ("i1", "b", 4, "s", "t"), "", lambda q, k, v, mask: np_attention(q, k, v, mask))]:
        q, k, v = T(dtype, "b", 4, "s", 16), T(dtype, "b", groups, "t", 16), T(dtype, "b", groups, "t", 24)
        inputs = [In("q", q), In("k", k), In("v", v)]
        text = ""
        if mask:
            m = T(*mask)
            inputs.append(In("mask", m, "bool" if mask[0] == "i1" else "normal"))
            text = f"mask %mask : {m}"
        case(f"attention {name} {dtype}", inputs,
             f"%r = ts.attention %q, %k, %v {text} scale 0.25 {attributes} : {q}, {k}, {v}",
             T(dtype, "b", 4, "s", 24), ATTENTION, numpy, tolerance,
             dict(b=8, s=128, t=128) if dtype == "f32" and not name else None)
# Heads that are views, and of sizes that no pair, vector or panel divides.
for dtype in ["f32", "bf16"]:
    for depth, width in [(17, 19), (33, 50), (1, 1)]:
        x, y, z = T(dtype, "b", "s", 3, depth), T(dtype, "b", "t", 3, depth), T(dtype, "b", "t", 3, width)
        h = lambda rows, n, dtype=dtype: T(dtype, "b", 3, rows, n)
        case(f"attention odd {depth} {width} {dtype}", [In("q", x), In("k", y), In("v", z)],
             f"%0 = ts.transpose %q [0, 2, 1, 3] : {x}\n  %1 = ts.transpose %k [0, 2, 1, 3] : {y}\n"
             f"  %2 = ts.transpose %v [0, 2, 1, 3] : {z}\n"
             f"  %r = ts.attention %0, %1, %2 scale 0.25 : {h('s', depth)}, {h('t', depth)}, {h('t', width)}",
             h("s", width), ATTENTION + [dict(b=2, s=131, t=67), dict(b=1, s=3, t=0)],
             lambda q, k, v: np_attention(*(np_().moveaxis(a, 1, 2) for a in (q, k, v))),
             {"f32": "relative 5e-6", "bf16": "relative 2e-2"}[dtype])
for dtype in ["f32", "bf16", "f64"]:
    q, k = T(dtype, "b", 2, "s", 64), T(dtype, "b", 2, "t", 64)
    mask = T("i1", "b", 1, 1, "t")
    tolerance = {"f32": "relative 5e-6", "bf16": "relative 2e-2", "f64": "relative 1e-10"}[dtype]
    for empty in ["zero", "nan", "mean"]:
        attributes = "causal = true" + (f', ts.empty_row = "{empty}"' if empty != "zero" else "")
        case(f"attention unseen rows {empty} {dtype}", [In("q", q), In("k", k), In("v", k)],
             f"%r = ts.attention %q, %k, %v scale 0.125 {{{attributes}}} : {q}, {k}, {k}", q,
             [dict(b=1, s=9, t=4), dict(b=1, s=200, t=70), dict(b=2, s=3, t=0)],
             lambda q, k, v, empty=empty: np_attention(q, k, v, scale=0.125, causal="bottom", empty=empty), tolerance)
        # Left padding: the first rows of a batch see padding only.
        case(f"attention masked rows {empty} {dtype}", [In("q", q), In("k", k), In("v", k), In("mask", mask, "bool")],
             f"%r = ts.attention %q, %k, %v mask %mask : {mask} scale 0.125 {{{attributes}}} : {q}, {k}, {k}", q,
             [dict(b=8, s=5, t=5), dict(b=3, s=150, t=150), dict(b=8, s=1, t=1)],
             lambda q, k, v, mask, empty=empty: np_attention(q, k, v, mask, scale=0.125, causal="bottom", empty=empty),
             tolerance)


def np_rope(x, c, s, interleaved):
    np = np_()
    half = c.shape[-1]
    r = x.astype("f8").copy()
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(0, half), slice(half, 2 * half))
    c, s = c[:, None], s[:, None]
    r[..., first] = x[..., first] * c - x[..., second] * s
    r[..., second] = x[..., second] * c + x[..., first] * s
    return r


for dtype in ["f32", "f16", "bf16"]:
    for interleaved in [False, True]:
        for half, batch in [(8, "b"), (8, 1), (5, 1)]:
            x, c = T(dtype, "b", 3, "s", 16), T(dtype, batch, "s", half)
            attributes = "{interleaved = true}" if interleaved else ""
            case(f"rope {half} {batch} {attributes} {dtype}", [In("x", x), In("c", c, "unit"), In("s", c, "unit")],
                 f"%r = ts.rope %x, %c, %s {attributes} : {x}, {c}", x,
                 [dict(b=1, s=1), dict(b=2, s=7), dict(b=1, s=40)],
                 lambda x, c, s, i=interleaved: np_rope(x, c, s, i),
                 {"f32": "relative 1e-6", "f16": "relative 2e-3", "bf16": "relative 2e-2"}[dtype])

t = T("f32", "a", "b")
case("kernel", [In("x", t)],
     f"%r = ts.kernel reduce (%y = %x : {t}) -> ({T('f32', 'a')}) {{\n"
     f"    %0 = ts.exp %y : {t}\n    %1 = ts.reduce add %0 [1] : {t}\n    ts.yield %1 : {T('f32', 'a')}\n  }}",
     T("f32", "a"), PLANE, lambda x: np_().exp(wide(x)).sum(1), "relative 4e-6")

# ---- chains that fuse ----

t, p = T("f32", "a", "b"), T("f32", "b")
case("chain relu", [In("x", t)],
     f"%z = ts.constant dense<0.0> : tensor<f32>\n  %h = ts.constant dense<0.5> : tensor<f32>\n"
     f"  %o = ts.constant dense<1.0> : tensor<f32>\n"
     + "".join(f"  %{n}b = ts.broadcast %{n} [] : tensor<f32> to {t}\n" for n in "zho") +
     f"  %1 = ts.max %x, %zb : {t}\n  %2 = ts.mul %1, %hb : {t}\n  %r = ts.add %2, %ob : {t}", t, PLANE,
     lambda x: np_().maximum(x, 0) * np_().float32(0.5) + np_().float32(1), "ulp 1", dict(a=4096, b=4096))
case("chain mlp", [In("x", T("f32", "a", 24)), In("w", T("f32", 24, 40)), In("c", T("f32", 40))],
     f"%d = ts.dot %x, %w batch [] x [] contract [1] x [0] : {T('f32', 'a', 24)}, {T('f32', 24, 40)}\n"
     f"  %b = ts.broadcast %c [1] : {T('f32', 40)} to {T('f32', 'a', 40)}\n"
     f"  %s = ts.add %d, %b : {T('f32', 'a', 40)}\n  %r = ts.gelu %s : {T('f32', 'a', 40)}", T("f32", "a", 40),
     PLANE, None, "relative 3e-6")
case("chain residual norm", [In("x", t), In("y", t), In("scale", p), In("bias", p)],
     f"%s = ts.add %x, %y : {t}\n"
     f"  %r = ts.layer_norm %s scale %scale : {p} bias %bias : {p} dim 1 epsilon 1.0e-12 : {t}", t, ROW_SIZES[1:],
     lambda x, y, scale, bias: np_norm(x.astype("f8") + y, 1e-12, False, scale, bias), "relative 4e-6",
     dict(a=1024, b=768))
case("chain head split", [In("x", T("f32", "b", "s", 48))],
     f"%h = ts.reshape %x : {T('f32', 'b', 's', 48)} to {T('f32', 'b', 's', 4, 12)}\n"
     f"  %t = ts.transpose %h [0, 2, 1, 3] : {T('f32', 'b', 's', 4, 12)}\n  %r = ts.neg %t : {T('f32', 'b', 4, 's', 12)}",
     T("f32", "b", 4, "s", 12), [dict(b=1, s=1), dict(b=2, s=9), dict(b=0, s=3)],
     lambda x: -x.reshape(x.shape[0], x.shape[1], 4, 12).transpose(0, 2, 1, 3))

names = [c["name"] for c in CASES]
assert len(names) == len(set(names)), "two cases of one name: " + str(sorted({n for n in names if names.count(n) > 1}))


def apply_numpy(case, inputs, sizes):
    """NumPy's answer for the inputs (by name) of one case: a list of arrays, or None."""
    f = case["numpy"]
    if f is None:
        return None
    given = dict(sizes, **inputs)
    parameters = inspect.signature(f).parameters.values()
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        result = f(**inputs)
    else:
        named = [p.name for p in parameters if p.name in given and p.default is p.empty]
        optional = [p.name for p in parameters if p.name in inputs and p.default is not p.empty]
        result = f(**{n: given[n] for n in named + optional})
    return list(result) if isinstance(result, tuple) else [result]


def write(path):
    with open(path, "w") as out:
        json.dump([{k: v for k, v in c.items() if k != "numpy"} for c in CASES], out, indent=1)


if __name__ == "__main__":
    write(sys.argv[1])
    print(f"{len(CASES)} cases", file=sys.stderr)
