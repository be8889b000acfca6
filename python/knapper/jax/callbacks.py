"""Functions of Python's that a compiled program calls: callbacks of the user's, and
LAPACK's routines by SciPy.

A program names its function; the operator `knapper.jax.Call` finds it here when it
runs. Names of the user's functions are of this process alone, so that a program from
the compile cache never finds another's.
"""

from __future__ import annotations

import itertools
import threading
import uuid
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import knapper
from knapper.errors import UserError

DOMAIN, OPERATOR, TARGET = "knapper.jax", "Call", "knapper.call"


class _Function:
    """A function, and what it gives: dtypes and shapes as JAX has them."""

    def __init__(self, call: Callable[..., Any], avals: Sequence[Any]) -> None:
        self.call = call
        self.results = [(np.dtype(aval.dtype), tuple(aval.shape)) for aval in avals]


_functions: weakref.WeakValueDictionary[str, _Function] = weakref.WeakValueDictionary()
_process = uuid.uuid4().hex
_numbers = itertools.count()
_lock = threading.Lock()
_registered = False


def _find(name: str) -> _Function:
    found = _functions.get(name)
    if found is None:
        raise UserError(
            f"the program calls a function of Python's ({name}) that this process does not have",
            where="knapper.jax",
            hint="jit the function again: a program with callbacks runs where it was compiled",
        )
    return found


def _part(dtype: np.dtype) -> np.dtype:
    """Of a complex number: its parts lie side by side."""
    return np.dtype(np.float64 if dtype.itemsize == 16 else np.float32)


def _shapes(*inputs: Any, function: str) -> list[tuple[Any, tuple[int, ...]]]:
    return [
        (_part(dtype), (*shape, 2)) if dtype.kind == "c" else (dtype, shape)
        for dtype, shape in _find(function).results
    ]


def _compute(*inputs: np.ndarray, function: str, out: tuple[np.ndarray, ...]) -> None:
    found = _find(function)
    given = found.call(*inputs)
    for array, value, (dtype, shape) in zip(out, given, found.results, strict=True):
        value = np.asarray(value)
        if value.shape != shape:
            raise ValueError(f"a callback gives an array of shape {value.shape} for {shape}")
        target = array.view(dtype)[..., 0] if dtype.kind == "c" else array
        np.copyto(target, value, casting="same_kind")


def _register() -> None:
    global _registered
    with _lock:
        if not _registered:
            knapper.register_operator(DOMAIN, OPERATOR, compute=_compute, shape=_shapes)
            _registered = True


def call(ctx: Any, function: Callable[..., Any], operands: Sequence[Any], avals_in: Sequence[Any], avals_out: Sequence[Any]) -> list[Any]:
    """An op that calls `function(*arrays)`, which returns a tuple of arrays. The
    function lives as long as what is compiled of it."""
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    _register()

    def on_arrays(*arrays: np.ndarray) -> Any:
        given = [
            array.view(aval.dtype)[..., 0] if np.dtype(aval.dtype).kind == "c" else array
            for array, aval in zip(arrays, avals_in, strict=True)
        ]
        return function(*given)

    holder = _Function(on_arrays, avals_out)
    name = f"{_process}:{next(_numbers)}"
    _functions[name] = holder
    ctx.module_context.add_keepalive(holder)
    types = [
        ir.RankedTensorType.get(aval.shape, mlir.dtype_to_ir_type(np.dtype(aval.dtype)))
        for aval in avals_out
    ]
    op = mlir.custom_call(
        TARGET, result_types=types, operands=list(operands), backend_config=name, has_side_effect=True
    )
    return list(op.results)
