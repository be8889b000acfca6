"""Operators of which the official cases fix every size, with sizes of the inputs."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import check, model, node

import knapper


def columns(image, block, strides, dilations, pads):
    counts = [
        (size + low + high - dilation * (k - 1) - 1) // stride + 1
        for size, k, stride, dilation, low, high in zip(
            image, block, strides, dilations, pads[: len(image)], pads[len(image) :]
        )
    ]
    return int(np.prod(block)), int(np.prod(counts))


@pytest.mark.parametrize(
    "block, strides, dilations, pads",
    [
        ([3, 2], [2, 1], [1, 2], [1, 0, 2, 1]),
        ([2, 2], [3, 2], [1, 1], [0, 0, 0, 0]),  # strides leave elements out
        ([1, 4], [1, 3], [1, 1], [0, 2, 0, 0]),
    ],
)
def test_col2im(block, strides, dilations, pads):
    """The image's size is another input's; infinities stay where they belong."""
    taps = int(np.prod(block))
    made = model(
        [
            node("Shape", ["like"], ["size"], start=2),
            node("Col2Im", ["x", "size", "block"], ["y"],
                 strides=strides, dilations=dilations, pads=pads),
        ],
        {"x": ["n", 3 * taps, "blocks"], "like": ["n", 3, "h", "w"]},
        initializers=[("block", block)],
    )  # fmt: skip
    rng = np.random.default_rng(1)
    feeds = []
    for n, h, w in ((1, 5, 4), (2, 9, 13), (3, 6, 32)):
        _, blocks = columns((h, w), block, strides, dilations, pads)
        x = rng.integers(-9, 9, (n, 3 * taps, blocks)).astype(np.float32)
        x[0, 0, 0] = np.inf
        feeds.append({"x": x, "like": np.zeros((n, 3, h, w), np.float32)})
    check(made, feeds)


def test_col2im_needs_as_many_blocks():
    made = model(
        [
            node("Shape", ["like"], ["size"], start=2),
            node("Col2Im", ["x", "size", "block"], ["y"]),
        ],
        {"x": ["n", 4, "blocks"], "like": ["n", 1, "h", "w"]},
        initializers=[("block", [2, 2])],
    )
    module = knapper.compile(made)
    like = np.zeros((1, 1, 4, 5), np.float32)
    assert module(x=np.ones((1, 4, 12), np.float32), like=like)["y"].shape == (1, 1, 4, 5)
    with pytest.raises(knapper.UserError, match="blocks and .* must be equal"):
        module(x=np.ones((1, 4, 13), np.float32), like=like)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("dims", [["h", "w"], ["d", "h", "w"]], ids=["2d", "3d"])
def test_affine_grid(dims, corners):
    spatial = len(dims)
    made = model(
        [
            node("Shape", ["like"], ["size"]),
            node("AffineGrid", ["theta", "size"], ["y"], align_corners=corners),
        ],
        {"theta": ["n", spatial, spatial + 1], "like": ["n", 2, *dims]},
    )
    rng = np.random.default_rng(2)
    feeds = []
    for n, sizes in ((1, (3, 4, 5)), (2, (7, 2, 33)), (3, (1, 1, 1))):
        theta = rng.standard_normal((n, spatial, spatial + 1)).astype(np.float32)
        if corners:  # the reference divides by size - 1
            sizes = [max(size, 2) for size in sizes]
        feeds.append({"theta": theta, "like": np.zeros((n, 2, *sizes[:spatial]), np.float32)})
    check(made, feeds, 1e-5)


def test_affine_grid_of_one_element():
    """With corners one element alone stands at -1, the first corner."""
    made = model(
        [
            node("Shape", ["like"], ["size"]),
            node("AffineGrid", ["theta", "size"], ["y"], align_corners=1),
        ],
        {"theta": ["n", 2, 3], "like": ["n", 2, "h", "w"]},
    )
    module = knapper.compile(made)
    theta = np.array([[[1, 0, 0], [0, 1, 0]]], np.float32)
    grid = module(theta=theta, like=np.zeros((1, 2, 1, 3), np.float32))["y"]
    np.testing.assert_array_equal(grid, [[[[-1, -1], [0, -1], [1, -1]]]])


def test_pad_to_whole_frames():
    """What is missing to a multiple of 8, and at least one frame: never negative."""
    made = model(
        [
            node("Shape", ["x"], ["n"]),
            node("Max", ["n", "frame"], ["least"]),
            node("Add", ["least", "seven"], ["more"]),
            node("Div", ["more", "frame"], ["frames"]),
            node("Mul", ["frames", "frame"], ["whole"]),
            node("Sub", ["whole", "n"], ["missing"]),
            node("Concat", ["two", "missing"], ["pads"], axis=0),
            node("Pad", ["x", "pads"], ["y"]),
        ],
        {"x": ["n"]},
        initializers=[("frame", [8]), ("seven", [7]), ("two", [2])],
    )
    check(made, [{"x": np.arange(1, 1 + n, dtype=np.float32)} for n in (1, 7, 8, 9, 31, 40)])
