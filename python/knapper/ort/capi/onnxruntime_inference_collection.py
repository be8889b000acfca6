"""Where ONNX Runtime keeps its Python classes."""

from knapper.ort.binding import IOBinding
from knapper.ort.device import OrtDevice, OrtDeviceVendorId, get_ort_device_type
from knapper.ort.session import InferenceSession
from knapper.ort.value import OrtValue

Session = InferenceSession

__all__ = [
    "IOBinding",
    "InferenceSession",
    "OrtDevice",
    "OrtDeviceVendorId",
    "OrtValue",
    "Session",
    "get_ort_device_type",
]
