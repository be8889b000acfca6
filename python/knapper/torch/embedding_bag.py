"""Gradients of bags of embeddings, in terms of operators that have rows.

Bag i has the indices from offsets[i] on. Its gradient goes to the rows that it was
made of; what the forward says of bags beside its result is not read, but for the rows
of maxima.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from knapper.torch.formulas import _wide

_SUM, _MEAN, _MAX = 0, 1, 2


def _bag_of_each(indices: Tensor, offsets: Tensor, bags: int) -> Tensor:
    """How many bags begin at or before it, less one."""
    none = indices.new_zeros([indices.shape[0] + 1])  # an empty last bag begins at the end
    starts = offsets[:bags].long()
    begun = none.scatter_add(0, starts, torch.ones_like(starts))
    return begun.cumsum(0)[: indices.shape[0]] - 1


def _counted(at: Tensor, size: int, what: Tensor) -> Tensor:
    none = torch.zeros([size], dtype=what.dtype, device=what.device)
    return none.scatter_add(0, at, what)


def backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """Of the table of rows."""
    if sparse:
        return NotImplemented
    at, wide = indices.long(), _wide(grad)
    bag = _bag_of_each(at, offsets, grad.shape[0])
    counts = (at != padding_idx).to(wide.dtype)
    size = _counted(bag, grad.shape[0], counts)
    none = torch.zeros([num_weights, grad.shape[1]], dtype=wide.dtype, device=grad.device)
    if mode == _MAX:
        share = torch.where((size > 0).unsqueeze(1), wide, 0.0)
        return none.scatter_add(0, maximum_indices.long(), share).to(grad.dtype)
    if mode == _MEAN:
        wide = wide / size.clamp(min=1).unsqueeze(1)
    scale = None
    if per_sample_weights is not None:
        scale = _wide(per_sample_weights)
    if scale_grad_by_freq:
        often = _counted(at, num_weights, torch.ones_like(counts)).index_select(0, at)
        scale = 1 / often if scale is None else scale / often
    share = wide.index_select(0, bag)
    if scale is not None:
        share = share * scale.unsqueeze(1)
    share = torch.where((counts != 0).unsqueeze(1), share, 0.0)
    return none.index_add(0, at, share).to(grad.dtype)


def per_sample_weights_backward(
    grad: Tensor,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Tensor:
    at = indices.long()
    bag = _bag_of_each(at, offsets, grad.shape[0])
    rows = _wide(weight).index_select(0, at)
    along = (_wide(grad).index_select(0, bag) * rows).sum(1)
    return torch.where(at != padding_idx, along, 0.0).to(weight.dtype)


def table() -> dict[Any, Callable[..., Any]]:
    """Overload -> formula."""
    aten = torch.ops.aten
    return {
        aten._embedding_bag_backward.default: backward,
        aten._embedding_bag_per_sample_weights_backward.default: per_sample_weights_backward,
    }
