"""Every option that tuning guides mention."""

import os
import sys

import numpy as np
import onnxruntime as ort

folder, out = sys.argv[1:]
ort.set_seed(42)
ort.set_default_logger_severity(3)
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
options.intra_op_num_threads = os.cpu_count()
options.inter_op_num_threads = 1
options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
options.enable_mem_pattern = True
options.enable_mem_reuse = True
options.enable_cpu_mem_arena = True
options.use_deterministic_compute = True
options.log_severity_level = 3
options.log_verbosity_level = 0
options.logid = "vision"
options.optimized_model_filepath = os.path.join(os.getcwd(), "optimised.onnx")
for key, text in {
    "session.intra_op.allow_spinning": "1",
    "session.inter_op.allow_spinning": "0",
    "session.set_denormal_as_zero": "1",
    "session.disable_prepacking": "0",
    "session.dynamic_block_base": "4",
    "session.use_device_allocator_for_initializers": "1",
    "optimization.enable_gelu_approximation": "0",
    "session.qdqisint8allowed": "0",
}.items():
    options.add_session_config_entry(key, text)
assert options.get_session_config_entry("session.dynamic_block_base") == "4"
session = ort.InferenceSession(f"{folder}/vision.onnx", options)
images = np.random.default_rng(5).random((3, 3, 32, 32), dtype=np.float32)
(scores,) = session.run(None, {"image": images})

# The next start loads what was optimised and optimises nothing.
again = ort.SessionOptions()
again.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
quick = ort.InferenceSession(options.optimized_model_filepath, again)
(same,) = quick.run(None, {"image": images})
np.savez(out, scores=scores, same=same, threads=session.get_session_options().intra_op_num_threads)
