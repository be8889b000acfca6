"""The best provider that there is, each with its options; the CPU last."""

import sys
import warnings

import numpy as np
import onnxruntime as ort

PREFERRED = [
    ("TensorrtExecutionProvider", {"trt_engine_cache_enable": True}),
    ("CUDAExecutionProvider", {"device_id": 0, "arena_extend_strategy": "kNextPowerOfTwo",
                               "gpu_mem_limit": 2 << 30, "cudnn_conv_algo_search": "HEURISTIC"}),
    ("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"}),
]  # fmt: skip

folder, out = sys.argv[1:]
there = ort.get_available_providers()
wanted = [entry for entry in PREFERRED if entry[0] in there]
session = ort.InferenceSession(f"{folder}/vision.onnx", providers=wanted)
images = np.random.default_rng(9).random((1, 3, 32, 32), dtype=np.float32)
(scores,) = session.run(None, {"image": images})

# Others do not look first.
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", UserWarning)
    blind = ort.InferenceSession(
        f"{folder}/vision.onnx",
        providers=["DmlExecutionProvider", "CPUExecutionProvider"],
        provider_options=[{}, {}],
    )
missing = ["Specified provider" in str(warning.message) for warning in caught]
(same,) = blind.run(None, {"image": images})
np.savez(out, scores=scores, same=same, warned=missing.count(True),
         last=session.get_providers()[-1], device=ort.get_device() in ("CPU", "GPU"))
