"""torch.hash_tensor: the exclusive or of the elements' bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _folded(bits: Tensor) -> Tensor:
    """The exclusive or of the last dim, whose halves are combined again and again."""
    size = bits.shape[-1]
    if size == 0:
        return torch.zeros(bits.shape[:-1], dtype=bits.dtype, device=bits.device)
    while size > 1:
        half = size // 2
        joined = bits[..., :half] ^ bits[..., half : 2 * half]
        bits = torch.cat([joined, bits[..., 2 * half :]], -1) if size % 2 else joined
        size -= half
    return bits[..., 0]


def hash_tensor(self: Tensor, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """Floats by the bits of float64, integers by those of 64 bits."""
    dims = sorted({d % max(1, self.dim()) for d in dim} or range(self.dim()))
    if self.is_complex() or mode != 0 or not all(isinstance(self.shape[d], int) for d in dims if self.dim()):
        return NotImplemented
    bits = self.double().view(torch.int64) if self.is_floating_point() else self.long()
    if self.dim():
        kept = [d for d in range(self.dim()) if d not in dims]
        count = 1
        for d in dims:
            count *= self.shape[d]
        bits = _folded(bits.permute(kept + dims).reshape([self.shape[d] for d in kept] + [count]))
    if keepdim:
        for d in dims[: self.dim()]:
            bits = bits.unsqueeze(d)
    return bits.view(torch.uint64).clone()


def table() -> dict[Any, Callable[..., Any]]:
    """Overload -> formula."""
    packet = getattr(torch.ops.aten, "hash_tensor", None)
    return {packet.default: hash_tensor} if packet is not None else {}
