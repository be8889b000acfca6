"""Determinants together with the factors behind them, which torch keeps for the
gradients: of the transpose where the matrix lies row by row, since its LAPACK reads
columns."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node


def _factored(A: Tensor) -> tuple[Tensor, Tensor]:
    """LU and pivots."""
    turned = A.is_contiguous() and not A.is_complex()
    lu, pivots, _ = torch.ops.aten.linalg_lu_factor_ex(A.mT if turned else A)
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


def functions() -> dict[Any, tuple[Callable[..., Any], int]]:
    """Overload -> what it computes, and the result from which on they are factors."""
    aten = torch.ops.aten
    return {
        aten._linalg_det.default: (det, 1),
        aten._linalg_slogdet.default: (slogdet, 2),
    }


def function_of(node: Node) -> Callable[..., Any] | None:
    """Of a node whose factors are read."""
    function, first = functions().get(node.target, (None, 0))
    if function is None:
        return None
    read = [u.args[1] for u in node.users if u.target is operator.getitem and u.users]
    return function if any(index >= first for index in read) else None
