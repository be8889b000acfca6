"""Element types: Knapper's names, ONNX Runtime's text, ONNX's numbers, NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from knapper import dtypes
from knapper.dtypes import DType
from knapper.ort.errors import BindingError

# (Knapper's name, the word in 'tensor(word)', the number in TensorProto)
_ROWS = (
    ("f32", "float", 1),
    ("u8", "uint8", 2),
    ("i8", "int8", 3),
    ("i16", "int16", 5),
    ("i32", "int32", 6),
    ("i64", "int64", 7),
    ("i1", "bool", 9),
    ("f16", "float16", 10),
    ("f64", "double", 11),
    ("bf16", "bfloat16", 16),
    ("u16", "uint16", 4),
    ("u32", "uint32", 12),
    ("u64", "uint64", 13),
    ("f8e4m3fn", "float8e4m3fn", 17),
    ("f8e4m3fnuz", "float8e4m3fnuz", 18),
    ("f8e5m2", "float8e5m2", 19),
    ("f8e5m2fnuz", "float8e5m2fnuz", 20),
    ("u4", "uint4", 21),
    ("i4", "int4", 22),
    ("f4e2m1", "float4e2m1", 23),
    ("f8e8m0", "float8e8m0", 24),
    ("u2", "uint2", 25),
    ("i2", "int2", 26),
    ("string", "string", 8),
)
_WORDS = {name: word for name, word, _ in _ROWS}
_NUMBERS = {name: number for name, _, number in _ROWS}
_NAMES = {number: name for name, _, number in _ROWS}


def text_of(dtype: str | DType) -> str:
    """'tensor(float)' for "f32"."""
    name = str(dtype)
    return f"tensor({_WORDS.get(name, name)})"


def text_of_number(number: int) -> str:
    """'tensor(float)' for 1."""
    return text_of(_NAMES.get(number, "undefined"))


def number_of(dtype: str) -> int:
    """TensorProto's number: 1 for "f32"."""
    return _NUMBERS[dtype]


def code_of(element_type: Any, what: str) -> int:
    """The library's code for a NumPy type or a number of TensorProto.

    Raises BindingError for a type that Knapper has not, and for strings, which
    are no memory of the caller's.
    """
    code = None
    if isinstance(element_type, (int, np.integer)) and not isinstance(
        element_type, bool
    ):
        name = _NAMES.get(int(element_type))
        code = dtypes.NAMES.index(name) if name else None
    else:
        try:
            code = dtypes.code_of(np.dtype(element_type))
        except TypeError:
            pass
    if code is not None and dtypes.NAMES[code] == "string":
        raise BindingError(
            f"{what}: strings are no memory to share",
            where=what,
            hint="give the array of str to run",
        )
    if code is None:
        known = ", ".join(f"{word} ({number})" for _, word, number in _ROWS)
        raise BindingError(
            f"{what}: there is no element type {element_type!r}; there are {known}",
            where=what,
        )
    return code


def numpy_text(dtype: np.dtype) -> str:
    """'tensor(double)' for NumPy's float64, also for types that we lack."""
    if dtype.kind in "OUST":
        return text_of("string")
    code = dtypes.code_of(dtype)
    return text_of(dtypes.NAMES[code]) if code is not None else f"tensor({dtype})"


def name_of(text: str) -> str:
    """"f32" for 'tensor(float)'. Raises ValueError for what there is not."""
    word = text.removeprefix("tensor(").removesuffix(")")
    for name, known, _ in _ROWS:
        if known == word:
            return name
    raise ValueError(f"there is no type {text}")
