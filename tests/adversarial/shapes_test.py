"""Sizes at their ends: nothing, one, primes, long rows, many dims, sizes that meet."""

from __future__ import annotations

import numpy as np
import pytest
from against import FLOAT, INT64, given, i64, model, node, one, random, same

import knapper

SHAPES = [(), (0,), (3, 0, 4), (1,), (1, 1, 1, 1), (7919,), (2, 3, 1, 2, 1, 2, 3, 2)]
END = 2**63 - 1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the reference
@pytest.mark.parametrize("op", ["Exp", "Softmax", "ReduceSum", "LayerNormalization"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape(op, shape):
    x = random(*shape)
    if not shape and op != "Exp":
        pytest.skip("needs a dim")
    constants = {
        "ReduceSum": {"axes": i64([-1])},
        "LayerNormalization": {"scale": np.ones(shape[-1:], np.float32)},
    }.get(op)
    same(one(op, {"x": x}, constants=constants), {"x": x}, atol=1e-4)


@pytest.mark.parametrize("axis", [0, 1])
def test_one_element_is_a_row_and_a_column(axis):
    x = np.float32([[5]])
    same(one("Softmax", {"x": x}, axis=axis), {"x": x})
    norm = one("InstanceNormalization", {"x": x[None]},
               constants={"s": np.float32([2]), "b": np.float32([1])})  # fmt: skip
    same(norm, {"x": x[None]})


@pytest.mark.parametrize("shape", [(2, 100_003), (100_003, 2)], ids=str)
def test_long_rows_and_columns(shape):
    x, axis = random(*shape), int(shape[1] > 2)
    nodes = [
        node("Softmax", ["x"], ["p"], axis=axis),
        node("ReduceMean", ["x", "axes"], ["m"]),
    ]
    made = model(nodes, {"x": (FLOAT, shape)}, {"p": (FLOAT, None), "m": (FLOAT, None)},
                 {"axes": i64([axis])})  # fmt: skip
    e = np.exp(x.astype(np.float64))
    wanted = [e / e.sum(axis, keepdims=True), x.mean(axis, np.float64, keepdims=True)]
    same(made, {"x": x}, wanted=[w.astype(np.float32) for w in wanted])


@pytest.mark.parametrize("op", ["Sum", "Prod", "Max", "Min", "L2", "LogSumExp"])
def test_reduction_of_nothing(op):
    x = random(3, 0)
    for axis in (0, 1):
        same(one("Reduce" + op, {"x": x}, constants={"a": i64([axis])}), {"x": x})


@pytest.mark.parametrize("m, k, n", [
    (3, 0, 4), (0, 5, 4), (1, 1, 1), (17, 19, 23), (127, 131, 137), (1, 997, 3),
    (251, 1, 257), (5, 4099, 2),
])  # fmt: skip
def test_matmuls(m, k, n):
    a, b = random(m, k), random(k, n)
    same(one("MatMul", {"a": a, "b": b}), {"a": a, "b": b}, atol=1e-3)
    symbolic = {"a": ["m", "k"]}
    same(one("MatMul", {"a": a}, dims=symbolic, constants={"b": b}), {"a": a}, atol=1e-3)


@pytest.mark.parametrize("a, b", [
    ((3,), (3,)), ((2, 1, 3, 4), (5, 4, 6)), ((4,), (5, 4, 6)), ((5, 3, 4), (4,)),
    ((0, 3, 4), (1, 4, 2)),
], ids=str)  # fmt: skip
def test_matmuls_broadcast(a, b):
    arrays = {"a": random(*a), "b": random(*b)}
    same(one("MatMul", arrays), arrays, atol=1e-4)


def test_eight_dims():
    x, b = random(2, 1, 3, 1, 2, 1, 2, 2), random(1, 4, 1, 5, 1, 3, 1, 2)
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[7, 3, 5, 1, 0, 2, 6, 4]),
        node("ReduceSum", ["x", "axes"], ["r"], keepdims=0),
        node("Add", ["x", "b"], ["s"]),
    ]
    made = model(nodes, {"x": (FLOAT, x.shape), "b": (FLOAT, b.shape)},
                 {k: (FLOAT, None) for k in "trs"}, {"axes": i64([0, 2, -1])})  # fmt: skip
    same(made, {"x": x, "b": b})


@pytest.mark.parametrize("shape", [
    [0, -1], [-1, 0], [0, 0, -1], [-1], [2, 0, 2, -1], [1, -1, 1, 24], [0, 0, 0],
], ids=str)  # fmt: skip
def test_reshape(shape):
    x = random(2, 3, 4)
    for dims in ({}, {"x": ["a", "b", 4]}):
        same(one("Reshape", {"x": x}, dims=dims, constants={"s": i64(shape)}), {"x": x})


@pytest.mark.parametrize("shape, zero", [([-1, 3], 0), ([3, 0], 1), ([0, 5], 1)])
def test_reshape_of_nothing(shape, zero):
    x = random(0, 3)
    made = one("Reshape", {"x": x}, constants={"s": i64(shape)}, allowzero=zero)
    same(made, {"x": x}, wanted=[x.reshape([max(s, 0) for s in shape])])


@pytest.mark.parametrize("start, end, step", [
    (0, END, 7), (-1, -END - 1, -1), (-1, -END, -3), (5, -100, -1), (3, 3, 1),
    (100, 200, 1), (-100, 2, 1), (2, 1, 1), (9, 0, -(2**40)), (0, 10, END),
    (9, -END, -END), (9, -END - 1, -END - 1),
])  # fmt: skip
def test_slice(start, end, step):
    x = random(3, 10)
    constants = {"s": i64([start]), "e": i64([end]), "a": i64([1]), "d": i64([step])}
    for dims in ({}, {"x": ["a", "b"]}):
        made = one("Slice", {"x": x}, dims=dims, constants=constants)
        same(made, {"x": x}, wanted=[x[:, slice(start, end, step)]])


def test_concat_of_nothing():
    e, a = random(0, 3), random(2, 3)
    for arrays in ({"e": e, "a": a, "g": e}, {"e": e, "g": e}, {"a": a}):
        same(one("Concat", arrays, axis=0), arrays)
    arrays = {"e": e, "a": a}
    same(one("Concat", arrays, dims={"e": ["p", 3], "a": ["q", "w"]}, axis=0), arrays)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("read_by", ["Identity", "Transpose", "ReduceMax"])
def test_concat_of_many(axis, read_by):
    arrays = {f"x{i}": random(3, 3) for i in range(100)}
    nodes = [node("Concat", list(arrays), ["c"], axis=axis), node(read_by, ["c"], ["y"])]
    made = model(nodes, {k: (FLOAT, [3, 3]) for k in arrays}, {"y": (FLOAT, None)}, opset=17)
    same(made, arrays)


def test_split_into_nothing():
    x = random(5, 3)
    same(one("Split", {"x": x}, constants={"s": i64([0, 5, 0])}, outputs=3), {"x": x})
    same(one("Split", {"x": x}, num_outputs=3, outputs=3), {"x": x})


CONVOLUTIONS = {
    "1d": ((2, 3, 17), (5, 3, 4), dict(strides=[3], dilations=[2], pads=[3, 1])),
    "3d": ((1, 2, 5, 6, 7), (3, 2, 2, 3, 1), dict(strides=[1, 2, 3], pads=[1, 0, 2, 0, 1, 0])),
    "group": ((1, 6, 9, 7), (9, 2, 3, 2), dict(group=3, strides=[2, 1], pads=[0, 1, 2, 0])),
    "depthwise": ((2, 7, 11, 13), (7, 1, 5, 3),
                  dict(group=7, strides=[3, 2], dilations=[2, 3], pads=[4, 3, 0, 2])),
    "multiplied": ((1, 3, 8, 8), (6, 1, 3, 3), dict(group=3, pads=[1, 1, 1, 1])),
    "primes": ((1, 13, 19, 23), (17, 13, 7, 5), dict(strides=[5, 3], pads=[3, 2, 3, 2])),
    "points": ((1, 3, 7, 7), (5, 3, 1, 1), dict(strides=[3, 3])),
    "mostly_pad": ((1, 1, 2, 2), (1, 1, 2, 2), dict(pads=[5, 4, 3, 6])),
    "same": ((1, 2, 7, 8), (3, 2, 3, 4), dict(auto_pad="SAME_LOWER", strides=[2, 3])),
    "no_images": ((0, 2, 7, 8), (3, 2, 3, 4), {}),
    "far": ((1, 2, 31, 31), (3, 2, 3, 3), dict(dilations=[7, 9])),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    x, w, attributes = CONVOLUTIONS[name]
    x, w = random(*x), random(*w)
    bounds = {"rtol": 1e-3, "atol": 1e-3}
    same(one("Conv", {"x": x, "w": w}, **attributes), {"x": x, "w": w}, **bounds)
    same(one("Conv", {"x": x}, constants={"w": w}, **attributes), {"x": x}, **bounds)


def refusal(module, *arrays) -> str:
    with pytest.raises(knapper.UserError) as caught:
        module(*arrays)
    return str(caught.value)


def test_sizes_that_must_agree():
    made = model([node("Add", ["x", "w"], ["y"], name="plus")],
                 {"x": (FLOAT, ["a", 4]), "w": (FLOAT, ["b", 4])}, {"y": (FLOAT, None)})  # fmt: skip
    module = knapper.compile(made)
    for n in (3, 0, 1):
        assert module(random(n, 4), random(n, 4))[0].shape == (n, 4)
    text = refusal(module, random(3, 4), random(2, 4))
    assert "plus" in text and "b and a must be equal" in text


def test_products_of_sizes():
    """[batch, seq, 4] -> [batch*seq, 4] -> matmul -> [batch, seq, 6]."""
    nodes = [
        node("Reshape", ["x", "flat"], ["a"]),
        node("MatMul", ["a", "w"], ["b"]),
        node("Shape", ["x"], ["shape"], start=0, end=2),
        node("Concat", ["shape", "six"], ["s"], axis=0),
        node("Reshape", ["b", "s"], ["y"]),
    ]
    w = random(4, 6)
    made = model(nodes, {"x": (FLOAT, ["batch", "seq", 4])}, {"y": (FLOAT, None)},
                 {"flat": i64([-1, 4]), "w": w, "six": i64([6])})  # fmt: skip
    module = knapper.compile(made)
    assert module.outputs[0].shape == ("batch", "seq", 6)
    for batch, seq in [(2, 3), (1, 1), (0, 5), (5, 0), (7, 11)]:
        x = random(batch, seq, 4)
        np.testing.assert_allclose(module(x)[0], x @ w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dims, shape, right, wrong", [
    (["n"], [-1, 4], (8,), (7,)), (["n", 3], [2, 6], (4, 3), (5, 3)),
])  # fmt: skip
def test_reshape_that_fits_some_sizes(dims, shape, right, wrong):
    made = one("Reshape", {"x": random(*right)}, dims={"x": dims},
               constants={"s": i64(shape)})  # fmt: skip
    module = knapper.compile(made)
    assert module(random(*right))[0].shape == (2, shape[1])
    text = refusal(module, random(*wrong))
    assert "n: sizes" in text and "must be equal" in text


def largest(k, dims, **more):
    nodes = [*more.pop("nodes", []), node("TopK", ["x", "k"], ["y", "i"], name="best")]
    return model(nodes, {"x": (FLOAT, dims)}, {"y": (FLOAT, None), "i": (INT64, None)},
                 {"k" if k is not None else "nine": i64([9 if k is None else k]), **more})  # fmt: skip


def test_more_than_there_is():
    module = knapper.compile(largest(4, [3, "n"]))
    for n in (4, 9):
        x = random(3, n)
        np.testing.assert_array_equal(module(x)[0], -np.sort(-x, 1)[:, :4])
    assert "n" in refusal(module, random(3, 3))
    # As exporters write it: the least of nine and what there is.
    least = [node("Shape", ["x"], ["n"], start=1, end=2), node("Min", ["n", "nine"], ["k"])]
    module = knapper.compile(largest(None, [3, "n"], nodes=least))
    for n in (4, 9, 20):
        x = random(3, n)
        np.testing.assert_array_equal(module(x)[0], -np.sort(-x, 1)[:, :9])


@pytest.mark.parametrize("op", ["GatherElements", "ScatterElements"])
def test_indices_beside_the_data(op):
    arrays = {"x": random(3, 4), "i": np.zeros((5, 4), np.int64)}
    arrays |= {"u": random(5, 4)} if op[0] == "S" else {}
    dims = {"x": ["a", "b"], "i": ["c", "d"], "u": ["c", "d"]}
    module = knapper.compile(one(op, arrays, dims=dims))
    module(arrays)
    beyond = {k: v if k == "x" else np.zeros((5, 9), v.dtype) for k, v in arrays.items()}
    assert "min(b, d)" in refusal(module, beyond)
    with pytest.raises(knapper.UserError, match=op):
        knapper.compile(one(op, beyond))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_nothing_to_repeat(mode):
    made = one("Pad", {"x": random(3)}, dims={"x": ["n"]}, constants={"p": i64([2, 2])}, mode=mode)
    module = knapper.compile(made)
    x = random(3)
    np.testing.assert_array_equal(module(x)[0], np.pad(x, 2, mode))
    refusal(module, random(0))
    with pytest.raises(knapper.UserError):
        knapper.compile(one("Pad", {"x": random(0)}, constants={"p": i64([2, 2])}, mode=mode))


def test_sizes_beyond_memory():
    made = one("Expand", {"x": random(1, 1)}, dims={"x": ["n", 1]},
               constants={"s": i64([1, 2**33])})  # fmt: skip
    module = knapper.compile(made)
    with pytest.raises(knapper.DeviceError, match="out of memory"):
        module(random(1000, 1))
    with pytest.raises(knapper.UserError, match="it must be 0 to 2147483647"):
        module.peak_memory(n=2**62)
    assert given(made, {"x": random(0, 1)})[0].shape == (0, 2**33)


RANGES = {
    "whole": ((-(2**63), END, 1), "too long"),
    "down": ((END, -(2**63), -1), "too long"),
    "large": ((0, 2**62, 1), "too large"),
    "still": ((0, 10, 0), "delta 0"),
    "nan": ((0.0, float("nan"), 0.1), "no end"),
    "inf": ((0.0, float("inf"), 0.1), "no end"),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_that_are_refused(name):
    values, message = RANGES[name]
    kind, dtype = (INT64, np.int64) if isinstance(values[0], int) else (FLOAT, np.float32)
    made = model([node("Range", ["s", "l", "d"], ["q"], name="steps"),
                  node("Add", ["q", "x"], ["y"])], {"x": (kind, [])}, {"y": (kind, None)},
                 dict(zip("sld", (dtype(v) for v in values))))  # fmt: skip
    with pytest.raises(knapper.UserError, match=rf"'steps' \(Range\).*{message}"):
        knapper.compile(made)


def test_best_of_nothing():
    x = random(3, 1)
    module = knapper.compile(one("ArgMax", {"x": x}, dims={"x": [3, "n"]}, out=INT64, axis=1))
    refusal(module, x[:, :0])


@pytest.mark.parametrize("axes", [[0], [-2]], ids=str)
def test_a_symbolic_dim_that_is_squeezed_is_one(axes):
    made = model([node("Squeeze", ["x", "axes"], ["t"], name="drop"), node("Neg", ["t"], ["y"])],
                 {"x": (FLOAT, ["batch", 3])}, {"y": (FLOAT, None)}, {"axes": i64(axes)})  # fmt: skip
    module = knapper.compile(made)
    x = random(1, 3)
    np.testing.assert_array_equal(np.asarray(module.run({"x": x})[0]), -x[0])
    with pytest.raises(knapper.UserError, match="drop: sizes batch and 1 must be equal"):
        module.run({"x": random(2, 3)})


def test_squeeze_without_axes_keeps_what_is_not_one():
    made = model([node("Squeeze", ["x"], ["y"], name="drop")], {"x": (FLOAT, ["batch", 1, 3])}, {"y": (FLOAT, None)})
    module = knapper.compile(made)
    x = random(2, 1, 3)
    np.testing.assert_array_equal(np.asarray(module.run({"x": x})[0]), x[:, 0])
    with pytest.raises(knapper.UserError, match="drop: dim 0 of the input, batch, is 1, and Squeeze without axes"):
        module.run({"x": random(1, 1, 3)})
