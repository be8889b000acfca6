"""The names of `onnxruntime_pybind11_state`, as ONNX Runtime repeats them."""

from knapper.ort.capi.onnxruntime_pybind11_state import *  # noqa: F401,F403
