"""Calls of microseconds: inputs and outputs bound once."""

from __future__ import annotations

import ctypes
import functools
from ctypes import c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from knapper.errors import UserError
from knapper.library import CTensor, check
from knapper.tensor import Tensor

if TYPE_CHECKING:
    from knapper.module import Module, TensorInfo


def _like(made: Any, info: TensorInfo) -> np.ndarray:
    """Memory for an output that is like the one of a run."""
    if isinstance(made, Tensor):
        raise UserError(
            f"output {info}: NumPy has no such dtype without ml_dtypes",
            where=info.name,
            hint="install ml_dtypes, or bind memory by DLPack",
        )
    return np.empty_like(made)


class Bound:
    """A call whose inputs and outputs are bound, made by `Module.bind`.

    `bound()` reads the inputs as they are then, writes the outputs and returns
    them. Not for several threads at once: each needs one of its own.
    """

    __slots__ = ("inputs", "outputs", "_call", "_out", "_release", "_keep")

    def __init__(self, module: Module, inputs: Any, outputs: Any) -> None:
        values = list(module._bind_collection(inputs))
        for info, value in zip(module._inputs, values):
            if isinstance(value, np.ndarray):
                good = value.flags.c_contiguous
            else:
                good = hasattr(value, "__dlpack__")
            if not good:
                raise UserError(
                    f"input {info}: {type(value).__name__} would be copied",
                    where=info.name,
                    hint="bind a contiguous NumPy array or an object with __dlpack__",
                )
        late = [s["name"] for s in module.describe()["symbols"] if s["from_buffer"]]
        if late:
            raise UserError(
                f"size {late[0]!r} is known after a run only",
                where="bind",
                hint="call the module, or use `run`",
            )
        memory = [None] * len(module._outputs)
        if outputs is not None:
            memory = list(module._positioned(outputs))
        if any(array is None for array in memory):
            # This run is for sizes: what lies in an input's memory stays as it is.
            apart = module.in_place
            made = module.run(
                values,
                [
                    None if info.name in apart else array
                    for info, array in zip(module._outputs, memory)
                ],
            )
            memory = [
                _like(made[i], module._outputs[i]) if array is None else array
                for i, array in enumerate(memory)
            ]
        prepared, keep = module._prepare(values, cached=False)
        given, targets = module._targets(memory, cached=False)
        lib = module._lib
        self.inputs = values
        self.outputs = memory
        self._out = c_void_p()
        self._release = lib.knapper_result_release
        self._keep = (module, prepared, keep, given, targets)
        self._call = functools.partial(
            lib.knapper_run,
            module._handle.value,
            ctypes.cast(prepared.tensors, ctypes.POINTER(CTensor)),
            len(values),
            ctypes.cast(targets, ctypes.POINTER(CTensor)),
            len(module._outputs),
            ctypes.pointer(self._out),
        )

    def __call__(self) -> list[Any]:
        error = self._call()
        if error is not None:
            check(error)
        self._release(self._out)
        return self.outputs
