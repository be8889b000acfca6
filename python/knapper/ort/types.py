"""Element types: Knapper's names, ONNX Runtime's text, ONNX's numbers, NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from knapper import dtypes
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
)
_WORDS = {name: word for name, word, _ in _ROWS}
_NUMBERS = {name: number for name, _, number in _ROWS}
_NAMES = {number: name for name, _, number in _ROWS}


def text_of(dtype: str) -> str:
    """'tensor(float)' for "f32"."""
    return f"tensor({_WORDS.get(dtype, dtype)})"


def number_of(dtype: str) -> int:
    """TensorProto's number: 1 for "f32"."""
    return _NUMBERS[dtype]


def code_of(element_type: Any, what: str) -> int:
    """The library's code for a NumPy type or a number of TensorProto.

    Raises BindingError for a type that Knapper has not.
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
    if code is None:
        known = ", ".join(f"{word} ({number})" for _, word, number in _ROWS)
        raise BindingError(
            f"{what}: there is no element type {element_type!r}; there are {known}",
            where=what,
        )
    return code


def numpy_text(dtype: np.dtype) -> str:
    """'tensor(double)' for NumPy's float64, also for types that we lack."""
    code = dtypes.code_of(dtype)
    return text_of(dtypes.NAMES[code]) if code is not None else f"tensor({dtype})"
