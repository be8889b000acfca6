"""Open sizes fixed for a session, as for phones and graph capture."""

import sys

import numpy as np
import onnxruntime as ort

folder, out = sys.argv[1:]
options = ort.SessionOptions()
options.add_free_dimension_override_by_name("batch_size", 2)
options.add_free_dimension_override_by_name("sequence_length", 7)
session = ort.InferenceSession(f"{folder}/text.onnx", options)
shapes = {value.name: value.shape for value in session.get_inputs()}
ids = np.random.default_rng(14).integers(0, 64, shapes["input_ids"])
hidden, logits = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
try:
    session.run(None, {"input_ids": ids[:1], "attention_mask": np.ones_like(ids[:1])})
    outcome = "ran"
except Exception as error:
    outcome = type(error).__name__
np.savez(out, hidden=hidden, logits=logits, shape=shapes["attention_mask"], outcome=outcome)
