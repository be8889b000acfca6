"""Attention on NVIDIA GPUs kept whole, in the dtype that the user gave.

Torch's own choice falls on plain matmuls and a softmax in float32 for masks that
its fused kernels do not take. Ours take every mask, so that the graph gets the
operator that says what is computed and leaves the kernel to us.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

_attention = torch.nn.functional.scaled_dot_product_attention


def keep_whole(module: GraphModule) -> None:
    """Replaces the calls of torch's attention in a graph of Dynamo's, where its
    result lies as one of ours can."""
    for each in module.modules():
        if not isinstance(each, GraphModule):
            continue
        for node in each.graph.find_nodes(op="call_function", target=_attention):
            layout = _layout(node.meta.get("example_value"))
            if layout is not None:
                node.target = attend
                node.kwargs = {**node.kwargs, "layout": layout}
        each.recompile()


def _layout(result: Any) -> str | None:
    """How torch's result lies, which views behind it count on: "heads" before rows
    or "rows" before heads; "": not known; None: otherwise."""
    if not isinstance(result, Tensor):
        return ""
    if result.dim() != 4:
        return None
    if result.transpose(1, 2).is_contiguous():
        return "rows"
    return "heads" if result.is_contiguous() else None


def _is_ours(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float, gqa: bool) -> bool:
    if q.device.type != "cuda" or dropout_p != 0 or not q.dim() == k.dim() == v.dim() == 4:
        return False
    if not q.dtype == k.dtype == v.dtype or not q.is_floating_point() or q.dtype == torch.float64:
        return False
    if not q.shape[0] == k.shape[0] == v.shape[0] or q.shape[3] != v.shape[3]:
        return False
    if k.shape[1] != v.shape[1] or (k.shape[1] != q.shape[1] and not gqa):
        return False
    if mask is not None:
        if mask.requires_grad or not 2 <= mask.dim() <= 4:
            return False
        scores = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        if any(m != 1 and m != s for m, s in zip(reversed(mask.shape), reversed(scores))):
            return False
    kernels = torch.backends.cuda  # torch.nn.attention.sdpa_kernel(MATH) turns all of them off
    return kernels.flash_sdp_enabled() or kernels.mem_efficient_sdp_enabled() or kernels.cudnn_sdp_enabled()


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """As autocast does."""
    return x.to(dtype) if x.is_floating_point() and x.dtype != torch.float64 else x


def attend(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, layout: str = "",
) -> Tensor:  # fmt: skip
    """torch.nn.functional.scaled_dot_product_attention, while it is traced.
    layout: of the result, as `_layout` gives it."""
    q, k, v, mask = query, key, value, attn_mask
    if torch.is_autocast_enabled("cuda") and q.device.type == "cuda":
        dtype = torch.get_autocast_dtype("cuda")
        q, k, v = _cast(q, dtype), _cast(k, dtype), _cast(v, dtype)
        mask = _cast(mask, dtype) if mask is not None else None
    if not _is_ours(q, k, v, mask, dropout_p, enable_gqa):
        return _attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    # The row takes masks of bool, and fewer heads of keys than of queries.
    made = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale
    )[0]
    if layout == "heads":
        return made.contiguous()
    if layout == "rows":
        return made.transpose(1, 2).contiguous().transpose(1, 2)
    return made
