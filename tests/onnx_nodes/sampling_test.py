"""GridSample, RoiAlign and DeformConv with sizes of the inputs."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import check, model, node
from onnx import TensorProto

import knapper


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample(mode, padding, corners):
    made = model(
        [node("GridSample", ["x", "grid"], ["y"],
              mode=mode, padding_mode=padding, align_corners=corners)],
        {"x": ["n", "c", "h", "w"], "grid": ["n", "p", "q", 2]},
    )  # fmt: skip
    rng = np.random.default_rng(0)
    feeds = [
        {
            "x": rng.standard_normal((n, c, h, w)).astype(np.float32),
            # Far outside too; not so near to a half that rounding decides.
            "grid": (rng.integers(-300, 300, (n, 3, 5, 2)) / 101 + 1e-3).astype(np.float32),
        }
        for n, c, h, w in ((1, 1, 4, 5), (2, 3, 7, 2))
    ]
    check(made, feeds, 2e-4)


def test_grid_sample_of_volumes_in_half_precision():
    made = model(
        [node("GridSample", ["x", "grid"], ["y"], padding_mode="border")],
        {
            "x": (TensorProto.FLOAT16, ["n", 2, 3, "h", 4]),
            "grid": (TensorProto.FLOAT16, ["n", 1, "p", 2, 3]),
        },
        outputs=[("y", TensorProto.FLOAT16)],
    )
    rng = np.random.default_rng(1)
    feed = {
        "x": rng.standard_normal((2, 2, 3, 5, 4)).astype(np.float16),
        "grid": rng.uniform(-1, 1, (2, 1, 3, 2, 3)).astype(np.float16),
    }
    check(made, [feed], 4e-3)


def test_grid_sample_passes_over_what_is_outside():
    """An infinity at the border is not read where zeros are meant."""
    made = model(
        [node("GridSample", ["x", "grid"], ["y"])],
        {"x": [1, 1, 2, 2], "grid": [1, 1, 2, 2]},
    )
    x = np.array([[[[np.inf, 1], [2, 3]]]], np.float32)
    grid = np.array([[[[-3, -3], [np.nan, 0]]]], np.float32)
    y = knapper.compile(made)(x=x, grid=grid)["y"]
    assert y[0, 0, 0, 0] == 0 and y.shape == (1, 1, 1, 2)


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align(mode, ratio):
    """With ratio 0 the largest region decides how many samples there are."""
    made = model(
        [node("RoiAlign", ["x", "rois", "batch"], ["y"], mode=mode, output_height=3,
              output_width=2, sampling_ratio=ratio, spatial_scale=0.5,
              coordinate_transformation_mode="output_half_pixel")],
        {
            "x": ["n", "c", "h", "w"],
            "rois": ["r", 4],
            "batch": (TensorProto.INT64, ["r"]),
        },
    )  # fmt: skip
    rng = np.random.default_rng(2)
    feeds = []
    for n, c, h, w, r in ((1, 2, 8, 9, 3), (3, 1, 20, 11, 5)):
        corner = rng.uniform(0, 10, (r, 2))
        feeds.append(
            {
                "x": rng.standard_normal((n, c, h, w)).astype(np.float32),
                "rois": np.hstack([corner, corner + rng.uniform(1, 30, (r, 2))]).astype(
                    np.float32
                ),
                "batch": rng.integers(0, n, r),
            }
        )
    check(made, feeds, 1e-4)


def test_roi_of_an_image_that_is_not_there():
    made = model(
        [node("RoiAlign", ["x", "rois", "batch"], ["y"], sampling_ratio=1)],
        {"x": [1, 1, 4, 4], "rois": [1, 4], "batch": (TensorProto.INT64, [1])},
    )
    module = knapper.compile(made)
    with pytest.raises(knapper.UserError, match="index"):
        module(
            x=np.ones((1, 1, 4, 4), np.float32),
            rois=np.array([[0, 0, 3, 3]], np.float32),
            batch=np.array([1]),
        )


def test_deform_conv():
    made = model(
        [node("DeformConv", ["x", "w", "offset", "b", "mask"], ["y"], group=2,
              offset_group=2, pads=[1, 0, 1, 2], strides=[2, 1])],
        {
            "x": ["n", 4, "h", 7],
            "w": [6, 2, 3, 2],
            "offset": ["n", 24, "p", 8],
            "b": [6],
            "mask": ["n", 12, "p", 8],
        },
    )  # fmt: skip
    rng = np.random.default_rng(3)
    feeds = []
    for n, h in ((1, 5), (2, 9)):
        p = (h + 2 - 3) // 2 + 1
        feeds.append(
            {
                "x": rng.standard_normal((n, 4, h, 7)),
                "w": rng.standard_normal((6, 2, 3, 2)),
                "offset": rng.standard_normal((n, 24, p, 8)),
                "b": rng.standard_normal(6),
                "mask": rng.uniform(0, 1, (n, 12, p, 8)),
            }
        )
    feeds = [{k: v.astype(np.float32) for k, v in feed.items()} for feed in feeds]
    check(made, feeds, 2e-4)
