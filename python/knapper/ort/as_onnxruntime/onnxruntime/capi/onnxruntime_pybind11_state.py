"""As `knapper.ort.capi.onnxruntime_pybind11_state`."""

from knapper.ort.capi.onnxruntime_pybind11_state import *  # noqa: F401,F403
