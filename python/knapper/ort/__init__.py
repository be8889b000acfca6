"""ONNX Runtime's Python calls, run by Knapper.

    import knapper.ort as ort                 # was: import onnxruntime as ort

    session = ort.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    (y,) = session.run(None, {name: x})

An option that is not honoured raises `NotImplemented` with what to do instead;
docs/coming-from-onnxruntime.md says what becomes of each option and call.
"""

from __future__ import annotations

import logging

import knapper
from knapper.ort.binding import IOBinding
from knapper.ort.errors import refuse
from knapper.ort.loading import PROVIDER
from knapper.ort.model_file import ModelMetadata
from knapper.ort.options import RunOptions, SessionOptions
from knapper.ort.session import InferenceSession, NodeArg
from knapper.ort.settings import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from knapper.ort.value import OrtValue
from knapper.ort import capi  # noqa: F401
from knapper.ort.capi import onnxruntime_pybind11_state  # noqa: F401

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "disable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]


def get_available_providers() -> list[str]:
    """['CPUExecutionProvider']."""
    return [PROVIDER]


def get_all_providers() -> list[str]:
    """['CPUExecutionProvider']."""
    return [PROVIDER]


def get_device() -> str:
    """'CPU'."""
    return "CPU"


def get_version_string() -> str:
    """Knapper's version."""
    return knapper.version()


def get_build_info() -> str:
    """Names Knapper and its version."""
    return f"Knapper {knapper.version()}"


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
    """Raises NotImplemented."""
    raise refuse("set_seed", "give the model's random operators their attribute `seed`")


def set_global_thread_pool_sizes(intra_op: int, inter_op: int) -> None:
    """Raises NotImplemented."""
    raise refuse(
        "set_global_thread_pool_sizes", "set SessionOptions.intra_op_num_threads"
    )


def __getattr__(name: str) -> str:
    if name == "__version__":
        return knapper.version()
    raise AttributeError(
        f"module 'knapper.ort' has no attribute {name!r}; "
        "docs/coming-from-onnxruntime.md says what there is"
    )
