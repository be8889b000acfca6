"""ONNX Runtime's Python calls, run by Knapper.

    import knapper.ort as ort                 # was: import onnxruntime as ort

    session = ort.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    (y,) = session.run(None, {name: x})

A hint of memory or speed that is not honoured gives one `HintWarning`
(KNAPPER_ORT_STRICT=1 or `set_strict(True)` refuses it); everything else that is not
honoured makes the session raise `NotImplemented`, which lists all of it.
docs/coming-from-onnxruntime.md says what becomes of each option and call.

Libraries that import onnxruntime themselves run on Knapper after `install()`, or
started by `python -m knapper.ort script.py`.
"""

from __future__ import annotations

import logging
import platform

import knapper
from knapper.ort.binding import IOBinding
from knapper.ort.device import OrtDevice, OrtDeviceVendorId
from knapper.ort.errors import refuse
from knapper.ort.model_file import ModelMetadata
from knapper.ort.options import RunOptions, SessionOptions
from knapper.ort.providers import CUDA, available
from knapper.ort.refusals import HintWarning, hint, is_strict, set_strict
from knapper.ort.session import InferenceSession, NodeArg
from knapper.ort.settings import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from knapper.ort.switch import install
from knapper.ort.value import OrtValue
from knapper.ort import capi  # noqa: F401
from knapper.ort.capi import onnxruntime_pybind11_state  # noqa: F401

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "HintWarning",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtDevice",
    "OrtDeviceVendorId",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "disable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "install",
    "is_strict",
    "preload_dlls",
    "print_debug_info",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "set_strict",
]

# The ONNX Runtime whose calls these are: libraries compare it. Knapper's own version
# is `knapper.__version__`.
__version__ = "1.31.1"


def get_available_providers() -> list[str]:
    """'CPUExecutionProvider', after 'CUDAExecutionProvider' where there is a GPU."""
    return list(available())


def get_all_providers() -> list[str]:
    """['CUDAExecutionProvider', 'CPUExecutionProvider']."""
    return [CUDA, "CPUExecutionProvider"]


def get_device() -> str:
    """'GPU' where there is an NVIDIA GPU, else 'CPU'."""
    return "GPU" if CUDA in available() else "CPU"


def get_version_string() -> str:
    """The ONNX Runtime whose calls these are, as `__version__`."""
    return __version__


def get_build_info() -> str:
    """Names Knapper and its version."""
    return f"Knapper {knapper.version()}, calls of ONNX Runtime {__version__}"


def print_debug_info() -> None:
    """Prints versions, the platform and the devices."""
    print(get_build_info())
    print("platform:", platform.platform())
    for device in knapper.devices():
        print("device:", device)


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: object = None
) -> None:
    """There is nothing to load: no library of CUDA's but the driver is used."""


def set_default_logger_severity(severity: int) -> None:
    """Sets the level of Python's logger "knapper": 0 verbose, 1 info, 2 warning,
    3 error, 4 fatal. Messages appear where logging is configured."""
    levels = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL
    if not isinstance(severity, int) or not 0 <= severity < len(levels):
        raise RuntimeError(
            f"Invalid logging severity {severity!r}; 0 (verbose) to 4 (fatal)"
        )
    logging.getLogger("knapper").setLevel(levels[severity])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Only how much of "verbose" is shown: there is one degree of it here."""


def disable_telemetry_events() -> None:
    """Knapper sends none."""


def enable_telemetry_events() -> None:
    """Raises NotImplemented."""
    raise refuse("enable_telemetry_events", "leave it out: there is no telemetry")


def set_seed(seed: int) -> None:
    """A hint: random operators draw the same numbers in each run as it is, by their
    attribute `seed` or else by their name."""
    hint(
        f"set_seed({seed!r})",
        "random operators draw the same numbers in each run, others than ONNX "
        "Runtime's; their attribute `seed` changes them",
    )


def set_global_thread_pool_sizes(intra_op: int, inter_op: int) -> None:
    """A hint: each session has threads of its own."""
    hint("set_global_thread_pool_sizes", "set SessionOptions.intra_op_num_threads")


def __getattr__(name: str) -> str:
    raise AttributeError(
        f"module 'knapper.ort' has no attribute {name!r}; "
        "docs/coming-from-onnxruntime.md says what there is"
    )
