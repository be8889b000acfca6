"""dtypes: the library's names and codes, and NumPy's."""

from __future__ import annotations

import numpy as np

# In the order of knapper_dtype.
NAMES = ("f32", "f16", "bf16", "f64", "i1", "i8", "u8", "i16", "i32", "i64")
SIZES = (4, 2, 2, 8, 1, 1, 1, 2, 4, 8)
BF16 = NAMES.index("bf16")

_NUMPY = (
    np.dtype(np.float32),
    np.dtype(np.float16),
    None,  # bf16: only with ml_dtypes
    np.dtype(np.float64),
    np.dtype(np.bool_),
    np.dtype(np.int8),
    np.dtype(np.uint8),
    np.dtype(np.int16),
    np.dtype(np.int32),
    np.dtype(np.int64),
)
_CODES = {d: code for code, d in enumerate(_NUMPY) if d is not None}


def _bfloat16() -> np.dtype | None:
    """ml_dtypes' bfloat16, where that package is installed."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return np.dtype(ml_dtypes.bfloat16)


def code_of(dtype: np.dtype) -> int | None:
    """The library's code of a NumPy dtype; None when it has no such dtype."""
    code = _CODES.get(dtype)
    if code is None and dtype.name == "bfloat16" and dtype.itemsize == 2:
        _CODES[dtype] = code = BF16
    return code


def numpy_of(code: int) -> np.dtype | None:
    """NumPy's dtype; None for bf16 where ml_dtypes is not installed."""
    return _NUMPY[code] if code != BF16 else _bfloat16()
