"""Factorisations that JAX knows on its own platforms alone, by LAPACK in SciPy, which
JAX itself needs: as functions of batches of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def nan(dtype: Any) -> complex | float:
    """In both parts of a complex number."""
    return complex(np.nan, np.nan) if np.dtype(dtype).kind == "c" else np.nan


def _each(function: Callable[[np.ndarray], tuple[Any, ...]], dtypes: list[Any], a: np.ndarray) -> tuple[np.ndarray, ...]:
    """Over the leading dims; NaN where a routine does not come to an end."""
    import scipy.linalg

    matrices = a.reshape(-1, *a.shape[-2:])
    results = []
    for matrix in matrices:
        try:
            results.append(function(matrix))
        except (np.linalg.LinAlgError, scipy.linalg.LinAlgError):
            shapes = [np.shape(each) for each in function(np.eye(*matrix.shape, dtype=matrix.dtype))]
            results.append(tuple(np.full(shape, nan(dtype), dtype) for shape, dtype in zip(shapes, dtypes, strict=True)))
    columns = zip(*results) if results else [() for _ in dtypes]
    return tuple(
        np.asarray(column, dtype).reshape(*a.shape[:-2], *np.shape(column)[1:]) for column, dtype in zip(columns, dtypes, strict=True)
    )


def _empty(avals_out: list[Any]) -> tuple[np.ndarray, ...]:
    return tuple(np.zeros(aval.shape, aval.dtype) for aval in avals_out)


def batched(function: Callable[[np.ndarray], tuple[Any, ...]], avals_out: list[Any]) -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
    dtypes = [aval.dtype for aval in avals_out]

    def run(a: np.ndarray) -> tuple[np.ndarray, ...]:
        return _each(function, dtypes, a) if a.size else _empty(avals_out)

    return run


def eig(left: bool, right: bool) -> Callable[[np.ndarray], tuple[Any, ...]]:
    """Eigenvalues, then left and right eigenvectors as asked. `run` raises LinAlgError for numbers that are not finite."""
    def run(a: np.ndarray) -> tuple[Any, ...]:
        import scipy.linalg

        if not np.isfinite(a).all():
            raise np.linalg.LinAlgError("not finite")
        found = scipy.linalg.eig(a, left=left, right=right)
        return found if isinstance(found, tuple) else (found,)

    return run


def schur(vectors: bool) -> Callable[[np.ndarray], tuple[Any, ...]]:
    def run(a: np.ndarray) -> tuple[Any, ...]:
        import scipy.linalg

        t, z = scipy.linalg.schur(a, output="complex" if a.dtype.kind == "c" else "real")
        return (t, z) if vectors else (t,)

    return run


def hessenberg(a: np.ndarray) -> tuple[Any, ...]:
    """The packed reflectors, as LAPACK's gehrd gives them."""
    import scipy.linalg

    (gehrd,) = scipy.linalg.get_lapack_funcs(("gehrd",), (a,))
    h, tau, info = gehrd(a)
    if info:
        raise np.linalg.LinAlgError("gehrd")
    return h, tau


def tridiagonal(lower: bool) -> Callable[[np.ndarray], tuple[Any, ...]]:
    """LAPACK's sytrd or hetrd: a symmetric or Hermitian matrix to tridiagonal form."""
    def run(a: np.ndarray) -> tuple[Any, ...]:
        import scipy.linalg

        name = "hetrd" if a.dtype.kind == "c" else "sytrd"
        (trd,) = scipy.linalg.get_lapack_funcs((name,), (a,))
        packed, d, e, tau, info = trd(a, lower=lower)
        if info:
            raise np.linalg.LinAlgError(name)
        return packed, d, e, tau

    return run


def pivoted_qr(a: np.ndarray, pivots: np.ndarray) -> tuple[Any, ...]:
    """geqp3 of every matrix; columns with a pivot come first, as LAPACK has it."""
    import scipy.linalg

    if (pivots != 0).any():
        raise ValueError("geqp3 with columns that are chosen beforehand is not supported on knapper")
    (geqp3,) = scipy.linalg.get_lapack_funcs(("geqp3",), (a,))
    packed, order, tau, *_ = geqp3(a)
    return packed, order, tau


def _cholesky(a: np.ndarray, **_: Any) -> tuple[Any, ...]:
    return (np.linalg.cholesky(a),)


def _triangular_solve(
    a: np.ndarray, b: np.ndarray, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool, **_: Any,
) -> tuple[Any, ...]:  # fmt: skip
    import scipy.linalg

    if conjugate_a:
        a = a.conj()
    if not left_side:  # of x op(a) = b, the transpose
        transpose_a, b = not transpose_a, b.T
    x = scipy.linalg.solve_triangular(a, b, trans=int(transpose_a), lower=lower, unit_diagonal=unit_diagonal, check_finite=False)
    return (x if left_side else x.T,)


def _eigh(a: np.ndarray, *, lower: bool, subset_by_index: Any = None, **_: Any) -> tuple[Any, ...]:
    import scipy.linalg

    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError("not finite")
    values, vectors = scipy.linalg.eigh(a, lower=lower, subset_by_index=subset_by_index and (subset_by_index[0], subset_by_index[1] - 1))
    return vectors, values


def _geqrf(a: np.ndarray, **_: Any) -> tuple[Any, ...]:
    import scipy.linalg

    (geqrf,) = scipy.linalg.get_lapack_funcs(("geqrf",), (a,))
    packed, tau, *_rest = geqrf(a)
    return packed, tau


def _householder_product(a: np.ndarray, tau: np.ndarray, **_: Any) -> tuple[Any, ...]:
    import scipy.linalg

    (ungqr,) = scipy.linalg.get_lapack_funcs(("ungqr",), (a,))
    return (ungqr(a, tau)[0],)


# Of one complex matrix each, by the primitive's name in jax._src.lax.linalg.
COMPLEX: dict[str, Callable[..., tuple[Any, ...]]] = {
    "cholesky_p": _cholesky,
    "eigh_p": _eigh,
    "geqrf_p": _geqrf,
    "householder_product_p": _householder_product,
    "triangular_solve_p": _triangular_solve,
}
