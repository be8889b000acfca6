"""Attention of narrow floats whose scale an exporter rounded: as exact as if the scale were a number of float32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import knapper

NARROW = {"f16": (np.float16, TensorProto.FLOAT16), "bf16": (ml_dtypes.bfloat16, TensorProto.BFLOAT16)}
HEADS, GROUPS, QUERIES, KEYS = 4, 2, 33, 70


def model(spelling: str, depth: int, dtype: np.dtype, kind: int):
    """q of four heads, keys and values of two; the scale as two roots (by both of torch's exporters) or a divisor."""
    scale = 1 / np.sqrt(np.float32(depth))
    number = {
        "root": np.sqrt(scale),
        "root of the rounded": np.sqrt(scale.astype(dtype).astype(np.float32)),
        "divisor": np.sqrt(np.float32(depth)),
    }[spelling].astype(dtype)
    repeat = np.array([1, GROUPS, HEADS // GROUPS, KEYS, depth])
    constants = {
        "number": helper.make_tensor("number", kind, [], np.asarray(number).tobytes(), raw=True),
        "one": numpy_helper.from_array(np.array([2]), "one"),
        "repeat": numpy_helper.from_array(repeat, "repeat"),
        "merged": numpy_helper.from_array(np.array([1, HEADS, KEYS, depth]), "merged"),
    }
    node = helper.make_node
    nodes = []
    for name in "kv":
        nodes += [
            node("Unsqueeze", [name, "one"], [f"{name}1"]),
            node("Expand", [f"{name}1", "repeat"], [f"{name}2"]),
            node("Reshape", [f"{name}2", "merged"], [f"{name}3"]),
        ]
    nodes.append(node("Transpose", ["k3"], ["kt"], perm=[0, 1, 3, 2]))
    if spelling == "divisor":
        nodes += [node("MatMul", ["q", "kt"], ["s"]), node("Div", ["s", "number"], ["scores"])]
    else:
        nodes += [
            node("Mul", ["q", "number"], ["qs"]),
            node("Mul", ["kt", "number"], ["ks"]),
            node("MatMul", ["qs", "ks"], ["scores"]),
        ]
    nodes += [node("Softmax", ["scores"], ["p"], axis=-1), node("MatMul", ["p", "v3"], ["y"])]
    value = helper.make_tensor_value_info
    shapes = {"q": [1, HEADS, QUERIES, depth], "k": [1, GROUPS, KEYS, depth], "v": [1, GROUPS, KEYS, depth]}
    graph = helper.make_graph(
        nodes, "attention", [value(n, kind, s) for n, s in shapes.items()],
        [value("y", kind, [1, HEADS, QUERIES, depth])], list(constants.values()),
    )  # fmt: skip
    return shapes, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9)


@pytest.mark.parametrize("spelling", ["root", "root of the rounded", "divisor"])
@pytest.mark.parametrize("depth", [40, 48, 80, 96])
@pytest.mark.parametrize("narrow", list(NARROW))
def test_a_rounded_scale_costs_nothing(narrow, depth, spelling):
    dtype, kind = NARROW[narrow]
    shapes, proto = model(spelling, depth, np.dtype(dtype), kind)
    random = np.random.default_rng(depth)
    # Larger scores than a model's, so that an error of the scale shows.
    q, k, v = ((2 * random.standard_normal(s)).astype(dtype) for s in shapes.values())
    got = np.asarray(knapper.compile(proto, cache=False)(q, k, v)[0]).astype(np.float64)

    wide, keys, values = q.astype(np.float64), *(np.repeat(x.astype(np.float64), HEADS // GROUPS, 1) for x in (k, v))
    scores = wide @ keys.swapaxes(-1, -2) / np.sqrt(depth)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    exact = weights @ values / weights.sum(-1, keepdims=True)
    rounded = np.linalg.norm(exact.astype(dtype).astype(np.float64) - exact)
    assert np.linalg.norm(got - exact) <= 1.5 * rounded
