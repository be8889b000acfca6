"""What a caller gives to a module, as the library takes it: in the order of the
signature, contiguous, with shapes and dtypes."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_int64
from typing import Any

import numpy as np

from knapper import dtypes
from knapper.dlpack import Borrowed
from knapper.dtypes import DType
from knapper.errors import WrongName, WrongType, WrongValue, printable
from knapper.library import FLAT, CTensor
from knapper.literals import array_of
from knapper.texts import Texts

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
    """One input or output: name, dtype (equal to "f32", "i64"..., and to NumPy's)
    and shape, where a symbolic dim is text ("batch", "2*sequence")."""

    name: str
    dtype: DType
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        text = f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"
        return printable(text)


class Prepared:
    """The structs of one combination of shapes and dtypes. The shape FLAT is
    memory without one."""

    __slots__ = ("key", "tensors", "views", "keep")

    def __init__(self, key: list[Any], descriptions: list[tuple[Any, int]]) -> None:
        self.key = key
        self.tensors = (CTensor * max(1, len(descriptions)))()
        self.views = [self.tensors[i] for i in range(len(descriptions))]
        self.keep = []
        for tensor, (shape, code) in zip(self.views, descriptions):
            tensor.dtype = code
            if shape[:1] == (FLAT,):
                tensor.rank = FLAT
                tensor.bytes = shape[1]
                continue
            size = dtypes.SIZES[code]
            for dim in shape:
                size *= dim
            dims = (c_int64 * max(1, len(shape)))(*shape)
            self.keep.append(dims)
            tensor.bytes = size
            tensor.rank = len(shape)
            tensor.shape = dims


class Arguments:
    """Binds the arguments of one module's calls. Safe for any number of threads:
    structs are kept for each."""

    def __init__(
        self,
        inputs: tuple[TensorInfo, ...],
        outputs: tuple[TensorInfo, ...],
        has_own_memory: Callable[[], bool],
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self._has_own_memory = has_own_memory
        self.positions = {info.name: i for i, info in enumerate(inputs)}
        self.names = {info.name: i for i, info in enumerate(outputs)}
        self._local = threading.local()
        self._lock = threading.Lock()
        self.copies: dict[str, int] = {}  # by name of an input
        self._has_strings = any(info.dtype == "string" for info in inputs)

    @functools.cached_property
    def gpu(self) -> bool:
        """Whether kernels run on a device with memory of its own."""
        return self._has_own_memory()

    # ---- inputs

    def takes(self) -> str:
        return ", ".join(map(str, self.inputs)) or "no inputs"

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The inputs of a call in signature order."""
        if not kwargs:
            if args and len(args) == len(self.inputs) and type(args[0]) is np.ndarray:
                return args
            if len(args) == 1 and isinstance(args[0], Mapping):
                return self._bind_names(args[0])
            return self.bind_collection(args)
        if not args:
            return self._bind_names(kwargs)
        if len(args) > len(self.inputs):
            return self.bind_collection(args)
        named = {info.name: value for info, value in zip(self.inputs, args)}
        twice = [name for name in kwargs if name in named]
        if twice:
            raise WrongValue(
                f"input {twice[0]!r} is given by position and by name",
                where=twice[0],
                hint="give it once",
            )
        return self._bind_names(named | kwargs)

    def bind_collection(self, inputs: Any) -> Sequence[Any]:
        """The same for one mapping or sequence."""
        if isinstance(inputs, Mapping):
            return self._bind_names(inputs)
        if (
            not hasattr(inputs, "__len__")
            or not hasattr(inputs, "__getitem__")
            or isinstance(inputs, (str, bytes))
            or hasattr(inputs, "dtype")  # rows of an array are no inputs
        ):
            raise WrongType(
                f"inputs: {type(inputs).__name__} is no list of arrays and no mapping",
                where="inputs",
                hint=f"[array] or {{name: array}}; the model takes {self.takes()}",
            )
        values: Sequence[Any] = inputs
        if len(values) != len(self.inputs):
            raise WrongValue(
                f"inputs: the model takes {len(self.inputs)} input{'s' * (len(self.inputs) != 1)} ("
                f"{', '.join(self.positions)}), {len(values)} "
                f"{'was' if len(values) == 1 else 'were'} given",
                where="inputs",
                hint=f"it takes {self.takes()}",
            )
        return values

    def _bind_names(self, named: Mapping[str, Any]) -> list[Any]:
        try:
            if len(named) == len(self.inputs):
                return [named[name] for name in self.positions]
        except KeyError:
            pass
        unknown = [n for n in named if n not in self.positions]
        missing = [n for n in self.positions if n not in named]
        if unknown:
            raise WrongName(
                f"no input {unknown[0]!r}; there are: {', '.join(self.positions)}",
                where=str(unknown[0]),
                hint=f"the model takes {self.takes()}",
            )
        raise WrongValue(
            f"input {missing[0]!r} is missing; given: "
            f"{', '.join(map(str, named)) or 'none'}",
            where=missing[0],
            hint=f"the model takes {self.takes()}",
        )

    def prepare(
        self, values: Sequence[Any], cached: bool = True
    ) -> tuple[Prepared, list[Any]]:
        """Input structs that point at the values, and what keeps those alive."""
        keep: list[Any] = []
        key: list[Any] = []
        pointers = []
        if self._has_strings:
            values = [
                Texts(value, f"input {info}") if info.dtype == "string" else value
                for value, info in zip(values, self.inputs)
            ]
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

    def _prepared(self, key: list[Any], values: list[Any], cached: bool) -> Prepared:
        local = self._local
        try:
            known: dict[Any, Prepared] = local.known
        except AttributeError:
            known = local.known = {}
        shapes = tuple(key)
        prepared = known.get(shapes) if cached else None
        if prepared is None:
            prepared = Prepared(
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

    def _count_copy(self, name: str) -> None:
        with self._lock:
            self.copies[name] = self.copies.get(name, 0) + 1

    def _readable(self, index: int, value: Any) -> Any:
        """A contiguous array, or memory borrowed by DLPack."""
        info = self.inputs[index]
        if isinstance(value, Texts):
            return value
        if isinstance(value, np.ndarray):
            array = np.asarray(np.ascontiguousarray(value)).reshape(value.shape)
            if not np.may_share_memory(array, value):
                self._count_copy(info.name)
            return array
        if hasattr(value, "__dlpack__"):
            borrowed = Borrowed(value, f"input {info}", self.gpu, copies=True)
            if borrowed.copied:
                self._count_copy(info.name)
            return borrowed
        if value is None:
            raise WrongType(
                f"input {info}: None is no array",
                where=info.name,
                hint="every input of the model is needed; pass an array",
            )
        array = array_of(value, info.dtype.code, f"input {info}", info.name)
        self._count_copy(info.name)
        return array

    def _code(self, index: int, value: Any) -> int:
        """The dtype of an input, which is the one that the model takes."""
        info = self.inputs[index]
        if isinstance(value, np.ndarray):
            code, given = dtypes.code_of(value.dtype), str(value.dtype)
            if code is None:
                raise WrongType(
                    f"input {info}: there is no dtype {value.dtype.str} ({value.dtype})",
                    where=info.name,
                    hint=f"convert it to {info.dtype}",
                )
        else:
            code, given = value.code, dtypes.NAMES[value.code]
        if code != info.dtype.code:
            dims = ", ".join(map(str, value.shape))
            wanted = dtypes.numpy_of(info.dtype.code)
            raise WrongType(
                f"input {info}: expected {info.dtype}, got "
                f"{dtypes.NAMES[code]}[{dims}] ({given})",
                where=info.name,
                hint=f"convert it to {info.dtype}"
                + (f": array.astype({wanted.name!r})" if wanted is not None else ""),
            )
        return code

    # ---- outputs

    def positioned(self, outputs: Any) -> Sequence[Any]:
        """One entry an output, None where the caller gives no memory."""
        if isinstance(outputs, Mapping):
            unknown = [n for n in outputs if n not in self.names]
            if unknown:
                raise WrongName(
                    f"no output {unknown[0]!r}; there are: {', '.join(self.names)}",
                    where=str(unknown[0]),
                    hint="the model gives " + ", ".join(map(str, self.outputs)),
                )
            outputs = [
                outputs.get(info.name) if self.names[info.name] == i else None
                for i, info in enumerate(self.outputs)
            ]
        if not isinstance(outputs, (list, tuple)):
            raise WrongType(
                f"outputs: {type(outputs).__name__} is no list of arrays and no mapping",
                where="outputs",
                hint="[array] or {name: array}; the model gives "
                + ", ".join(map(str, self.outputs)),
            )
        if len(outputs) != len(self.outputs):
            raise WrongValue(
                f"outputs: the model gives {len(self.outputs)} outputs ("
                f"{', '.join(self.names)}), memory for {len(outputs)} was given",
                where="outputs",
                hint="pass None for those that the module shall provide",
            )
        return outputs

    def targets(
        self, outputs: Any, cached: bool = True, flat: bool = False
    ) -> tuple[list[Any] | None, Any]:
        """The output structs of memory that the caller gives."""
        if outputs is None:
            return None, None
        given: list[Any] = []
        key: list[Any] = []  # shape and dtype of each, None without memory
        pointers: list[int] = []
        for info, value in zip(self.outputs, self.positioned(outputs)):
            if value is None:
                key.append(None)
                pointers.append(0)
                continue
            if info.dtype == "string":
                raise WrongType(
                    f"output {info}: strings are provided by the module",
                    where=info.name,
                    hint="leave this output out",
                )
            value, code, pointer, nbytes = self._writeable(info, value)
            given.append(value)
            key.append(((FLAT, nbytes) if flat else value.shape, code))
            pointers.append(pointer)
        prepared = getattr(self._local, "targets", None) if cached else None
        if prepared is None or prepared.key != key:
            prepared = Prepared(key, [each or ((0,), 0) for each in key])
            if cached:
                self._local.targets = prepared
        for view, pointer in zip(prepared.views, pointers):
            view.data = pointer
        return given, prepared.tensors

    def _writeable(self, info: TensorInfo, value: Any) -> tuple[Any, int, int, int]:
        """Memory for an output: what holds it, its dtype, address and bytes."""
        if isinstance(value, np.ndarray):
            flags = value.flags
            if not flags.c_contiguous or not flags.writeable:
                raise WrongValue(
                    f"output {info}: the array must be contiguous and writeable, it is "
                    + ("read-only" if flags.c_contiguous else
                       f"not contiguous (strides {value.strides})"),
                    where=info.name,
                    hint="np.empty(shape, dtype) makes one",
                )  # fmt: skip
            code, pointer, nbytes = (
                dtypes.code_of(value.dtype), _address(value), value.nbytes
            )  # fmt: skip
        elif hasattr(value, "__dlpack__"):
            value = Borrowed(value, f"output {info}", self.gpu)
            code, pointer = value.code, value.pointer
            nbytes = dtypes.SIZES[code]
            for dim in value.shape:
                nbytes *= dim
        else:
            raise WrongType(
                f"output {info}: {type(value).__name__} is no array",
                where=info.name,
                hint="pass a NumPy array or an object with __dlpack__",
            )
        if code != info.dtype.code:
            got = dtypes.NAMES[code] if code is not None else str(value.dtype)
            raise WrongType(
                f"output {info}: the memory given is of dtype {got}",
                where=info.name,
                hint=f"pass an array of {info.dtype}",
            )
        return value, code, pointer, nbytes
