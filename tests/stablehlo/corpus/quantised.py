"""Quantised numbers: programs quantise floats, compute, and give floats back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corpus.programs import Program, build, register, tame, tensor

SCHEMES = {
    "i8": "!quant.uniform<i8:f32, 0.5:3>", "i8 centred": "!quant.uniform<i8:f32, 0.25>", "u8": "!quant.uniform<u8:f32, 0.25:100>",
    "i4": "!quant.uniform<i4:f32, 0.5:-1>", "i16": "!quant.uniform<i16:f32, 0.125:7>", "i8 narrow": "!quant.uniform<i8<-127:127>:f32, 0.125>",
    "by slices": "!quant.uniform<i8:f32:1, {0.5:3, 0.25:-2, 1.0, 0.125:10}>",
}  # fmt: skip
# Of u8 jaxlib's passes keep no number above 127: by NumPy.
NUMPY = {
    "abs": np.abs, "negate": np.negative, "cosine": np.cos, "exponential": np.exp, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil,
    "sqrt": np.sqrt, "sign": np.sign, "log_plus_one": np.log1p, "logistic": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x),
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "divide": np.divide,
}  # fmt: skip


# Scale, zero point and what can be stored.
NUMBERS = {
    "i8": (0.5, 3, -128, 127), "i8 centred": (0.25, 0, -128, 127), "u8": (0.25, 100, 0, 255), "i4": (0.5, -1, -8, 7),
    "i16": (0.125, 7, -(2**15), 2**15 - 1), "i8 narrow": (0.125, 0, -127, 127),
}  # fmt: skip


def rounded(x: np.ndarray, kind: str = "u8") -> np.ndarray:
    """To a number of the scheme; NaN to what is stored as 0."""
    scale, zero, low, high = NUMBERS[kind]
    return ((np.nan_to_num(np.rint(np.clip(x / scale + zero, low, high))) - zero) * scale).astype(np.float32)


def expected(op: str, kind: str, *operands: np.ndarray) -> list[np.ndarray] | None:
    if kind != "u8":
        return None
    with np.errstate(all="ignore"):
        return [rounded(NUMPY[op](*(rounded(x).astype(np.float32) for x in operands)))]


UNARY = ("abs", "negate", "cosine", "exponential", "tanh", "floor", "ceil", "sqrt", "sign", "log_plus_one", "logistic", "rsqrt")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "divide")
SHAPE = (3, 4)


def of(shape: tuple[int, ...], scheme: str) -> str:
    return tensor(shape, scheme)


def quantise(name: str, argument: str, shape: tuple[int, ...], scheme: str) -> str:
    return f"{name} = stablehlo.uniform_quantize {argument} : ({tensor(shape, 'f32')}) -> {of(shape, scheme)}\n    "


def dequantise(name: str, argument: str, shape: tuple[int, ...], scheme: str) -> str:
    return f"{name} = stablehlo.uniform_dequantize {argument} : ({of(shape, scheme)}) -> {tensor(shape, 'f32')}"


def floats(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return tame("f32", shape, seed) * np.float32(3)


@register
def conversions() -> Iterator[Program]:
    many = np.concatenate([np.linspace(-140, 140, 116), [0.25, 0.75, -0.25, 1e9]]).astype(np.float32).reshape(30, 4)
    for kind, scheme in SCHEMES.items():
        body = quantise("%q", "%a0", many.shape, scheme) + dequantise("%r0", "%q", many.shape, scheme)
        yield build(
            f"uniform_quantize {kind}", "uniform_quantize", "f32", [(many, "f32")], body, [tensor(many.shape, "f32")],
            expected=[rounded(many)] if kind == "u8" else None,
        )  # fmt: skip
        if kind == "by slices":
            continue
        for other, to in SCHEMES.items():
            if other in (kind, "by slices"):
                continue
            body = (
                quantise("%q", "%a0", many.shape, scheme)
                + f"%p = stablehlo.uniform_quantize %q : ({of(many.shape, scheme)}) -> {of(many.shape, to)}\n    "
                + dequantise("%r0", "%p", many.shape, to)
            )
            yield build(
                f"uniform_quantize {kind} to {other}", "uniform_quantize", "f32", [(many, "f32")], body, [tensor(many.shape, "f32")],
                expected=[rounded(rounded(many, kind), other)] if "u8" in (kind, other) else None,
            )  # fmt: skip


@register
def elementwise() -> Iterator[Program]:
    x, y = floats(SHAPE), floats(SHAPE, 1)
    type = tensor(SHAPE, "f32")
    for kind in ("i8", "i8 centred", "u8", "i16"):
        scheme = SCHEMES[kind]
        for op in UNARY:
            body = quantise("%q", "%a0", SHAPE, scheme) + f"%s = stablehlo.{op} %q : {of(SHAPE, scheme)}\n    " + dequantise("%r0", "%s", SHAPE, scheme)
            yield build(f"{op} quantised {kind}", op, "f32", [(x, "f32")], body, [type], expected=expected(op, kind, x))
        for op in BINARY:
            given = y + np.float32(20) if op == "divide" else y
            body = (
                quantise("%q", "%a0", SHAPE, scheme) + quantise("%p", "%a1", SHAPE, scheme)
                + f"%s = stablehlo.{op} %q, %p : {of(SHAPE, scheme)}\n    " + dequantise("%r0", "%s", SHAPE, scheme)
            )  # fmt: skip
            yield build(f"{op} quantised {kind}", op, "f32", [(x, "f32"), (given, "f32")], body, [type], expected=expected(op, kind, x, given))


@register
def movement() -> Iterator[Program]:
    x = floats(SHAPE)
    for kind in ("i8", "u8", "i4", "i16"):
        scheme = SCHEMES[kind]
        for op, text, shape in (
            ("reshape", "", (4, 3)), ("transpose", ", dims = [1, 0]", (4, 3)), ("slice", " [0:2, 1:4:2]", (2, 2)),
            ("broadcast_in_dim", ", dims = [1, 2]", (2, 3, 4)),
        ):  # fmt: skip
            types = f"({of(SHAPE, scheme)}) -> {of(shape, scheme)}"
            body = quantise("%q", "%a0", SHAPE, scheme) + f"%s = stablehlo.{op} %q{text} : {types}\n    " + dequantise("%r0", "%s", shape, scheme)
            yield build(f"{op} quantised {kind}", op, "f32", [(x, "f32")], body, [tensor(shape, "f32")])


@register
def matmuls() -> Iterator[Program]:
    x, y = floats((3, 6)), floats((6, 4), 1)
    right = {"centred": "!quant.uniform<i8:f32, 0.25>", "coarse": "!quant.uniform<i8:f32, 0.75>", "by columns": "!quant.uniform<i8:f32:1, {0.5, 0.25, 1.0, 0.125}>"}
    for kind in ("i8", "i8 centred"):
        for name, scheme in right.items():
            for out in ("!quant.uniform<i32:f32, 0.0625>", "!quant.uniform<i8:f32, 2.0:-4>"):
                body = (
                    quantise("%q", "%a0", x.shape, SCHEMES[kind]) + quantise("%p", "%a1", y.shape, scheme)
                    + f"%s = stablehlo.dot_general %q, %p, contracting_dims = [1] x [0] : ({of(x.shape, SCHEMES[kind])}, {of(y.shape, scheme)}) -> {of((3, 4), out)}\n    "
                    + dequantise("%r0", "%s", (3, 4), out)
                )  # fmt: skip
                yield build(f"dot_general quantised {kind} {name} {out[15:18]}", "dot_general", "f32", [(x, "f32"), (y, "f32")], body, [tensor((3, 4), "f32")])
    # Floats by quantised weights.
    scheme = right["coarse"]
    body = quantise("%p", "%a1", y.shape, scheme) + (
        f"%r0 = stablehlo.dot_general %a0, %p, contracting_dims = [1] x [0] : ({tensor(x.shape, 'f32')}, {of(y.shape, scheme)}) -> {tensor((3, 4), 'f32')}"
    )
    yield build("dot_general floats by quantised", "dot_general", "f32", [(x, "f32"), (y, "f32")], body, [tensor((3, 4), "f32")], ulps=4)
    image, kernel, shape = floats((1, 5, 5, 2)), floats((3, 3, 2, 4), 1), (1, 5, 5, 4)
    for name, scheme in (*list(right.items())[:2], ("by features", "!quant.uniform<i8:f32:3, {0.5, 0.25, 1.0, 0.125}>")):
        out = "!quant.uniform<i8:f32, 4.0:2>"
        body = (
            quantise("%q", "%a0", image.shape, SCHEMES["i8"]) + quantise("%p", "%a1", kernel.shape, scheme)
            + f"%s = stablehlo.convolution(%q, %p) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{pad = [[1, 1], [1, 1]]}} "
            f"{{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({of(image.shape, SCHEMES['i8'])}, {of(kernel.shape, scheme)}) -> {of(shape, out)}\n    "
            + dequantise("%r0", "%s", shape, out)
        )  # fmt: skip
        yield build(f"convolution quantised {name}", "convolution", "f32", [(image, "f32"), (kernel, "f32")], body, [tensor(shape, "f32")])
