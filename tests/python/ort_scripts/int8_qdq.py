"""A model with QuantizeLinear and DequantizeLinear, as quantisers write it."""

import sys

import numpy as np
import onnxruntime as ort

folder, out = sys.argv[1:]
random = np.random.default_rng(6)
batches = [random.standard_normal((n, 16)).astype(np.float32) for n in (1, 3, 32)]


def results(level):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.add_session_config_entry("session.disable_quant_qdq", "0")
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = ort.InferenceSession(f"{folder}/quantised.onnx", options)
    return np.concatenate([session.run(None, {"input": rows})[0] for rows in batches])


plain = results(ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
fused = results(ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
np.savez(out, plain=plain, fused_steps=np.rint(fused / 0.05).astype(np.int64))
