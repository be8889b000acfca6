"""Values at their ends: NaN, infinities, denormals, integers that wrap, indices
that lead outside, every dtype."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from against import BOOL, FLOAT, INT32, INT64, dtype_of, given, i64, model, node, one, random, same
from onnx import TensorProto

import knapper

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the reference
NAN, INF = math.nan, math.inf
TINY = np.float32(1e-42)
ODD = np.float32([
    [1, NAN, 3, 4], [INF, 1, 2, 3], [-INF, -INF, -INF, -INF], [INF, INF, 1, 2],
    [TINY, -TINY, 0, TINY * 3], [-INF, 1, 2, NAN], [3e38, 3, -3e38, 1], [-0.0, 0.0, -1, 1],
])  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", ["Max", "Min", "L2", "Softmax"])
def test_rows_with_odd_numbers(op, axis):
    if op == "Softmax":
        same(one("Softmax", {"x": ODD}, axis=axis), {"x": ODD})
    else:
        same(one("Reduce" + op, {"x": ODD}, constants={"a": i64([axis])}), {"x": ODD})


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_index_of_nan(op, axis, last):
    """NaN is the largest and the smallest, as in ReduceMax and ReduceMin."""
    x = np.concatenate([ODD, np.full((9, 4), NAN, np.float32)])
    long = np.full((2, 1000), 7, np.float32)
    long[1, [333, 777]] = NAN
    for array in (x, x[:, :1].copy(), long):
        made = one(op, {"x": array}, out=INT64, axis=axis, select_last_index=last)
        pick = np.argmax if op == "ArgMax" else np.argmin
        if last:
            wanted = array.shape[axis] - 1 - pick(np.flip(array, axis), axis)
        else:
            wanted = pick(array, axis)
        same(made, {"x": array}, wanted=[np.expand_dims(wanted, axis)])


@pytest.mark.parametrize("op", [
    "Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Erf", "Relu", "Sign", "Abs", "Floor", "Round",
    "Softplus", "Elu", "Mish", "HardSwish", "LeakyRelu", "Sin", "Cos", "Reciprocal", "Atan",
    "Asinh", "Atanh", "IsNaN", "IsInf",
])  # fmt: skip
def test_functions_of_odd_numbers(op):
    out = BOOL if op.startswith("Is") else FLOAT
    same(one(op, {"x": ODD}, out=out), {"x": ODD})


@pytest.mark.parametrize("op", ["Add", "Mul", "Div", "Pow", "Max", "Min", "Less", "Equal"])
def test_pairs_of_odd_numbers(op):
    arrays = {"x": ODD, "y": ODD[::-1].copy()}
    same(one(op, arrays, out=BOOL if op in ("Less", "Equal") else FLOAT), arrays)


@pytest.mark.parametrize("low, high", [(-1, 1), (2, -1)])
def test_clip(low, high):
    bounds = {"low": np.float32(low), "high": np.float32(high)}
    same(one("Clip", {"x": ODD}, constants=bounds), {"x": ODD})


def test_norms_of_odd_numbers():
    x = ODD[[1, 2, 4, 7]]
    same(one("LayerNormalization", {"x": x}, constants={"s": np.ones(4, np.float32)}), {"x": x})
    made = one("RMSNormalization", {"x": x}, constants={"s": np.ones(4, np.float32)}, opset=23)
    same(made, {"x": x})


def test_windows_of_odd_numbers():
    """A window that holds a NaN gives NaN, and padding is no number."""
    x = ODD.reshape(1, 2, 4, 4)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-INF)
    wanted = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), (2, 3))[:, :, ::2]
    made = one("MaxPool", {"x": x}, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 1, 1])
    same(made, {"x": x}, wanted=[wanted.max((-1, -2))])


def test_largest_of_odd_numbers():
    same(one("TopK", {"x": ODD}, constants={"k": i64([2])}, outputs=2, out=[FLOAT, INT64]),
         {"x": ODD})  # fmt: skip


def test_attention_that_sees_nothing():
    q = random(1, 2, 5, 8)
    mask = np.tril(np.ones((5, 5), bool))
    mask[[0, 3]] = False
    arrays = {"q": q, "k": q, "v": q, "mask": mask}
    (y,) = given(one("Attention", arrays, opset=23), arrays)
    scores = np.where(mask, q @ q.swapaxes(-1, -2) / math.sqrt(8), -INF)
    with np.errstate(invalid="ignore"):
        p = np.exp(scores - scores.max(-1, keepdims=True))
        wanted = p / p.sum(-1, keepdims=True) @ q
    sees = mask.any(-1)
    np.testing.assert_allclose(y[:, :, sees], wanted[:, :, sees], rtol=1e-4, atol=1e-5)
    blind = y[:, :, ~sees]
    assert np.isnan(blind).all() or (blind == 0).all()


LEAST = np.int32(-(2**31))
X = np.int32([LEAST, LEAST, 2**31 - 1, 7, -7, 7, -7, 0])
Y = np.int32([-1, 1, -1, 3, 3, -3, -3, 5])


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max", "Min", "Mod", "Neg", "Abs"])
def test_integers_wrap(op):
    arrays = {"x": X} if op in ("Neg", "Abs") else {"x": X, "y": Y}
    same(one(op, arrays), arrays)


def test_integers_that_cannot_be_divided():
    arrays = {"x": X, "y": Y}
    wanted = np.int32([LEAST, LEAST, 1 - 2**31, 2, -2, -2, 2, 0])
    same(one("Div", arrays), arrays, wanted=[wanted])
    for op in ("Div", "Mod"):  # no trap, whatever it gives
        assert given(one(op, arrays), {"x": X, "y": 0 * Y})[0].shape == X.shape


def test_shifts_beyond_the_width():
    arrays = {"x": np.uint8([200, 100, 3, 255]), "n": np.uint8([7, 8, 9, 255])}
    wanted = {"LEFT": [0, 0, 0, 0], "RIGHT": [1, 0, 0, 0]}
    for way, numbers in wanted.items():
        same(one("BitShift", arrays, direction=way), arrays, wanted=[np.uint8(numbers)])


TABLE = random(5, 4)
READS = {
    "Gather": lambda i: {"i": i64([i])},
    "GatherElements": lambda i: {"i": i64([[i] * 4])},
    "GatherND": lambda i: {"i": i64([[i]])},
    "ScatterND": lambda i: {"i": i64([[i]]), "u": random(1, 4)},
    "ScatterElements": lambda i: {"i": i64([[i]]), "u": random(1, 1)},
}


@pytest.mark.parametrize("op", READS)
def test_indices(op):
    arrays = {"x": TABLE, **READS[op](0)}
    made = one(op, arrays)
    module = knapper.compile(made)
    for index in (4, -1, -5):
        arrays = {"x": TABLE, **READS[op](index)}
        counted = {**arrays, "i": READS[op](index % 5)["i"]}
        np.testing.assert_array_equal(module(arrays)[0], module(counted)[0])
    for index in (5, -6, 2**62, -(2**63), 2**63 - 1):
        with pytest.raises(knapper.UserError, match="n: an index is out of range"):
            module({"x": TABLE, **READS[op](index)})
    np.testing.assert_array_equal(module(counted)[0], module(counted)[0])  # still runs


PAGED = """func.func @main(%q: tensor<2x2x16xf32>, %k: tensor<3x1x16x16xf32>, %v: tensor<3x1x16x16xf32>, %t: tensor<2x1xi32>, %s: tensor<2xi32>, %p: tensor<2xi32>) -> tensor<2x2x16xf32> {
  %r = ts.paged_attention %q, %k, %v table %t sequence %s position %p scale 0.25 {} : tensor<2x2x16xf32>, tensor<3x1x16x16xf32>, tensor<3x1x16x16xf32>, tensor<2x1xi32>, tensor<2xi32>, tensor<2xi32>
  return %r : tensor<2x2x16xf32>
}
"""


def test_blocks_and_sequences_of_paged_attention():
    """A block is one of the cache, a sequence one of the table."""
    module = knapper.compile(PAGED.encode(), model_format="mlir", cache=False)
    arrays = {"q": random(2, 2, 16), "k": random(3, 1, 16, 16), "v": random(3, 1, 16, 16)}

    def run(table, sequence):
        indices = (np.array(table, np.int32).reshape(2, 1), np.array(sequence, np.int32), np.array([0, 15], np.int32))
        return module(*arrays.values(), *indices)

    run([2, 0], [1, 0])
    for table, sequence in (([3, 0], [0, 1]), ([-1, 0], [0, 1]), ([2, 0], [0, 2]), ([2, 0], [-1, 0])):
        with pytest.raises(knapper.UserError, match="an index is out of range"):
            run(table, sequence)


FLOATS = {np.float16: 4e-3, ml_dtypes.bfloat16: 4e-2, np.float64: 1e-10}


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: np.dtype(t).name)
def test_floats(dtype):
    """Against float64, rounded once."""
    near = {"rtol": FLOATS[dtype], "atol": FLOATS[dtype] * 8}
    a, b = random(7, 13, dtype=dtype), random(13, 5, dtype=dtype)
    wide, other = a.astype(np.float64), b.astype(np.float64)
    same(one("MatMul", {"a": a, "b": b}), {"a": a, "b": b},
         wanted=[(wide @ other).astype(dtype)], **near)  # fmt: skip
    e = np.exp(wide)
    same(one("Softmax", {"a": a}), {"a": a},
         wanted=[(e / e.sum(-1, keepdims=True)).astype(dtype)], **near)  # fmt: skip
    same(one("ReduceSum", {"a": a}, constants={"i": i64([1])}), {"a": a},
         wanted=[wide.sum(1, keepdims=True).astype(dtype)], **near)  # fmt: skip
    arrays = {"a": a, "r": a[::-1].copy()}
    same(one("Less", arrays, out=BOOL), arrays, wanted=[a < a[::-1]])
    same(one("ArgMax", {"a": a}, out=INT64), {"a": a}, wanted=[wide.argmax(0)[None]])
    x, w = random(1, 3, 7, 9, dtype=dtype), random(4, 3, 3, 2, dtype=dtype)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 2), (2, 3))
    wanted = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64))
    arrays = {"x": x, "w": w}
    same(one("Conv", arrays), arrays, wanted=[wanted.astype(dtype)], **near)
    same(one("MaxPool", {"x": x}, kernel_shape=[3, 2]), {"x": x},
         wanted=[windows.max((-1, -2)).astype(dtype)])  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_integers(dtype):
    generator = np.random.default_rng(3)
    low = -100 if np.dtype(dtype).kind == "i" else 0
    x, y = (generator.integers(low, 120, (5, 37)).astype(dtype) for _ in "xy")
    axis = {"a": i64([1])}
    for op, wanted in [
        ("ReduceSum", x.sum(1, dtype=dtype, keepdims=True)),
        ("ReduceMax", x.max(1, keepdims=True)),
        ("ReduceProd", x.prod(1, dtype=dtype, keepdims=True)),
    ]:
        same(one(op, {"x": x}, constants=axis), {"x": x}, wanted=[wanted])
    arrays = {"x": x, "y": y}
    same(one("Less", arrays, out=BOOL), arrays)
    same(one("Where", {"c": x > y, **arrays}, out=dtype_of(x)), {"c": x > y, **arrays})
    same(one("ArgMin", {"x": x}, out=INT64, axis=0, select_last_index=1), {"x": x})
    arrays = {"x": x, "y": y.T.copy()}
    same(one("MatMul", arrays), arrays, wanted=[x @ y.T])


def test_bytes_multiply_into_words():
    generator = np.random.default_rng(4)
    a = generator.integers(0, 255, (5, 31)).astype(np.uint8)
    b = generator.integers(-128, 127, (31, 7)).astype(np.int8)
    zeros = {"za": np.uint8(7), "zb": np.int8(-3)}
    same(one("MatMulInteger", {"a": a, "b": b}, out=INT32, constants=zeros), {"a": a, "b": b})


def test_truth():
    x = np.random.default_rng(5).integers(0, 2, (5, 37)).astype(bool)
    for op in ("And", "Or", "Xor", "Equal"):
        same(one(op, {"x": x, "y": ~x}, out=BOOL), {"x": x, "y": ~x})
    made = one("ReduceMax", {"x": x}, constants={"a": i64([1])}, opset=20)
    same(made, {"x": x}, wanted=[x.max(1, keepdims=True)])
    (y,) = given(one("Cast", {"x": x}, out=TensorProto.FLOAT16, to=TensorProto.FLOAT16), {"x": x})
    np.testing.assert_array_equal(y, x.astype(np.float16))


@pytest.mark.parametrize("shape", [(1,), (1, 1)], ids=str)
@pytest.mark.parametrize("second", ["Erf", "Tanh", "Asinh"])
def test_a_single_float16_after_float64_arithmetic(second, shape):
    # Cosh is computed in float64, and the sign of the next one's result is its result's.
    x = np.full(shape, -0.3, np.float16)
    nodes = [node("Cosh", ["x"], ["c"]), node(second, ["c"], ["y"])]
    made = model(nodes, {"x": (TensorProto.FLOAT16, shape)}, {"y": (TensorProto.FLOAT16, None)}, opset=22)
    same(made, {"x": x}, rtol=2e-3)


@pytest.mark.parametrize("isa", ["x86-64-v3", None])
def test_several_sines_of_a_transposed_tensor(isa):
    x = random(32, 40)
    nodes = [node("Transpose", ["x"], ["t"], perm=[1, 0]), node("Sin", ["t"], ["s"]), node("Cos", ["t"], ["c"])]
    made = model(nodes, {"x": (FLOAT, [32, "n"])}, {"s": (FLOAT, None), "c": (FLOAT, None)})
    for got, wanted in zip(given(made, {"x": x}, isa=isa), (np.sin(x.T), np.cos(x.T))):
        np.testing.assert_allclose(got, wanted, atol=1e-6)


@pytest.mark.parametrize("isa", ["x86-64-v3", None])
def test_a_part_of_the_rows_is_spread_before_the_rest(isa):
    # Beside a reduction of [m, 8]: z has the 8 alone, and gets m before it gets the rows.
    x, y, w, z = random(4, 1, 5, 8), random(4, 1, 5, 8), random(1, 5, 8), random(1, 1, 8)
    nodes = [node("Mul", ["x", "y"], ["p"]), node("RMSNormalization", ["p", "w"], ["r"], axis=1),
             node("Add", ["w", "z"], ["t"]), node("Add", ["t", "y"], ["s"])]  # fmt: skip
    rows = (FLOAT, [4, 1, "m", 8])
    inputs = {"x": rows, "y": rows, "w": (FLOAT, [1, "m", 8]), "z": (FLOAT, [1, 1, 8])}
    made = model(nodes, inputs, {"r": (FLOAT, None), "s": (FLOAT, None)}, opset=23)
    norm, s = given(made, {"x": x, "y": y, "w": w, "z": z}, isa=isa)
    p = x * y
    np.testing.assert_allclose(norm, p / np.sqrt((p**2).mean((1, 2, 3), keepdims=True) + 1e-5) * w, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(s, w + z + y, rtol=1e-5, atol=1e-6)
