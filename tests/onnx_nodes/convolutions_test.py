"""Convolutions with constant filters at several sizes of one model, against ONNX Runtime."""

from __future__ import annotations

import node_models
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import knapper

LIMIT = 5e-6  # largest error over largest value; sums of up to 4608 products


def convolution(filter_shape, *, op="Conv", residual=False, channels=None, **attributes):
    """y = relu(op(x, w) + b [+ r]), images of symbolic size."""
    rng = np.random.default_rng(5)
    w = rng.standard_normal(filter_shape).astype(np.float32)
    features = filter_shape[0] if op == "Conv" else filter_shape[1]
    channels = channels or (filter_shape[1] if op == "Conv" else filter_shape[0])
    b = rng.standard_normal(features).astype(np.float32)
    dims = ["h", "w"][: w.ndim - 2] if attributes.pop("symbolic", True) else attributes.pop("image")
    nodes = [helper.make_node(op, ["x", "w", "b"], ["c"], name="conv", **attributes)]
    inputs = {"x": ["n", channels, *dims]}
    last = "c"
    if residual:
        nodes.append(helper.make_node("Add", ["c", "r"], ["s"], name="add"))
        inputs["r"] = ["n", features, *dims]
        last = "s"
    nodes.append(helper.make_node("Relu", [last], ["y"], name="relu"))
    return node_models.model(nodes, inputs, initializers={"w": w, "b": b}, opset=18, ir=9)


def check(model, sizes):
    module = knapper.compile(model, threads=2)
    peer = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    rng = np.random.default_rng(6)
    for n, *image in sizes:
        feed = {
            info.name: rng.standard_normal(
                info.shape if all(isinstance(size, int) for size in info.shape) else (n, info.shape[1], *image)
            ).astype(np.float32)
            for info in peer.get_inputs()
        }
        (wanted,) = peer.run(None, feed)
        got = module(**feed)["y"]
        assert got.shape == wanted.shape
        error = np.abs(got - wanted).max() / np.abs(wanted).max()
        assert error <= LIMIT, f"{(n, *image)}: {error:.1e}"


def test_one_column():
    """Windows along the rows of images of one column."""
    model = convolution(
        (48, 40, 5, 1), symbolic=False, image=["h", 1], pads=[2, 0, 1, 0], strides=[2, 1]
    )
    check(model, [(1, 7, 1), (2, 64, 1), (3, 513, 1)])


def test_one_column_dilated():
    model = convolution((16, 24, 3, 1), symbolic=False, image=["h", 1], dilations=[2, 1])
    check(model, [(1, 5, 1), (2, 64, 1)])


@pytest.mark.parametrize("window, features", [((2, 2), 24), ((2, 2), 1), ((2, 3), 16)])
def test_patches(window, features):
    """Transposed, windows that do not overlap."""
    model = convolution((24, features, *window), op="ConvTranspose", strides=list(window))
    check(model, [(1, 1, 1), (2, 5, 7), (1, 40, 33)])


def test_patches_of_a_line():
    check(convolution((20, 12, 4), op="ConvTranspose", strides=[4]), [(1, 1), (3, 50)])


@pytest.mark.parametrize(
    "channels, features, attributes",
    [
        (64, 64, dict(pads=[1, 1, 1, 1], residual=True)),
        (96, 24, dict(pads=[1, 1, 1, 1])),
        (40, 72, dict(pads=[0, 2, 1, 0])),
        (33, 50, dict()),
        (32, 48, dict(pads=[5, 4, 6, 7])),
    ],
)
def test_winograd(channels, features, attributes):
    """3 x 3, stride 1: tiles cut at every edge, sizes from one tile to several blocks."""
    model = convolution((features, channels, 3, 3), **attributes)
    module = knapper.compile(model, threads=2)
    assert "cpu_winograd{" in str(module.describe())
    check(model, [(1, 3, 3), (2, 4, 7), (1, 30, 31), (1, 9, 250), (3, 56, 56), (1, 5, 391)])


def test_winograd_static():
    model = convolution(
        (128, 128, 3, 3), symbolic=False, image=[29, 31], pads=[1, 1, 1, 1], residual=True
    )
    assert "cpu_winograd{" in str(knapper.compile(model, threads=2).describe())
    check(model, [(1, 29, 31), (3, 29, 31)])


def with_filter_as_input(model):
    """Weights as PyTorch and JAX give them: arguments, which the program packs."""
    (filter_,) = (each for each in model.graph.initializer if each.name == "w")
    model.graph.initializer.remove(filter_)
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, filter_.dims))
    return model


@pytest.mark.parametrize(
    "channels, features, attributes",
    [
        (64, 64, dict(pads=[1, 1, 1, 1])),
        (96, 80, dict(pads=[1, 1, 1, 1])),
        (40, 72, dict(pads=[0, 2, 1, 0])),
        (48, 130, dict(pads=[1, 1, 1, 1], residual=True)),
    ],
)
def test_winograd_of_a_filter_that_is_an_input(channels, features, attributes):
    """Transformed by the program; panels that the features fill and that they do not."""
    model = with_filter_as_input(convolution((features, channels, 3, 3), **attributes))
    assert "cpu_winograd{" in str(knapper.compile(model, threads=2).describe())
    check(model, [(1, 3, 3), (2, 4, 7), (1, 30, 31), (1, 9, 250), (3, 56, 56)])


@pytest.mark.parametrize(
    "features, image, schedule",
    [
        (256, 14, "cpu_winograd{columns=7,groups=4,panel=64,rows=7}"),  # an image whole, so the filter is transformed once
        (512, 7, "cpu_conv{"),
    ],
)
def test_when_a_filter_that_is_an_input_is_transformed(features, image, schedule):
    model = convolution((features, features, 3, 3), symbolic=False, image=[image, image], pads=[1, 1, 1, 1])
    model = with_filter_as_input(model)
    assert schedule in str(knapper.compile(model, threads=2).describe())
    check(model, [(1, image, image), (2, image, image)])


@pytest.mark.parametrize(
    "filter_shape, image, attributes",
    [
        ((512, 512, 3, 3), [7, 7], dict(pads=[1, 1, 1, 1])),
        ((512, 96, 3, 3), [13, 13], dict(pads=[1, 0, 1, 2], strides=[2, 2])),
        ((512, 48, 1, 1), [14, 14], dict(strides=[2, 2])),
        ((1024, 1040, 1, 1), [8, 9], dict(strides=[1, 2])),
        ((512, 176, 3, 1), [7, 7], dict(pads=[1, 0, 1, 0])),
        ((768, 16, 2, 4), [5, 9], dict()),
        ((512, 512, 3, 3), [1, 1], dict(pads=[1, 1, 1, 1])),
    ],
)
def test_a_filter_that_is_an_input_is_read_where_it_lies(filter_shape, image, attributes):
    """Of one image with few pixels: chunks of the channels, and all of them."""
    model = convolution(filter_shape, symbolic=False, image=image, **attributes)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    model = with_filter_as_input(model)
    plan = str(knapper.compile(model, threads=2).describe())
    assert "cpu_conv{chunk=" in plan
    check(model, [(1, *image)])


@pytest.mark.parametrize(
    "filter_shape, image, attributes",
    [
        ((512, 512, 3, 3), [7, 7], dict(pads=[1, 1, 1, 1])),  # weights are more than is saved
        ((64, 64, 3, 3), [56, 56], dict(pads=[1, 1, 1, 1], strides=[2, 2])),
        ((64, 64, 3, 3), [56, 56], dict(pads=[2, 1, 2, 1], dilations=[2, 1])),
        ((64, 1, 3, 3), [56, 56], dict(pads=[1, 1, 1, 1], group=64, channels=64)),
        ((64, 3, 3, 3), [56, 56], dict(pads=[1, 1, 1, 1])),
    ],
)
def test_not_winograd(filter_shape, image, attributes):
    model = convolution(filter_shape, symbolic=False, image=image, **attributes)
    assert "cpu_winograd{" not in str(knapper.compile(model, threads=2).describe())
    check(model, [(1, *image)])


@pytest.mark.parametrize("channels", [16, 96, 100, 384])
@pytest.mark.parametrize(
    "window,options",
    [
        ((3, 3), {"pads": [1, 1, 1, 1]}),
        ((3, 3), {"pads": [0, 2, 1, 0], "strides": [2, 2]}),
        ((5, 3), {"pads": [4, 1, 0, 3], "dilations": [2, 1]}),
        ((3, 3), {"strides": [1, 2]}),
        ((7, 7), {"pads": [3, 3, 3, 3]}),
    ],
)
def test_depthwise(channels, window, options):
    """Programs share the channels, the last ones fewer than the others."""
    model = convolution((channels, 1, *window), channels=channels, group=channels, **options)
    check(model, [(1, 14, 14), (2, 7, 9), (1, 33, 40), (3, 10, 8)])
    model = convolution(
        (channels, 1, *window), channels=channels, group=channels, symbolic=False, image=[14, 14], **options
    )
    check(model, [(1, 14, 14), (2, 14, 14)])


@pytest.mark.parametrize(
    "filter_shape, image, attributes",
    [
        ((40, 256, 3, 3), [7, 9], dict(pads=[1, 1, 1, 1], strides=[2, 2])),
        ((72, 300, 5, 3), [11, 7], dict(pads=[2, 0, 2, 1], dilations=[2, 1])),
        ((264, 256, 3, 3), [9, 41], dict(pads=[0, 1, 1, 1], strides=[1, 2])),
        ((136, 520, 1, 1), [14, 27], dict(strides=[2, 2])),
    ],
)
def test_long_panels(filter_shape, image, attributes):
    """Panels of weights that are taken a window row at a time, or fetched ahead; rows of 2 to 27
    pixels cut in tiles that differ by one."""
    model = convolution(filter_shape, symbolic=False, image=image, **attributes)
    check(model, [(1, *image), (2, *image)])


@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.FLOAT16])
@pytest.mark.parametrize("filters", [1, 2])
def test_one_filter_whose_result_is_transposed(element, filters):
    """Lanes beyond the only column: what reads them asks for a scalar."""
    dtype = helper.tensor_dtype_to_np_dtype(element)
    random = np.random.default_rng(filters)
    w = random.standard_normal((filters, 2, 3)).astype(dtype)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[0, 2]), helper.make_node("Abs", ["c"], ["a"]),
        helper.make_node("Add", ["a", "k"], ["s"]), helper.make_node("Transpose", ["s"], ["y"], perm=[2, 0, 1]),
    ]  # fmt: skip
    constants = {"w": w, "k": np.array(0.25, dtype)}
    made = node_models.model(nodes, {"x": (element, [3, 2, 2])}, [("y", element)], constants, opset=17, ir=9)
    x = random.standard_normal((3, 2, 2)).astype(dtype)
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (0, 2)))
    sums = np.stack([np.einsum("nck,fck->nf", wide[:, :, i:i + 3], w.astype(np.float64)) for i in range(2)], 2)
    y = knapper.compile(made, threads=1)(x)[0]
    np.testing.assert_allclose(y, (np.abs(sums) + 0.25).transpose(2, 0, 1), rtol=2e-3, atol=2e-3)
