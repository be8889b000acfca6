"""silero-vad, chunk by chunk: the state goes from call to call."""

import pathlib
import sys

import numpy as np
import onnxruntime

folder, out = sys.argv[1:]
package = next(p for p in map(pathlib.Path, sys.path) if (p / "silero_vad" / "data").is_dir())
options = onnxruntime.SessionOptions()
options.inter_op_num_threads = 1
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(
    str(package / "silero_vad" / "data" / "silero_vad.onnx"),
    providers=["CPUExecutionProvider"],
    sess_options=options,
)
rate, window, context = 16000, 512, 64
time = np.arange(rate) / rate
voice = np.sin(2 * np.pi * 150 * time) * (np.sin(2 * np.pi * 3 * time) > 0)
voice += 0.3 * np.sin(2 * np.pi * 1200 * time) * (np.sin(2 * np.pi * 5 * time) > 0)
samples = (0.4 * voice + 0.01 * np.random.default_rng(16).standard_normal(rate)).astype("f")
state = np.zeros((2, 1, 128), np.float32)
before = np.zeros((1, context), np.float32)
speech = []
for start in range(0, rate - window, window):
    chunk = samples[None, start : start + window]
    feed = {"input": np.concatenate([before, chunk], 1), "state": state, "sr": np.array(rate)}
    probability, state = session.run(None, feed)
    before = chunk[:, -context:]
    speech.append(probability[0, 0])
np.savez(out, speech=np.array(speech), state=state)
