"""What a call gives: outputs, or a run that is not finished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import byref, c_void_p
from typing import Any

import numpy as np

from knapper import dtypes
from knapper.errors import UserError, printable
from knapper.library import CTensor, check, library
from knapper.tensor import Tensor


class Handle:
    """A library object, released when the last that uses it is gone."""

    __slots__ = ("value", "_release", "_keep")

    def __init__(self, value: Any, release: Any, keep: object = None) -> None:
        self.value = value
        self._release = release
        self._keep = keep

    def __del__(self) -> None:
        value, self.value = self.value, None
        if value:
            self._release(value)


class Result(Sequence[np.ndarray]):
    """The outputs of a run, by position and by name.

    `result[0]` and `result["logits"]` are NumPy arrays over the library's
    memory, without a copy; the memory is given back when the result and all
    arrays of it are gone. A bf16 output is an array when ml_dtypes is installed
    and a `Tensor` otherwise. `tensor(key)` is always a `Tensor`, for DLPack.
    """

    __slots__ = ("_handle", "_names", "_arrays", "_given")

    def __init__(
        self,
        handle: Handle,
        names: dict[str, int],
        count: int,
        given: object = None,
    ) -> None:
        self._handle = handle
        self._names = names  # fewer than `count` when a model repeats one
        self._arrays: list[Any] = [None] * count
        self._given = given

    def _index(self, key: int | str) -> int:
        if isinstance(key, str):
            try:
                return self._names[key]
            except KeyError:
                raise KeyError(
                    f"no output {key!r}; there are: {', '.join(self._names)}"
                ) from None
        count = len(self._arrays)
        if not -count <= key < count:
            raise IndexError(f"output {key} of {count}")
        return key % count

    def tensor(self, key: int | str) -> Tensor:
        """An output as a `Tensor`: shape, dtype and DLPack."""
        raw = CTensor()
        index = self._index(key)
        error = library().knapper_result_output(self._handle.value, index, raw)
        if error is not None:
            check(error)
        # The owner is the handle and whatever memory the caller gave.
        owner = (self._handle, self._given)
        return Tensor(
            raw.data or 0, tuple(raw.shape[: raw.rank]), raw.dtype, owner
        )

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self[i] for i in range(*key.indices(len(self)))]
        index = self._names.get(key)
        if index is None:
            index = self._index(key)
        array = self._arrays[index]
        if array is None:
            tensor = self.tensor(index)
            known = dtypes.numpy_of(tensor._code) is not None
            self._arrays[index] = array = tensor.numpy() if known else tensor
        return array

    def __len__(self) -> int:
        return len(self._arrays)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self._arrays)))

    def keys(self) -> list[str]:
        """The outputs' names, in order."""
        return list(self._names)

    def items(self) -> list[tuple[str, Any]]:
        """(name, array) of every output, in order."""
        return [(name, self[i]) for name, i in self._names.items()]

    def __repr__(self) -> str:
        return printable(f"Result({', '.join(self._names)})")


class Pending:
    """A run that has been started. Holds its inputs until it is waited for."""

    __slots__ = ("_event", "_names", "_count", "_keep")

    def __init__(
        self, event: Handle, names: dict[str, int], count: int, keep: object
    ) -> None:
        self._event = event
        self._names = names
        self._count = count
        self._keep = keep

    def done(self) -> bool:
        """Whether wait() would return at once."""
        value = self._event.value
        return value is None or bool(library().knapper_event_done(value))

    def cancel(self) -> None:
        """Asks the run to end before its next kernel; `wait` then raises a
        UserError, unless the run has ended before."""
        value = self._event.value
        if value is not None:
            library().knapper_event_cancel(value)

    def wait(self) -> Result:
        """The result, or the error of the run. Once only."""
        value, self._event.value = self._event.value, None
        if value is None:
            raise UserError("this run has been waited for", where="wait")
        out = c_void_p()
        lib = library()
        check(lib.knapper_event_wait(value, byref(out)))
        handle = Handle(out, lib.knapper_result_release, self._keep)
        return Result(handle, self._names, self._count, self._keep)


def drop_event(value: Any) -> None:
    # Nobody waited: the inputs may be freed only after the run.
    lib = library()
    out = c_void_p()
    error = lib.knapper_event_wait(value, byref(out))
    if error is not None:
        lib.knapper_error_release(error)
    elif out.value:
        lib.knapper_result_release(out)
