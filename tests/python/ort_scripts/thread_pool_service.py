"""A model server's handler: one session, a thread pool, the usual service options."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime as ort


class Service:
    def __init__(self, path):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = ort.InferenceSession(
            path, options, providers=["CUDAExecutionProvider", "CPUExecutionProvider"]
        )
        self.input = self.session.get_inputs()[0].name
        self.labels = json.loads(
            self.session.get_modelmeta().custom_metadata_map["labels"]
        )

    def predict(self, body):
        rows = np.asarray(json.loads(body)["instances"], dtype=np.float32)
        (probabilities,) = self.session.run(["probabilities"], {self.input: rows})
        best = probabilities.argmax(axis=1)
        return {
            "labels": [self.labels[i] for i in best],
            "scores": probabilities.max(axis=1).tolist(),
        }


folder, out = sys.argv[1:]
service = Service(f"{folder}/classifier.onnx")
random = np.random.default_rng(0)
requests = [
    json.dumps({"instances": random.standard_normal((1 + i % 3, 16)).tolist()})
    for i in range(24)
]
with ThreadPoolExecutor(max_workers=4) as pool:
    answers = list(pool.map(service.predict, requests))
np.savez(
    out,
    labels=np.array([label for answer in answers for label in answer["labels"]]),
    scores=np.array([score for answer in answers for score in answer["scores"]]),
)
