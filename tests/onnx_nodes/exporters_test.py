"""What exporters and quantisers write: resizing to sizes of the input, LSTMs of bytes, wrong declarations."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from node_models import check, exact_bytes, model, node
from onnx import TensorProto

import knapper

RNG = np.random.default_rng(4)


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


FEEDS = [{"x": random(1, 2, h, w)} for h, w in ((5, 7), (1, 4), (8, 8))]
NEAREST = [("nearest", {"nearest_mode": m}) for m in
           ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")]  # fmt: skip
MODES = [*NEAREST, ("linear", {}), ("cubic", {"cubic_coeff_a": -0.5}), ("cubic", {"exclude_outside": 1})]
COORDINATES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode, more", MODES, ids=lambda m: m if isinstance(m, str) else "-".join(map(str, m.values())))
def test_dims_of_any_size_are_resized(mode, more, coordinates):
    """By scales that are no whole factors, and to sizes, as to those that are known when importing."""
    scales = [0.5, 1.5] if coordinates == "align_corners" else [0.6, 1.75]  # of no element at 0 / 0
    made = model([node("Resize", ["x", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=coordinates, axes=[2, 3],
                       **more)], {"x": [1, 2, "h", "w"]}, initializers={"s": np.float32(scales)})  # fmt: skip
    module = knapper.compile(made)
    to = model([node("Resize", ["x", "", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=coordinates,
                     axes=[2, 3], **more)], {"x": [1, 2, "h", "w"]}, initializers={"s": np.int64([6, 3])})  # fmt: skip
    other = knapper.compile(to)
    for feed in FEEDS:
        fixed = onnx.ModelProto()
        for each, ours in ((made, module), (to, other)):
            fixed.CopyFrom(each)
            for dim, size in zip(fixed.graph.input[0].type.tensor_type.shape.dim, feed["x"].shape):
                dim.dim_value = size
            want = knapper.compile(fixed)(**feed)[0]
            got = ours(**feed)[0]
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)


def test_to_the_size_of_another_map():
    """A pyramid: each level as large as the one below it, whatever that is."""
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Shape", ["x"], ["whole"]), node("Shape", ["p"], ["part"], end=2),
        node("Slice", ["whole", "two", "four"], ["hw"]), node("Concat", ["part", "hw"], ["s"], axis=0),
        node("Resize", ["p", "", "", "s"], ["u"], mode="nearest", coordinate_transformation_mode="asymmetric",
             nearest_mode="floor"),
        node("Add", ["u", "x"], ["y"]),
    ]  # fmt: skip
    made = model(nodes, {"x": ["n", 2, "h", "w"]}, initializers={"two": np.int64([2]), "four": np.int64([4])})
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    check(made, FEEDS, reference=lambda feed: session.run(None, feed))


def quantised_lstm(ways, columns, **more):
    hidden, inner = 5, 6
    constants = {"b": random(ways, 8 * hidden), "h0": random(ways, 2, hidden), "c0": random(ways, 2, hidden)}
    for name, depth in (("w", inner), ("r", hidden)):
        shape = (ways, 4 * hidden) if columns else (ways,)
        constants[name] = RNG.integers(-127, 128, (ways, depth, 4 * hidden), np.int8)
        constants[f"{name}s"] = RNG.uniform(0.002, 0.02, shape).astype(np.float32)
        constants[f"{name}z"] = np.zeros(shape, np.int8)
    nodes = [node("DynamicQuantizeLSTM", ["x", "w", "r", "b", "lengths", "h0", "c0", "", "ws", "wz", "rs", "rz"],
                  ["y", "h", "c"], domain="com.microsoft", hidden_size=hidden, **more)]  # fmt: skip
    return model(nodes, {"x": ["t", 2, inner], "lengths": (TensorProto.INT32, [2])}, ("y", "h", "c"), constants,
                 domains=[("com.microsoft", 1)])  # fmt: skip


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lstm_of_bytes(direction, columns):
    made = quantised_lstm(2 if direction == "bidirectional" else 1, columns, direction=direction)
    options = exact_bytes(onnxruntime.SessionOptions())
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = [{"x": random(t, 2, 6), "lengths": np.int32([t, max(1, t - 2)])} for t in (1, 4, 9)]
    # A step of the state's 255 where the two round apart.
    check(made, feeds, 2e-2, lambda feed: session.run(None, feed))


def test_lstm_of_bytes_without_scales():
    made = quantised_lstm(1, False)
    del made.graph.node[0].input[8:]
    with pytest.raises(knapper.UserError, match="no scale and zero point"):
        knapper.compile(made)


def test_an_output_may_be_declared_with_another_rank():
    made = model([node("Relu", ["x"], ["y"])], {"x": ["n", 3]})
    dims = made.graph.output[0].type.tensor_type.shape.dim
    dims.add().dim_value = 3
    check(made, [{"x": random(2, 3)}], reference=lambda feed: [np.maximum(feed["x"], 0)])


def test_numbers_as_a_mask():
    """Integers are added to the scores as floats are."""
    made = model([node("Attention", ["q", "k", "v", "m"], ["y"])],
                 {**{n: [1, 2, 3, 4] for n in "qkv"}, "m": (TensorProto.INT8, [3, 3])}, opset=24)  # fmt: skip
    feed = {n: random(1, 2, 3, 4) for n in "qkv"} | {"m": RNG.integers(-3, 3, (3, 3), np.int8)}
    floats = model([node("Attention", ["q", "k", "v", "m"], ["y"])],
                   {**{n: [1, 2, 3, 4] for n in "qkv"}, "m": [3, 3]}, opset=24)  # fmt: skip
    want = knapper.compile(floats)(**feed | {"m": feed["m"].astype(np.float32)})[0]
    check(made, [feed], 1e-6, lambda _: [want])


@pytest.mark.parametrize("op, inputs", [
    ("Loop", ["s", "", "x"]), ("Loop", ["", "s", "x"]), ("SequenceAt", ["s", "s"]), ("SequenceInsert", ["s", "s"]),
    ("SequenceConstruct", ["s"]), ("SplitToSequence", ["s"]), ("ConcatFromSequence", ["s", "s"]), ("Relu", ["s"]),
])  # fmt: skip
def test_sequences_are_refused_where_tensors_stand(op, inputs):
    body = onnx.helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Identity", ["c"], ["d"])], "body",
        [onnx.helper.make_tensor_value_info("i", TensorProto.INT64, []),
         onnx.helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         onnx.helper.make_tensor_value_info("c", TensorProto.FLOAT, [3])],
        [onnx.helper.make_tensor_value_info("on", TensorProto.BOOL, []),
         onnx.helper.make_tensor_value_info("d", TensorProto.FLOAT, [3])])  # fmt: skip
    more = {"body": body} if op == "Loop" else {"axis": 0} if op == "ConcatFromSequence" else {}
    made = model([node("SequenceConstruct", ["x"], ["s"]), node(op, inputs, ["y"], **more)], {"x": [3]})
    with pytest.raises(knapper.UserError):
        knapper.compile(made)


@pytest.mark.parametrize("op, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_cells_whose_weights_are_narrower_than_their_input(op, gates):
    """torch's TorchScript exporter writes attention of bf16 in float32: a cell behind it has weights of bf16."""
    w, r = random(1, gates * 3, 2).astype(np.float16), random(1, gates * 3, 3).astype(np.float16)
    x = random(4, 2, 2)
    mixed = model([node(op, ["x", "w", "r"], ["y"], hidden_size=3)], {"x": [4, 2, 2]}, initializers={"w": w, "r": r})
    wide = model([node(op, ["x", "w", "r"], ["y"], hidden_size=3)], {"x": [4, 2, 2]},
                 initializers={"w": w.astype(np.float32), "r": r.astype(np.float32)})  # fmt: skip
    np.testing.assert_array_equal(knapper.compile(mixed)(x=x)[0], knapper.compile(wide)(x=x)[0])


def test_convolutions_whose_weights_are_wider_than_their_input():
    """torch's dynamo exporter folds batch norms of 16-bit numbers into weights of float32."""
    w, b, x = random(4, 3, 3, 3), random(4), random(1, 3, 6, 5).astype(np.float16)
    made = [
        model([node("Conv", ["x", "w", "b"], ["y"])], {"x": (TensorProto.FLOAT16, [1, 3, 6, 5])}, [("y", TensorProto.FLOAT16)],
              initializers={"w": w.astype(dtype), "b": b.astype(dtype)})
        for dtype in (np.float32, np.float16)
    ]  # fmt: skip
    wide, narrow = (knapper.compile(m)(x=x)[0] for m in made)
    assert wide.dtype == np.float16
    np.testing.assert_array_equal(wide, narrow)
