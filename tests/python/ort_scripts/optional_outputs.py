"""A recurrent model whose first output is left out, its state carried by the caller."""

import sys

import numpy as np
import onnxruntime as ort

folder, out = sys.argv[1:]
session = ort.InferenceSession(f"{folder}/recurrent.onnx")
state = {"h0": np.zeros((1, 2, 8), np.float32), "c0": np.zeros((1, 2, 8), np.float32)}
random = np.random.default_rng(12)
seen = []
for steps in (5, 1, 3):
    x = random.standard_normal((steps, 2, 4)).astype(np.float32)
    hidden, cell, last = session.run(["hn", "cn", "state"], {"x": x, **state})
    state = {"h0": hidden, "c0": cell}
    seen.append(last)
(twice, again) = session.run(["state", "state"], {"x": x, **state})
np.savez(out, seen=np.stack(seen), hidden=hidden, cell=cell, twice=twice, again=again)
