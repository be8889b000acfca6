"""Calls that read torch's tensors in the library: one call for a whole list.

Torch hands out a C function that describes a tensor (DLPack's exchange API), the
running Python those that read a list; the library is given both.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, Structure, byref, c_int32, c_size_t, c_void_p, py_object
from typing import Any

import torch

from knapper.library import check, library


class CObject(Structure):
    """One tensor or number of a call, as the C side lays it out (capi/ObjectCall.h)."""

    _fields_ = [
        ("index", c_int32),
        ("rank", c_int32),
        ("dtype", c_int32),
        ("is_integer", c_int32),
        ("order", POINTER(c_int32)),
    ]


class _Reader(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("item", c_void_p),
        ("integer", c_void_p),
        ("tensor", c_void_p),
        ("leave", c_void_p),
        ("enter", c_void_p),
        ("stream", c_void_p),
    ]


class _Exchange(Structure):
    """DLPackExchangeAPI of DLPack 1.3."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", c_void_p),
        ("allocate", c_void_p),
        ("from_object", c_void_p),
        ("to_object", c_void_p),
        ("describe", c_void_p),
        ("stream", c_void_p),
    ]


@functools.cache
def _reader() -> _Reader | None:
    """None where this torch has no such functions."""
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    python = ctypes.pythonapi
    pointer = python.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c_void_p, [py_object, ctypes.c_char_p]
    exchange = ctypes.cast(pointer(capsule, b"dlpack_exchange_api"), POINTER(_Exchange))
    if exchange[0].major != 1 or not exchange[0].describe:
        return None

    def address(function: Any) -> int | None:
        return ctypes.cast(function, c_void_p).value

    return _Reader(
        ctypes.sizeof(_Reader),
        address(python.PyList_GetItem),
        address(python.PyLong_AsLongLong),
        exchange[0].describe,
        address(python.PyEval_SaveThread),
        address(python.PyEval_RestoreThread),
        exchange[0].stream,
    )


@functools.cache
def _run() -> Any:
    """knapper_run_objects, called with the interpreter held."""
    function = ctypes.PyDLL(None, handle=library()._handle).knapper_run_objects
    function.restype = c_void_p
    function.argtypes = [
        c_void_p, c_void_p, py_object, c_void_p, c_int32, py_object, c_void_p, c_int32,
        c_int32, c_void_p,
    ]  # fmt: skip
    return function


class Signature:
    """Where a program's inputs and outputs are in two lists, and how they lie.

    inputs, outputs: (index, dims from the outermost in memory inwards, the
    dtype's number, whether an int) each. device: the number of the GPU that has
    the program and its tensors, or -1.
    """

    def __init__(
        self, handle: Any, inputs: list[tuple[int, list[int], int, bool]],
        outputs: list[tuple[int, list[int], int, bool]], device: int = -1,
    ) -> None:  # fmt: skip
        self._keep: list[Any] = []
        self._handle = handle
        self._device = device
        self._reader = byref(_reader())  # type: ignore[arg-type]
        self._run = _run()
        self._inputs, self._count = self._rows(inputs), len(inputs)
        self._outputs, self._made = self._rows(outputs), len(outputs)

    @staticmethod
    def available() -> bool:
        return _reader() is not None

    def _rows(self, given: list[tuple[int, list[int], int, bool]]) -> Any:
        rows = (CObject * max(1, len(given)))()
        for row, (index, order, dtype, integer) in zip(rows, given):
            row.index, row.rank, row.dtype = index, len(order), dtype
            row.is_integer = integer
            if order != sorted(order):
                kept = (c_int32 * len(order))(*order)
                self._keep.append(kept)
                row.order = kept
        return rows

    def run(self, arguments: list[Any], outputs: list[Any]) -> bool:
        """False where a tensor lies in another way: then nothing has run. Raises
        the run's error."""
        refused = c_int32()
        try:
            error = self._run(
                self._handle, self._reader, arguments, self._inputs, self._count,
                outputs, self._outputs, self._made, self._device, byref(refused),
            )  # fmt: skip
        except (RuntimeError, BufferError):  # torch cannot describe one
            return False
        if error is not None:
            check(error)
        return not refused.value
