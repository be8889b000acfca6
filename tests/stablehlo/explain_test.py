"""knapper.jax.explain: kernels, the user's lines, checks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import knapper
from knapper.jax import explain

X, W = np.random.default_rng(3).standard_normal((2, 8, 8)).astype(np.float32)


def layer(x, w):
    y = jnp.tanh(x @ w)
    return jax.nn.softmax(y, -1)


LINE = layer.__code__.co_firstlineno


def test_kernels_with_lines():
    said = str(explain(layer, X, W))
    assert said.splitlines()[0] == "2 kernels"
    for what, line in (("dot_general", 1), ("tanh", 1), ("div", 2)):
        assert f"{what} (explain_test.py:{LINE + line})" in said


def test_what_is_jitted_already():
    assert explain(jax.jit(layer), X, W).kernels == explain(layer, X, W).kernels


def test_only_what_is_read():
    found = explain(lambda x, y, *, w: {"a": x @ w["first"]}, X, X, w={"first": W, "second": X}, verify=True)
    assert len(found.module.inputs) == 2 and len(found.checks) == 1 and found.first_divergent is None
    assert "1 kernels, all within their bounds" in str(found)


def test_the_report(tmp_path):
    found = explain(layer, X, W, path=tmp_path / "layer.html", profile=True)
    page = (tmp_path / "layer.html").read_text()
    assert f"explain_test.py:{LINE + 1}" in page and found.report == page
    assert found.report.times


def test_shapes_alone():
    shape = jax.ShapeDtypeStruct((8, 8), np.float32)
    assert explain(layer, shape, shape).kernels == explain(layer, X, W).kernels
    for option in ("verify", "profile"):
        with pytest.raises(knapper.UserError, match="a shape and no values"):
            explain(layer, shape, X, **{option: True})


def test_what_diverges_is_named():
    found = explain(layer, X, W, verify=True)
    wrong = found.checks[0] | {"passed": False, "error": 1.0}
    said = str(type(found)(found.module, found.report, (*found.checks[1:], wrong)))
    assert "the first that diverges from float64: jit(layer)/dot_general" in said and "error 1.00e+00" in said
