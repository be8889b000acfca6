"""Knapper: compile a model once, run it anywhere as native kernels.

    import knapper

    m = knapper.compile("model.onnx", target="cpu", threads=2)
    y = m(x)                     # NumPy arrays or anything with DLPack
    y[0], y["logits"]            # by position, by name
    m.save("model.knap")
    m = knapper.load("model.knap", threads=2)

Everything goes through the C API of one shared library (see `knapper.library`);
the package itself needs NumPy only. Errors are `UserError` (the model, a file or
an argument: yours to fix), `DeviceError` (the machine) and `InternalError` (a
defect of Knapper), all of them `knapper.Error`, and Python's own class where one
fits (ValueError, TypeError, FileNotFoundError, MemoryError...). Messages of the library go to
the Python logger named "knapper", which is silent unless logging is configured.
"""

from typing import TYPE_CHECKING

from knapper.arguments import TensorInfo
from knapper.cancellation import Cancellation
from knapper.compiler import compile, inspect, translate, verify
from knapper.devices import devices
from knapper.errors import DeviceError, Error, InternalError, UserError
from knapper.bound import Bound
from knapper.llm import LLM, Completion
from knapper.module import Module, load
from knapper.operators import (
    TensorSpec,
    UnknownSize,
    load_operators,
    register_operator,
    unregister_operator,
)
from knapper.quantization import Quantized, quantize
from knapper.results import Pending, Result
from knapper.tensor import Tensor
from knapper.library import has_compiler, version

__all__ = [
    "Bound",
    "Cancellation",
    "Completion",
    "DeviceError",
    "Error",
    "InternalError",
    "LLM",
    "Module",
    "Pending",
    "Quantized",
    "Result",
    "Tensor",
    "TensorInfo",
    "TensorSpec",
    "UnknownSize",
    "UserError",
    "compile",
    "devices",
    "has_compiler",
    "inspect",
    "load",
    "load_operators",
    "quantize",
    "register_operator",
    "translate",
    "unregister_operator",
    "verify",
    "version",
]


__version__: str

if not TYPE_CHECKING:  # for a checker any name would be there

    def __getattr__(name: str) -> str:
        if name == "__version__":
            return version()
        raise AttributeError(f"module 'knapper' has no attribute {name!r}")
