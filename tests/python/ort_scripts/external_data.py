"""Weights in a file beside the model, opened from another folder."""

import os
import pathlib
import sys

import numpy as np
import onnxruntime

folder, out = map(pathlib.Path, sys.argv[1:])
out = out.absolute()
path = folder / "big" / "model.onnx"
assert (path.parent / "model.onnx_data").stat().st_size > path.stat().st_size
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
ids = np.random.default_rng(7).integers(0, 512, (2, 9))
feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
hidden, logits = session.run(None, feed)
os.chdir(path.parent)
(again,) = onnxruntime.InferenceSession("model.onnx").run(["logits"], feed)
np.savez(out, hidden=hidden, logits=logits, again=again)
