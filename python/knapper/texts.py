"""Strings: NumPy arrays of str on this side, knapper_string on the other."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from knapper import dtypes
from knapper.errors import WrongType

CODE = dtypes.NAMES.index("string")
# Bytes that are no UTF-8 come back as they were.
_ERRORS = "surrogateescape"


class Texts:
    """The strings of an array as the library reads them; alive as long as this
    object. `pointer` is the address of the knapper_string entries."""

    __slots__ = ("shape", "pointer", "_entries", "_bytes")

    code = CODE

    def __init__(self, value: Any, where: str) -> None:
        try:
            # As objects: NumPy's arrays of str lose null characters at the end.
            array = value if isinstance(value, np.ndarray) else np.asarray(value, object)
        except ValueError as error:
            raise WrongType(
                f"{where}: {type(value).__name__} is no array: {error}",
                where=where,
                hint="pass an array of str or bytes",
            ) from error
        if array.size > 0 and array.dtype.kind not in "OUST":
            raise WrongType(
                f"{where}: an array of {array.dtype} where strings are wanted",
                where=where,
                hint="pass an array of str or bytes",
            )
        parts = [_encoded(item, where) for item in array.ravel().tolist()]
        self.shape = array.shape
        self._bytes = np.frombuffer(b"".join(parts) + b"\0", np.uint8)
        self._entries = np.empty((len(parts), 2), np.uint64)
        sizes = np.fromiter(map(len, parts), np.uint64, len(parts))
        self._entries[:, 1] = sizes
        self._entries[:, 0] = np.cumsum(sizes, dtype=np.uint64) - sizes
        self._entries[:, 0] += np.uint64(self._bytes.ctypes.data)
        self.pointer = self._entries.ctypes.data

    @property
    def bytes_count(self) -> int:
        """Bytes of all strings together."""
        return self._bytes.size - 1

    def move_to(self, memory: int) -> None:
        """Copies the bytes there, for entries that outlive this object."""
        ctypes.memmove(memory, self._bytes.ctypes.data, self.bytes_count)
        self._entries[:, 0] -= np.uint64(self._bytes.ctypes.data)
        self._entries[:, 0] += np.uint64(memory)


def _encoded(item: Any, where: str) -> bytes:
    if isinstance(item, str):
        return item.encode(errors=_ERRORS)
    if isinstance(item, bytes):
        return item
    raise WrongType(
        f"{where}: a {type(item).__name__} among strings",
        where=where,
        hint="pass an array of str or bytes",
    )


def decoded(pointer: int, shape: tuple[int, ...]) -> np.ndarray:
    """An array of str, dtype object, of the entries at the address."""
    array = np.empty(shape, object)
    count = array.size
    if count:
        memory = (ctypes.c_uint64 * (2 * count)).from_address(pointer)
        entries = np.frombuffer(memory, np.uint64).reshape(count, 2).tolist()
        array.ravel()[:] = [
            ctypes.string_at(data, size).decode(errors=_ERRORS)
            for data, size in entries
        ]
    return array
