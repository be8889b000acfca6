"""Calls of microseconds: inputs and outputs bound once."""

from __future__ import annotations

import ctypes
import functools
from ctypes import c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from knapper.errors import WrongType, WrongValue
from knapper.library import CRunOptions, CTensor, check

if TYPE_CHECKING:
    from knapper.module import Module


def stream_handle(stream: Any) -> int:
    """The CUstream of a torch or CuPy stream, an object with __cuda_stream__
    (cuda.core), or a number."""
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr"):
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    raise WrongType(
        f"stream: a {type(stream).__name__} is no CUDA stream",
        where="stream",
        hint="torch.cuda.current_stream(), an object with __cuda_stream__, or the CUstream as an int",
    )


class Bound:
    """A call whose inputs and outputs are bound, made by `Module.bind`.

    `bound()` reads the inputs as they are then, writes the outputs and returns
    them. Not for several threads at once: each needs one of its own.

    In a stream (`bind(stream=...)`) it takes its place there and does not wait:
    the outputs are there when the stream has come so far. What kernels find wrong
    (an index out of range) is the error of a later call. The stream may be
    captured: replays of the graph need the call and its module alive.
    """

    __slots__ = ("inputs", "outputs", "_call", "_out", "_release", "_keep")
    inputs: list[Any]
    outputs: list[Any]

    def __init__(
        self, module: Module, inputs: Any, outputs: Any, flat: bool, stream: Any = None
    ) -> None:
        arguments = module._arguments
        in_stream = () if stream is None else (1, stream_handle(stream))
        values = list(arguments.bind_collection(inputs))
        if any(i.dtype == "string" for i in arguments.inputs + arguments.outputs):
            raise WrongType(
                "bind: strings are copied by every call",
                where="bind",
                hint="call the module, or use `run`",
            )
        for info, value in zip(arguments.inputs, values):
            if isinstance(value, np.ndarray):
                good = value.flags.c_contiguous
            else:
                good = hasattr(value, "__dlpack__")
            if not good:
                raise WrongType(
                    f"input {info}: {type(value).__name__} would be copied",
                    where=info.name,
                    hint="bind a contiguous NumPy array or an object with __dlpack__",
                )
        memory: list[Any] = [None] * len(arguments.outputs)
        if outputs is not None:
            memory = list(arguments.positioned(outputs))
        shapes = module._check(values, memory, flat, *in_stream)
        late = [i.name for i, s in zip(arguments.outputs, shapes) if -1 in s]
        if late:
            raise WrongValue(
                f"bind: the size of output {late[0]!r} is known after a run only",
                where=late[0],
                hint="call the module, or use `run`",
            )
        if in_stream and any(array is None for array in memory):
            info = next(i for i, array in zip(arguments.outputs, memory) if array is None)
            raise WrongValue(
                f"bind: in a stream, output {info.name!r} needs memory of the GPU",
                where=info.name,
                hint="give outputs, for instance torch.empty(..., device='cuda')",
            )
        made = [None if array is not None else shape for array, shape in zip(memory, shapes)]
        memory = [
            array if shape is None else np.empty(shape, info.dtype)
            for array, shape, info in zip(memory, made, arguments.outputs)
        ]
        prepared, keep = arguments.prepare(values, cached=False)
        copied = [i for i, v in enumerate(keep) if getattr(v, "copied", False)]
        if copied:
            raise WrongValue(
                f"input {arguments.inputs[copied[0]]}: the tensor is not contiguous",
                where=arguments.inputs[copied[0]].name,
                hint="bind a contiguous tensor (torch: tensor.contiguous())",
            )
        given, targets = arguments.targets(memory, cached=False, flat=flat)
        lib = module._lib
        self.inputs = values
        self.outputs = memory
        self._out = c_void_p()
        self._release = lib.knapper_result_release
        options = CRunOptions(ctypes.sizeof(CRunOptions), None, 0, *in_stream)
        self._keep = (module, prepared, keep, given, targets, options)
        call = (
            module._handle.value,
            ctypes.cast(prepared.tensors, ctypes.POINTER(CTensor)),
            len(values),
            ctypes.cast(targets, ctypes.POINTER(CTensor)),
            len(arguments.outputs),
        )
        out = ctypes.pointer(self._out)
        if in_stream:
            self._call = functools.partial(
                lib.knapper_run_with, *call, ctypes.pointer(options), out
            )
        else:
            self._call = functools.partial(lib.knapper_run, *call, out)

    def __call__(self) -> list[Any]:
        error = self._call()
        if error is not None:
            check(error)
        self._release(self._out)
        return self.outputs

    def __reduce__(self) -> tuple[Any, ...]:
        raise WrongType(
            "a bound call cannot be pickled: it is tied to the memory of its arrays",
            where="Bound",
            hint="pickle the module, and bind where it is loaded",
        )
