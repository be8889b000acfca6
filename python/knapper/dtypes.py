"""dtypes: the library's names and codes, and NumPy's."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from knapper.errors import WrongType

# In the order of knapper_dtype: the library's name, bytes an element, and the
# dtype of NumPy or (after a colon) of ml_dtypes, where that package is installed.
_TABLE = (
    ("f32", 4, "float32"),
    ("f16", 2, "float16"),
    ("bf16", 2, ":bfloat16"),
    ("f64", 8, "float64"),
    ("i1", 1, "bool"),
    ("i8", 1, "int8"),
    ("u8", 1, "uint8"),
    ("i16", 2, "int16"),
    ("i32", 4, "int32"),
    ("i64", 8, "int64"),
    ("u16", 2, "uint16"),
    ("u32", 4, "uint32"),
    ("u64", 8, "uint64"),
    ("f8e4m3fn", 1, ":float8_e4m3fn"),
    ("f8e4m3fnuz", 1, ":float8_e4m3fnuz"),
    ("f8e5m2", 1, ":float8_e5m2"),
    ("f8e5m2fnuz", 1, ":float8_e5m2fnuz"),
    ("f8e8m0", 1, ":float8_e8m0fnu"),
    ("f4e2m1", 1, ":float4_e2m1fn"),
    ("i4", 1, ":int4"),
    ("u4", 1, ":uint4"),
    ("i2", 1, ":int2"),
    ("u2", 1, ":uint2"),
    ("string", 16, "object"),
    ("f8e4m3", 1, ":float8_e4m3"),
    ("f8e3m4", 1, ":float8_e3m4"),
    ("f8e4m3b11fnuz", 1, ":float8_e4m3b11fnuz"),
    ("f6e2m3", 1, ":float6_e2m3fn"),
    ("f6e3m2", 1, ":float6_e3m2fn"),
)
NAMES = tuple(row[0] for row in _TABLE)
SIZES = tuple(row[1] for row in _TABLE)
_CODES = {np.dtype(n): i for i, (_, _, n) in enumerate(_TABLE) if n[0] != ":"}
_OTHERS = {n[1:]: i for i, (_, _, n) in enumerate(_TABLE) if n[0] == ":"}


def _ml_dtypes() -> ModuleType | None:
    try:
        import ml_dtypes
    except ImportError:
        return None
    return ml_dtypes


def code_of(dtype: np.dtype) -> int | None:
    """The library's code of a NumPy dtype; None when it has no such dtype."""
    code = _CODES.get(dtype)
    if code is None:
        code = _OTHERS.get(dtype.name)
        if code is not None and dtype.itemsize == SIZES[code]:
            _CODES[dtype] = code
    return code


def numpy_of(code: int) -> np.dtype | None:
    """NumPy's dtype; None for those of ml_dtypes where that is not installed,
    or is too old to have them."""
    name = _TABLE[code][2]
    if name[0] != ":":
        return np.dtype(name)
    scalar = getattr(_ml_dtypes(), name[1:], None)
    return None if scalar is None else np.dtype(scalar)


class DType:
    """The dtype of an input or output. It is equal to its name ("f32") and to
    NumPy's dtype, and goes where NumPy takes one: `np.zeros(3, info.dtype)`.
    """

    __slots__ = ("code", "name")

    def __init__(self, code: int) -> None:
        self.code = code
        self.name = NAMES[code]

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return SIZES[self.code]

    @property
    def dtype(self) -> np.dtype:
        """NumPy's. Raises TypeError where NumPy needs ml_dtypes for it."""
        found = numpy_of(self.code)
        if found is None:
            raise WrongType(
                f"NumPy has no {self.name} of its own",
                where="dtype",
                hint="install ml_dtypes, or pass tensors by DLPack",
            )
        return found

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self.code == other.code
        if isinstance(other, str):
            return self.name == other
        try:
            return self.code == code_of(np.dtype(other))  # type: ignore[call-overload]
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __format__(self, form: str) -> str:
        return format(self.name, form)

    def __repr__(self) -> str:
        return f"dtype({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return DType, (self.code,)


_ALIASES = {
    "float": "f32",
    "float32": "f32",
    "fp32": "f32",
    "half": "f16",
    "float16": "f16",
    "fp16": "f16",
    "bfloat16": "bf16",
    "bfloat": "bf16",
    "double": "f64",
    "float64": "f64",
    "fp64": "f64",
}


def name_of(dtype: object, argument: str = "dtype") -> str:
    """The library's name of a dtype by any usual one: "f16", "fp16", "float16",
    np.float16, torch.float16, ml_dtypes.bfloat16.

    Raises WrongType for what names no dtype.
    """
    if isinstance(dtype, DType):
        return dtype.name
    text = str(dtype)
    if isinstance(dtype, str) or type(dtype).__module__ == "torch":
        text = text.removeprefix("torch.").lower()
        found = _ALIASES.get(text, text)
        if found in NAMES:
            return found
        try:
            code = code_of(np.dtype(text))
        except TypeError:
            code = None
    else:
        try:
            code = code_of(np.dtype(dtype))  # type: ignore[call-overload]
        except TypeError:
            code = None
    if code is None or dtype is None:
        raise WrongType(
            f"{argument}: {dtype!r} is no dtype",
            where=argument,
            hint='a name as "f16", "bf16" or "f32", or a dtype of NumPy or torch',
        )
    return NAMES[code]
