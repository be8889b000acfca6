"""Operators that torch has no decomposition for, in terms of operators that have
rows. They are traced, so that what they compute is compiled as one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _counted(
    x: Tensor, edges: Tensor, weight: Tensor | None, density: bool
) -> tuple[Tensor, Tensor]:
    """How much falls between edges; the last edge belongs to the last bin."""
    bins = edges.shape[0] - 1
    x = x.reshape(-1)
    at = torch.searchsorted(edges, x, right=True) - 1
    at = torch.where(x == edges[bins], bins - 1, at)
    inside = (x >= edges[0]) & (x <= edges[bins])
    given = torch.ones_like(x) if weight is None else weight.reshape(-1)
    given = torch.where(inside, given, torch.zeros_like(given))
    at = torch.where(inside, at, torch.zeros_like(at))
    count = torch.zeros_like(edges[:bins]).scatter_add(0, at, given)
    if density:
        count = count / (edges[1:] - edges[:-1]) / count.sum()
    return count, edges


def histogram_of_edges(
    self: Tensor, bins: Tensor, *, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    count, _ = _counted(self, bins, weight, density)
    return count, bins.clone()


def histogram_of_count(
    self: Tensor,
    bins: int = 100,
    *,
    range: list[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    if range is not None:
        low = torch.full((), range[0], dtype=self.dtype)
        high = torch.full((), range[1], dtype=self.dtype)
    elif self.numel():
        low, high = self.amin(), self.amax()
    else:
        low, high = torch.zeros((), dtype=self.dtype), torch.ones((), dtype=self.dtype)
    alike = low == high
    low, high = torch.where(alike, low - 0.5, low), torch.where(alike, high + 0.5, high)
    place = torch.arange(bins + 1, dtype=self.dtype)
    step = (high - low) / bins
    edges = torch.where(place < (bins + 1) // 2, low + step * place, high - step * (bins - place))
    return _counted(self, edges, weight, density)


def histc(self: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Tensor:
    """Between bounds that the data gives; others have a row."""
    if min != max or not self.dtype.is_floating_point:
        return NotImplemented
    if self.numel() == 0:
        return torch.zeros([bins], dtype=self.dtype, device=self.device)
    x = _wide(self).reshape(-1)
    low, high = x.amin(), x.amax()
    alike = low == high
    low, high = torch.where(alike, low - 1, low), torch.where(alike, high + 1, high)
    at = ((x - low) * bins / (high - low)).to(torch.int64).clamp(max=bins - 1)
    # Eager refuses such bounds; the run refuses an index below zero.
    at = torch.where(torch.isfinite(low) & torch.isfinite(high), at, -1)
    zeros = torch.zeros([bins], dtype=x.dtype, device=self.device)
    return zeros.scatter_add(0, at, torch.ones_like(x)).to(self.dtype)


# What a segment without elements is, unless the caller says.
_EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_SEGMENTS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """Of slices along `axis` that follow each other: `lengths` has the count of each,
    `offsets` where each begins and the last ends. What lies behind the last is left out."""
    if indices is not None:
        return NotImplemented
    axis, rows = axis % data.dim(), data.shape[axis]
    place = torch.arange(rows, device=data.device)
    if offsets is not None:
        first, end = offsets[..., :1], offsets[..., 1:]
        lengths = end - offsets[..., :-1]
    else:
        assert lengths is not None
        first, end = torch.zeros_like(lengths[..., :1]), lengths.cumsum(-1)
    at = torch.searchsorted(end.contiguous(), place.expand([*end.shape[:-1], rows]).contiguous(), right=True)
    count = end.shape[-1]
    at = torch.where(place < first, count, at)  # a segment more, of what lies in none
    if offsets is None and not unsafe:
        # Eager refuses lengths that do not fill the axis; the run refuses an index below zero.
        good = (end[..., -1:] == rows) & (lengths >= 0).all(-1, keepdim=True)
        at = torch.where(good, at, -1)
    behind = [1] * (data.dim() - axis - 1)
    wide = _wide(data)
    start = torch.full(
        [*lengths.shape[:-1], count + 1, *data.shape[axis + 1 :]],
        _EMPTY[reduce] if initial is None else initial,
        dtype=wide.dtype,
        device=data.device,
    )
    at = at.reshape([*at.shape, *behind]).expand(data.shape)
    made = start.scatter_reduce(axis, at, wide, _SEGMENTS[reduce]).narrow(axis, 0, count)
    if reduce == "mean":
        divisor = lengths.reshape([*lengths.shape, *behind]).to(wide.dtype)
        empty = math.nan if initial is None else made
        made = torch.where(divisor == 0, empty, made / divisor)
    return made.to(data.dtype)


def _spread(means: Tensor, dim: int, size: int) -> Tensor:
    """What means of `size` elements give to each: along a dim, counted from the
    end, window i goes from floor(i * size / count) to ceil((i + 1) * size / count)."""
    count = means.shape[dim]
    place = torch.arange(count)
    begin = place * size // count
    end = ((place + 1) * size + count - 1) // count
    at = torch.arange(size)
    inside = (at >= begin.unsqueeze(1)) & (at < end.unsqueeze(1))
    behind = [1] * (-1 - dim)
    share = (means / (end - begin).reshape([count, *behind])).unsqueeze(dim)
    # Chosen, not multiplied: an infinite gradient stays in its window.
    return torch.where(inside.reshape([count, size, *behind]), share, 0).sum(dim - 1)


def adaptive_avg_pool2d_backward(grad: Tensor, self: Tensor) -> Tensor:
    """Each mean's gradient, spread over its window."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    height, width = self.shape[-2:]
    rows, columns = grad.shape[-2:]
    wide = _wide(grad)
    if statically_known_true(height % rows == 0) and statically_known_true(width % columns == 0):
        tall, broad = height // rows, width // columns
        spread = (wide / (tall * broad)).unsqueeze(-1).unsqueeze(-3)
        shape = [*grad.shape[:-2], rows, tall, columns, broad]
        return spread.expand(shape).reshape(self.shape).to(self.dtype)
    return _spread(_spread(wide, -2, height), -1, width).to(self.dtype)


def weight_norm_backward(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """Of w = v * g / |v|, the norm over all dims but one."""
    grad, v, g = _wide(grad_w), _wide(saved_v), _wide(saved_g)
    norms = _wide(saved_norms).reshape(g.shape)
    dims = [d for d in range(v.dim()) if d != dim % v.dim()]
    along = (grad * v).sum(dims, keepdim=True) / norms
    grad_v = g / norms * (grad - v * (along / norms))
    return grad_v.to(saved_v.dtype), along.to(saved_g.dtype)


def diagonal_scatter(
    self: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """`self` with `src` as its diagonal."""
    x = self.movedim((dim1, dim2), (-2, -1))
    rows, columns = x.shape[-2:]
    place = torch.arange(src.shape[-1])
    at = (place + max(-offset, 0)) * columns + place + max(offset, 0)
    flat = x.reshape(*x.shape[:-2], rows * columns)
    flat = flat.scatter(-1, at.expand(src.shape), src.to(self.dtype))
    return flat.reshape(x.shape).movedim((-2, -1), (dim1, dim2)).clone()


def _to_their_places(grad: Tensor, like: Tensor, indices: Tensor, dims: int) -> Tensor:
    """Gradients of pools, added where each maximum was found among the last `dims`
    dims."""
    shape = like.shape
    front = list(shape[: like.dim() - dims])
    count = 1
    for size in shape[like.dim() - dims :]:
        count = count * size
    flat = torch.zeros([*front, count], dtype=_wide(grad).dtype)
    found = flat.scatter_add(-1, indices.reshape([*front, -1]), _wide(grad).reshape([*front, -1]))
    return found.reshape(shape).to(like.dtype)


def adaptive_max_pool2d_backward(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
    return _to_their_places(grad_output, self, indices, 2)


def adaptive_max_pool3d_backward(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
    return _to_their_places(grad_output, self, indices, 3)


def max_pool3d_with_indices_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    return _to_their_places(grad_output, self, indices, 3)


def cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    """Of the first operand; where two points are one, 0."""
    wide = _wide(x1)
    by = wide.unsqueeze(-2) - _wide(x2).unsqueeze(-3)
    along, length = _wide(grad).unsqueeze(-1), _wide(cdist).unsqueeze(-1)
    size = by.abs()
    if p == 0:
        return torch.zeros_like(x1)
    if p == 1:
        part = along * by.sign()
    elif p == float("inf"):
        part = along * by.sign() * (size == length)
    elif p == 2:
        part = along * by / length
    else:
        part = along * by.sign() * size.pow(p - 1) / length.pow(p - 1)
    part = torch.where((length == 0) | (size == 0), torch.zeros_like(part), part)
    return part.sum(-2).to(x1.dtype)


def take(self: Tensor, index: Tensor) -> Tensor:
    """Torch's own reads an index without dims as a number."""
    return torch.ops.aten.index.Tensor(self.reshape(-1), [index])


def index(self: Tensor, indices: list[Tensor | None]) -> Tensor:
    """Masks by the places where they are true."""
    masks = (torch.bool, torch.uint8)
    if not any(at is not None and at.dtype in masks for at in indices):
        return NotImplemented
    places: list[Tensor | None] = []
    for at in indices:
        is_mask = at is not None and at.dtype in masks
        places += at.nonzero().unbind(1) if is_mask else [at]
    return torch.ops.aten.index.Tensor(self, places)


def index_fill(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Indices may count from the end here, those of `index_copy` may not."""
    if self.dim() == 0:
        return index_fill(self.reshape(1), 0, index, value).reshape([])
    at = torch.where(index < 0, index + self.shape[dim], index).reshape(-1)
    shape = list(self.shape)
    shape[dim] = at.shape[0]
    if not isinstance(value, Tensor):
        value = torch.full([], value, dtype=self.dtype, device=self.device)
    return self.index_copy(dim, at, value.to(self.dtype).expand(shape))


def bucketize(
    self: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    return torch.searchsorted(boundaries, self, out_int32=out_int32, right=right)


def searchsorted(
    sorted_sequence: Tensor,
    self: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    if sorter is None:
        return NotImplemented
    ordered = sorted_sequence.gather(-1, sorter)
    return torch.searchsorted(ordered, self, out_int32=out_int32, right=right, side=side)


def efficient_zero_tensor(size: list[int], **options: Any) -> Tensor:
    """Zeros that autograd has without memory."""
    return torch.zeros(size, **options)


def table() -> dict[Any, Callable[..., Any]]:
    """Overload -> formula."""
    aten = torch.ops.aten
    return {
        aten._cdist_backward.default: cdist_backward,
        aten.adaptive_max_pool2d_backward.default: adaptive_max_pool2d_backward,
        aten.adaptive_max_pool3d_backward.default: adaptive_max_pool3d_backward,
        aten.max_pool3d_with_indices_backward.default: max_pool3d_with_indices_backward,
        aten._adaptive_avg_pool2d_backward.default: adaptive_avg_pool2d_backward,
        aten._weight_norm_interface_backward.default: weight_norm_backward,
        aten.diagonal_scatter.default: diagonal_scatter,
        aten.histogram.bins_tensor: histogram_of_edges,
        aten.histogram.bin_ct: histogram_of_count,
        aten.histc.default: histc,
        aten.segment_reduce.default: segment_reduce,
        aten.bucketize.Tensor: bucketize,
        aten.searchsorted.Tensor: searchsorted,
        aten.index.Tensor: index,
        aten.index_fill.int_Scalar: index_fill,
        aten.index_fill.int_Tensor: index_fill,
        aten.take.default: take,
        aten._efficientzerotensor.default: efficient_zero_tensor,
    }
