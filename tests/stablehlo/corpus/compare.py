"""Whether outputs are a program's: bits of integers, units in the last place of floats."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from corpus.programs import COMPLEX, INTEGERS, Program, element_of


def _difference(given: np.ndarray, wanted: np.ndarray, ulps: float, absolute: float) -> np.ndarray:
    """Where two arrays of floats differ."""
    information = ml_dtypes.finfo(wanted.dtype)
    a, b = given.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        spacing = np.maximum(np.abs(b) * float(information.eps), float(information.smallest_subnormal))
        near = np.abs(a - b) <= ulps * spacing + absolute
        same = (a == b) & ((np.signbit(a) == np.signbit(b)) | (ulps > 0) | (absolute > 0))
    return ~(same | (np.isnan(a) & np.isnan(b)) | (near & np.isfinite(a) & np.isfinite(b)))


def difference(program: Program, given: list[np.ndarray], wanted: list[np.ndarray]) -> str:
    """What differs, or nothing."""
    for i, (g, w, type) in enumerate(zip(given, wanted, program.result_types, strict=True)):
        element = element_of(type)
        if element in COMPLEX and g.dtype.kind == "f":
            g = g[..., 0] + 1j * g[..., 1]
            g = g.astype(w.dtype)
        if g.shape != w.shape or g.dtype != w.dtype:
            return f"result {i} is {g.dtype}{list(g.shape)} for {w.dtype}{list(w.shape)}"
        if element in INTEGERS or element == "i1":
            bad = g != w
        elif element in COMPLEX:
            # The error of either part is measured by the whole number.
            size = np.abs(w)
            spacing = size * np.finfo(w.dtype).eps
            with np.errstate(invalid="ignore"):
                near = np.abs(g - w) <= program.ulps * spacing + program.absolute
            bad = ~(near | (g == w) | (np.isnan(g) & np.isnan(w)))
        else:
            bad = _difference(g, w, program.ulps, program.absolute)
        if bad.any():
            at = tuple(int(k[0]) for k in np.nonzero(bad)) if bad.ndim else ()
            inputs = [str(a[at]) for a in program.arguments if a.shape == g.shape]
            return f"result {i}, {int(bad.sum())} of {bad.size}: {g[at]} for {w[at]} at {list(at)} of {inputs}"
    return ""
