"""Trained models that ship as ONNX inside PyPI packages, at several sizes, against ONNX Runtime.

The packages are installed without what they depend on (setup/requirements-test-nodeps.txt).
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import knapper

RNG = np.random.default_rng(3)


def model_of(package: str, name: str) -> Path:
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed: make setup-test")
    return next(Path(f.locate()) for f in files if f.name == name)


def noise(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def sound(batch, samples):
    return (noise(batch, samples) * 0.1).astype(np.float32)


def silero(batch, rate, samples):
    return {"input": sound(batch, samples), "state": noise(2, batch, 128) * 0.1,
            "sr": np.array(rate, np.int64)}  # fmt: skip


def silero16(batch, **more):
    return {"input": sound(batch, 576), "state": noise(2, batch, 128) * 0.1, **more}


def sequence(length):
    return {"input": sound(length, 576), "h": noise(1, 1, 128) * 0.1, "c": noise(1, 1, 128) * 0.1}


def image(batch, height, width):
    return {"x": noise(batch, 3, height, width)}


def text(rows):
    return {"bytes": RNG.integers(0, 257, (rows, 2048)).astype(np.int32)}


RATE = {"sr": np.array(16000, np.int64)}
MODELS = {
    "silero": ("silero-vad", "silero_vad.onnx",
               [silero(1, 16000, 576), silero(3, 16000, 576), silero(1, 8000, 288),
                silero(2, 8000, 288)]),
    "silero-ifless": ("silero-vad", "silero_vad_op18_ifless.onnx",
                      [silero(1, 16000, 576), silero(4, 16000, 576), silero(2, 8000, 288)]),
    "silero-16k": ("silero-vad", "silero_vad_16k_op15.onnx",
                   [silero16(1, **RATE), silero16(5, **RATE)]),
    "silero-half": ("silero-vad", "silero_vad_half.onnx", [silero16(1), silero16(3)]),
    "silero-openvino": ("silero-vad", "silero_vad_openvino_16k.onnx", [silero16(1)]),
    "silero-sequence": ("silero-vad", "silero_vad_16k_sequence.onnx",
                        [sequence(1), sequence(2), sequence(31)]),
    "magika": ("magika", "model.onnx", [text(1), text(3), text(32)]),
    "ocr-detector": ("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx",
                     [image(1, 64, 96), image(1, 320, 256), image(2, 160, 160)]),
    "ocr-recogniser": ("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx",
                       [image(1, 48, 320), image(6, 48, 128), image(2, 48, 200)]),
    "ocr-classifier": ("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx",
                       [image(1, 48, 192), image(4, 48, 192)]),
}  # fmt: skip
# Largest error over the largest absolute value, by output; what is below 0.01 everywhere are
# probabilities of noise, where ONNX Runtime's own settings differ by more than that.
LIMIT, SMALLEST = 2e-4, 1e-2


@pytest.mark.parametrize("name", MODELS)
def test_package(name):
    package, file, feeds = MODELS[name]
    path = model_of(package, file)
    module = knapper.compile(path, threads=2)
    peer = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for feed in feeds:
        feed = {info.name: feed[info.name] for info in peer.get_inputs()}
        got = module(**feed)
        for output, wanted in zip(peer.get_outputs(), peer.run(None, feed)):
            mine = got[output.name]
            assert mine.shape == wanted.shape, output.name
            error = np.abs(mine - wanted).max() / max(np.abs(wanted).max(), SMALLEST)
            assert error <= LIMIT, f"{name} {output.name}: {error:.1e}"
