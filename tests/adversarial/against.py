"""One-graph models made on the spot, and what they should give."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import knapper

node = helper.make_node
FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
INT32, INT64 = TensorProto.INT32, TensorProto.INT64
i64 = np.int64
_generator = np.random.default_rng(1)


def random(*shape, dtype=np.float32):
    return np.asarray(_generator.standard_normal(shape)).astype(dtype)


def dtype_of(array) -> int:
    return helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)


def value(name, dtype, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, constants=None, opset=21, **more) -> onnx.ModelProto:
    """inputs and outputs: {name: (element type, shape)}; constants: {name: array}."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [value(k, *v) for k, v in inputs.items()],
        [value(k, *v) for k, v in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid(*o) for o in more.pop("opsets", [("", opset)])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **more)


def one(op, arrays, *, dims=None, constants=None, out=None, outputs=1, opset=21,
        names=None, **attributes):  # fmt: skip
    """A model of one node. arrays: {name: array}, whose shapes are the inputs'
    unless `dims` names others; the node reads arrays, then constants."""
    dims = dims or {}
    first = next(iter(arrays.values())) if arrays else None
    out = out if out is not None else dtype_of(first)
    results = [f"y{i}" for i in range(outputs)]
    out = out if isinstance(out, (list, tuple)) else [out] * outputs
    read = names or [*arrays, *(constants or {})]
    return model(
        [node(op, read, results, name="n", **attributes)],
        {k: (dtype_of(a), dims.get(k, list(a.shape))) for k, a in arrays.items()},
        {r: (t, None) for r, t in zip(results, out)},
        constants,
        opset,
    )


def given(made, arrays, **options) -> list[np.ndarray]:
    """What the compiled model gives."""
    module = knapper.compile(made, threads=2, **options)
    return [np.asarray(y) for y in module.run(dict(arrays))]


def same(made, arrays, rtol=1e-5, atol=1e-6, wanted=None):
    """Compiles and runs; the outputs are ONNX's own evaluator's, or `wanted`."""
    if wanted is None:
        wanted = ReferenceEvaluator(made).run(None, dict(arrays))
    results = given(made, arrays)
    assert len(results) == len(wanted)
    for y, w in zip(results, wanted):
        w = np.asarray(w)
        assert y.shape == w.shape and y.dtype == w.dtype, (y.shape, y.dtype, w.shape, w.dtype)
        if y.dtype.kind in "biu":
            np.testing.assert_array_equal(y, w)
        else:
            np.testing.assert_allclose(
                y.astype(np.float64), w.astype(np.float64), rtol=rtol, atol=atol
            )
