"""Determinants and solutions of systems, with the factors that torch keeps for gradients.
Of a determinant they are those of the transpose where the matrix lies row by row, since
torch's LAPACK reads columns; of a system those of the matrix itself."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node


def _factored(A: Tensor) -> tuple[Tensor, Tensor]:
    """LU and pivots."""
    transpose = A.is_contiguous() and not A.is_complex()
    lu, pivots, _ = torch.ops.aten.linalg_lu_factor_ex(A.mT if transpose else A)
    return lu, pivots


def _parity(pivots: Tensor, like: Tensor) -> Tensor:
    """Of the permutation: 1 or -1."""
    rows = torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)
    return (1 - 2 * ((pivots != rows).sum(-1) % 2)).to(like.dtype)


def det(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lu, pivots = _factored(A)
    diagonal = torch.diagonal(lu, 0, -2, -1)
    return _parity(pivots, lu) * diagonal.prod(-1), lu, pivots


def slogdet(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    lu, pivots = _factored(A)
    diagonal = torch.diagonal(lu, 0, -2, -1)
    sign = _parity(pivots, lu) * diagonal.sgn().prod(-1)
    return sign, diagonal.abs().log().sum(-1), lu, pivots


def solve(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """X of A X = B, or of X A = B; the factors are those of A, however it lies.
    Errors are raised by another node."""
    lu, pivots, info = torch.ops.aten.linalg_lu_factor_ex(A)
    vector = B.dim() == 1 or B.shape == A.shape[:-1]
    right = B.unsqueeze(-1) if vector else B
    found = torch.ops.aten.linalg_lu_solve(lu, pivots, right, left=left)
    return found.squeeze(-1) if vector else found, lu, pivots, info


def functions() -> dict[Any, tuple[Callable[..., Any], set[int]]]:
    """Overload -> what it computes, and which of its results are factors."""
    aten = torch.ops.aten
    return {
        aten._linalg_det.default: (det, {1, 2}),
        aten._linalg_slogdet.default: (slogdet, {2, 3}),
        aten._linalg_solve_ex.default: (solve, {1, 2}),
    }


def function_of(node: Node) -> Callable[..., Any] | None:
    """Of a node whose factors are read."""
    function, factors = functions().get(node.target, (None, set()))
    if function is None:
        return None
    read = {u.args[1] for u in node.users if u.target is operator.getitem and u.users}
    return function if read & factors else None
