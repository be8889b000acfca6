"""Operators of your own, in Python or in a shared object.

    def swish(x, *, beta=1.0):
        return x / (1 + np.exp(-beta * x))

    knapper.register_operator("my.domain", "Swish", compute=swish)
    m = knapper.compile("model.onnx")

An operator is registered for the whole process. A process that loads the
artefact has to register it, too. docs/custom-operators.md has an example.
"""

from __future__ import annotations

import ctypes
import inspect
import itertools
import operator
import os
import threading
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t
from ctypes import c_void_p
from typing import Any, NamedTuple

import numpy as np

from knapper import dtypes, raised, texts
from knapper.errors import UserError, WrongType
from knapper.library import CTensor, check, encode_path, library

_MAX_RANK = 32


class _CString(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class _CAttribute(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("kind", c_int),
        ("count", c_int32),
        ("ints", POINTER(c_int64)),
        ("floats", POINTER(c_float)),
        ("strings", POINTER(_CString)),
        ("tensor", POINTER(CTensor)),
    ]


class _CResultShape(ctypes.Structure):
    _fields_ = [("dtype", c_int), ("rank", c_int32), ("shape", c_int64 * _MAX_RANK)]


class _CCall(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("node", c_char_p),
        ("domain", c_char_p),
        ("name", c_char_p),
        ("version", c_int64),
        ("num_attributes", c_int32),
        ("attributes", POINTER(_CAttribute)),
        ("running", c_int32),
        ("num_inputs", c_int32),
        ("inputs", POINTER(CTensor)),
        ("num_outputs", c_int32),
        ("outputs", POINTER(CTensor)),
        ("fail", ctypes.CFUNCTYPE(None, c_void_p, c_char_p)),
        ("allocate", ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t)),
        ("internal", c_void_p),
        ("stream", c_void_p),
    ]


_Shape = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(_CCall), POINTER(_CResultShape))
_Compute = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(_CCall))
_Release = ctypes.CFUNCTYPE(None, c_void_p)


class _COperator(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("domain", c_char_p),
        ("name", c_char_p),
        ("shape", _Shape),
        ("compute", _Compute),
        ("user", c_void_p),
        ("release", _Release),
        ("on_device", c_int32),
    ]


class TensorSpec(NamedTuple):
    """An input as a shape function sees it: dtype ("f32", "i64"...) and shape.
    While a model is compiled, a size that is known in a run only is an
    `UnknownSize`.
    """

    dtype: str
    shape: tuple[int, ...]


class UnknownSize(int):
    """A size that is known in a run only. In a result's shape it means the same
    size. Arithmetic with it gives another unknown size; in the run the shape
    function is called again with numbers. Equal objects are equal sizes.
    """

    def _other(self, *_: object) -> UnknownSize:
        return UnknownSize(-1)

    def _order(self, *_: object) -> bool:
        raise TypeError("the order of sizes is known in a run only")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _other
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = __abs__ = _other
    __lt__ = __le__ = __gt__ = __ge__ = _order
    __hash__ = int.__hash__

    def __repr__(self) -> str:
        return f"UnknownSize({int(self)})"


def _attribute(from_: _CAttribute) -> Any:
    def strings() -> list[str]:
        return [
            ctypes.string_at(s.data, s.size).decode(errors="surrogateescape")
            for s in from_.strings[: from_.count]
        ]

    if from_.kind in (0, 3):
        values: list[Any] = from_.ints[: from_.count]
    elif from_.kind in (1, 4):
        values = from_.floats[: from_.count]
    elif from_.kind in (2, 5):
        values = strings()
    else:
        return _array(from_.tensor[0]).copy()
    return values[0] if from_.kind < 3 else values


def _attributes(call: _CCall) -> dict[str, Any]:
    return {
        a.name.decode(): _attribute(a) for a in call.attributes[: call.num_attributes]
    }


def _array(tensor: CTensor, writeable: bool = False) -> np.ndarray:
    """The library's memory as an array, without a copy; strings are copied."""
    shape = tuple(tensor.shape[: tensor.rank])
    if tensor.dtype == texts.CODE:
        return texts.decoded(tensor.data or 0, shape)
    dtype = dtypes.numpy_of(tensor.dtype)
    if dtype is None:
        raise TypeError(
            f"NumPy has no {dtypes.NAMES[tensor.dtype]}: install ml_dtypes"
        )
    if tensor.bytes == 0:
        array = np.empty(shape, dtype)
    else:
        memory = (ctypes.c_char * tensor.bytes).from_address(tensor.data)
        array = np.frombuffer(memory, dtype).reshape(shape)
    array.flags.writeable = writeable
    return array


def _size(value: int) -> int:
    return value if value >= 0 else UnknownSize(value)


def _spec(tensor: CTensor) -> TensorSpec | None:
    if tensor.rank < 0:
        return None
    shape = tuple(_size(size) for size in tensor.shape[: tensor.rank])
    return TensorSpec(dtypes.NAMES[tensor.dtype], shape)


def _code(dtype: Any) -> int:
    return dtypes.NAMES.index(dtypes.name_of(dtype))


def _guarded(function: Callable[[_CCall, Any], None]) -> Callable[..., int]:
    """The function in the form that the library calls. An exception is kept for
    `library.check`."""

    def run(_user: Any, call: Any, *results: Any) -> int:
        try:
            function(call[0], *results)
        except BaseException as error:
            call[0].fail(ctypes.cast(call, c_void_p), raised.keep(error))
            return 1
        return 0

    return run


def _like(index: int) -> Callable[..., Any]:
    def shape(*inputs: TensorSpec, **_: Any) -> list[TensorSpec]:
        if index >= len(inputs) or inputs[index] is None:
            raise ValueError(f"the node has no input {index}")
        return [inputs[index]]

    return shape


class _Operator:
    """The functions of one operator, called as the library calls them."""

    def __init__(
        self, compute: Callable[..., Any], shape: Callable[..., Any] | None
    ) -> None:
        self._compute = compute
        self._shape = shape
        try:
            self._fills = "out" in inspect.signature(compute).parameters
        except (TypeError, ValueError):  # some functions of C
            self._fills = False
        # Results that the shape function could not know before: the library asks
        # for shapes, then computes, in one thread.
        self._made = threading.local()

    def shapes(self, call: _CCall, results: Any) -> None:
        assert self._shape is not None
        specs = (_spec(t) for t in call.inputs[: call.num_inputs])
        given = self._shape(*specs, **_attributes(call))
        if (
            isinstance(given, tuple)
            and len(given) == 2
            and not isinstance(given[0], (tuple, list))
        ):
            given = [given]  # (dtype, shape) of the only result
        if len(given) != call.num_outputs:
            raise ValueError(
                f"the shape function gives {len(given)} results, the node has "
                f"{call.num_outputs}"
            )
        made = None
        for i, (dtype, sizes) in enumerate(given):
            if len(sizes) > _MAX_RANK:
                raise ValueError(f"result {i} has rank {len(sizes)}")
            sizes = [_plain(i, size) for size in sizes]
            unknown = any(size is None or size < 0 for size in sizes)
            if call.running and unknown:
                made = made or self._results(call)
                if len(made[i].shape) != len(sizes):
                    raise ValueError(
                        f"result {i} has rank {len(made[i].shape)}, the shape "
                        f"function said {len(sizes)}"
                    )
                sizes = made[i].shape
            results[i].dtype = _code(dtype)
            results[i].rank = len(sizes)
            results[i].shape[: len(sizes)] = [
                -1 if size is None else size for size in sizes
            ]
        self._made.results = made

    def compute(self, call: _CCall) -> None:
        made = getattr(self._made, "results", None)
        self._made.results = None
        if made is None and self._fills:
            outputs = call.outputs[: call.num_outputs]
            if any(t.dtype == texts.CODE for t in outputs):
                raise TypeError("strings are returned, they have no memory to fill")
            out = tuple(_array(t, writeable=True) for t in outputs)
            self._compute(*_arguments(call), **_attributes(call), out=out)
            return
        for i, value in enumerate(made or self._results(call)):
            _store(call, i, value)

    def _results(self, call: _CCall) -> tuple[np.ndarray, ...]:
        if self._fills:
            raise ValueError(
                "a compute function that fills `out` needs sizes from the shape "
                "function"
            )
        made = self._compute(*_arguments(call), **_attributes(call))
        if not isinstance(made, tuple):
            made = (made,)
        if len(made) != call.num_outputs:
            raise ValueError(
                f"compute gives {len(made)} results, the node has {call.num_outputs}"
            )
        return tuple(map(np.asarray, made))


def _plain(result: int, size: Any) -> int | None:
    """A size as C takes it."""
    if size is None:
        return None
    number = operator.index(size)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"result {result} has the size {number}")
    return number


def _arguments(call: _CCall) -> list[np.ndarray | None]:
    return [None if t.rank < 0 else _array(t) for t in call.inputs[: call.num_inputs]]


def _write_strings(call: _CCall, target: CTensor, value: Any) -> None:
    made = texts.Texts(value, "result")
    size = made.bytes_count
    memory = call.allocate(ctypes.addressof(call), size)
    if not memory:
        raise MemoryError(f"no memory for {size} bytes of strings")
    made.move_to(memory)
    ctypes.memmove(target.data, made.pointer, target.bytes)


def _store(call: _CCall, index: int, value: np.ndarray) -> None:
    target = call.outputs[index]
    shape = tuple(target.shape[: target.rank])
    if value.shape != shape:
        raise ValueError(
            f"result {index} has the shape {value.shape}, the shape function said "
            f"{shape}"
        )
    if target.bytes == 0:
        return
    if target.dtype == texts.CODE:
        _write_strings(call, target, value)
    else:
        np.copyto(_array(target, writeable=True), value, casting="same_kind")


# What the library may call, by the number that it calls with.
_alive: dict[int, Any] = {}
_numbers = itertools.count(1)


@_Release
def _release(user: int) -> None:
    _alive.pop(user, None)


def register_operator(
    domain: str,
    name: str,
    *,
    compute: Callable[..., Any],
    shape: Callable[..., Any] | int | None = None,
) -> None:
    """Registers an operator for the process. It replaces one of the same domain
    and name; loaded modules keep the one they have.

    compute: called as compute(*inputs, **attributes) with NumPy arrays, once for
        each node that runs. It returns an array, or a tuple of arrays for several
        results. The inputs are the library's memory without a copy: they are
        read-only, and valid during the call. None is an optional input that was
        left out. If it has a parameter `out`, it gets a tuple of arrays to fill,
        and its return value is ignored. Strings are arrays of str.
    shape: called as shape(*inputs, **attributes) with a `TensorSpec` for each
        input, when a model is compiled and before each `compute`. It returns
        (dtype, shape), or a list of these for several results. A size of an input
        means the same size; None means a size that only the result has. Instead of
        a function: a number i (dtype and shape of input i), or None (dtype of the
        first input, and the shape to which all inputs broadcast).

    Several threads may call both at once. An exception of theirs is the cause
    (`__cause__`) of the UserError that the compile or the call raises. That error
    names the node. Raises UserError for an operator without a name.
    """
    if not callable(compute):
        raise WrongType(
            f"compute: {type(compute).__name__} is no function",
            where=f"{domain}.{name}",
            hint="pass a function of the inputs and attributes",
        )
    if isinstance(shape, int):
        shape = _like(shape)
    number = next(_numbers)
    given = _COperator()
    given.size = ctypes.sizeof(_COperator)
    functions = _Operator(compute, shape)
    given.domain = domain.encode()
    given.name = name.encode()
    if shape is not None:
        given.shape = _Shape(_guarded(functions.shapes))
    given.compute = _Compute(_guarded(functions.compute))
    given.user = number
    given.release = _release
    _alive[number] = given
    try:
        check(library().knapper_register_operator(ctypes.byref(given)))
    except UserError:
        del _alive[number]
        raise


def unregister_operator(domain: str, name: str) -> None:
    """Removes an operator from the registry. Loaded modules keep it. Raises
    UserError if there is none."""
    check(library().knapper_unregister_operator(domain.encode(), name.encode()))


def load_operators(path: str | os.PathLike[str]) -> None:
    """Loads a shared object until the process ends. Its function
    `knapper_operators` registers its operators. Raises UserError for a file that
    is no such object."""
    check(library().knapper_load_operators(encode_path(path)))


__all__: Sequence[str] = [
    "TensorSpec",
    "UnknownSize",
    "load_operators",
    "register_operator",
    "unregister_operator",
]
