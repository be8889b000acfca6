"""Images resized with antialiasing, and their gradients: along each dim a result is a
mean of the elements within reach, weighted by a filter as wide as the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _triangle(x: Tensor) -> Tensor:
    return torch.where(x < 1, 1 - x, 0)


def _cubic(x: Tensor) -> Tensor:
    a = -0.5
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    return torch.where(x < 1, near, torch.where(x < 2, (((x - 5) * x + 8) * x - 4) * a, 0))


def _lanczos(x: Tensor) -> Tensor:
    return torch.where(x < 3, torch.sinc(x) * torch.sinc(x / 3), 0)


def _windows(
    reach: int, weigh: Callable[[Tensor], Tensor], size: Any, wanted: Any,
    align: bool, factor: float | None, like: Tensor,
) -> tuple[Tensor, Tensor, Any]:  # fmt: skip
    """Of each result along a dim: the places that it reads, their weights (0 behind
    the window), and how many places that are. reach: of the filter."""
    options: dict[str, Any] = {"dtype": like.dtype, "device": like.device}
    one = torch.ones((), **options)
    if align:
        step = one * (size - 1) / (wanted - 1) if wanted > 1 else one * 0
        most = reach * size + 1
        if wanted > 1:
            most = (reach * torch.sym_max(size - 1, wanted - 1) + wanted - 2) // (wanted - 1)
    elif factor is not None and factor > 0:
        step = one * (1.0 / factor)
        most = int(reach * max(1.0, 1.0 / factor)) + 1
    else:
        step = one * size / wanted
        most = (reach * torch.sym_max(size, wanted) + wanted - 1) // wanted
    count = 2 * most + 1
    wide = step.clamp(min=1)
    center = step * (torch.arange(wanted, **options) + 0.5)
    begin = (center - reach * wide + 0.5).long().clamp(min=0)
    end = (center + reach * wide + 0.5).long().clamp(max=size)
    place = begin.unsqueeze(1) + torch.arange(count, device=like.device)
    at = (place.to(like.dtype) - center.unsqueeze(1) + 0.5) / wide
    weight = torch.where(place < end.unsqueeze(1), weigh(at.abs()), 0)
    total = weight.sum(1, keepdim=True)
    weight = weight / torch.where(total == 0, 1, total)
    return place.clamp(max=size - 1), weight, count


def _resized(reach: int, weigh: Callable[[Tensor], Tensor]) -> tuple[Any, Any]:
    def along(x: Tensor, wanted: Any, align: bool, factor: float | None) -> Tensor:
        place, weight, count = _windows(reach, weigh, x.shape[-1], wanted, align, factor, x)
        taken = x.index_select(-1, place.reshape(-1)).reshape([*x.shape[:-1], wanted, count])
        # Chosen, not multiplied: what lies behind a window may be infinite.
        return torch.where(weight == 0, 0, taken * weight).sum(-1)

    def spread(grad: Tensor, size: Any, align: bool, factor: float | None) -> Tensor:
        wanted = grad.shape[-1]
        place, weight, count = _windows(reach, weigh, size, wanted, align, factor, grad)
        shares = torch.where(weight == 0, 0, grad.unsqueeze(-1) * weight)
        made = torch.zeros([*grad.shape[:-1], size], dtype=grad.dtype, device=grad.device)
        return made.index_add(-1, place.reshape(-1), shares.reshape([*grad.shape[:-1], wanted * count]))

    def forward(
        self: Tensor, output_size: Any, align_corners: bool,
        scales_h: float | None = None, scales_w: float | None = None,
    ) -> Tensor:  # fmt: skip
        if not self.is_floating_point():
            return NotImplemented
        x = self.float() if self.dtype.itemsize < 4 else self
        x = along(x, output_size[1], align_corners, scales_w)
        return along(x.mT, output_size[0], align_corners, scales_h).mT.contiguous().to(self.dtype)

    def backward(
        grad_output: Tensor, output_size: Any, input_size: Any, align_corners: bool,
        scales_h: float | None = None, scales_w: float | None = None,
    ) -> Tensor:  # fmt: skip
        grad = grad_output.float() if grad_output.dtype.itemsize < 4 else grad_output
        grad = spread(grad.mT, input_size[2], align_corners, scales_h).mT
        return spread(grad, input_size[3], align_corners, scales_w).to(grad_output.dtype)

    return forward, backward


def table() -> dict[Any, Callable[..., Any]]:
    """Overload -> formula."""
    made = {}
    for name, reach, weigh in (("bilinear", 1, _triangle), ("bicubic", 2, _cubic), ("lanczos", 3, _lanczos)):
        functions = _resized(reach, weigh)
        for suffix, function in zip(("", "_backward"), functions):
            packet = getattr(torch.ops.aten, f"_upsample_{name}2d_aa{suffix}", None)  # lanczos is new
            if packet is not None:
                made[packet.default] = function
    return made
