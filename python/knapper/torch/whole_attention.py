"""Attention on NVIDIA GPUs kept whole, in the dtype that the user gave.

Torch's own choice falls on plain matmuls and a softmax in float32 for masks that
its fused kernels do not take. Ours take every mask, so that the graph gets the
operator that says what is computed and leaves the kernel to us.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import GraphModule

_attention = torch.nn.functional.scaled_dot_product_attention


def keep_whole(module: GraphModule) -> None:
    """Replaces the calls of torch's attention in a graph of Dynamo's."""
    for each in module.modules():
        if isinstance(each, GraphModule):
            for node in each.graph.find_nodes(op="call_function", target=_attention):
                node.target = attend
            each.recompile()


def _is_ours(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float, gqa: bool) -> bool:
    if q.device.type != "cuda" or dropout_p != 0 or not q.dim() == k.dim() == v.dim() == 4:
        return False
    if not q.dtype == k.dtype == v.dtype or not q.is_floating_point() or q.dtype == torch.float64:
        return False
    if q.shape[3] != v.shape[3] or k.shape[1] != v.shape[1] or (k.shape[1] != q.shape[1] and not gqa):
        return False
    if mask is not None and (mask.requires_grad or not 2 <= mask.dim() <= 4):
        return False
    kernels = torch.backends.cuda  # torch.nn.attention.sdpa_kernel(MATH) turns all of them off
    return kernels.flash_sdp_enabled() or kernels.mem_efficient_sdp_enabled() or kernels.cudnn_sdp_enabled()


def attend(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """torch.nn.functional.scaled_dot_product_attention, while it is traced."""
    q, k, v, mask = query, key, value, attn_mask
    if torch.is_autocast_enabled("cuda") and q.device.type == "cuda":
        dtype = torch.get_autocast_dtype("cuda")
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    if not _is_ours(q, k, v, mask, dropout_p, enable_gqa):
        return _attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    # The row takes masks of bool, and fewer heads of keys than of queries.
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale
    )[0]
