"""Pictures of any size: resized, normalised, HWC to CHW, a batch of them."""

import sys

import numpy as np
import onnxruntime as ort

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


def resized(picture, size):
    rows = np.linspace(0, picture.shape[0] - 1, size).astype(int)
    columns = np.linspace(0, picture.shape[1] - 1, size).astype(int)
    return picture[rows][:, columns]


def prepared(picture):
    scaled = resized(picture, 32).astype(np.float32) / 255.0
    return ((scaled - MEAN) / STD).transpose(2, 0, 1)[None]


folder, out = sys.argv[1:]
session = ort.InferenceSession(f"{folder}/vision.onnx", None)
name, size = session.get_inputs()[0].name, session.get_inputs()[0].shape[-1]
assert size == 32
random = np.random.default_rng(11)
pictures = [random.integers(0, 256, (h, w, 3), np.uint8) for h, w in ((48, 64), (33, 40), (90, 50))]
alone = [session.run([], {name: prepared(p)})[0] for p in pictures]  # not contiguous
(together,) = session.run(None, {name: np.concatenate([prepared(p) for p in pictures])})
flipped = session.run(None, {name: prepared(pictures[0][:, ::-1])})[0]
top = np.argsort(together, axis=1)[:, ::-1][:, :3]
np.savez(out, alone=np.concatenate(alone), together=together, flipped=flipped, top=top)
