"""Small models, made on the spot."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import knapper


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


@pytest.fixture(scope="session")
def affine() -> knapper.Module:
    return knapper.compile(affine_model(), threads=2)


@pytest.fixture(scope="session")
def subtract() -> knapper.Module:
    """a - b: an order that matters."""
    shape = ("rows", "columns")
    model = build(
        [helper.make_node("Sub", ["a", "b"], ["c"], name="subtract")],
        [("a", TensorProto.FLOAT, shape), ("b", TensorProto.FLOAT, shape)],
        [("c", TensorProto.FLOAT, shape)],
    )
    return knapper.compile(model, threads=1)


@pytest.fixture(scope="session")
def affine_artefact(affine, tmp_path_factory):
    path = tmp_path_factory.mktemp("artefacts") / "affine.knap"
    affine.save(path)
    return path
