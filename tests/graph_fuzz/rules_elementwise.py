"""Rules of elementwise operators."""

from __future__ import annotations

from graph_builder import ELEMENT, FLOATS, INTS, Builder, Skip, Value, broadcast

LIMIT = {"f16": 200.0, "bf16": 1e4, "f32": 1e4, "f64": 1e4}


def tame(b: Builder, v: Value) -> Value:
    return b.bounded(v, LIMIT[v.dtype]) if v.is_float and not b.special else v


# Name: (bound of the operand or None, size of the result from that of the operand)
UNARY = {
    "Abs": (None, lambda s: s), "Neg": (None, lambda s: s), "Ceil": (None, lambda s: s + 1),
    "Floor": (None, lambda s: s + 1), "Round": (None, lambda s: s + 1), "Sign": (None, lambda s: 1),
    "Exp": (4, lambda s: 60), "Sin": (None, lambda s: 1), "Cos": (None, lambda s: 1),
    "Tan": (1, lambda s: 2), "Asin": (0.9, lambda s: 2), "Acos": (0.9, lambda s: 3),
    "Atanh": (0.9, lambda s: 2), "Asinh": (None, lambda s: 10), "Atan": (None, lambda s: 2),
    "Sinh": (4, lambda s: 30), "Cosh": (4, lambda s: 30), "Tanh": (None, lambda s: 1),
    "Erf": (None, lambda s: 1), "Sigmoid": (None, lambda s: 1), "Relu": (None, lambda s: s),
    "LeakyRelu": (None, lambda s: s), "Elu": (None, lambda s: s), "Celu": (None, lambda s: s),
    "Selu": (None, lambda s: 2 * s), "Gelu": (None, lambda s: s), "HardSigmoid": (None, lambda s: 1),
    "HardSwish": (None, lambda s: s), "Mish": (None, lambda s: s), "Softplus": (None, lambda s: s + 1),
    "Softsign": (None, lambda s: 1), "ThresholdedRelu": (None, lambda s: s), "Swish": (None, lambda s: s),
    "Shrink": (None, lambda s: s), "Identity": (None, lambda s: s),
}  # fmt: skip
ATTRIBUTES = {
    "LeakyRelu": lambda b: {"alpha": b.choice([0.01, 0.2, 1.5, -0.5])},
    "Elu": lambda b: {"alpha": b.choice([1.0, 0.5, 2.0])},
    "Celu": lambda b: {"alpha": b.choice([1.0, 0.5, 2.0])},
    "Gelu": lambda b: {"approximate": b.choice(["none", "tanh"])},
    "HardSigmoid": lambda b: {"alpha": 0.3, "beta": b.choice([0.5, 0.1])},
    "ThresholdedRelu": lambda b: {"alpha": b.choice([0.0, 0.7])},
    "Swish": lambda b: {"alpha": b.choice([1.0, 0.5])},
    "Shrink": lambda b: {"lambd": 0.5, "bias": b.choice([0.0, 0.25])},
}
ONLY_F32 = {"Celu"}


def unary(b: Builder):
    op = b.choice(UNARY)
    x = b.floating(test=(lambda v: v.dtype == "f32") if op in ONLY_F32 else None)
    if op == "Gelu" and b.special:
        raise Skip  # far below zero its form has an absolute bound
    bound, size = UNARY[op]
    if bound is not None and not b.special:
        x = b.bounded(x, bound)
        if bound < 1 and x.size > bound:
            x = b.node("Mul", [x, b.number(bound / max(x.size, 1), x.dtype)], x.dtype, x.dims, size=bound)
    b.node(op, [x], x.dtype, x.dims, size=size(x.size), **ATTRIBUTES.get(op, lambda b: {})(b))


def positive(b: Builder):
    """Operators that are defined above zero."""
    op = b.choice(["Sqrt", "Log", "Reciprocal", "Acosh"])
    x = b.floating()
    if not b.special:
        x = b.node("Abs", [x], x.dtype, x.dims, size=x.size)
        x = b.node("Add", [x, b.number(1.125 if op == "Acosh" else 0.25, x.dtype)], x.dtype, x.dims,
                   size=x.size + 1)  # fmt: skip
    b.node(op, [x], x.dtype, x.dims, size={"Reciprocal": 4.0}.get(op, max(2, x.size**0.5)))


def binary(b: Builder):
    op = b.random.choices(["Add", "Sub", "Mul", "Div"], [5, 3, 5, 2])[0]
    x = tame(b, b.floating())
    y = tame(b, b.partner(x))
    if op == "Div" and not b.special:
        y = b.node("Abs", [y], y.dtype, y.dims, size=y.size)
        y = b.node("Add", [y, b.number(0.5, y.dtype)], y.dtype, y.dims, size=y.size + 1)
    if b.maybe(0.5) and op != "Div":
        x, y = y, x
    size = {"Mul": x.size * y.size, "Div": 2 * x.size}.get(op, x.size + y.size)
    b.node(op, [x, y], x.dtype, broadcast(x.dims, y.dims), size=size)


def power(b: Builder):
    x = b.floating()
    if b.maybe(0.5):
        x = b.bounded(x, 5)
        y = b.number(b.choice([2, 3, 1, 0, 2]), x.dtype)
    else:
        if not b.special:
            x = b.node("Abs", [b.bounded(x, 5)], x.dtype, x.dims, size=5)
            x = b.node("Add", [x, b.number(0.25, x.dtype)], x.dtype, x.dims, size=6)
        y = b.partner(x, low=-2, high=2)
    b.node("Pow", [x, y], x.dtype, broadcast(x.dims, y.dims), size=200)


def whole_binary(b: Builder):
    op = b.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod"])
    x = b.whole()
    if op == "Mul":
        x = b.bounded(x, 100)
    y = b.partner(x)
    if op in ("Div", "Mod"):
        y = b.partner(x, low=1, high=10)
    size = {"Mul": x.size * y.size, "Div": x.size, "Mod": 10}.get(op, x.size + y.size)
    b.node(op, [x, y], x.dtype, broadcast(x.dims, y.dims), size=size)


def whole_unary(b: Builder):
    op = b.choice(["Abs", "Neg", "Sign", "BitwiseNot", "Identity", "Relu"])
    signed = ("i8", "i16", "i32", "i64")
    x = b.whole(dtypes=signed if op in ("Neg", "Relu") else INTS)
    if op == "Relu" and x.dtype not in signed:
        raise Skip
    b.node(op, [x], x.dtype, x.dims, size=x.size + 1)


def bits(b: Builder):
    op = b.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"])
    if op == "BitShift":
        x = b.whole(dtypes=("u8", "u16", "u32", "u64"))
        y = b.partner(x, low=0, high=8)
        dims = broadcast(x.dims, y.dims)
        b.node(op, [x, y], x.dtype, dims, size=x.size * 255, direction=b.choice(["LEFT", "RIGHT"]))
        return
    x = b.whole()
    y = b.partner(x)
    b.node(op, [x, y], x.dtype, broadcast(x.dims, y.dims), size=2 * max(x.size, y.size))


def remainder(b: Builder):
    """Mod of floats; a divisor that is not 0."""
    x = b.floating()
    y = b.partner(x, low=0.5, high=3)
    b.node("Mod", [x, y], x.dtype, broadcast(x.dims, y.dims), size=3, fmod=1)


def compare(b: Builder):
    op = b.choice(["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
    x = b.floating() if b.maybe(0.6) else b.whole()
    y = b.partner(x)
    b.node(op, [x, y], "bool", broadcast(x.dims, y.dims))


def logic(b: Builder):
    op = b.choice(["And", "Or", "Xor", "Not", "IsNaN", "IsInf"])
    if op in ("IsNaN", "IsInf"):
        x = b.floating()
        more = {"detect_negative": b.integer(0, 1)} if op == "IsInf" else {}
        b.node(op, [x], "bool", x.dims, **more)
        return
    x = b.truth()
    if op == "Not":
        b.node(op, [x], "bool", x.dims)
        return
    y = b.partner(x)
    b.node(op, [x, y], "bool", broadcast(x.dims, y.dims))


def where(b: Builder):
    x = b.floating() if b.maybe(0.7) else b.whole()
    y = b.partner(x)
    both = Value("", "bool", broadcast(x.dims, y.dims))
    c = b.partner(both, "bool")
    b.node("Where", [c, x, y], x.dtype, broadcast(both.dims, c.dims), size=max(x.size, y.size))


def clip(b: Builder):
    x = b.floating() if b.maybe(0.7) else b.whole()
    low = 1 if x.dtype.startswith("u") else b.choice([-1, -2, 0])
    high = b.choice([1, 2, 6])
    bounds = [
        "" if b.maybe(0.2) else b.number(low, x.dtype),
        "" if b.maybe(0.2) else b.number(high, x.dtype),
    ]
    b.node("Clip", [x, *bounds], x.dtype, x.dims, size=min(6, x.size) if bounds[1] else x.size)


def variadic(b: Builder):
    op = b.choice(["Max", "Min", "Sum", "Mean"])
    x = tame(b, b.floating())
    operands, dims = [x], x.dims
    for _ in range(b.integer(0, 3)):
        y = tame(b, b.partner(Value("", x.dtype, dims)))
        operands.append(y)
        dims = broadcast(dims, y.dims)
    size = sum(v.size for v in operands)
    b.node(op, operands, x.dtype, dims, size=size)


def cast(b: Builder):
    """Between types; a float goes to an integer type only within its range."""
    x = b.choice([b.floating, b.floating, b.whole, b.truth])()
    to = b.choice([*FLOATS, *FLOATS, *INTS, "bool"])
    if x.is_float and to in INTS:
        if b.special:
            raise Skip
        if to.startswith("u"):
            x = b.node("Abs", [x], x.dtype, x.dims, size=x.size)
        x = b.bounded(x, 100)
    elif x.dtype in INTS and to in INTS:
        pass  # wraps
    elif x.is_float:
        x = tame(b, x)
    elif to in FLOATS and x.dtype in INTS and not b.special:
        x = b.bounded(x, LIMIT[to])
    if b.maybe(0.2):
        like = b.find(lambda v: v.dtype == to, 1)
        if like is not None:
            b.node("CastLike", [x, like], to, x.dims, size=x.size)
            return
    b.node("Cast", [x], to, x.dims, size=x.size, to=int(ELEMENT[to]))


def prelu(b: Builder):
    x = b.floating()
    dims = x.dims[b.integer(0, x.rank):] if x.rank else ()
    slope = b.fresh(x.dtype, dims)
    b.node("PRelu", [x, slope], x.dtype, x.dims, size=2 * x.size)


def chain(b: Builder):
    """Several unary and binary operators on one value, with a branch that joins again."""
    x = tame(b, b.floating())
    y = x
    for _ in range(b.integer(2, 5)):
        if b.maybe(0.6):
            op = b.choice(["Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Erf", "Sin", "Floor", "Softplus"])
            y = b.node(op, [y], y.dtype, y.dims, size=max(1, y.size))
        else:
            z = x if b.maybe(0.5) and broadcast(x.dims, y.dims) else b.partner(y)
            y = tame(b, b.node(b.choice(["Add", "Mul", "Sub", "Max"]), [y, z], y.dtype,
                               broadcast(y.dims, z.dims), size=y.size * max(1, z.size)))  # fmt: skip


def swiglu(b: Builder):
    gate = b.floating(least_rank=1)
    other = b.fresh(gate.dtype, gate.dims)
    b.node("Mul", [b.node("Mul", [gate, b.node("Sigmoid", [gate], gate.dtype, gate.dims, size=1)],
                          gate.dtype, gate.dims, size=gate.size), other],
           gate.dtype, gate.dims, size=gate.size * other.size)  # fmt: skip


RULES = [
    (unary, 10), (positive, 3), (binary, 10), (power, 2), (whole_binary, 3), (whole_unary, 1), (bits, 1),
    (remainder, 1), (compare, 2), (logic, 2), (where, 3), (clip, 2), (variadic, 2), (cast, 4),
    (prelu, 1), (chain, 4), (swiglu, 1),
]  # fmt: skip
