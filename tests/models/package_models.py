"""Where PyPI packages keep their ONNX models, and inputs for them.

The packages are installed without what they depend on (setup/requirements-test-nodeps.txt).
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np

RNG = np.random.default_rng(3)
# Package and file of each model.
FILES = {
    "silero": ("silero-vad", "silero_vad.onnx"),
    "silero-ifless": ("silero-vad", "silero_vad_op18_ifless.onnx"),
    "silero-16k": ("silero-vad", "silero_vad_16k_op15.onnx"),
    "silero-half": ("silero-vad", "silero_vad_half.onnx"),
    "silero-openvino": ("silero-vad", "silero_vad_openvino_16k.onnx"),
    "silero-sequence": ("silero-vad", "silero_vad_16k_sequence.onnx"),
    "magika": ("magika", "model.onnx"),
    "ocr-detector": ("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx"),
    "ocr-recogniser": ("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx"),
    "ocr-classifier": ("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx"),
}
# Largest error over the largest absolute value, by output; what is below 0.01 everywhere are
# probabilities of noise, where ONNX Runtime's own settings differ by more than that.
LIMIT, SMALLEST = 2e-4, 1e-2


def path_of(name: str) -> Path | None:
    """The file of a model; nothing where its package is not installed."""
    package, file = FILES[name]
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next(Path(str(f.locate())) for f in files if f.name == file)


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
