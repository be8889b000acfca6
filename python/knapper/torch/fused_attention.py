"""Torch's attention operators of NVIDIA GPUs, in terms of those with rows.

Torch chooses one of three by the card and the shapes. They differ in what they
keep for the backward; here all keep the logarithm of each row's sum, and with
dropout the mask, in the place of the generator's state.

The gradient is that of Dao et al., "FlashAttention", 2022, appendix B.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten


def _scores(q: Tensor, k: Tensor, bias: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    made = torch.matmul(q, k.transpose(-2, -1)).float() * _scale(q, scale)
    if bias is not None:
        made = made + bias
    if causal:
        above = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        made = made.masked_fill(above, -math.inf)
    return made


def _scale(q: Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(q.shape[-1]) if scale is None else scale


def _shares(scores: Tensor, sums: Tensor) -> Tensor:
    """Softmax by the logarithms of the rows' sums; rows without a key are 0."""
    sums = sums.unsqueeze(-1)
    return torch.where(sums == -math.inf, 0.0, torch.exp(scores - sums))


def _attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, p: float, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, the logarithms of the sums, the mask of dropout."""
    if p == 0:
        out, sums = _aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, causal, attn_mask=bias, scale=scale
        )
        return out, sums, q.new_empty(0, dtype=torch.bool)
    scores = _scores(q, k, bias, causal, scale)
    sums = torch.logsumexp(scores, -1)
    kept, mask = _aten.native_dropout(_shares(scores, sums).to(v.dtype), p, True)
    return torch.matmul(kept, v), sums, mask


def _gradients(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, out: Tensor, sums: Tensor,
    mask: Tensor, p: float, causal: bool, scale: float | None, of_bias: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # fmt: skip
    if p == 0 and not of_bias:
        made = _aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad, q, k, v, out, sums, 0.0, causal, attn_mask=bias, scale=scale
        )
        return (*made, None)
    shares = _shares(_scores(q, k, bias, causal, scale), sums)
    of_shares = torch.matmul(grad, v.transpose(-2, -1)).float()
    kept = shares
    if p > 0:
        factor = mask / (1 - p)
        kept, of_shares = shares * factor, of_shares * factor
    along = (grad.float() * out.float()).sum(-1, keepdim=True)
    of_scores = shares * (of_shares - along)
    narrow = (of_scores * _scale(q, scale)).to(q.dtype)
    return (
        torch.matmul(narrow, k),
        torch.matmul(narrow.transpose(-2, -1), q),
        torch.matmul(kept.to(grad.dtype).transpose(-2, -1), grad),
        of_scores.to(bias.dtype) if of_bias and bias is not None else None,
    )


def efficient(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, keeps_sums: bool, p: float = 0.0,
    causal: bool = False, *, scale: float | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    out, sums, mask = _attend(q, k, v, bias, p, causal, scale)
    return out, sums, mask, q.new_empty((), dtype=torch.int64)


def efficient_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, out: Tensor, sums: Tensor,
    mask: Tensor, offset: Tensor, p: float, wanted: list[bool], causal: bool = False, *,
    scale: float | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    of_bias = bool(wanted[3]) and bias is not None
    return _gradients(grad, q, k, v, bias, out, sums, mask, p, causal, scale, of_bias)


def flash(
    q: Tensor, k: Tensor, v: Tensor, p: float = 0.0, causal: bool = False, debug: bool = False, *,
    scale: float | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    return cudnn(q, k, v, None, True, p, causal, debug, scale=scale)


def flash_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor, starts_q: Any, starts_k: Any,
    max_q: int, max_k: int, p: float, causal: bool, mask: Tensor, offset: Tensor, *,
    scale: float | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    return _gradients(grad, q, k, v, None, out, sums, mask, p, causal, scale)[:3]


def cudnn(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, keeps_sums: bool, p: float = 0.0,
    causal: bool = False, debug: bool = False, *, scale: float | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    out, sums, mask = _attend(q, k, v, bias, p, causal, scale)
    nothing = q.new_empty((), dtype=torch.int64)
    return out, sums, None, None, q.shape[2], k.shape[2], mask, nothing, q.new_empty(0)


def cudnn_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor, mask: Tensor, offset: Tensor,
    bias: Tensor | None, starts_q: Any, starts_k: Any, max_q: int, max_k: int, p: float, causal: bool, *,
    scale: float | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    return _gradients(grad, q, k, v, bias, out, sums, mask, p, causal, scale)[:3]


def table() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        _aten._scaled_dot_product_efficient_attention.default: efficient,
        _aten._scaled_dot_product_efficient_attention_backward.default: efficient_backward,
        _aten._scaled_dot_product_flash_attention.default: flash,
        _aten._scaled_dot_product_flash_attention_backward.default: flash_backward,
        _aten._scaled_dot_product_cudnn_attention.default: cudnn,
        _aten._scaled_dot_product_cudnn_attention_backward.default: cudnn_backward,
    }
