"""A dense tensor whose memory a result of the library owns."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from knapper import dlpack, dtypes, texts


@functools.lru_cache(maxsize=256)
def _bytes_type(size: int) -> Any:
    # A subclass, so that its instances can carry their owner.
    return type(f"bytes_{size}", (ctypes.c_char * size,), {})


class ArrayLike:
    """What NumPy asks of a class with `numpy()`."""

    __slots__ = ()

    def numpy(self) -> np.ndarray[Any, Any]:
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"{self!r} to {dtype} needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array


class Tensor(ArrayLike):
    """Row-major memory with a shape and a dtype; alive as long as this object.

    Goes to other libraries without a copy: `numpy()`, `np.asarray(tensor)`, or
    DLPack (`torch.from_dlpack(tensor)`), bf16 included.
    """

    __slots__ = ("_pointer", "_owner", "_code", "shape")

    def __init__(
        self, pointer: int, shape: tuple[int, ...], code: int, owner: object
    ) -> None:
        self._pointer = pointer
        self._owner = owner
        self._code = code
        self.shape = shape

    @property
    def dtype(self) -> dtypes.DType:
        """Equal to "f32", "bf16", "i64"..., and to NumPy's."""
        return dtypes.DType(self._code)

    @property
    def nbytes(self) -> int:
        size = dtypes.SIZES[self._code]
        for dim in self.shape:
            size *= dim
        return size

    def numpy(self) -> np.ndarray:
        """The same memory as a NumPy array, which keeps it alive. Strings come as
        a new array of str, dtype object.

        Raises TypeError for bf16 and the floats and integers below a byte or of
        eight bits where the package ml_dtypes is missing: NumPy has no such
        dtypes of its own.
        """
        if self._code == texts.CODE:
            return texts.decoded(self._pointer, self.shape)
        dtype = dtypes.numpy_of(self._code)
        if dtype is None:
            raise TypeError(
                f"NumPy has no {self.dtype}: install ml_dtypes, or use DLPack "
                "(for example torch.from_dlpack(tensor))"
            )
        size = dtype.itemsize
        for dim in self.shape:
            size *= dim
        if size == 0:
            return np.empty(self.shape, dtype)
        memory = _bytes_type(size).from_address(self._pointer)
        memory.owner = self._owner
        return np.ndarray(self.shape, dtype, memory)

    def __dlpack__(self, **_: object) -> object:
        return dlpack.lend(self._pointer, self.shape, self._code, self._owner)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU, 0

    def __reduce__(self) -> tuple[Any, ...]:
        if self._code == texts.CODE:  # its memory is addresses
            return _of_texts, (self.numpy(),)
        data = ctypes.string_at(self._pointer, self.nbytes)
        return _of_bytes, (data, self.shape, self._code)

    def __repr__(self) -> str:
        dims = ", ".join(str(d) for d in self.shape)
        return f"Tensor({self.dtype}[{dims}])"


def _of_bytes(data: bytes, shape: tuple[int, ...], code: int) -> Tensor:
    """What unpickling calls."""
    memory = np.frombuffer(bytearray(data), np.uint8)
    return Tensor(memory.ctypes.data, shape, code, memory)


def _of_texts(array: np.ndarray) -> Tensor:
    """What unpickling calls."""
    memory = texts.Texts(array, "Tensor")
    return Tensor(memory.pointer, memory.shape, texts.CODE, memory)
