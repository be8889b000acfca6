"""Compiled models: loading, signature, calls."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from ctypes import byref, c_int64, c_uint64, c_void_p
from typing import Any

import numpy as np

from knapper import dtypes, log
from knapper.bound import Bound
from knapper.cancellation import Cancellation
from knapper.dlpack import Borrowed
from knapper.errors import UserError, printable
from knapper.library import (
    CLoadOptions,
    CRunOptions,
    CTensor,
    CTensorInfo,
    check,
    encode_path,
    library,
    take_string,
)
from knapper.results import Handle, Pending, Result, drop_event

Array = Any  # a NumPy array, a sequence of numbers, or an object with __dlpack__

# Prepared arguments kept for each thread and module: one entry a shape.
_MAX_PREPARED = 64

# An array's address: NumPy's ABI puts it behind the object's header, which is
# ten times quicker to read than `__array_interface__` is to make.
_HEADER = object.__basicsize__
_read_address = ctypes.c_size_t.from_address


def _array_address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _peek_address(array: np.ndarray) -> int:
    return _read_address(id(array) + _HEADER).value


def _agree(array: np.ndarray) -> bool:
    return _peek_address(array) == _array_address(array)


_address = (
    _peek_address
    if sys.implementation.name == "cpython"
    and all(_agree(a) for a in (np.ones(3), np.ones((2, 2))[1:], np.ones(())))
    else _array_address
)


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """One input or output: name, dtype ("f32", "i64"...) and shape, where a
    symbolic dim is text ("batch", "2*sequence")."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        text = f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"
        return printable(text)


def load_options(
    threads: int, verify: bool = False, spin: int = -1, device: str | None = None
) -> Any:
    """knapper_load_options by reference."""
    if threads < 0:
        raise UserError(
            f"threads is {threads}",
            where="threads",
            hint="pass 0 for one thread a core, or a count",
        )
    return byref(
        CLoadOptions(
            ctypes.sizeof(CLoadOptions),
            threads,
            int(verify),
            spin,
            None,
            device.encode() if device else None,
        )
    )


def load(
    source: str | os.PathLike[str] | bytes,
    *,
    threads: int = 0,
    verify: bool = False,
    spin_microseconds: int = -1,
    device: str | None = None,
) -> Module:
    """Loads a compiled artefact: a path (the file is mapped) or its bytes.

    threads: worker threads; 0: one a core.
    verify: also check the hash of the constants, which reads all of them.
    spin_microseconds: how long idle workers spin before they sleep; -1: default.
    device: "cpu" or "cuda", of an artefact with code for both; None: a GPU where
        one is found.

    An artefact is native code: load only what you trust as you would a program.
    Raises UserError for a file that is damaged or of another version.
    """
    lib = library()
    log.follow()
    handle = c_void_p()
    options = load_options(threads, verify, spin_microseconds, device)
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        check(lib.knapper_load_memory(data, len(data), options, byref(handle)))
    elif isinstance(source, (str, os.PathLike)):
        check(lib.knapper_load(encode_path(source), options, byref(handle)))
    else:
        raise UserError(
            f"an artefact is a path or bytes, not {type(source).__name__}",
            where="source",
        )
    return Module._adopt(handle)


class _Prepared:
    """The structs of one combination of shapes and dtypes."""

    __slots__ = ("key", "tensors", "views", "keep")

    def __init__(
        self, key: list[Any], descriptions: list[tuple[tuple[int, ...], int]]
    ) -> None:
        self.key = key
        self.tensors = (CTensor * max(1, len(descriptions)))()
        self.views = [self.tensors[i] for i in range(len(descriptions))]
        self.keep = []
        for tensor, (shape, code) in zip(self.views, descriptions):
            size = dtypes.SIZES[code]
            for dim in shape:
                size *= dim
            dims = (c_int64 * max(1, len(shape)))(*shape)
            self.keep.append(dims)
            tensor.bytes = size
            tensor.dtype = code
            tensor.rank = len(shape)
            tensor.shape = dims


class Module:
    """A compiled model. Safe to call from any number of threads at once.

    Made by `knapper.compile` and `knapper.load`. Calls release the GIL.
    """

    def __init__(self) -> None:
        raise TypeError("use knapper.compile or knapper.load")

    @classmethod
    def _adopt(cls, handle: c_void_p) -> Module:
        return cls._wrap(handle, library().knapper_module_release)

    @classmethod
    def _borrow(cls, handle: int) -> Module:
        """A view of a module that the library keeps."""
        return cls._wrap(c_void_p(handle), lambda _: None)

    @classmethod
    def _wrap(cls, handle: c_void_p, release: Any) -> Module:
        self = object.__new__(cls)
        lib = library()
        self._lib = lib
        self._handle = Handle(handle, release)
        self._on_gpu: bool | None = None
        self._inputs = self._signature(
            lib.knapper_module_num_inputs(handle), lib.knapper_module_input
        )
        self._outputs = self._signature(
            lib.knapper_module_num_outputs(handle), lib.knapper_module_output
        )
        self._positions = {info.name: i for i, info in enumerate(self._inputs)}
        self._names = {info.name: i for i, info in enumerate(self._outputs)}
        self._local = threading.local()
        return self

    def _signature(self, count: int, read: Any) -> tuple[TensorInfo, ...]:
        entries = []
        for index in range(count):
            raw = CTensorInfo()
            raw.size = ctypes.sizeof(CTensorInfo)
            check(read(self._handle.value, index, byref(raw)))
            shape = tuple(
                raw.shape[axis] if raw.shape[axis] >= 0 else raw.dim_text[axis].decode()
                for axis in range(raw.rank)
            )
            entries.append(
                TensorInfo(raw.name.decode(), dtypes.NAMES[raw.dtype], shape)
            )
        return tuple(entries)

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Names, dtypes and shapes of the inputs, in order."""
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Names, dtypes and shapes of the outputs, in order."""
        return self._outputs

    @property
    def in_place(self) -> dict[str, tuple[str, ...]]:
        """Outputs that may be given exactly an input's memory, each with the
        names of such inputs: `m.run({"past": a, ...}, {"present": a})` then
        updates `a`. Where a run fails or is cancelled, it is partly written."""
        replace = self._lib.knapper_module_may_replace
        found = {}
        for o, output in enumerate(self._outputs):
            under = tuple(
                info.name
                for i, info in enumerate(self._inputs)
                if replace(self._handle.value, o, i)
            )
            if under:
                found[output.name] = under
        return found

    # ---- calls

    def __call__(self, *args: Array, **kwargs: Array) -> Result:
        """Runs the model: `m(a, b)`, `m(x=a, y=b)` or `m({"input.1": a})`.

        Arguments are C-contiguous NumPy arrays or host tensors with DLPack, read
        in place; other NumPy layouts and sequences of numbers are copied first.
        Sizes of symbolic dims follow from the shapes.

        Raises UserError for missing or unknown inputs and for wrong shapes and
        dtypes, before any kernel starts; DeviceError when memory runs out.
        """
        values = self._bind(args, kwargs)
        prepared, keep = self._prepare(values)
        out = c_void_p()
        error = self._lib.knapper_run(
            self._handle.value, prepared.tensors, len(values), None, 0, byref(out)
        )
        if error is not None:
            check(error)
        del keep
        return Result(
            Handle(out, self._lib.knapper_result_release, self._handle),
            self._names,
            len(self._outputs),
        )

    def run(
        self,
        inputs: Mapping[str, Array] | Sequence[Array],
        outputs: Mapping[str, Array] | Sequence[Array | None] | None = None,
        cancel: Cancellation | None = None,
    ) -> Result:
        """Runs the model into memory of the caller.

        outputs: by name or by position, writeable contiguous arrays that are
            filled in place; what is left out or None is provided by the module.
            One may be the very array given as an input that it may replace
            (`in_place`), which the run then updates.
        cancel: ends the run from another thread, with a UserError; the caller's
            outputs are then partly written.

        Raises as calling the module does; also for an output that is too small,
        read-only, not contiguous, or over memory of another output, or of an
        input but as above.
        """
        run = self._lib.knapper_run
        if cancel is not None:
            options = CRunOptions(
                ctypes.sizeof(CRunOptions), ctypes.pointer(cancel._flag)
            )

            def run(*arguments: Any) -> Any:
                *given, out = arguments
                return self._lib.knapper_run_with(*given, byref(options), out)

        out, _, given = self._call(run, inputs, outputs)
        handle = Handle(out, self._lib.knapper_result_release, self._handle)
        return Result(handle, self._names, len(self._outputs), given)

    def bind(
        self,
        inputs: Mapping[str, Array] | Sequence[Array],
        outputs: Mapping[str, Array] | Sequence[Array] | None = None,
    ) -> Bound:
        """A call on these very arrays, prepared once: what calls of microseconds
        need. outputs: as for `run`; those that are left out are made here (by a
        run, which gives their sizes).

        Raises as `run` does; UserError for a model that computes sizes of its
        outputs from data, and for inputs that are not contiguous arrays or host
        tensors with DLPack (nothing is copied).
        """
        return Bound(self, inputs, outputs)

    def start(
        self,
        inputs: Mapping[str, Array] | Sequence[Array],
        outputs: Mapping[str, Array] | Sequence[Array | None] | None = None,
    ) -> Pending:
        """Starts a run and returns at once; `wait()` gives its result. The
        arrays must not be changed before."""
        # Not the thread's own structs: the next call may change those.
        out, read, given = self._call(
            self._lib.knapper_run_async, inputs, outputs, cached=False
        )
        held = (self._handle, read, given)
        return Pending(
            Handle(out, drop_event, held), self._names, len(self._outputs), held
        )

    def _call(
        self, function: Any, inputs: Any, outputs: Any, cached: bool = True
    ) -> tuple[c_void_p, object, object]:
        """What the function made, what it reads, and the caller's outputs."""
        values = self._bind_collection(inputs)
        prepared, keep = self._prepare(values, cached)
        given, targets = self._targets(outputs, cached)
        out = c_void_p()
        check(
            function(
                self._handle.value,
                prepared.tensors,
                len(values),
                targets,
                len(self._outputs) if targets is not None else 0,
                byref(out),
            )
        )
        return out, (prepared, keep, targets), given

    def profile(self, *args: Array, **kwargs: Array) -> dict[str, Any]:
        """Runs once with a clock around every launch: {"launches": [{"kernel",
        "origin", "schedule", "ns", "flops", "bytes"}], "total_ns"}. Arguments
        and errors are those of a call."""
        values = self._bind(args, kwargs)
        prepared, keep = self._prepare(values)
        text = c_void_p()
        check(
            self._lib.knapper_profile(
                self._handle.value, prepared.tensors, len(values), byref(text)
            )
        )
        del keep
        return json.loads(take_string(text))

    # ---- the module as a whole

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the artefact, which `knapper.load` reads on any machine of the
        target's kind. Never leaves a half-written file. Raises DeviceError when
        writing fails."""
        check(self._lib.knapper_module_save(self._handle.value, encode_path(path)))

    def explain(self, path: str | os.PathLike[str] | None = None) -> str:
        """The report as one self-contained HTML page: graph, kernels, why each
        boundary was not fused, memory over time. With a path it is also written
        there."""
        text = c_void_p()
        check(self._lib.knapper_explain(self._handle.value, byref(text)))
        html = take_string(text)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(html)
        return html

    def describe(self) -> dict[str, Any]:
        """The module as data: signature, kernels, launches, memory, phases."""
        text = ctypes.c_char_p()
        check(self._lib.knapper_module_describe(self._handle.value, byref(text)))
        return json.loads(text.value or b"{}")

    def peak_memory(self, **symbols: int) -> dict[str, int]:
        """Planned bytes at given sizes, before any run:
        `m.peak_memory(batch=8, sequence=128)` -> {"arena", "constants"}."""
        count = len(symbols)
        names = (ctypes.c_char_p * max(1, count))(*(s.encode() for s in symbols))
        values = (c_int64 * max(1, count))(*symbols.values())
        arena, constants = c_uint64(), c_uint64()
        check(
            self._lib.knapper_module_peak_memory(
                self._handle.value, names, values, count, byref(arena), byref(constants)
            )
        )
        return {"arena": arena.value, "constants": constants.value}

    def __repr__(self) -> str:
        takes = ", ".join(map(str, self._inputs))
        gives = ", ".join(map(str, self._outputs))
        return f"Module({takes}) -> ({gives})"

    # ---- arguments

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The inputs in signature order."""
        if not kwargs:
            if args and len(args) == len(self._inputs) and type(args[0]) is np.ndarray:
                return args
            if len(args) == 1 and isinstance(args[0], Mapping):
                return self._bind_names(args[0])
            return self._bind_collection(args)
        if not args:
            return self._bind_names(kwargs)
        if len(args) > len(self._inputs):
            return self._bind_collection(args)
        named = {info.name: value for info, value in zip(self._inputs, args)}
        twice = [name for name in kwargs if name in named]
        if twice:
            raise UserError(
                f"input {twice[0]!r} is given by position and by name",
                where=twice[0],
            )
        return self._bind_names(named | kwargs)

    def _bind_collection(self, inputs: Any) -> Sequence[Any]:
        if isinstance(inputs, Mapping):
            return self._bind_names(inputs)
        if len(inputs) != len(self._inputs):
            raise UserError(
                f"the model takes {len(self._inputs)} inputs, {len(inputs)} "
                f"were given",
                where="inputs",
                hint="it takes " + ", ".join(map(str, self._inputs)),
            )
        return inputs

    def _bind_names(self, named: Mapping[str, Any]) -> list[Any]:
        try:
            if len(named) == len(self._inputs):
                return [named[name] for name in self._positions]
        except KeyError:
            pass
        unknown = [n for n in named if n not in self._positions]
        missing = [n for n in self._positions if n not in named]
        what = f"no input {unknown[0]!r}" if unknown else f"input {missing[0]!r} is missing"
        raise UserError(
            what,
            where=unknown[0] if unknown else missing[0],
            hint="the model takes " + ", ".join(map(str, self._inputs)),
        )

    def _prepare(
        self, values: Sequence[Any], cached: bool = True
    ) -> tuple[_Prepared, list[Any]]:
        """Input structs that point at the values, and what keeps those alive."""
        keep: list[Any] = []
        key: list[Any] = []
        pointers = []
        for value in values:
            if type(value) is not np.ndarray or not value.flags.c_contiguous:
                value = self._readable(len(keep), value)
            keep.append(value)
            key.append(value.shape)
            if type(value) is np.ndarray:
                key.append(value.dtype)
                pointers.append(_address(value))
            else:
                key.append(value.code)
                pointers.append(value.pointer)
        # Most calls are shaped as the one before.
        prepared = getattr(self._local, "last", None) if cached else None
        if prepared is None or prepared.key != key:
            prepared = self._prepared(key, keep, cached)
        for view, pointer in zip(prepared.views, pointers):
            view.data = pointer
        return prepared, keep

    def _prepared(self, key: list[Any], values: list[Any], cached: bool) -> _Prepared:
        local = self._local
        try:
            known: dict[Any, _Prepared] = local.known
        except AttributeError:
            known = local.known = {}
        shapes = tuple(key)
        prepared = known.get(shapes) if cached else None
        if prepared is None:
            prepared = _Prepared(
                key,
                [(value.shape, self._code(i, value)) for i, value in enumerate(values)],
            )
            if cached:
                if len(known) >= _MAX_PREPARED:
                    known.clear()
                known[shapes] = prepared
        if cached:
            local.last = prepared
        return prepared

    @property
    def _gpu(self) -> bool:
        """Whether kernels run on an NVIDIA GPU."""
        if self._on_gpu is None:
            self._on_gpu = self.describe()["device"] == "cuda"
        return self._on_gpu

    def _readable(self, index: int, value: Any) -> Any:
        """A contiguous array, or memory borrowed by DLPack."""
        info = self._inputs[index]
        if isinstance(value, np.ndarray):
            return np.asarray(np.ascontiguousarray(value)).reshape(value.shape)
        if hasattr(value, "__dlpack__"):
            return Borrowed(value, info.name, self._gpu)
        dtype = dtypes.numpy_of(dtypes.NAMES.index(info.dtype))
        try:
            return np.ascontiguousarray(np.asarray(value, dtype)).reshape(
                np.shape(value)
            )
        except (TypeError, ValueError) as error:
            raise UserError(
                f"input {info}: {type(value).__name__} is no array: {error}",
                where=info.name,
                hint="pass a NumPy array or an object with __dlpack__",
            ) from error

    def _code(self, index: int, value: Any) -> int:
        if not isinstance(value, np.ndarray):
            return value.code
        code = dtypes.code_of(value.dtype)
        if code is None:
            info = self._inputs[index]
            raise UserError(
                f"input {info}: there is no dtype {value.dtype.str} ({value.dtype})",
                where=info.name,
                hint=f"convert it to {info.dtype}",
            )
        return code

    def _positioned(self, outputs: Any) -> Sequence[Any]:
        """One entry an output, None where the caller gives no memory."""
        if isinstance(outputs, Mapping):
            unknown = [n for n in outputs if n not in self._names]
            if unknown:
                raise UserError(
                    f"no output {unknown[0]!r}",
                    where=unknown[0],
                    hint="the model gives " + ", ".join(map(str, self._outputs)),
                )
            outputs = [
                outputs.get(info.name) if self._names[info.name] == i else None
                for i, info in enumerate(self._outputs)
            ]
        if len(outputs) != len(self._outputs):
            raise UserError(
                f"the model gives {len(self._outputs)} outputs, memory for "
                f"{len(outputs)} was given",
                where="outputs",
                hint="pass None for those that the module shall provide",
            )
        return outputs

    def _targets(
        self, outputs: Any, cached: bool = True
    ) -> tuple[list[Any] | None, Any]:
        """The output structs of memory that the caller gives."""
        if outputs is None:
            return None, None
        outputs = self._positioned(outputs)
        given: list[Any] = []
        key: list[Any] = []  # shape and dtype of each, None without memory
        pointers: list[int] = []
        for info, value in zip(self._outputs, outputs):
            if value is None:
                key.append(None)
                pointers.append(0)
                continue
            if isinstance(value, np.ndarray):
                flags = value.flags
                if not flags.c_contiguous or not flags.writeable:
                    raise UserError(
                        f"output {info}: the array must be contiguous and writeable",
                        where=info.name,
                    )
                code, pointer = dtypes.code_of(value.dtype), _address(value)
            elif hasattr(value, "__dlpack__"):
                value = Borrowed(value, info.name, self._gpu)
                code, pointer = value.code, value.pointer
            else:
                raise UserError(
                    f"output {info}: {type(value).__name__} is no array",
                    where=info.name,
                    hint="pass a NumPy array or an object with __dlpack__",
                )
            if code is None or dtypes.NAMES[code] != info.dtype:
                got = dtypes.NAMES[code] if code is not None else str(value.dtype)
                raise UserError(
                    f"output {info}: the memory given is of dtype {got}",
                    where=info.name,
                    hint=f"pass an array of {info.dtype}",
                )
            given.append(value)
            key.append((value.shape, code))
            pointers.append(pointer)
        prepared = getattr(self._local, "targets", None) if cached else None
        if prepared is None or prepared.key != key:
            prepared = _Prepared(key, [each or ((0,), 0) for each in key])
            if cached:
                self._local.targets = prepared
        for view, pointer in zip(prepared.views, pointers):
            view.data = pointer
        return given, prepared.tensors
