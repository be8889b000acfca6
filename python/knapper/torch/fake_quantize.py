"""Values as they are after quantization, for training that expects it, in terms of
operators that have rows."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _float32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def _rounded(self: Tensor, inverse: Any, scale: Any, zero_point: Any, low: int, high: int) -> Any:
    """The values and which of them lie within the range of the quantized ones. As eager:
    a NaN is the least, and the values are rounded behind a zero point that is no whole
    number. self: as wide as it computes; the caller rounds the values."""
    scaled = self * inverse
    if isinstance(zero_point, Tensor) and zero_point.is_floating_point():
        at = (scaled + zero_point).round()
    else:
        at = scaled.round() + zero_point
    inside = (at >= low) & (at <= high)
    held = torch.where(at.isnan(), low, at.clamp(low, high))
    return (held - zero_point) * scale, inside


def per_tensor(
    self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    step, x = _float32(scale), self.to(torch.float32)
    made, inside = _rounded(x, _float32(1.0 / step), step, zero_point, quant_min, quant_max)
    return made.to(self.dtype), inside


def per_tensor_of_tensors(
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    fake_quant_enabled: Tensor,
    quant_min: int,
    quant_max: int,
) -> tuple[Tensor, Tensor]:
    step, x = scale.reshape([]), self.to(torch.float32)
    made, inside = _rounded(x, 1.0 / step, step, zero_point.reshape([]), quant_min, quant_max)
    on = fake_quant_enabled.reshape([]) != 0
    return torch.where(on, made.to(self.dtype), self), inside | ~on


def per_channel(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    shape = [1] * self.dim()
    shape[axis] = self.shape[axis]
    step, zero = scale.reshape(shape), zero_point.reshape(shape)
    x = self if self.dtype == torch.float64 else self.to(torch.float32)
    made, inside = _rounded(x, 1.0 / step, step, zero, quant_min, quant_max)
    return made.to(self.dtype), inside


def table() -> dict[Any, Callable[..., Any]]:
    """Overload -> formula."""
    aten = torch.ops.aten
    named = aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
    return {
        aten.fake_quantize_per_tensor_affine_cachemask.default: per_tensor,
        named.default: per_tensor_of_tensors,
        aten.fake_quantize_per_channel_affine_cachemask.default: per_channel,
    }
