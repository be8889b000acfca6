"""Where ONNX Runtime keeps its exceptions and classes."""

from onnxruntime.capi import (  # noqa: F401
    _pybind_state,
    onnxruntime_inference_collection,
    onnxruntime_pybind11_state,
)
