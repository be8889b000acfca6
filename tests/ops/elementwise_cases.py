"""Elementwise ops and conversions."""

from case_list import case, FLOATS, In, INTS, np_, NUMBERS, PLANE, SMALL_FLOATS, STORAGE, T


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
unary("softplus", FLOATS, lambda x: np_().logaddexp(0, x), NS, "ulp 4")
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
binary("pow", FLOATS, None, ("special",), tolerance="ulp 4")
binary("pow", INTS, np_power, ("ties", "normal"), right="ties")
binary("max", NUMBERS, lambda x, y: np_().maximum(x, y), NS)
binary("min", NUMBERS, lambda x, y: np_().minimum(x, y), NS)
# Beside a number: NaN stays, and which zero is the larger one is known.
for name in ["max", "min"]:
    for dtype in ["f32", "f64", "bf16"]:
        for number in ["0.0", "-0.0", "1.5"]:
            t = T(dtype, "a", "b")
            case(f"{name} with {number} {dtype}", [In("x", t, "special")],
                 f"%c = ts.constant dense<{number}> : {T(dtype)}\n  %n = ts.broadcast %c [] : {T(dtype)} to {t}\n"
                 f"  %r = ts.{name} %x, %n : {t}", t, PLANE,
                 None if dtype == "bf16" else
                 lambda x, name=name, number=number: getattr(np_(), name + "imum")(x, x.dtype.type(number)))
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

for source, narrower in [("f64", ["f32", "f16", "bf16"]), ("f32", ["f16", "bf16"])]:
    for target in narrower:
        s, t = T(source, "a", "b"), T(target, "a", "b")
        case(f"convert.midway {source} {target}", [In("x", s, "midway")], f"%r = ts.convert %x : {s} to {t}", t, PLANE[:5])

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
                       ("f4E2M1FN", "i4"), ("ui8", "f8E3M4"), ("f8E4M3", "ui8"), ("f8E4M3B11FNUZ", "i8"), ("ui4", "f4E2M1FN"), ("ui2", "i2")]:
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
