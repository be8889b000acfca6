"""Writes model.onnx: y = Above(2 * Swish(x)), whose Swish and Above are operators of
the domain "my.domain" that no library has."""

from __future__ import annotations

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model() -> onnx.ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node("Swish", ["x"], ["s"], "swish", domain="my.domain", beta=1.5),
            helper.make_node("Mul", ["s", "two"], ["twice"], "double"),
            helper.make_node("Above", ["twice"], ["y"], "above", domain="my.domain", limit=1.0),
        ],
        "custom",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["found"])],
        [numpy_helper.from_array(np.float32(2), "two")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("my.domain", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


if __name__ == "__main__":
    onnx.save(model(), sys.argv[1] if len(sys.argv) > 1 else "model.onnx")
