"""Attention found in a graph keeps what the graph gives for rows that see no key."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from node_models import model
from onnx import TensorProto, helper

import knapper

B, H, D = 2, 3, 16
LOWEST = float(np.finfo(np.float32).min)


def softmax(s):
    with np.errstate(invalid="ignore", over="ignore"):
        p = np.exp(s - s.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True)


def graph(fill: float, *, place: str, guard: bool, causal: bool, added: bool):
    """softmax(q k^T / 4 with a mask over keys, and a causal one) v."""
    nodes = []

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], name=f"/{output}", **attributes))
        return output

    scores = node("MatMul", ["q", node("Transpose", ["k"], "kt", perm=[0, 1, 3, 2])], "qk")
    scores = node("Mul", [scores, "quarter"], "scaled")
    allowed = "keep"  # [B, 1, 1, T]
    if causal:
        steps = node("Range", ["zero", node("Squeeze", [node("Shape", ["q"], "shape", start=2, end=3)], "s"), "one"], "steps")
        column = node("Unsqueeze", [steps, "axis1"], "column")
        allowed = node("And", [allowed, node("GreaterOrEqual", [column, steps], "lower")], "both")
    if place == "where":
        scores = node("Where", [allowed, scores, "fill"], "masked")
    else:
        scores = node("Add", [scores, node("Where", [allowed, "nothing", "fill"], "mask")], "masked")
    if added:
        scores = node("Add", [scores, "bias"], "biased")
    weights = node("Softmax", [scores], "p", axis=-1)
    if guard:
        weights = node("Where", [node("IsNaN", [weights], "nan"), "nothing", weights], "guarded")
    node("MatMul", [weights, "v"], "y")
    shape = [B, H, "s", D]
    inputs = dict.fromkeys("qkv", shape) | {"keep": (TensorProto.BOOL, [B, 1, 1, "s"])}
    if added:
        inputs["bias"] = [B, 1, 1, "s"]
    values = {"quarter": np.float32(0.25), "fill": np.float32(fill), "nothing": np.float32(0),
              "zero": np.int64(0), "one": np.int64(1), "axis1": np.int64([1])}  # fmt: skip
    return model(nodes, inputs, [("y", TensorProto.FLOAT, shape)], values)


@pytest.mark.parametrize("added", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("causal", [False, True], ids=["", "causal"])
@pytest.mark.parametrize("guard", [False, True], ids=["", "guard"])
@pytest.mark.parametrize("place", ["where", "add"])
@pytest.mark.parametrize("fill", [-np.inf, LOWEST], ids=["infinite", "finite"])
def test_rows_without_a_key(fill, place, guard, causal, added):
    made = graph(fill, place=place, guard=guard, causal=causal, added=added)
    onnx.checker.check_model(made)
    module = knapper.compile(made, threads=1, cache=False)
    rng = np.random.default_rng(1)
    for s in (5, 150):
        q, k, v = (rng.standard_normal((B, H, s, D)).astype(np.float32) for _ in range(3))
        keep = np.ones((B, 1, 1, s), bool)
        keep[0, ..., : s // 2] = False  # left padding: rows that see nothing when causal
        keep[1] = False  # a sentence of nothing
        feed = {"q": q, "k": k, "v": v, "keep": keep}
        allowed = keep & (np.tril(np.ones((s, s), bool)) if causal else True)
        scores = (q @ k.swapaxes(-1, -2)) * np.float32(0.25)
        number = np.float32(fill)
        with np.errstate(over="ignore"):
            if place == "where":
                scores = np.where(allowed, scores, number)
            else:
                scores = scores + np.where(allowed, np.float32(0), number)
            if added:
                feed["bias"] = rng.standard_normal((B, 1, 1, s)).astype(np.float32)
                scores = scores + feed["bias"]
        weights = softmax(scores)
        if guard:
            weights = np.where(np.isnan(weights), np.float32(0), weights)
        wanted = weights @ v
        np.testing.assert_allclose(module(**feed)["y"], wanted, rtol=2e-4, atol=2e-5)
    attention = [x for x in module.describe()["launches"] if x["choices"][0]["kernel"].startswith("cpu_attention")]
    assert len(attention) == 1
