"""As `knapper.ort.capi.onnxruntime_inference_collection`."""

from knapper.ort.capi.onnxruntime_inference_collection import *  # noqa: F401,F403
