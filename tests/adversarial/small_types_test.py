"""Unsigned integers, floats and integers of eight bits and less, quantisation:
what the official node cases leave out (limits, odd counts, blocks, files)."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from against import given, i64, model, node, one, same
from onnx import TensorProto, helper, numpy_helper

import knapper

SMALL = {
    n: np.dtype(getattr(ml_dtypes, n))
    for n in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
              "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4", "int2", "uint2")
}  # fmt: skip
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]


def onnx_type(dtype) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def every_value(dtype) -> np.ndarray:
    """Each value of a small type once; 16 to 256 of them."""
    bits = next((b for b in (2, 4) if f"int{b}" in dtype.name or f"float{b}" in dtype.name), 8)
    codes = np.arange(1 << bits, dtype=np.uint8)
    if dtype.name in ("int4", "int2"):
        codes = (codes.astype(np.int8) << (8 - bits) >> (8 - bits)).view(np.uint8)
    return codes.view(dtype)


@pytest.mark.parametrize("name", SMALL)
def test_every_value_becomes_a_number(name):
    x = every_value(SMALL[name])
    for to in (np.float32, np.float16, ml_dtypes.bfloat16):
        made = one("Cast", {"x": x}, out=onnx_type(to), to=onnx_type(to), opset=25)
        (y,) = given(made, {"x": x})
        np.testing.assert_array_equal(y.astype(np.float32), x.astype(to).astype(np.float32))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("saturate", [0, 1])
def test_numbers_to_small_types(name, saturate):
    """Halves between neighbours, and what lies beyond the largest."""
    to = SMALL[name]
    if not saturate and ("int" in name or "e8m0" in name or "float4" in name):
        pytest.skip("always saturates, or is undefined")
    values = np.unique(every_value(to).astype(np.float32))
    values = values[np.isfinite(values)]
    between = (values[1:].astype(np.float64) + values[:-1]) / 2
    x = np.concatenate([values, between.astype(np.float32), np.nextafter(values, np.float32(0))])
    if "int" in name:
        x = values
    elif "e8m0" in name:
        x = x[x > 0]
    else:
        top = values.max()
        x = np.concatenate([x, np.float32([top * 1.04, top * 1.1, top * 4, -top * 4, 1e30,
                                           np.inf, -np.inf, np.nan, -0.0, 1e-30])])  # fmt: skip
    wanted = x
    if saturate and "int" not in name:
        wanted = np.clip(x, values.min(), top) if "e8m0" not in name else x
    if "e8m0" in name:
        wanted = 2.0 ** np.ceil(np.log2(x.astype(np.float64)))  # the default is up
    if "float4" in name:
        wanted = np.where(np.isnan(wanted), 0, wanted)
    more = {} if "int" in name else {"saturate": saturate}
    made = one("Cast", {"x": x}, out=onnx_type(to), to=onnx_type(to), opset=25, **more)
    (y,) = given(made, {"x": x})
    np.testing.assert_array_equal(y.astype(np.float32), wanted.astype(to).astype(np.float32))


@pytest.mark.parametrize("name", SMALL)
def test_weights_of_small_types(name):
    """Packed in the file, an odd number of them; small and large."""
    dtype = SMALL[name]
    values = every_value(dtype)
    for count in (1, 7, 12345):
        w = np.resize(values, count)
        tensor = numpy_helper.from_array(w, "w")
        graph = helper.make_graph(
            [node("Cast", ["w"], ["f"], to=TensorProto.FLOAT), node("Add", ["f", "x"], ["y"]),
             node("Identity", ["w"], ["z"])],
            "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [count])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
             helper.make_tensor_value_info("z", onnx_type(dtype), None)], [tensor],
        )  # fmt: skip
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
        x = np.zeros(count, np.float32)
        y, z = given(made, {"x": x})
        np.testing.assert_array_equal(y, w.astype(np.float32))
        np.testing.assert_array_equal(z.view(np.uint8), w.view(np.uint8))


def test_weights_in_typed_fields():
    tensor = helper.make_tensor("w", TensorProto.INT4, [3], [-8, 7, -1])
    graph = helper.make_graph(
        [node("Cast", ["w"], ["f"], to=TensorProto.FLOAT), node("Mul", ["f", "x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [tensor],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert not tensor.raw_data or len(tensor.raw_data) == 2
    (y,) = given(made, {"x": np.ones(3, np.float32)})
    np.testing.assert_array_equal(y, np.float32([-8, 7, -1]))


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_unsigned_limits(dtype):
    most = np.iinfo(dtype).max
    x = np.array([0, 1, 2, most, most - 1, most // 2, most // 2 + 1, 3] * 5, dtype)
    y = np.array([1, most, most // 2 + 1, most, 2, most // 2, 3, 7] * 5, dtype)
    arrays = {"x": x, "y": y}
    for op in ("Add", "Sub", "Mul", "Div", "Mod"):
        same(one(op, arrays), arrays)
    for op in ("Less", "GreaterOrEqual", "Equal"):
        same(one(op, arrays, out=TensorProto.BOOL, opset=19), arrays)
    for op, f in (("Max", np.maximum), ("Min", np.minimum)):
        same(one(op, arrays), arrays, wanted=[f(x, y)])
    (z,) = given(one("Pow", arrays), {"x": x, "y": y})
    mask = int(most)
    np.testing.assert_array_equal(z, np.array([pow(int(a), int(b), mask + 1) for a, b in zip(x, y)], dtype))
    rows = {"x": x.reshape(5, 8)}
    for op, f in (("ReduceMax", np.max), ("ReduceMin", np.min), ("ReduceSum", np.sum)):
        wanted = f(rows["x"], axis=1, keepdims=True).astype(dtype)
        same(one(op, rows, constants={"a": i64([1])}), rows, wanted=[wanted])
    made = one("TopK", rows, constants={"k": i64([3])}, outputs=2, out=[onnx_type(dtype), TensorProto.INT64])
    same(made, rows)
    same(one("ArgMax", rows, out=TensorProto.INT64, axis=1), rows)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_unsigned_to_and_from_floats(dtype):
    most = np.iinfo(dtype).max
    x = np.array([0, 1, most, most - 1, most // 2 + 1, most // 3, 12345 % (int(most) + 1)] * 3, dtype)
    for to in (np.float32, np.float64, np.int64, np.int8, np.uint32):
        made = one("Cast", {"x": x}, out=onnx_type(to), to=onnx_type(to))
        same(made, {"x": x}, wanted=[x.astype(to)], rtol=0, atol=0)
    numbers = np.float64([0, 0.9, 1.5, 200.7, float(most // 2 + 1), float(most) * 0.75])
    made = one("Cast", {"x": numbers}, out=onnx_type(dtype), to=onnx_type(dtype))
    same(made, {"x": numbers}, wanted=[np.array([int(v) for v in numbers], dtype)])
    # Beyond the limits: the nearest one. NaN is 0.
    beyond = np.float32([-1, -np.inf, np.inf, 2.0**70, np.nan])
    made = one("Cast", {"x": beyond}, out=onnx_type(dtype), to=onnx_type(dtype))
    same(made, {"x": beyond}, wanted=[np.array([0, 0, most, most, 0], dtype)])


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2", "int8", "uint16", "int16"])
def test_quantisation_in_blocks(name):
    """Blocks that do not divide the dim; with zero points; there and back."""
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    generator = np.random.default_rng(7)
    x = generator.standard_normal((3, 10, 2)).astype(np.float32)
    scale = generator.uniform(0.05, 0.5, (3, 4, 2)).astype(np.float32)
    zero = np.resize(np.int8([0, 1]), (3, 4, 2)).astype(dtype)
    constants = {"s": scale, "z": zero}
    made = one("QuantizeLinear", {"x": x}, constants=constants, out=onnx_type(dtype), axis=1, block_size=3)
    (q,) = given(made, {"x": x})
    wide, shift = (np.repeat(a.astype(np.float32), 3, 1)[:, :10] for a in (scale, zero))
    low, high = ml_dtypes.iinfo(dtype).min, ml_dtypes.iinfo(dtype).max
    wanted = np.clip(np.rint(x / wide) + shift, low, high)
    np.testing.assert_array_equal(q.astype(np.float32), wanted)
    made = one("DequantizeLinear", {"q": q}, constants=constants, out=TensorProto.FLOAT, axis=1, block_size=3)
    (y,) = given(made, {"q": q})
    np.testing.assert_allclose(y, (wanted - shift) * wide, rtol=1e-6)


@pytest.mark.parametrize("to", [np.uint8, np.int8])
def test_qlinear_conv(to):
    """A scale and zero point a filter, groups, a bias, strides."""
    generator = np.random.default_rng(9)
    x = generator.integers(0, 255, (2, 4, 9, 8)).astype(np.uint8)
    w = generator.integers(-128, 127, (6, 2, 3, 3)).astype(np.int8)
    constants = {
        "xs": np.float32(0.02), "xz": np.uint8(120), "w": w,
        "ws": generator.uniform(0.002, 0.02, 6).astype(np.float32),
        "wz": generator.integers(-5, 5, 6).astype(np.int8),
        "ys": np.float32(0.11), "yz": to(3),
        "b": generator.integers(-3000, 3000, 6).astype(np.int32),
    }  # fmt: skip
    made = one("QLinearConv", {"x": x}, constants=constants, out=onnx_type(to), group=2,
               strides=[2, 1], pads=[1, 0, 1, 2])  # fmt: skip
    centred = {"x": x.astype(np.float64) - 120,
               "w": w.astype(np.float64) - constants["wz"].reshape(-1, 1, 1, 1),
               "b": constants["b"].astype(np.float64)}  # fmt: skip
    plain = one("Conv", centred, group=2, strides=[2, 1], pads=[1, 0, 1, 2])
    sums = onnx.reference.ReferenceEvaluator(plain).run(None, centred)[0]
    steps = sums * (0.02 * constants["ws"] / 0.11).reshape(1, -1, 1, 1)
    wanted = np.clip(np.rint(steps) + 3, np.iinfo(to).min, np.iinfo(to).max)
    (y,) = given(made, {"x": x})
    # A step where the f32 scale moved a number over a half.
    assert y.dtype == to and np.abs(y.astype(np.float64) - wanted).max() <= 1
    assert (y == wanted).mean() > 0.99


def test_qlinear_matmul_rows_and_columns():
    generator = np.random.default_rng(11)
    a = generator.integers(0, 255, (5, 33)).astype(np.uint8)
    b = generator.integers(-128, 127, (33, 7)).astype(np.int8)
    constants = {
        "as": generator.uniform(0.01, 0.1, 5).astype(np.float32),
        "az": generator.integers(100, 140, 5).astype(np.uint8), "b": b,
        "bs": generator.uniform(0.01, 0.1, 7).astype(np.float32),
        "bz": generator.integers(-4, 4, 7).astype(np.int8),
        "ys": np.float32(0.5), "yz": np.uint8(128),
    }  # fmt: skip
    made = one("QLinearMatMul", {"a": a}, constants=constants, out=TensorProto.UINT8)
    sums = (a.astype(np.int64) - constants["az"][:, None]) @ (b.astype(np.int64) - constants["bz"])
    steps = sums * (constants["as"][:, None] * constants["bs"] / np.float32(0.5))
    (y,) = given(made, {"a": a})
    np.testing.assert_array_equal(y, np.clip(np.rint(steps) + 128, 0, 255).astype(np.uint8))


EXTREMES = [("uint8", "int8", 255, -128), ("uint8", "uint8", 255, 255), ("int8", "int8", -128, -128),
            ("int8", "uint8", -128, 255)]  # fmt: skip


@pytest.mark.parametrize("depth", [1, 255, 257, 513, 1025, 2100])
@pytest.mark.parametrize("left, right, most, other", EXTREMES)
def test_largest_integer_matmuls(left, right, most, other, depth):
    """Sums beyond 2^24, exactly, with and without zero points; odd numbers too."""
    generator = np.random.default_rng(depth)
    a = np.full((3, depth), most, left)
    a[1] = generator.integers(np.iinfo(left).min, np.iinfo(left).max, depth, endpoint=True)
    b = np.full((depth, 5), other, right)
    b[:, 1] = generator.integers(np.iinfo(right).min, np.iinfo(right).max, depth, endpoint=True)
    a, b = a.astype(left), b.astype(right)
    for za, zb in ((None, None), (np.iinfo(left).min, np.iinfo(right).max), (3, 0)):
        zeros = {} if za is None else {"za": np.dtype(left).type(za), "zb": np.dtype(right).type(zb)}
        wanted = (a.astype(np.int64) - (za or 0)) @ (b.astype(np.int64) - (zb or 0))
        made = one("MatMulInteger", {"a": a}, out=TensorProto.INT32, constants={"b": b, **zeros})
        same(made, {"a": a}, wanted=[wanted.astype(np.int32)])


@pytest.mark.parametrize("kind", ["MatMul", "Gemm", "batched"])
@pytest.mark.parametrize("left, right", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8")])
def test_matmuls_of_dequantised_bytes(left, right, kind):
    """Exact sums, whatever zero points and scales: one of the weights, or one a column."""
    generator = np.random.default_rng(7)
    k, n = 22, 19

    def some(dtype, *shape):
        return generator.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)

    for columns, zero in ((None, 0), (n, 0), (n, 1), (None, 1)):
        x = some(left, 3, 4, k) if kind == "batched" else some(left, 5, k)
        transposed = kind == "Gemm"
        w = some(right, n, k) if transposed else some(right, k, n)
        size = () if columns is None else (n,)
        constants = {
            "w": w, "xs": np.float32(0.037), "xz": np.array(some(left) if zero else 0, left),
            "ws": generator.uniform(0.01, 0.1, size).astype(np.float32),
            "wz": some(right, *size) if zero else np.zeros(size, right),
        }  # fmt: skip
        nodes = [
            node("DequantizeLinear", ["x", "xs", "xz"], ["xd"]),
            node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0 if transposed else 1),
            node("Gemm", ["xd", "wd"], ["y"], transB=1) if transposed else node("MatMul", ["xd", "wd"], ["y"]),
        ]
        made = model(nodes, {"x": (onnx_type(left), ["a", "b", k][3 - x.ndim:])},
                     {"y": (TensorProto.FLOAT, None)}, constants)  # fmt: skip
        bytes_, zeros = (w.T if transposed else w).astype(np.int64), np.asarray(constants["wz"], np.int64)
        sums = (x.astype(np.int64) - int(constants["xz"])) @ (bytes_ - zeros)
        wanted = sums * (float(constants["xs"]) * constants["ws"].astype(np.float64))
        (y,) = given(made, {"x": x})
        # Three roundings: of the sum, and one a scale.
        np.testing.assert_allclose(y, wanted, rtol=2e-7)


@pytest.mark.parametrize(
    "channels, filters, window, group",
    [(64, 5, [3, 3], 1), (600, 3, [1, 1], 1), (6, 6, [5, 5], 6), (40, 4, [17, 17], 1), (130, 4, [3, 3], 2)],
)
def test_largest_integer_convolutions(channels, filters, window, group):
    generator = np.random.default_rng(channels)
    x = generator.choice(np.uint8([0, 255, 254, 1]), (1, channels, window[0] + 3, window[1] + 2))
    w = generator.choice(np.int8([-128, 127, -127]), (filters, channels // group, *window))
    x[..., 0] = 255
    w[0] = -128
    made = one("ConvInteger", {"x": x}, out=TensorProto.INT32, constants={"w": w, "z": np.uint8(255)},
               group=group, pads=[1, 1, 0, 1])  # fmt: skip
    wide = {"x": x.astype(np.float64) - 255, "w": w.astype(np.float64)}
    plain = one("Conv", wide, group=group, pads=[1, 1, 0, 1])
    (wanted,) = onnx.reference.ReferenceEvaluator(plain).run(None, wide)
    same(made, {"x": x}, wanted=[wanted.astype(np.int32)])


def test_integer_matmuls_in_16_bits():
    """An f32 model made one of 16 bits keeps its integers."""
    generator = np.random.default_rng(2)
    a = generator.integers(0, 255, (5, 700)).astype(np.uint8)
    b = generator.integers(-128, 127, (700, 33)).astype(np.int8)
    constants = {"b": b, "za": np.uint8(130)}
    made = one("MatMulInteger", {"a": a}, out=TensorProto.INT32, constants=constants)
    wanted = (a.astype(np.int64) - 130) @ b.astype(np.int64)
    for dtype in ("bf16", "f16"):
        np.testing.assert_array_equal(given(made, {"a": a}, dtype=dtype)[0], wanted)
    x = generator.integers(0, 255, (1, 20, 7, 6)).astype(np.uint8)
    w = generator.integers(-128, 127, (3, 20, 3, 3)).astype(np.int8)
    made = one("ConvInteger", {"x": x}, out=TensorProto.INT32, constants={"w": w})
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), (3, 3), (2, 3))
    wanted = np.einsum("nchwij,fcij->nfhw", windows, w.astype(np.int64))
    np.testing.assert_array_equal(given(made, {"x": x}, dtype="bf16")[0], wanted)


def test_bits_of_nan_and_zeros():
    x = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.5])
    made = one("BitCast", {"x": x}, out=TensorProto.UINT32, to=TensorProto.UINT32, opset=26)
    same(made, {"x": x}, wanted=[x.view(np.uint32)])
    n = x.view(np.int32)
    made = one("BitCast", {"n": n}, out=TensorProto.FLOAT, to=TensorProto.FLOAT, opset=26)
    (y,) = given(made, {"n": n})
    np.testing.assert_array_equal(y.view(np.int32), n)


def test_small_types_move():
    """Everything that only moves elements takes them as they are."""
    x = np.resize(every_value(SMALL["float8_e5m2"]), (4, 6)).copy()
    to = onnx_type(x.dtype)
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[1, 0]), node("Concat", ["t", "t"], ["c"], axis=1),
        node("Reshape", ["c", "shape"], ["r"]), node("Gather", ["r", "i"], ["y"], axis=0),
    ]  # fmt: skip
    made = model(nodes, {"x": (to, [4, 6])}, {"y": (to, None)},
                 {"shape": i64([3, 16]), "i": i64([2, 0])}, opset=25)  # fmt: skip
    (y,) = given(made, {"x": x})
    moved = np.concatenate([x.T, x.T], 1).reshape(3, 16)[[2, 0]]
    np.testing.assert_array_equal(y.view(np.uint8), moved.view(np.uint8))


def test_infos_and_memory_of_the_caller():
    x = np.arange(8, dtype=np.uint16)
    module = knapper.compile(one("Identity", {"x": x}), threads=1)
    assert module.inputs[0].dtype == "u16"
    out = np.zeros(8, np.uint16)
    module.run({"x": x}, outputs={"y0": out})
    np.testing.assert_array_equal(out, x)
    with pytest.raises(knapper.UserError, match="u16"):
        module(x.astype(np.uint32))
