"""Where the tool is, and models for it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BUILD = Path(os.environ.get("KNAPPER_BUILD", "build/dev")).resolve()
TOOL = BUILD / "bin" / "knapper"


def environment(folder: Path) -> dict[str, str]:
    """No setting of the caller's, and a cache below `folder`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KNAPPER_")}
    return kept | {"XDG_CACHE_HOME": str(folder / "cache")}


def affine(path: Path, *, scale: float = 2.0, name: str = "sum") -> Path:
    """y = relu(x * scale + 1), x: [n, 4]."""
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "w"], ["a"], name="scale"),
            helper.make_node("Add", ["a", "b"], ["c"], name=name),
            helper.make_node("Relu", ["c"], ["y"], name="clip"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [
            numpy_helper.from_array(np.float32([scale]), "w"),
            numpy_helper.from_array(np.float32([1]), "b"),
        ],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    onnx.save(model, path)
    return path


def chain(path: Path) -> Path:
    """y = relu(x w) w, x: [n, 8]: two matmuls, which are two kernels."""
    weights = np.eye(8, dtype=np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
            helper.make_node("Relu", ["a"], ["b"], name="clip"),
            helper.make_node("MatMul", ["b", "w"], ["y"], name="second"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path
