"""A detector's start: names, strides and sizes from the model's metadata."""

import json
import sys

import numpy as np
import onnxruntime
from packaging.version import Version

folder, out = sys.argv[1:]
if Version(onnxruntime.__version__) < Version("1.16"):
    raise RuntimeError("onnxruntime is too old")
session = onnxruntime.InferenceSession(f"{folder}/classifier.onnx")
meta = session.get_modelmeta()
labels = json.loads(meta.custom_metadata_map["labels"])
stride = int(meta.custom_metadata_map.get("stride", 1))
names = [value.name for value in session.get_outputs()]
(probabilities,) = session.run(
    [names[-1]], {session.get_inputs()[0].name: np.full((2, 16), 0.25, np.float32)}
)
np.savez(
    out,
    producer=meta.producer_name,
    graph=meta.graph_name,
    description=meta.description,
    domain=meta.domain,
    version=meta.version,
    labels=np.array(labels)[probabilities.argmax(1)],
    stride=stride,
    keys=np.array(sorted(meta.custom_metadata_map)),
    shapes=np.array([str(v.shape) for v in session.get_inputs() + session.get_outputs()]),
)
