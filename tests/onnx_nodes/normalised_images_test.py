"""Group and instance normalisation and resizing between convolutions, whose images have channels
last: at several sizes of one model, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from node_models import model
from onnx import helper

import knapper


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs, [output], name=output, **attributes)


def between_convolutions(nodes, constants, dims, features=12):
    """y = conv(nodes(conv(x))), where nodes take c and give d."""
    rng = np.random.default_rng(2)
    window = [3] * len(dims)
    first = rng.standard_normal((features, 5, *window)).astype(np.float32)
    second = rng.standard_normal((4, features, *window)).astype(np.float32)
    constants = dict(constants, u=first, v=second)
    image = dict(kernel_shape=window, pads=[1] * 2 * len(dims))
    around = [node("Conv", ["x", "u"], "c", **image), *nodes, node("Conv", ["d", "v"], "y", **image)]
    return model(around, {"x": ["n", 5, *dims]}, initializers=constants)


def check(made, sizes, offset=0.0):
    module = knapper.compile(made, threads=2)
    peer = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    rng = np.random.default_rng(3)
    for n, *image in sizes:
        x = (rng.standard_normal((n, 5, *image)) + offset).astype(np.float32)
        y, wanted = module(x=x)["y"], peer.run(None, {"x": x})[0]
        assert y.shape == wanted.shape
        assert np.abs(y - wanted).max() <= 2e-5 * np.abs(wanted).max(), (n, *image)


PARAMETERS = {
    "g": np.linspace(0.5, 2, 12, dtype=np.float32),
    "b": np.linspace(-1, 1, 12, dtype=np.float32),
}


@pytest.mark.parametrize("groups", [1, 3, 4, 12])
@pytest.mark.parametrize("dims", [["h", "w"], [9, 16], ["t"], [48], [31]])
def test_group_norm(groups, dims):
    nodes = [
        node("GroupNormalization", ["c", "g", "b"], "m", num_groups=groups, epsilon=1e-5),
        node("Relu", ["m"], "d"),
    ]
    made = between_convolutions(nodes, PARAMETERS, dims)
    numbers = {"h": [1, 7, 20], "w": [3, 5, 33], "t": [4, 50, 257]}
    sizes = zip(*[numbers.get(dim, [dim] * 3) for dim in dims])
    check(made, [(n, *image) for n, image in zip((1, 2, 1), sizes)])


def test_statistics_far_from_zero():
    """The variance does not come from squares that cancel."""
    nodes = [node("InstanceNormalization", ["c", "g", "b"], "d")]
    made = between_convolutions(nodes, PARAMETERS, [16, 24])
    module = knapper.compile(made)
    rng = np.random.default_rng(4)
    x = (rng.standard_normal((1, 5, 16, 24)) * 0.01 + 50).astype(np.float32)
    peer = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = peer.run(None, {"x": x})[0]
    assert np.abs(module(x=x)["y"] - wanted).max() <= 1e-3 * np.abs(wanted).max()


@pytest.mark.parametrize("scales", [[2, 2], [1, 3], [1.5, 2]])
@pytest.mark.parametrize("dims", [["h", "w"], [6, 10]])
def test_nearest_resize(dims, scales):
    if 1.5 in scales and "h" in dims:
        pytest.skip("only whole factors of symbolic sizes")
    resize = node("Resize", ["c", "", "s"], "r", mode="nearest", nearest_mode="floor",
                  coordinate_transformation_mode="asymmetric")  # fmt: skip
    made = between_convolutions(
        [resize, node("Relu", ["r"], "d")],
        {"s": np.array([1, 1, *scales], np.float32)},
        dims,
    )
    check(made, [(1, 6, 10), (2, 6, 10)] + ([(1, 1, 2), (1, 17, 9)] if "h" in dims else []))


@pytest.mark.parametrize("dims", [["h", "w"], [6, 10]])
def test_sum_and_concat_of_resized(dims):
    """What a U-Net and a feature pyramid do."""
    def resize(given, made):
        return node("Resize", [given, "", "s"], made, mode="nearest")
    nodes = [
        resize("c", "r"),
        resize("r", "q"),
        node("Conv", ["q", "k"], "p", kernel_shape=[1, 1]),
        resize("r", "z"),
        node("Add", ["p", "z"], "a"),
        node("Concat", ["a", "z", "q"], "o", axis=1),
        node("Conv", ["o", "l"], "d", kernel_shape=[1, 1]),
    ]  # fmt: skip
    rng = np.random.default_rng(5)
    constants = {
        "s": np.array([1, 1, 2, 2], np.float32),
        "k": rng.standard_normal((12, 12, 1, 1)).astype(np.float32),
        "l": rng.standard_normal((12, 36, 1, 1)).astype(np.float32),
    }
    made = between_convolutions(nodes, constants, dims)
    check(made, [(1, 6, 10), (2, 6, 10)] + ([(1, 1, 2), (1, 11, 9)] if "h" in dims else []))
