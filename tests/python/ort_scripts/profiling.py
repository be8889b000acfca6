"""A profile under a name of one's own, summed by operator."""

import collections
import json
import os
import sys

import numpy as np
import onnxruntime as ort

folder, out = sys.argv[1:]
options = ort.SessionOptions()
options.enable_profiling = True
options.profile_file_prefix = "prof"
session = ort.InferenceSession(f"{folder}/vision.onnx", sess_options=options)
images = np.random.default_rng(4).random((2, 3, 32, 32), dtype=np.float32)
for _ in range(3):
    (scores,) = session.run(None, {"image": images})
path = session.end_profiling()
with open(path) as file:
    events = json.load(file)
times = collections.Counter()
for event in events:
    if event["cat"] == "Node" and event["name"].endswith("_kernel_time"):
        assert event["args"]["provider"] == "CPUExecutionProvider"
        times[event["args"]["op_name"]] += event["dur"]
for name, microseconds in times.most_common(3):
    print(f"{name:20} {microseconds / 3:8.1f} us a run")
runs = [event for event in events if event["name"] == "model_run"]
starts = [event["name"] for event in events if event["cat"] == "Session"]
assert session.get_profiling_start_time_ns() >= 0
np.savez(
    out,
    scores=scores,
    runs=len(runs),
    named=os.path.basename(path).startswith("prof_20") and path.endswith(".json"),
    timed=bool(times) and all(event["dur"] >= 0 for event in runs),
    phases=np.array([name for name in starts if name.startswith("session_")]),
)
os.remove(path)
