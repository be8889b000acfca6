"""Matmuls and convolutions with weights of the model, which are packed when it
is compiled, and sizes that are computed: against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import knapper
from affine_models import build

RANDOM = np.random.default_rng(5)
FLOAT = TensorProto.FLOAT


def compiled(node, shape, result, **weights):
    model = build(
        [node],
        [("x", FLOAT, shape)],
        [("y", FLOAT, result)],
        [onnx.numpy_helper.from_array(w, name) for name, w in weights.items()],
    )
    return knapper.compile(model, threads=2, cache=False)


def close(got, wanted):
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("depth, columns", [(200, 150), (64, 16), (33, 257)])
def test_matmul(depth, columns):
    w = RANDOM.standard_normal((depth, columns)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    module = compiled(node, ("rows", depth), ("rows", columns), w=w)
    for rows in (1, 5, 64, 131):
        x = RANDOM.standard_normal((rows, depth)).astype(np.float32)
        close(module(x)["y"], x.astype(float) @ w)


def convolution(x, w, pads, stride, groups):
    """Direct, in double; pads are top, left, bottom, right."""
    top, left, bottom, right = pads
    x = np.pad(x.astype(float), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    inside, outside = x.shape[1] // groups, w.shape[0] // groups
    parts = [
        np.einsum(
            "nchwij,fcij->nfhw",
            windows[:, g * inside : (g + 1) * inside],
            w[g * outside : (g + 1) * outside],
        )
        for g in range(groups)
    ]
    return np.concatenate(parts, 1)


@pytest.mark.parametrize(
    "channels, features, window, pads, stride, groups",
    [
        (8, 24, (3, 3), (1, 1, 1, 1), 1, 1),
        (8, 24, (3, 2), (0, 1, 2, 0), 1, 1),
        (3, 20, (5, 5), (2, 0, 1, 3), 2, 1),
        (16, 40, (1, 1), (0, 0, 0, 0), 1, 1),
        (16, 16, (3, 3), (0, 1, 2, 1), 1, 16),
        (16, 32, (3, 3), (2, 0, 0, 1), 2, 4),
    ],
)
def test_convolution(channels, features, window, pads, stride, groups):
    w = RANDOM.standard_normal((features, channels // groups, *window))
    w = w.astype(np.float32)
    node = helper.make_node(
        "Conv", ["x", "w"], ["y"], pads=pads, strides=[stride, stride], group=groups
    )
    height = (13 + pads[0] + pads[2] - window[0]) // stride + 1
    width = (18 + pads[1] + pads[3] - window[1]) // stride + 1
    module = compiled(
        node, ("n", channels, 13, 18), ("n", features, height, width), w=w
    )
    for n in (1, 3):
        x = RANDOM.standard_normal((n, channels, 13, 18)).astype(np.float32)
        close(module(x)["y"], convolution(x, w, pads, stride, groups))


@pytest.mark.parametrize(
    "starts, ends", [([0], [5]), ([-4], [100]), ([2], [-1]), ([3], [7])]
)
def test_sizes_that_are_clipped(starts, ends):
    """The result has min(...) and max(...) of the input's size."""
    node = helper.make_node("Slice", ["x", "starts", "ends"], ["y"])
    module = compiled(
        node, ("n", 3), ("m", 3), starts=np.array(starts), ends=np.array(ends)
    )
    for n in (1, 3, 4, 5, 6, 9):
        x = RANDOM.standard_normal((n, 3)).astype(np.float32)
        np.testing.assert_array_equal(module(x)["y"], x[starts[0] : ends[0]])
