"""Knapper under the name `openvino`, for programs that import that."""

from __future__ import annotations

import os

from knapper.standin import StandIn

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "as_openvino")
STAND_IN = StandIn(
    "knapper.openvino",
    "openvino",
    FOLDER,
    {
        "frontend": "Core().read_model(path) reads ONNX",
        "opset": "make the model with the package onnx",
        "preprocess": "prepare inputs with NumPy, or put the steps into the model",
        "tools": "run this step with OpenVINO, or with knapper.quantize",
    },
)
install = STAND_IN.install
