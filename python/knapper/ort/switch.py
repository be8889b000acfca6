"""Knapper under the name `onnxruntime`, for libraries that import that."""

from __future__ import annotations

import os

from knapper.standin import StandIn

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "as_onnxruntime")
STAND_IN = StandIn(
    "knapper.ort",
    "onnxruntime",
    FOLDER,
    {
        "backend": "make an InferenceSession",
        "datasets": "give the path of a model of yours",
        "quantization": "knapper.quantize(model, output, ...) quantises; or run this "
        "step with ONNX Runtime, whose quantised models are read",
        "tools": "run this step with ONNX Runtime, whose models are read",
        "transformers": "leave it out, a session optimises the model; or run this step "
        "with ONNX Runtime, whose optimised models are read",
    },
)
install = STAND_IN.install
