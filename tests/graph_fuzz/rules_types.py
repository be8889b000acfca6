"""Rules of small element types, of bits, and of quantised matmuls as exporters write them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from graph_builder import ELEMENT, NUMPY, ONE, Builder, Dim, Skip
from onnx import TensorProto
from rules_elementwise import tame
from rules_reduce import window

# Name: (element type, largest number that is surely held)
SMALL = {
    "f8e4m3fn": (TensorProto.FLOAT8E4M3FN, 400), "f8e4m3fnuz": (TensorProto.FLOAT8E4M3FNUZ, 200),
    "f8e5m2": (TensorProto.FLOAT8E5M2, 400), "f8e5m2fnuz": (TensorProto.FLOAT8E5M2FNUZ, 400),
    "f4e2m1": (TensorProto.FLOAT4E2M1, 6), "i4": (TensorProto.INT4, 7), "u4": (TensorProto.UINT4, 15),
    "i2": (TensorProto.INT2, 1), "u2": (TensorProto.UINT2, 3),
}  # fmt: skip
BYTES = ("i8", "u8")


def small_cast(b: Builder):
    """To a type of few bits and back."""
    x = b.floating(test=lambda v: v.dtype != "f64")
    if b.special:
        raise Skip  # where NaN goes is not said of all of them
    name = b.choice(SMALL)
    element, limit = SMALL[name]
    if name.startswith("u"):
        x = b.node("Abs", [x], x.dtype, x.dims, size=x.size)
    x = b.bounded(x, limit)
    more = {"saturate": b.integer(0, 1)} if name.startswith("f8") else {}
    y = b.unlisted("Cast", [x], to=int(element), **more)
    if b.maybe(0.4):  # what moves it moves its bits
        y = b.unlisted("Reshape", [y, b.ints64(-1)])
        total = ONE
        for d in x.dims:
            total = total * d
        dims = [total]
    else:
        dims = x.dims
    if any(0 in d.sizes for d in x.dims) and dims is not x.dims:
        raise Skip
    to = b.choice(["f32", "f16", "bf16"])
    b.node("Cast", [y], to, dims, size=limit, to=int(ELEMENT[to]))


def bits_of(b: Builder):
    x = b.choice([b.floating, b.whole])()
    to = {"f32": "i32", "f64": "i64", "f16": "u16", "bf16": "i16", "i8": "u8", "u8": "i8", "i16": "u16",
          "u16": "i16", "i32": "u32", "u32": "i32", "i64": "u64", "u64": "i64"}[x.dtype]  # fmt: skip
    if b.special:
        raise Skip  # the sign and the bits of a NaN
    b.node("BitCast", [x], to, x.dims, size=float(np.iinfo(NUMPY[to]).max), to=int(ELEMENT[to]))


def dequantize_blocks(b: Builder):
    """Weights of four or eight bits with a scale a block, and their matmul."""
    k, n = b.choice([8, 12, 32, 33, 64]), b.choice([1, 5, 16, 24])
    block = b.choice([4, 8, 16, 32])
    blocks = -(-k // block)
    name = b.choice(["int4", "uint4", "int8", "uint8", "float8_e4m3fn", "int2", "uint2"])
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    low, high = (-4, 5) if name == "float8_e4m3fn" else (
        int(ml_dtypes.iinfo(dtype).min), int(ml_dtypes.iinfo(dtype).max) + 1)  # fmt: skip
    w = b.array(b.arrays.integers(low, high, (k, n)).astype(dtype), name)
    scale_type = b.choice(["f32", "f32", "f16", "bf16"])
    inputs = [w, b.fresh(scale_type, [Dim.of(blocks), Dim.of(n)], low=0.01, high=0.2, constant=True, special=False)]
    if b.maybe(0.5) and name != "float8_e4m3fn":
        inputs.append(b.array(b.arrays.integers(low, high, (blocks, n)).astype(dtype), name))
    d = b.node("DequantizeLinear", inputs, scale_type, [Dim.of(k), Dim.of(n)], size=25, axis=0,
               block_size=block)  # fmt: skip
    x = b.fresh(scale_type, [b.dim(), Dim.of(k)], constant=False)
    b.node("MatMul", [x, d], scale_type, [x.dims[0], Dim.of(n)], size=4 * 25 * k**0.5)


def quantize_wide(b: Builder):
    """To 16 bits, to floats of eight, or in blocks; and back."""
    x = b.floating(least_rank=1, test=lambda v: v.dtype in ("f32", "f16"))
    if b.special:
        raise Skip
    kind = b.choice(["i16", "u16", "i4", "u4", "f8e4m3fn", "f8e5m2"])
    to = {"i16": np.int16, "u16": np.uint16, "i4": ml_dtypes.int4, "u4": ml_dtypes.uint4,
          "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}[kind]  # fmt: skip
    axis = b.integer(0, x.rank - 1)
    more, dims = {}, []
    if x.dims[axis].static and x.dims[axis].least > 0 and b.maybe(0.6):
        more["axis"] = axis
        dims = [x.dims[axis]]
        if b.maybe(0.5) and x.static and all(d.least > 0 for d in x.dims):
            more["block_size"] = block = b.choice([1, 2, 4, 5])
            dims = [*x.dims[:axis], Dim.of(-(-x.dims[axis].least // block)), *x.dims[axis + 1:]]
    scale = b.fresh(x.dtype, dims, low=0.05, high=0.4, constant=True, special=False)
    zero = np.zeros([d.least for d in dims], to)
    if not kind.startswith("f") and b.maybe(0.5):
        zero = b.arrays.integers(0, 5, [d.least for d in dims]).astype(to)
    inputs = [scale, b.array(np.asarray(zero, to), kind)]
    q = b.unlisted("QuantizeLinear", [b.bounded(x, 100), *inputs], **more)
    b.node("DequantizeLinear", [q, *inputs], x.dtype, x.dims, size=100, **more)


def rounded(b: Builder, x, scale: float, dtype: str):
    """x through integers of eight bits."""
    inputs = [b.number(scale, "f32"), b.number(b.integer(0, 9), dtype)]
    q = b.node("QuantizeLinear", [x, *inputs], dtype, x.dims, size=128)
    return b.node("DequantizeLinear", [q, *inputs], "f32", x.dims, size=256 * scale)


def weights(b: Builder, dims, axis: int):
    """Integers with a scale for all or a channel, as floats."""
    dtype = b.choice(BYTES)
    w = b.fresh(dtype, dims, low=-20 if dtype == "i8" else 0, high=40, constant=True)
    each = [dims[axis]] if b.maybe(0.6) else []
    inputs = [w, b.fresh("f32", each, low=0.01, high=0.1, constant=True, special=False)]
    if b.maybe(0.5):
        inputs.append(b.fresh(dtype, each, low=0, high=5, constant=True))
    return b.node("DequantizeLinear", inputs, "f32", dims, size=4, axis=axis)


def qdq_matmul(b: Builder):
    x = tame(b, b.floating(least_rank=2, test=lambda v: v.dtype == "f32" and v.dims[-1].static))
    if b.special:
        raise Skip
    n = Dim.of(b.choice([1, 3, 8, 16, 17]))
    x = rounded(b, x, b.choice([0.02, 0.1]), b.choice(BYTES))
    y = b.node("MatMul", [x, weights(b, [x.dims[-1], n], 1)], "f32", [*x.dims[:-1], n],
               size=100 * max(1, x.dims[-1].least) ** 0.5)  # fmt: skip
    if b.maybe(0.5):
        y = b.node("Add", [y, b.fresh("f32", [n], constant=True)], "f32", y.dims, size=y.size)
    if b.maybe(0.4):
        y = b.node("Relu", [y], "f32", y.dims, size=y.size)
    if b.maybe(0.5):
        rounded(b, y, 0.5, b.choice(BYTES))


def qdq_conv(b: Builder):
    if b.special:
        raise Skip
    c, out, k = b.choice([1, 3, 4, 16]), b.choice([1, 4, 8, 17]), b.choice([1, 3])
    group = c if b.maybe(0.3) else 1
    out = group * b.choice([1, 2]) if group > 1 else out
    space = [Dim.of(b.integer(3, 9)), b.choice([Dim.of(b.integer(3, 9)), *[s for s in b.symbols if s.least >= 3]])]
    x = b.fresh("f32", [b.choice([ONE, Dim.of(2), *b.symbols]), Dim.of(c), *space], constant=False)
    x = rounded(b, x, 0.05, b.choice(BYTES))
    pad, stride = b.choice([0, 1]), b.choice([1, 2])
    w = weights(b, [Dim.of(out), Dim.of(c // group), Dim.of(k), Dim.of(k)], 0)
    dims = [x.dims[0], Dim.of(out), *(window(d, k, stride, 2 * pad, 1) for d in space)]
    y = b.node("Conv", [x, w], "f32", dims, size=200, pads=[pad] * 4, strides=[stride] * 2, group=group)
    if b.maybe(0.5):
        rounded(b, b.node("Relu", [y], "f32", y.dims, size=200), 0.5, b.choice(BYTES))


def qlinear_conv(b: Builder):
    dtype, kind = b.choice(BYTES), b.choice(BYTES)
    c, each, k = b.choice([1, 2, 4, 8]), b.choice([1, 3, 4]), b.choice([1, 2, 3])
    group = b.choice([1, c])
    out = Dim.of(group * each)
    space = [Dim.of(b.integer(3, 9)), b.choice([Dim.of(b.integer(3, 9)), *[s for s in b.symbols if s.least >= 3]])]
    x = b.fresh(dtype, [b.choice([ONE, Dim.of(2), *b.symbols]), Dim.of(c), *space], constant=False)
    w = b.fresh(kind, [out, Dim.of(c // group), Dim.of(k), Dim.of(k)], constant=True)

    def scale(dims=()):
        return b.fresh("f32", dims, low=0.1, high=0.3, constant=True, special=False)

    pad, stride, dilation = b.choice([0, 1]), b.choice([1, 2]), b.choice([1, 1, 2])
    by = [out] if b.maybe(0.5) else []
    inputs = [x, scale(), b.fresh(dtype, [], low=0, high=9, constant=True), w, scale(by),
              b.fresh(kind, by, low=0, high=5, constant=True), scale(), b.fresh(dtype, [], low=0, high=9, constant=True)]  # fmt: skip
    if b.maybe(0.5):
        inputs.append(b.fresh("i32", [out], low=-500, high=500, constant=True))
    dims = [x.dims[0], out, *(window(d, k, stride, 2 * pad, dilation) for d in space)]
    b.node("QLinearConv", inputs, dtype, dims, size=128, pads=[pad] * 4, strides=[stride] * 2,
           dilations=[dilation] * 2, group=group)  # fmt: skip


RULES = [
    (small_cast, 2), (bits_of, 1), (dequantize_blocks, 1), (quantize_wide, 1), (qdq_matmul, 2), (qdq_conv, 1),
    (qlinear_conv, 1),
]  # fmt: skip
