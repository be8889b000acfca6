"""Pooling windows that reach far out of the image, as exporters write them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from node_models import model, node
from onnx import TensorProto

import knapper

CASES = {
    # Of EfficientNet: the size of the channels, where the image has 7 x 7.
    "whole image": ((2, 5, 7, 7), dict(kernel_shape=[1280, 1280], strides=[1280, 1280], ceil_mode=1)),
    "one dim": ((2, 3, 9, 6), dict(kernel_shape=[3, 50], strides=[2, 50], ceil_mode=1)),
    "between pads": ((1, 2, 4, 5), dict(kernel_shape=[7, 9], pads=[3, 4, 3, 4])),
    "pads on one side, strides": ((1, 2, 6, 5), dict(kernel_shape=[9, 11], pads=[8, 2, 1, 9], strides=[3, 2])),
    "dilated": ((1, 2, 5, 6), dict(kernel_shape=[4, 5], dilations=[3, 2], pads=[5, 4, 4, 4])),
    "dilated, strides": ((1, 1, 5, 6), dict(kernel_shape=[6, 5], dilations=[2, 3], pads=[5, 6, 6, 7], strides=[2, 2])),
    "1-D": ((2, 3, 11), dict(kernel_shape=[16], strides=[7], ceil_mode=1)),
}

NEVER = "dim 3 has 7 elements with its pads, the window covers 9"


def windows(size, i, kernel_shape, strides=None, dilations=None, pads=None, ceil_mode=0):
    """For each window along spatial dim i the places of the image that it reads."""
    rank = len(kernel_shape)
    kernel, stride = kernel_shape[i], (strides or [1] * rank)[i]
    step = (dilations or [1] * rank)[i]
    low, high = (pads[i], pads[i + rank]) if pads else (0, 0)
    extent = (kernel - 1) * step + 1
    count = (math.ceil if ceil_mode else math.floor)((size + low + high - extent) / stride) + 1
    if ceil_mode and (count - 1) * stride >= size + low:
        count -= 1
    return [
        [p for p in (w * stride - low + t * step for t in range(kernel)) if 0 <= p < size] for w in range(count)
    ]


@pytest.mark.parametrize("op", ["AveragePool", "LpPool", "MaxPool"])
@pytest.mark.parametrize("name", CASES)
def test_far_out_of_the_image(op, name):
    shape, attributes = CASES[name]
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    want = x.astype("f8") ** (2 if op == "LpPool" else 1)
    for i in range(len(shape) - 2):
        dim = i + 2
        one = np.maximum if op == "MaxPool" else np.add
        places = windows(shape[dim], i, **attributes)
        rows = [one.reduce(want.take(p, dim), dim) / (len(p) if op == "AveragePool" else 1) for p in places]
        want = np.stack(rows, dim)
    want = np.sqrt(want) if op == "LpPool" else want
    made = model([node(op, ["x"], ["y"], **attributes)], {"x": (TensorProto.FLOAT, list(shape))}, ["y"], {}, 19)
    np.testing.assert_allclose(np.asarray(knapper.compile(made)(x)["y"]), want, rtol=2e-6, atol=1e-6)


def test_a_window_of_the_image_is_a_reduction(tmp_path):
    """However large it is said to be: taps outside are not walked."""
    shape, attributes = CASES["whole image"]
    made = model([node("AveragePool", ["x"], ["y"], **attributes)], {"x": (TensorProto.FLOAT, list(shape))}, ["y"], {}, 19)
    kernels = knapper.compile(made).describe()["kernels"]
    assert len(kernels) == 1 and "reduce" in str(kernels), kernels


@pytest.mark.parametrize("op", ["MaxPool", "Conv"])
def test_a_window_that_never_fits(op):
    """It is said which dim and by how much, in place of a negative size."""
    attributes = dict(kernel_shape=[3, 9], pads=[0, 1, 0, 2])
    more = {"w": np.zeros((2, 2, 3, 9), np.float32)} if op == "Conv" else {}
    made = model([node(op, ["x", *more], ["y"], **attributes)], {"x": [1, 2, 5, 4]}, ["y"], more, 19)
    with pytest.raises(knapper.UserError, match=NEVER):
        knapper.compile(made)
    symbolic = knapper.compile(model([node(op, ["x", *more], ["y"], **attributes)], {"x": [1, 2, 5, "n"]}, ["y"], more, 19))
    with pytest.raises(knapper.UserError, match="give larger inputs"):
        symbolic(np.zeros((1, 2, 5, 4), np.float32))
    assert symbolic(np.zeros((1, 2, 5, 6), np.float32))["y"].shape == (1, 2, 3, 1)


@pytest.mark.parametrize("op", ["ConvInteger", "QLinearConv", "DeformConv"])
def test_a_window_of_other_convolutions_that_never_fits(op):
    byte = {"w": np.ones((2, 2, 3, 9), np.uint8)}
    scales = {"s": np.float32(0.5), "z": np.uint8(3)}
    more, names = {
        "ConvInteger": (byte, ["x", "w"]),
        "QLinearConv": (byte | scales, ["x", "s", "z", "w", "s", "z", "s", "z"]),
        "DeformConv": ({"w": np.zeros((2, 2, 3, 9), np.float32)}, ["x", "w", "offset"]),
    }[op]
    inputs = {"x": [1, 2, 5, 4] if op == "DeformConv" else (TensorProto.UINT8, [1, 2, 5, 4])}
    if op == "DeformConv":
        inputs["offset"] = [1, 54, "p", "q"]
    attributes = dict(kernel_shape=[3, 9], pads=[0, 1, 0, 2])
    with pytest.raises(knapper.UserError, match=NEVER):
        knapper.compile(model([node(op, names, ["y"], **attributes)], inputs, ["y"], more, 19))


def test_windows_that_lie_in_the_result_may_be_larger_than_the_input():
    """Of ConvTranspose and MaxUnpool."""
    weight = np.ones((2, 1, 3, 9), np.float32)
    made = model(
        [node("ConvTranspose", ["x", "w"], ["y"], pads=[0, 1, 0, 2])], {"x": [1, 2, 1, 1]}, ["y"], {"w": weight}, 19
    )  # fmt: skip
    y = np.asarray(knapper.compile(made)(np.full((1, 2, 1, 1), 2, np.float32))["y"])
    np.testing.assert_array_equal(y, np.full((1, 1, 3, 6), 4, np.float32))
    made = model(
        [node("MaxUnpool", ["x", "at"], ["y"], kernel_shape=[3, 9], strides=[3, 9])],
        {"x": [1, 1, 1, 1], "at": (TensorProto.INT64, [1, 1, 1, 1])}, ["y"], {}, 19,
    )  # fmt: skip
    y = np.asarray(knapper.compile(made)(np.ones((1, 1, 1, 1), np.float32), np.full((1, 1, 1, 1), 20, np.int64))["y"])
    assert y.shape == (1, 1, 3, 9) and y.ravel()[20] == 1 and y.sum() == 1
