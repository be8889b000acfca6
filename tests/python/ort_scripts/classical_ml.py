"""A converted scikit-learn pipeline: labels and probabilities of table rows."""

import sys

import numpy as np
import onnxruntime as rt

folder, out = sys.argv[1:]
session = rt.InferenceSession(f"{folder}/trees.onnx", providers=["CPUExecutionProvider"])
input_name = session.get_inputs()[0].name
label_name, probability_name = [o.name for o in session.get_outputs()]
table = np.random.default_rng(13).uniform([4, 2, 1, 0], [8, 4.5, 7, 2.5], (60, 4))
labels = session.run([label_name], {input_name: table.astype(np.float32)})[0]
probabilities = session.run([probability_name], {input_name: table.astype(np.float32)})[0]
one_by_one = [
    session.run(None, {input_name: row[None].astype(np.float32)})[0][0] for row in table[:5]
]
np.savez(out, labels=labels, probabilities=probabilities, one_by_one=np.array(one_by_one),
         counts=np.bincount(labels, minlength=3))
