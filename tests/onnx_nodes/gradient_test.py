"""The operator Gradient against derivatives written by hand."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import check, model, node

import knapper

RNG = np.random.default_rng(0)
TRAINING = "ai.onnx.preview.training"


def graph(nodes, inputs, xs, initializers=()):
    outputs = [f"d{x}" for x in xs]
    return model(
        [*nodes, node("Gradient", xs, outputs, domain=TRAINING, xs=xs, y="y")],
        inputs, outputs, initializers, domains=[(TRAINING, 1)],
    )  # fmt: skip


def test_of_a_layer():
    """sum(tanh(x w + b)^2), with sizes of the inputs; b is broadcast."""
    made = graph(
        [
            node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["s"]),
            node("Tanh", ["s"], ["t"]), node("Mul", ["t", "t"], ["q"]),
            node("ReduceSum", ["q"], ["y"], keepdims=0),
        ],
        {"x": ["n", 5], "w": [5, "m"], "b": ["m"]}, ["x", "w", "b"],
    )  # fmt: skip

    def reference(feed):
        x, w, b = (feed[k].astype(np.float64) for k in "xwb")
        t = np.tanh(x @ w + b)
        ds = 2 * t * (1 - t * t)
        return [ds @ w.T, x.T @ ds, ds.sum(axis=0)]

    feeds = [
        {"x": RNG.standard_normal((n, 5)), "w": RNG.standard_normal((5, m)),
         "b": RNG.standard_normal(m)}
        for n, m in ((1, 1), (7, 4))
    ]  # fmt: skip
    check(made, [{k: v.astype(np.float32) for k, v in f.items()} for f in feeds], 1e-4, reference)


def test_of_many_operators():
    made = graph(
        [
            node("Exp", ["x"], ["e"]), node("Sin", ["x"], ["s"]), node("Div", ["s", "e"], ["q"]),
            node("Sigmoid", ["q"], ["g"]), node("Max", ["g", "x"], ["h"]),
            node("Transpose", ["h"], ["t"]), node("Sub", ["t", "z"], ["u"]),
            node("Mul", ["u", "u"], ["v"]), node("ReduceSum", ["v"], ["y"], keepdims=0),
        ],
        {"x": ["n", 3], "z": []}, ["x"],
    )  # fmt: skip

    def reference(feed):
        x, z = feed["x"].astype(np.float64), float(feed["z"])
        q = np.sin(x) / np.exp(x)
        g = 1 / (1 + np.exp(-q))
        h = np.maximum(g, x)
        inner = g * (1 - g) * (np.cos(x) - np.sin(x)) / np.exp(x)
        return [2 * (h - z) * np.where(g >= x, inner, 1)]

    feed = {"x": RNG.standard_normal((4, 3)).astype(np.float32), "z": np.float32(0.3)}
    check(made, [feed], 1e-4, reference)


def test_refusals():
    inputs = {"x": ["n", 3]}
    made = graph([node("ReduceMax", ["x"], ["y"], keepdims=0)], inputs, ["x"])
    with pytest.raises(knapper.UserError, match="reduction that is no sum"):
        knapper.compile(made)
    made = graph([node("CumSum", ["x", "a"], ["y"])], inputs, ["x"], {"a": np.int64(0)})
    with pytest.raises(knapper.UserError, match="the derivative of ts.scan"):
        knapper.compile(made)
    made = graph([node("Relu", ["x"], ["q"])], inputs, ["x"])
    with pytest.raises(knapper.UserError, match="'y', which is not computed"):
        knapper.compile(made)
