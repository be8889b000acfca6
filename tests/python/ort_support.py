"""What tests of knapper.ort share: a model, and one script run with both modules."""

from __future__ import annotations

import importlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
X = np.arange(12, dtype=np.float32).reshape(3, 4)
onnxruntime = pytest.importorskip("onnxruntime")
onnxruntime.set_default_logger_severity(4)


def model() -> onnx.ModelProto:
    """y = 2x + 1, total = sums of y's rows, rows = the batch; metadata."""
    array = onnx.numpy_helper.from_array
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Mul", ["input.1", "two"], ["doubled"]),
        helper.make_node("Add", ["doubled", "one"], ["y"]),
        helper.make_node("ReduceSum", ["y", "axes"], ["total"], keepdims=0),
        helper.make_node("Shape", ["y"], ["rows"], start=0, end=1),
    ]
    graph = helper.make_graph(
        nodes,
        "affine",
        [value("input.1", TensorProto.FLOAT, ("batch", 4))],
        [
            value("y", TensorProto.FLOAT, ("batch", 4)),
            value("total", TensorProto.FLOAT, ("batch",)),
            value("rows", TensorProto.INT64, (1,)),
        ],
        [array(np.float32(2), "two"), array(np.float32(1), "one"),
         array(np.int64([1]), "axes")],
        doc_string="of the graph",
    )  # fmt: skip
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9,
        producer_name="test", doc_string="of the model", domain="a.b", model_version=7,
    )  # fmt: skip
    helper.set_model_props(made, {"key": "value", "empty": ""})
    # The first dim's meaning, for overrides by denotation.
    made.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    return made


MODEL = model().SerializeToString()


def both(script):
    """What the script gives with each of the two modules."""
    return [
        script(importlib.import_module(name)) for name in ("onnxruntime", "knapper.ort")
    ]


def agree(script):
    theirs, ours = both(script)
    compare(theirs, ours)
    return ours


def compare(theirs, ours):
    assert type(theirs) is type(ours), (theirs, ours)
    if isinstance(theirs, dict):
        assert theirs.keys() == ours.keys()
        theirs, ours = list(theirs.values()), [ours[key] for key in theirs]
    if isinstance(theirs, list | tuple):
        assert len(theirs) == len(ours)
        for one, other in zip(theirs, ours):
            compare(one, other)
    elif isinstance(theirs, np.ndarray):
        assert theirs.dtype == ours.dtype
        np.testing.assert_allclose(theirs, ours, rtol=1e-6)
    else:
        assert theirs == ours


def session(ort, **arguments):
    return ort.InferenceSession(MODEL, **arguments)


def feed(x=X):
    return {"input.1": x}


def raised(action):
    """The exception, without tracebacks of the script."""
    with pytest.raises(Exception) as caught:
        action()
    return caught.value
