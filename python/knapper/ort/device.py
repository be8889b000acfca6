"""OrtDevice: where a value lives."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class OrtDeviceVendorId(enum.IntEnum):
    """PCI vendors, NONE for the host."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


_KINDS = {"cpu": 0, "cuda": 1, "gpu": 1}


def get_ort_device_type(device_type: str) -> int:
    """ONNX Runtime's number for "cpu", "cuda" and "gpu". Raises ValueError."""
    if device_type not in _KINDS:
        raise ValueError(
            f"Unsupported device type: {device_type}; there are {', '.join(_KINDS)}"
        )
    return _KINDS[device_type]


@dataclass(frozen=True)
class OrtDevice:
    """A device by kind, number and vendor; made by `make`."""

    _kind: int
    _id: int
    _vendor: int

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """Raises ValueError for devices other than "cpu", "cuda", "gpu"."""
        kind = get_ort_device_type(ort_device_name)
        if vendor_id < 0:
            vendor_id = OrtDeviceVendorId.NVIDIA if ort_device_name == "cuda" else 0
        return OrtDevice(kind, int(device_id), int(vendor_id))

    @staticmethod
    def cpu() -> int:
        """0."""
        return _KINDS["cpu"]

    @staticmethod
    def cuda() -> int:
        """1."""
        return _KINDS["cuda"]

    @staticmethod
    def default_memory() -> int:
        """0."""
        return 0

    def device_type(self) -> int:
        """0: the host, 1: a GPU."""
        return self._kind

    def device_id(self) -> int:
        """Its number."""
        return self._id

    def device_vendor_id(self) -> int:
        """A PCI vendor; 0 for the host."""
        return self._vendor

    def device_mem_type(self) -> int:
        """0: the device's own memory."""
        return 0
