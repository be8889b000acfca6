"""What is no array and no tensor: Python's numbers, and sequences of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from knapper import dtypes
from knapper.errors import WrongType, WrongValue


def array_of(value: Any, code: int, where: str, name: str) -> np.ndarray:
    """A contiguous array. What makes an array of itself (a scalar of NumPy, a table
    of pandas) keeps its dtype; numbers without one get that of the code.

    A whole number becomes a float; no other kind becomes another: a float given
    for an integer would lose its fraction, a number given for a bool itself. Raises
    WrongType for these and for what is no numbers, WrongValue for an integer
    that the dtype does not have.
    """
    wanted = dtypes.NAMES[code]
    try:
        given = np.asarray(value)
        if hasattr(value, "__array__"):
            return np.ascontiguousarray(given).reshape(given.shape)
        reason = _other_kind(given, wanted)
        if not reason:
            _check_range(given, wanted, where, name)
            made = np.ascontiguousarray(np.asarray(value, dtypes.numpy_of(code)))
            return made.reshape(given.shape)
    except WrongValue:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise WrongType(
            f"{where}: {type(value).__name__} is no array: {error}",
            where=name,
            hint="pass a NumPy array or an object with __dlpack__",
        ) from error
    raise WrongType(
        f"{where}: {type(value).__name__} is no array of {wanted}: {reason}",
        where=name,
        hint=f"pass numbers of {wanted}, or a NumPy array",
    )


def _other_kind(given: np.ndarray, wanted: str) -> str:
    """Why what was given does not become the dtype; "" where it may. Objects say
    themselves what they are, and nothing has no kind."""
    kind = given.dtype.kind
    if wanted == "i1":
        allowed = "b"
    else:
        allowed = "iu" if wanted[0] in "iu" else "iufO"
    if given.size == 0 or kind in allowed or kind not in "biufcUSMmO":
        return ""
    return f"it holds {given.dtype}"


def _check_range(given: np.ndarray, wanted: str, where: str, name: str) -> None:
    if given.size == 0 or given.dtype.kind not in "iu" or wanted[0] not in "iu":
        return
    bits = int(wanted[1:])
    low, high = 0, (1 << bits) - 1
    if wanted[0] == "i":
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    for number in (int(given.min()), int(given.max())):
        if not low <= number <= high:
            raise WrongValue(
                f"{where}: {number} is no {wanted}, which has {low} to {high}",
                where=name,
                hint="give numbers that it has",
            )
