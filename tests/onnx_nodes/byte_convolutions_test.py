"""Convolutions of bytes at random: QLinearConv, ConvInteger and DequantizeLinear around Conv."""

from __future__ import annotations

import tempfile

import numpy as np
import onnxruntime
import pytest
from node_models import PEER_SATURATES
from onnx import TensorProto, helper, numpy_helper

import knapper

TYPES = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}


def bytes_of(rng, dtype, shape):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape, dtype)


def scales(rng, shape=()):
    return (rng.random(shape) * 0.02 + 0.005).astype(np.float32)


class Draw:
    """A convolution with constant filter; sizes of the image are symbolic or numbers."""

    def __init__(self, seed):
        rng = self.rng = np.random.default_rng(seed)
        pick = rng.choice
        self.rank = int(pick([1, 2, 2, 2]))
        kind = pick(["plain", "plain", "plain", "groups", "depthwise"])
        self.groups = {"plain": 1, "groups": int(pick([2, 3])), "depthwise": int(pick([5, 16, 33, 40]))}[kind]
        per_group = 1 if kind == "depthwise" else int(pick([1, 3, 4, 7, 16, 24]))
        features = 1 if kind == "depthwise" else int(pick([1, 8, 17, 40]))
        self.channels, self.features = per_group * self.groups, features * self.groups
        self.window = [int(pick([1, 1, 2, 3, 3, 5])) for _ in range(self.rank)]
        self.strides = [int(pick([1, 1, 2, 3])) for _ in range(self.rank)]
        self.dilations = [int(pick([1, 1, 1, 2])) for _ in range(self.rank)]
        self.pads = [int(pick([0, 0, 1, 2])) if k > 1 else 0 for k in self.window * 2]
        self.x_type = [np.uint8, np.int8][int(rng.integers(2))]
        self.w_type = [np.int8, np.int8, np.uint8][int(rng.integers(3))]
        self.w = bytes_of(rng, self.w_type, (self.features, per_group, *self.window))
        self.x_zero = self.x_type(pick([0, 3, 127] if self.x_type is np.uint8 else [-128, 0, 5]))
        self.w_zero = self.w_type(0 if self.w_type is np.int8 and pick([0, 1]) else pick([0, 128, 100] if self.w_type is np.uint8 else [0, 7]))
        self.symbolic = bool(pick([0, 1]))
        least = [(k - 1) * d + 1 for k, d in zip(self.window, self.dilations)]
        self.image = [m + int(rng.integers(0, 12)) for m in least]
        self.x = bytes_of(rng, self.x_type, (int(pick([1, 2])), self.channels, *self.image))

    def attributes(self):
        return dict(group=self.groups, strides=self.strides, dilations=self.dilations, pads=self.pads)

    def x_info(self, kind):
        dims = ["n", self.channels, *(["h", "w"][: self.rank] if self.symbolic else self.image)]
        return helper.make_tensor_value_info("x", kind, dims)

    def model(self, nodes, inputs, y, initializers):
        graph = helper.make_graph(
            nodes, "g", inputs,
            [helper.make_tensor_value_info("y", y, ["?"] * (self.rank + 2))],
            [numpy_helper.from_array(np.asarray(v), k) for k, v in initializers.items()],
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    def exact(self):
        """The sums in i32, as NumPy makes them."""
        x = self.x.astype(np.int64) - int(self.x_zero)
        w = self.w.astype(np.int64) - int(self.w_zero)
        low, high = self.pads[: self.rank], self.pads[self.rank :]
        x = np.pad(x, [(0, 0), (0, 0), *zip(low, high)])
        outs = [(n - (k - 1) * d - 1) // s + 1
                for n, k, d, s in zip(x.shape[2:], self.window, self.dilations, self.strides)]  # fmt: skip
        x = x.reshape(x.shape[0], self.groups, -1, *x.shape[2:])
        w = w.reshape(self.groups, -1, *w.shape[1:])
        y = np.zeros((x.shape[0], self.groups, w.shape[1], *outs), np.int64)
        for at in np.ndindex(*self.window):
            part = x[(...,) + tuple(slice(i * d, i * d + (n - 1) * s + 1, s)
                                    for i, d, n, s in zip(at, self.dilations, outs, self.strides))]  # fmt: skip
            y += np.einsum("ngc...,gfc->ngf...", part, w[(...,) + at])
        return y.reshape(x.shape[0], -1, *outs)


def run(model, feed):
    """With one thread and with four, which differ in nothing."""
    compiled = knapper.compile(model, threads=1)
    with tempfile.NamedTemporaryFile(suffix=".knap") as file:
        compiled.save(file.name)
        four = knapper.load(file.name, threads=4)(**feed)["y"]
    one = compiled(**feed)["y"]
    np.testing.assert_array_equal(one, four)
    return one


@pytest.mark.parametrize("seed", range(24))
def test_conv_integer(seed):
    draw = Draw(seed)
    nodes = [helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], **draw.attributes())]
    model = draw.model(nodes, [draw.x_info(TYPES[draw.x_type])], TensorProto.INT32,
                       {"w": draw.w, "xz": draw.x_zero, "wz": draw.w_zero})  # fmt: skip
    np.testing.assert_array_equal(run(model, {"x": draw.x}), draw.exact())


@pytest.mark.parametrize("seed", range(24, 40))
def test_qlinear_conv(seed):
    """A scale and a bias a feature; halves round as the float32 product says."""
    draw = Draw(seed)
    rng = draw.rng
    draw.w_type, draw.w = np.int8, draw.w.view(np.int8)
    draw.w_zero = np.int8(0)
    xs, ys, ws = scales(rng), scales(rng) * 40, scales(rng, draw.features)
    bias = rng.integers(-3000, 3000, draw.features, np.int32)
    y_zero = draw.x_type(rng.integers(0, 100))
    nodes = [helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"],
                              **draw.attributes())]  # fmt: skip
    constants = {"xs": xs, "xz": draw.x_zero, "w": draw.w, "ws": ws, "ys": ys, "yz": y_zero, "b": bias,
                 "wz": np.zeros(draw.features, np.int8)}  # fmt: skip
    model = draw.model(nodes, [draw.x_info(TYPES[draw.x_type])], TYPES[draw.x_type], constants)
    got = run(model, {"x": draw.x})
    column = (slice(None),) + (None,) * draw.rank
    sums = (draw.exact() + bias[column]).astype(np.float32)
    info = np.iinfo(draw.x_type)
    wanted = np.clip(np.rint(sums * (xs * ws / ys)[column]) + y_zero, info.min, info.max)
    np.testing.assert_array_equal(got, wanted.astype(draw.x_type))
    if PEER_SATURATES:
        return
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (theirs,) = peer.run(None, {"x": draw.x})
    assert np.abs(theirs.astype(int) - got).max() <= 1


@pytest.mark.parametrize("seed", range(40, 64))
def test_around_conv(seed):
    """DequantizeLinear before, Add, Relu and QuantizeLinear after: within a step, and nearly always the same one."""
    draw = Draw(seed)
    rng = draw.rng
    per_channel = bool(rng.integers(2))
    xs, ws, ys = scales(rng), scales(rng, draw.features if per_channel else ()), np.float32(scales(rng) * 40)
    wz = np.full(ws.shape, draw.w_zero, draw.w_type)
    bias = rng.standard_normal(draw.features).astype(np.float32)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        helper.make_node("Conv", ["xd", "wd", "b"], ["c"], **draw.attributes()),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "ys", "yz"], ["y"]),
    ]
    constants = {"xs": xs, "xz": draw.x_zero, "w": draw.w, "ws": ws, "wz": wz, "b": bias, "ys": ys,
                 "yz": np.uint8(7)}  # fmt: skip
    x = (draw.x.astype(np.float32) - np.float32(draw.x_zero)) * xs
    model = draw.model(nodes, [draw.x_info(TensorProto.FLOAT)], TensorProto.UINT8, constants)
    got = run(model, {"x": x})
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    peer = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (wanted,) = peer.run(None, {"x": x})
    apart = np.abs(got.astype(int) - wanted.astype(int))
    assert apart.max() <= 1 and (apart > 0).mean() <= 0.01


def test_zero_point_of_the_input_is_one_number():
    """ConvInteger has one for the input, whatever its shape; three are refused."""
    draw = Draw(0)
    nodes = [helper.make_node("ConvInteger", ["x", "w", "xz"], ["y"], **draw.attributes())]
    zeros = np.full(3, draw.x_zero, draw.x_type)
    model = draw.model(nodes, [draw.x_info(TYPES[draw.x_type])], TensorProto.INT32, {"w": draw.w, "xz": zeros})
    with pytest.raises(knapper.UserError, match="ConvInteger"):
        knapper.compile(model)
