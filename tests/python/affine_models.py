"""Small models, made on the spot."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper


def build(nodes, inputs, outputs, initializers=()) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        list(initializers),
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    )
    onnx.checker.check_model(model)
    return model


def affine_model() -> onnx.ModelProto:
    """y = x * 2 + 1 and total = sum of y's rows; a symbolic batch."""
    constant = onnx.numpy_helper.from_array
    return build(
        [
            helper.make_node("Mul", ["input.1", "two"], ["doubled"], name="double"),
            helper.make_node("Add", ["doubled", "one"], ["y"], name="shift"),
            helper.make_node(
                "ReduceSum", ["y", "axes"], ["total"], name="sum", keepdims=0
            ),
        ],
        [("input.1", TensorProto.FLOAT, ("batch", 4))],
        [
            ("y", TensorProto.FLOAT, ("batch", 4)),
            ("total", TensorProto.FLOAT, ("batch",)),
        ],
        [
            constant(np.float32(2), "two"),
            constant(np.float32(1), "one"),
            constant(np.int64([1]), "axes"),
        ],
    )
