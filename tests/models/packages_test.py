"""Trained models that ship as ONNX inside PyPI packages, at several sizes, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import knapper
from package_models import (
    FILES,
    LIMIT,
    SMALLEST,
    image,
    path_of,
    sequence,
    silero,
    silero16,
    text,
)

RATE = {"sr": np.array(16000, np.int64)}
MODELS = {
    "silero": [silero(1, 16000, 576), silero(3, 16000, 576), silero(1, 8000, 288),
               silero(2, 8000, 288)],
    "silero-ifless": [silero(1, 16000, 576), silero(4, 16000, 576), silero(2, 8000, 288)],
    "silero-16k": [silero16(1, **RATE), silero16(5, **RATE)],
    "silero-half": [silero16(1), silero16(3)],
    "silero-openvino": [silero16(1)],
    "silero-sequence": [sequence(1), sequence(2), sequence(31)],
    "magika": [text(1), text(3), text(32)],
    "ocr-detector": [image(1, 64, 96), image(1, 320, 256), image(2, 160, 160)],
    "ocr-recogniser": [image(1, 48, 320), image(6, 48, 128), image(2, 48, 200)],
    "ocr-classifier": [image(1, 48, 192), image(4, 48, 192)],
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_package(name):
    path = path_of(name)
    if path is None:
        pytest.skip(f"{FILES[name][0]} is not installed: make setup-test")
    module = knapper.compile(path, threads=2)
    peer = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for feed in MODELS[name]:
        feed = {info.name: feed[info.name] for info in peer.get_inputs()}
        got = module(**feed)
        for output, wanted in zip(peer.get_outputs(), peer.run(None, feed)):
            mine = got[output.name]
            assert mine.shape == wanted.shape, output.name
            error = np.abs(mine - wanted).max() / max(np.abs(wanted).max(), SMALLEST)
            assert error <= LIMIT, f"{name} {output.name}: {error:.1e}"
