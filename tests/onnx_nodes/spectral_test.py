"""DFT and STFT of many lengths, against numpy in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import check, model, node
from onnx import TensorProto

import knapper


def pairs(z):
    return np.stack((z.real, z.imag), axis=-1)


@pytest.mark.parametrize("length", [1, 2, 7, 64, 65, 101, 360, 386, 619, 1024, 1322, 1500, 3 * 997])
def test_dft(length):
    made = model(
        [
            node("DFT", ["x", "", "axis"], ["y"]),
            node("DFT", ["y", "", "axis"], ["back"], inverse=1),
            node("DFT", ["r", "", "axis"], ["half"], onesided=1),
            node("DFT", ["half", "length", "axis"], ["whole"], onesided=1, inverse=1),
        ],
        {"x": ["n", length, 2], "r": ["n", length, 1]},
        outputs=["y", "back", "half", "whole"],
        initializers={"axis": np.int64(1), "length": np.int64(length)},
    )
    rng = np.random.default_rng(length)

    def reference(feed):
        z = feed["x"][..., 0].astype(np.float64) + 1j * feed["x"][..., 1]
        y, half = np.fft.fft(z), np.fft.rfft(feed["r"][..., 0].astype(np.float64))
        return pairs(y), feed["x"], pairs(half), feed["r"]

    feeds = [
        {
            "x": rng.standard_normal((n, length, 2)).astype(np.float32),
            "r": rng.standard_normal((n, length, 1)).astype(np.float32),
        }
        for n in (1, 3)
    ]
    check(made, feeds, 2e-6 * length**0.5 * np.log2(length + 2), reference)


def test_dft_of_a_symbolic_length_in_the_middle():
    made = model(
        [node("DFT", ["x", "length"], ["y"])],
        {"x": [2, "t", 3, 1]},
        initializers={"length": np.int64(12)},
        opset=19,
    )
    rng = np.random.default_rng(0)
    feeds = [
        {"x": rng.standard_normal((2, t, 3, 1)).astype(np.float32)} for t in (1, 12, 17)
    ]
    check(
        made, feeds, 1e-5,
        lambda feed: [pairs(np.fft.fft(feed["x"][..., 0].astype(np.float64), 12, axis=1))],
    )  # fmt: skip


def test_dft_of_a_large_prime():
    with pytest.raises(knapper.UserError, match="prime factor above 2048"):
        knapper.compile(
            model(
                [node("DFT", ["x", "", "axis"], ["y"])],
                {"x": ["n", 4099, 2]},
                initializers={"axis": np.int64(1)},
            )
        )


@pytest.mark.parametrize("onesided", [0, 1])
def test_stft(onesided):
    made = model(
        [node("STFT", ["x", "step", "window"], ["y"], onesided=onesided)],
        {"x": ["n", "t", 1], "window": [100]},
        initializers={"step": np.int64(40)},
    )
    rng = np.random.default_rng(1)
    window = np.hanning(100).astype(np.float32)

    def reference(feed):
        x = feed["x"][..., 0].astype(np.float64)
        count = (x.shape[1] - 100) // 40 + 1
        frames = np.stack([x[:, 40 * i : 40 * i + 100] * window for i in range(count)], 1)
        return [pairs(np.fft.rfft(frames) if onesided else np.fft.fft(frames))]

    feeds = [
        {"x": rng.standard_normal((n, t, 1)).astype(np.float32), "window": window}
        for n, t in ((1, 100), (2, 517))
    ]
    check(made, feeds, 1e-4, reference)


@pytest.mark.parametrize("onesided", [0, 1])
def test_the_step_of_an_stft_is_an_input(onesided):
    window = np.hanning(32).astype(np.float32)
    made = model(
        [node("STFT", ["x", "step", "window"], ["y"], onesided=onesided)],
        {"x": ["b", "n", 1], "step": (TensorProto.INT64, [])},
        initializers={"window": window},
    )

    def reference(feed):
        x, step = feed["x"][..., 0].astype(np.float64), int(feed["step"])
        frames = np.stack([x[:, i : i + 32] * window for i in range(0, x.shape[1] - 31, step)], 1)
        return [pairs(np.fft.rfft(frames) if onesided else np.fft.fft(frames))]

    x = np.random.default_rng(3).standard_normal((2, 150, 1)).astype(np.float32)
    module = check(made, [{"x": x, "step": np.int64(step)} for step in (1, 7, 40, 200)], 1e-5, reference)
    with pytest.raises(knapper.UserError, match="do not advance"):
        module(x=x, step=np.int64(0))
