"""An output that is a sequence of arrays."""

import sys

import numpy as np
import onnxruntime as ort

folder, out = sys.argv[1:]
session = ort.InferenceSession(f"{folder}/pieces.onnx")
assert session.get_outputs()[0].type == "seq(tensor(float))"
(pieces,) = session.run(None, {"x": np.arange(12, dtype=np.float32).reshape(4, 3)})
np.savez(out, *pieces)
