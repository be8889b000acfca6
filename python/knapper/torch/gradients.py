"""Derivatives that torch has no decomposition for, in terms of operators that have
rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from knapper.torch.formulas import _spread, _wide


def masked_scatter_backward(grad_output: Tensor, mask: Tensor, sizes: list[int]) -> Tensor:
    """Of the source: where the mask is true its elements were taken one by one."""
    count = 1
    for size in sizes:
        count = count * size
    taken = mask.expand(grad_output.shape).reshape(-1)
    place = torch.where(taken, taken.long().cumsum(0) - 1, count)  # `count`: from nowhere
    found = torch.zeros([count + 1], dtype=grad_output.dtype, device=grad_output.device)
    found = found.scatter_add(0, place, grad_output.reshape(-1))
    return found[:count].reshape(sizes)


def replication_pad_backward(grad_output: Tensor, self: Tensor, padding: list[int]) -> Tensor:
    """The elements of an edge get what was copied from them."""
    grad = _wide(grad_output)
    for number in range(len(padding) // 2):
        dim, left = self.dim() - 1 - number, padding[2 * number]
        size = self.shape[dim]
        place = torch.arange(grad.shape[dim], device=grad.device) - left
        shape = [*grad.shape]
        shape[dim] = size
        kept = torch.zeros(shape, dtype=grad.dtype, device=grad.device)
        grad = kept.index_add(dim, place.clamp(0, size - 1), grad)
    return grad.to(self.dtype)


def adaptive_avg_pool3d_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    grad = _wide(grad_output)
    for dim in (-3, -2, -1):
        grad = _spread(grad, dim, self.shape[dim])
    return grad.to(self.dtype)


def pdist_backward(grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor:
    """Each pair's gradient goes to both of its points; where these are one, 0."""
    first, second = torch.triu_indices(
        self.shape[0], self.shape[0], 1, device=self.device
    ).unbind(0)
    by, length = self[first] - self[second], pdist.unsqueeze(1)
    size, along = by.abs(), grad.unsqueeze(1) * by.sign()
    if p == 0:
        return torch.zeros_like(self)
    if p == float("inf"):
        part = along * (size == length)
    else:
        part = along * (size / length).pow(p - 1)
    part = torch.where((length == 0) | (size == 0), torch.zeros_like(part), part)
    zeros = torch.zeros_like(self)
    return zeros.index_add(0, first, part).index_add(0, second, -part)


def table() -> dict[Any, Callable[..., Any]]:
    """Overload -> formula."""
    aten = torch.ops.aten
    return {
        aten.masked_scatter_backward.default: masked_scatter_backward,
        aten._pdist_backward.default: pdist_backward,
        aten.replication_pad1d_backward.default: replication_pad_backward,
        aten.replication_pad2d_backward.default: replication_pad_backward,
        aten.replication_pad3d_backward.default: replication_pad_backward,
        aten._adaptive_avg_pool3d_backward.default: adaptive_avg_pool3d_backward,
    }
