"""Thresholds that a model has defaults for: left, fed, and replaced for a session."""

import sys

import numpy as np
import onnxruntime as ort

folder, out = sys.argv[1:]
path = f"{folder}/tunable.onnx"
session = ort.InferenceSession(path)
defaults = {value.name: value.shape for value in session.get_overridable_initializers()}
scores = np.random.default_rng(15).random(20, dtype=np.float32)
(plain,) = session.run(None, {"scores": scores})
results = [
    session.run(None, {"scores": scores, "threshold": np.array([t], np.float32)})[0]
    for t in (0.1, 0.9)
]
(scaled,) = session.run(
    None,
    {"scores": scores, "threshold": np.float32([0.2]), "scale": np.float32([0.5])},
)
weights = ort.OrtValue.ortvalue_from_numpy(np.float32([3.0]))
options = ort.SessionOptions()
options.add_initializer("scale", weights)
(replaced,) = ort.InferenceSession(path, options).run(None, {"scores": scores})
np.savez(out, plain=plain, fed=np.stack(results), scaled=scaled, replaced=replaced,
         names=np.array(sorted(defaults)))
