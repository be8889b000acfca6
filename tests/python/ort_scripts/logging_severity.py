"""Quiet logs: the module's, the session's, a run's, and the environment's telemetry."""

import logging
import sys

import numpy as np
import onnxruntime as ort

folder, out = sys.argv[1:]
logging.basicConfig(level=logging.WARNING)
ort.disable_telemetry_events()
ort.set_default_logger_severity(4)
ort.set_default_logger_verbosity(0)
try:
    ort.set_default_logger_severity(9)
    refused = False
except Exception:
    refused = True
options = ort.SessionOptions()
options.log_severity_level = 4
session = ort.InferenceSession(f"{folder}/classifier.onnx", options)
run = ort.RunOptions()
run.log_severity_level = 4
run.log_verbosity_level = 0
(logits, probabilities) = session.run(None, {"input": np.ones((1, 16), np.float32)}, run)
np.savez(out, logits=logits, probabilities=probabilities, refused=refused,
         level=session.get_session_options().log_severity_level)
