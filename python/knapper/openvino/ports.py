"""Names, shapes and types of inputs and outputs; tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from knapper import dtypes
from knapper.errors import UserError


class OpenVINOError(UserError, RuntimeError):
    """What OpenVINO reports as RuntimeError: a wrong name, shape or type, or an
    option that is not honoured."""


def refuse(what: str, hint: str) -> OpenVINOError:
    """The error for what is not honoured, with what to do instead."""
    return OpenVINOError(
        f"{what}: not honoured by knapper.openvino\n  try: {hint}", what, hint
    )


@dataclasses.dataclass(frozen=True)
class Type:
    """An element type by Knapper's name: "f32", "i64", "i1"..."""

    name: str

    def get_type_name(self) -> str:
        """OpenVINO's name: "f32", "boolean"."""
        return "boolean" if self.name == "i1" else self.name

    def to_dtype(self) -> np.dtype:
        """NumPy's dtype. Raises TypeError for bf16 where ml_dtypes is missing."""
        dtype = dtypes.numpy_of(dtypes.NAMES.index(self.name))
        if dtype is None:
            raise TypeError("NumPy has no bf16: install ml_dtypes")
        return dtype

    def __repr__(self) -> str:
        return f"<Type: '{self.get_type_name()}'>"


for _name in dtypes.NAMES:
    setattr(Type, "boolean" if _name == "i1" else _name, Type(_name))


def Dimension(least: int = -1, most: int | None = None) -> int:
    """A size; -1, an open one, for none and for bounds, which are not kept."""
    return least if most is None or most == least else -1


class PartialShape(tuple):
    """Sizes; an open one is -1, or the symbol's text."""

    @property
    def is_dynamic(self) -> bool:
        """Whether a size is open."""
        return any(not isinstance(d, int) or d < 0 for d in self)

    @property
    def is_static(self) -> bool:
        """Whether all sizes are known."""
        return not self.is_dynamic

    def to_shape(self) -> tuple[int, ...]:
        """The sizes. Raises OpenVINOError where one is open."""
        if self.is_dynamic:
            raise OpenVINOError(f"the shape {self} has open sizes")
        return tuple(self)

    def __str__(self) -> str:
        sizes = ("?" if not isinstance(d, int) or d < 0 else str(d) for d in self)
        return f"[{','.join(sizes)}]"


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or output of a model (OpenVINO: Output, ConstOutput)."""

    any_name: str
    partial_shape: PartialShape
    element_type: Type
    index: int
    kind: str  # "input" or "output"

    @property
    def names(self) -> set[str]:
        """Its one name."""
        return {self.any_name}

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes. Raises OpenVINOError where one is open."""
        return self.partial_shape.to_shape()

    def get_names(self) -> set[str]:
        """Its one name."""
        return self.names

    def get_any_name(self) -> str:
        """Its name."""
        return self.any_name

    def get_partial_shape(self) -> PartialShape:
        """Its shape."""
        return self.partial_shape

    def get_shape(self) -> tuple[int, ...]:
        """The sizes. Raises OpenVINOError where one is open."""
        return self.shape

    def get_element_type(self) -> Type:
        """Its type."""
        return self.element_type

    def get_index(self) -> int:
        """Its place."""
        return self.index

    def __repr__(self) -> str:
        return (
            f"<Port: names[{self.any_name}] shape{self.partial_shape} "
            f"type: {self.element_type.get_type_name()}>"
        )


def find(ports: Sequence[Port], key: int | str | Port | None) -> Port:
    """The port of a name, a place or a port; the only one for None.

    Raises OpenVINOError where there is none, or several for None.
    """
    if isinstance(key, Port) and key in ports:
        return key
    if key is None and len(ports) == 1:
        return ports[0]
    if isinstance(key, (int, np.integer)) and 0 <= key < len(ports):
        return ports[key]
    for port in ports:
        if port.any_name == key:
            return port
    what = "a name or place is needed" if key is None else f"there is no {key!r}"
    raise OpenVINOError(f"{what}; there are {', '.join(map(repr, ports))}")


class Tensor:
    """A dense array: `data`, `shape`, `element_type`.

    Tensor(array) copies, Tensor(array, shared_memory=True) shares the memory of a
    contiguous array; Tensor(type, shape) is new memory, not initialised.
    """

    def __init__(self, source: Any, shape: Any = None, shared_memory: bool = False):
        if isinstance(source, Type):
            source, shared_memory = np.empty(tuple(shape), source.to_dtype()), True
        array = np.asarray(source)
        if dtypes.code_of(array.dtype) is None:
            raise OpenVINOError(f"there is no dtype {array.dtype}")
        if not shared_memory:
            array = array.copy(order="C")
        elif not array.flags.c_contiguous:
            raise OpenVINOError("only a contiguous array's memory can be shared")
        self.data: np.ndarray = array

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return self.data.shape

    @property
    def element_type(self) -> Type:
        """The type."""
        return Type(dtypes.NAMES[dtypes.code_of(self.data.dtype) or 0])

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.data.size

    @property
    def byte_size(self) -> int:
        """Bytes of the elements."""
        return self.data.nbytes

    def __repr__(self) -> str:
        return f"<Tensor: shape{list(self.shape)} type: {self.element_type.get_type_name()}>"
