"""Random operators: distributions, and which numbers come again."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import model, node
from onnx import TensorProto

import knapper

SHAPE = [40, 2500]


def draw(op, opset=22, feed=None, inputs=None, element=TensorProto.FLOAT, **attributes):
    made = model(
        [node(op, list(inputs or {}), ["y"], name="draws", **attributes)],
        inputs or {}, [("y", element)], opset=opset,
    )  # fmt: skip
    return np.asarray(knapper.compile(made)(**(feed or {}))["y"])


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_uniform(dtype):
    y = draw("RandomUniform", shape=SHAPE, low=-1.0, high=3.0, dtype=dtype, element=dtype)
    y = y.astype(np.float64)
    assert y.shape == tuple(SHAPE) and -1 <= y.min() and y.max() <= 3
    histogram = np.histogram(y, 16, (-1, 3))[0] / y.size
    np.testing.assert_allclose(histogram, 1 / 16, atol=0.004)
    assert abs(np.corrcoef(y.ravel()[:-1], y.ravel()[1:])[0, 1]) < 0.02


def test_uniform_is_philox():
    """The first words of the known answer: key 7, counters 0, 1, 2."""
    y = draw("RandomUniform", shape=[3], seed=float(np.uint32(7).view(np.float32)))

    def philox(counter, key):
        c, k = [counter, 0, 0, 0], [key, 0]
        for _ in range(10):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        return c[0]

    np.testing.assert_array_equal(y, [np.float32((philox(i, 7) >> 8) / 2**24) for i in range(3)])


def test_normal():
    y = draw("RandomNormal", shape=SHAPE, mean=2.0, scale=0.5).astype(np.float64)
    z = (y - 2) / 0.5
    assert np.isfinite(z).all()
    np.testing.assert_allclose([z.mean(), z.std(), (z**3).mean(), (z**4).mean()],
                               [0, 1, 0, 3], atol=0.06)  # fmt: skip


def test_seeds():
    first = draw("RandomNormal", shape=[100], seed=1.0)
    np.testing.assert_array_equal(first, draw("RandomNormal", shape=[100], seed=1.0))
    assert (first != draw("RandomNormal", shape=[100], seed=2.0)).all()
    two = model(
        [node("RandomUniform", [], ["a"], shape=[100]),
         node("RandomUniform", [], ["b"], shape=[100])],
        {}, ["a", "b"],
    )  # fmt: skip
    module = knapper.compile(two)
    result, again = module(), module()
    assert (np.asarray(result["a"]) != np.asarray(result["b"])).any()
    np.testing.assert_array_equal(result["a"], again["a"])


def test_bernoulli_and_multinomial():
    p = np.linspace(0, 1, 5, dtype=np.float32)[:, None] * np.ones((1, 20000), np.float32)
    y = draw("Bernoulli", feed={"x": p}, inputs={"x": ["n", "m"]})
    np.testing.assert_allclose(y.mean(axis=1), p[:, 0], atol=0.015)
    shares = np.array([[0.1, 0.6, 0.0, 0.3], [0.25] * 4], np.float32)
    with np.errstate(divide="ignore"):
        y = draw("Multinomial", feed={"x": np.log(shares)}, inputs={"x": ["n", "c"]},
                 sample_size=20000, element=TensorProto.INT32)  # fmt: skip
    got = np.stack([np.bincount(row, minlength=4) for row in y]) / 20000
    np.testing.assert_allclose(got, shares, atol=0.015)


def test_dropout():
    made = model(
        [node("Dropout", ["x", "ratio", "training"], ["y", "mask"])],
        {
            "x": ["n", "m"],
            "ratio": [],
            "training": (TensorProto.BOOL, []),
        },
        ["y", ("mask", TensorProto.BOOL)],
    )
    module = knapper.compile(made)
    x = np.random.default_rng(0).standard_normal((100, 400)).astype(np.float32)
    result = module(x=x, ratio=np.float32(0.25), training=np.bool_(True))
    mask = np.asarray(result["mask"])
    assert abs(mask.mean() - 0.75) < 0.01
    np.testing.assert_allclose(result["y"], np.where(mask, x / 0.75, 0), rtol=1e-6)
    result = module(x=x, ratio=np.float32(0.25), training=np.bool_(False))
    np.testing.assert_array_equal(result["y"], x)
    assert np.asarray(result["mask"]).all()
