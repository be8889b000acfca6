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


def _rounded(x: Tensor, zero_point: Any, low: int, high: int, scaled: Tensor, scale: Any) -> Any:
    """The values and which of them lie within the range of the quantized ones."""
    at = scaled.round() + zero_point
    quantized = (at.clamp(low, high) - zero_point) * scale
    return quantized.to(x.dtype), (at >= low) & (at <= high)


def per_tensor(
    self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    step = _float32(scale)
    scaled = self * _float32(1.0 / step)
    return _rounded(self, zero_point, quant_min, quant_max, scaled, step)


def per_tensor_of_tensors(
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    fake_quant_enabled: Tensor,
    quant_min: int,
    quant_max: int,
) -> tuple[Tensor, Tensor]:
    step = scale.reshape([])
    made, inside = _rounded(
        self, zero_point.reshape([]), quant_min, quant_max, self * (1.0 / step), step
    )
    on = fake_quant_enabled.reshape([]) != 0
    return torch.where(on, made, self), inside | ~on


def per_channel(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    shape = [1] * self.dim()
    shape[axis] = self.shape[axis]
    step, zero = scale.reshape(shape), zero_point.reshape(shape)
    return _rounded(self, zero, quant_min, quant_max, self * (1.0 / step), step)


def table() -> dict[Any, Callable[..., Any]]:
    """Overload -> formula."""
    aten = torch.ops.aten
    named = aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
    return {
        aten.fake_quantize_per_tensor_affine_cachemask.default: per_tensor,
        named.default: per_tensor_of_tensors,
        aten.fake_quantize_per_channel_affine_cachemask.default: per_channel,
    }
