"""Options of one run: a tag for the log, the arena, ending a run from outside."""

import sys

import numpy as np
import onnxruntime as ort

folder, out = sys.argv[1:]
session = ort.InferenceSession(f"{folder}/classifier.onnx")
rows = np.random.default_rng(8).standard_normal((4, 16)).astype(np.float32)

options = ort.RunOptions()
options.logid = "request-17"
options.log_severity_level = 2
options.only_execute_path_to_fetches = True
options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
(logits,) = session.run(["logits"], {"input": rows}, options)

ended = ort.RunOptions()
ended.terminate = True
try:
    session.run(None, {"input": rows}, run_options=ended)
    outcome = "ran"
except Exception as error:
    outcome = type(error).__name__
    assert "terminate" in str(error)
ended.terminate = False
(after,) = session.run(["logits"], {"input": rows}, ended)
np.savez(out, logits=logits, outcome=outcome, after=after, tag=options.logid)
