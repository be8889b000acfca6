"""Results of calls: outputs, or a run that has not ended."""

from __future__ import annotations

import operator
import threading
from collections.abc import Generator, Iterator, Sequence
from ctypes import byref, c_void_p
from typing import Any, overload

import numpy as np

from knapper import dtypes, html
from knapper.errors import (
    TimedOut,
    WrongIndex,
    WrongName,
    WrongType,
    WrongValue,
    printable,
)
from knapper.library import CTensor, check, library
from knapper.tensor import Tensor


class Handle:
    """A library object. It is released when its last user is gone."""

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
    memory, without a copy. The memory is freed when the result and all its arrays
    are gone. A bf16 output is an array if ml_dtypes is installed, else a `Tensor`.
    `tensor(key)` is always a `Tensor`, for DLPack. `"logits" in result` tells
    whether there is an output of that name. Pickling copies the arrays.
    """

    __slots__ = ("_handle", "_names", "_arrays", "_given")

    def __init__(
        self,
        handle: Handle | None,
        names: dict[str, int],
        count: int,
        given: object = None,
    ) -> None:
        self._handle = handle  # None: `_arrays` are all there is
        self._names = names  # fewer than `count` when a model repeats one
        self._arrays: list[Any] = [None] * count
        self._given = given

    def _index(self, key: int | str) -> int:
        if isinstance(key, str):
            try:
                return self._names[key]
            except KeyError:
                raise WrongName(
                    f"no output {key!r}; there are: {', '.join(self._names)}",
                    where=key,
                    hint="a name that there is; `name in result` asks for one",
                ) from None
        count = len(self._arrays)
        try:
            index = operator.index(key)
        except TypeError:
            raise WrongType(
                f"an output is named by a str or an int, not {type(key).__name__}",
                where="result",
                hint=f"one of {', '.join(self._names)}, or 0 to {count - 1}",
            ) from None
        if not -count <= index < count:
            raise WrongIndex(
                f"output {index} of {count}; there are: {', '.join(self._names)}",
                where="result",
                hint=f"0 to {count - 1}, or a name",
            )
        return index % count

    def tensor(self, key: int | str) -> Tensor:
        """An output as a `Tensor`: shape, dtype and DLPack."""
        raw = CTensor()
        index = self._index(key)
        if self._handle is None:
            kept = self._arrays[index]
            if isinstance(kept, Tensor):
                return kept
            code = dtypes.code_of(kept.dtype)
            assert code is not None
            return Tensor(kept.ctypes.data, kept.shape, code, kept)
        error = library().knapper_result_output(self._handle.value, index, raw)
        if error is not None:
            check(error)
        # The owner is the handle and whatever memory the caller gave.
        owner = (self._handle, self._given)
        return Tensor(
            raw.data or 0, tuple(raw.shape[: raw.rank]), raw.dtype, owner
        )

    @overload
    def __getitem__(self, key: int | str) -> np.ndarray[Any, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> list[np.ndarray[Any, Any]]: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self[i] for i in range(*key.indices(len(self)))]
        index = self._names.get(key) if type(key) is str else None
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

    def __iter__(self) -> Iterator[np.ndarray[Any, Any]]:
        return (self[i] for i in range(len(self._arrays)))

    def __contains__(self, name: object) -> bool:
        """Whether there is an output of this name."""
        return isinstance(name, str) and name in self._names

    def keys(self) -> list[str]:
        """The outputs' names, in order."""
        return list(self._names)

    def items(self) -> list[tuple[str, np.ndarray[Any, Any]]]:
        """(name, array) of every output, in order."""
        return [(name, self[i]) for name, i in self._names.items()]

    def values(self) -> list[np.ndarray[Any, Any]]:
        """The array of every name, in order."""
        return [self[i] for i in self._names.values()]

    def get(self, name: str, default: Any = None) -> Any:
        """The output of this name, or `default` if there is none."""
        return self[name] if name in self else default

    def _tensors(self) -> list[tuple[str, Tensor]]:
        return [(name, self.tensor(i)) for name, i in self._names.items()]

    def __repr__(self) -> str:
        outputs = (
            f"{name}: {t.dtype}[{', '.join(map(str, t.shape))}]"
            for name, t in self._tensors()
        )
        return printable(f"Result({', '.join(outputs)})")

    def _repr_html_(self) -> str:
        return html.of_result(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_arrays, (self._names, list(self))


def _of_arrays(names: dict[str, int], arrays: list[Any]) -> Result:
    """What unpickling calls."""
    result = Result(None, names, len(arrays))
    result._arrays[:] = arrays
    return result


class Pending:
    """A run that has been started. It keeps its inputs until its result is taken,
    once, by `wait()` or, in a coroutine, by `await`."""

    __slots__ = ("_event", "_names", "_count", "_keep", "_waiting", "_taking")

    def __init__(
        self, event: Handle, names: dict[str, int], count: int, keep: object
    ) -> None:
        self._event = event
        self._names = names
        self._count = count
        self._keep = keep
        self._waiting = threading.Lock()  # held by the one that waits
        self._taking = threading.Lock()  # guards the event, which a wait releases

    def done(self) -> bool:
        """Whether wait() would return at once."""
        with self._taking:
            value = self._event.value
            return value is None or bool(library().knapper_event_done(value))

    def cancel(self) -> None:
        """Asks the run to end before its next kernel. `wait` then raises a
        UserError, unless the run had ended already."""
        with self._taking:
            value = self._event.value
            if value is not None:
                library().knapper_event_cancel(value)

    def wait(self, timeout: float | None = None) -> Result:
        """The result, or the error of the run. Once only.

        timeout: seconds. If the run takes longer, this raises TimeoutError and the
            run goes on: wait again, or `cancel`.
        """
        lib = library()
        seconds = _seconds(timeout)
        if not self._waiting.acquire(timeout=seconds):
            raise _late(timeout)
        try:
            value = self._event.value
            if value is None:
                raise WrongValue(
                    "wait: this run has been waited for",
                    where="wait",
                    hint="keep the result of the first wait",
                )
            nanoseconds = int(seconds * 1e9) if seconds >= 0 else 1 << 60
            if not lib.knapper_event_wait_for(value, nanoseconds):
                raise _late(timeout)
            out = c_void_p()
            with self._taking:
                self._event.value = None
                error = lib.knapper_event_wait(value, byref(out))
        finally:
            self._waiting.release()
        check(error)
        handle = Handle(out, lib.knapper_result_release, self._keep)
        return Result(handle, self._names, self._count, self._keep)

    def __await__(self) -> Generator[Any, None, Result]:
        return self._awaited().__await__()

    async def _awaited(self) -> Result:
        import asyncio  # as slow to import as all of the package

        loop = asyncio.get_running_loop()
        waiting = loop.run_in_executor(None, self.wait)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            # The thread holds the event: the run ends, then the wait does.
            self.cancel()
            waiting.add_done_callback(lambda done: done.exception())
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        raise WrongType(
            "a run that is going on cannot be pickled",
            where="Pending",
            hint="wait() for it and pickle the result",
        )


def _seconds(timeout: float | None) -> float:
    """As a lock takes it: -1 for ever."""
    if timeout is None:
        return -1
    try:
        return min(max(float(timeout), 0), threading.TIMEOUT_MAX)
    except (TypeError, ValueError):
        raise WrongType(
            f"timeout is {timeout!r}, it must be a number of seconds",
            where="timeout",
            hint="0.5, or None to wait for as long as it takes",
        ) from None


def _late(timeout: float | None) -> TimedOut:
    return TimedOut(
        f"wait: the run has not ended after {timeout} s",
        where="wait",
        hint="wait again, or cancel() it",
    )


def drop_event(value: Any) -> None:
    # Nobody waited: the inputs may be freed only after the run.
    lib = library()
    out = c_void_p()
    error = lib.knapper_event_wait(value, byref(out))
    if error is not None:
        lib.knapper_error_release(error)
    elif out.value:
        lib.knapper_result_release(out)
