"""What operators were before opset 7, against numpy (nothing else runs them)."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import check, model, node
from onnx import TensorProto

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize(
    "shape, axis, at",
    [
        ([3, 4], 1, (1, 3, 4, 1)),
        ([4, 5], None, (1, 1, 4, 5)),
        ([2], 0, (2, 1, 1, 1)),
        ([1], None, (1, 1, 1, 1)),
        ([3, 1, 1], 1, (1, 3, 1, 1)),
    ],
)
def test_broadcast_at_an_axis(shape, axis, at):
    attributes = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
    made = model(
        [node("Sub", ["x", "b"], ["t"], **attributes), node("Mul", ["t", "x"], ["y"])],
        {"x": ["n", 3, 4, "w"], "b": shape}, opset=6,
    )  # fmt: skip
    feed = {"x": X, "b": RNG.standard_normal(shape).astype(np.float32)}
    if axis == 0 or shape == [4, 5]:
        made.graph.input[0].CopyFrom(model([], {"x": list(X.shape)}).graph.input[0])
    check(made, [feed], 1e-6, lambda f: [(f["x"] - f["b"].reshape(at)) * f["x"]])


def test_first_opset():
    made = model(
        [
            node("Cast", ["x"], ["d"], to="DOUBLE"),
            node("Cast", ["d"], ["s"], to="FLOAT"),
            node("Abs", ["s"], ["a"], consumed_inputs=[0]),
            node("Reshape", ["a"], ["flat"], shape=[0, -1]),
            node("TopK", ["flat"], ["top", "index"], k=3),
            node("Concat", ["top", "top"], ["both"]),
            node("Pad", ["both"], ["y"], paddings=[0, 1, 0, 2], value=7.0),
            node("Tile", ["both", "times", "one"], ["z"]),
        ],
        {"x": ["n", 3, 4, 5]},
        ["y", "z", ("index", TensorProto.INT64)],
        {"times": np.int64([2]), "one": np.int64([1])},
        opset=1,
    )

    def reference(feed):
        flat = np.abs(feed["x"]).reshape(len(feed["x"]), -1)
        index = np.argsort(-flat, axis=1, kind="stable")[:, :3]
        both = np.concatenate([np.take_along_axis(flat, index, 1)] * 2, axis=1)
        padded = np.pad(both, ((0, 0), (1, 2)), constant_values=7)
        return [padded, np.tile(both, (1, 2)), index]

    check(made, [{"x": X}, {"x": X[:1]}], 0, reference)


def test_batch_norm_in_training():
    made = model(
        [node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "mean", "var"],
              training_mode=1, momentum=0.7)],
        {"x": ["n", 3, "h", "w"]} | {k: [3] for k in "sbmv"},
        ["y", "mean", "var"], opset=15,
    )  # fmt: skip
    feed = {"x": X} | {k: RNG.uniform(0.5, 1, 3).astype(np.float32) for k in "sbmv"}
    check(made, [feed, feed | {"x": X[:, :, :2]}], 1e-5)
