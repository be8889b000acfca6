"""Operators on lists of tensors, as optimisers call them: one operator a tensor.

What they compute is fused again across the list by the compiler.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten

_UNARY = """
abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2
neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc
""".split()
_BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
    "clamp_min": torch.maximum, "clamp_max": torch.minimum, "maximum": torch.maximum,
    "minimum": torch.minimum,
}  # fmt: skip
_TERNARY = ("addcmul", "addcdiv")


def _one(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tensors: [function(x) for x in tensors]


def _bound(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """With a number, which maximum and minimum of torch do not take."""
    if function is torch.maximum:
        return lambda x, number: torch.clamp_min(x, number)
    if function is torch.minimum:
        return lambda x, number: torch.clamp_max(x, number)
    return function


def _with_number(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tensors, number, **given: [function(x, number, **given) for x in tensors]


def _with_list(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tensors, others, **given: [
        function(x, y, **given) for x, y in zip(tensors, others, strict=True)
    ]


def _third(function: Callable[..., Any], tensors: Any, first: Any, second: Any, value: Any = 1) -> list[Any]:
    values = value if isinstance(value, (list, tuple)) else [value] * len(tensors)
    return [
        function(x, a, b, value=v) for x, a, b, v in zip(tensors, first, second, values, strict=True)
    ]


def _lerp(tensors: Any, ends: Any, weights: Any) -> list[Any]:
    if not isinstance(weights, (list, tuple)):
        weights = [weights] * len(tensors)
    return [torch.lerp(x, end, w) for x, end, w in zip(tensors, ends, weights, strict=True)]


def _norm(tensors: Any, order: Any = 2, dtype: Any = None) -> list[Any]:
    return [torch.linalg.vector_norm(x, order, dtype=dtype) for x in tensors]


def _copy(tensors: Any, sources: Any, non_blocking: bool = False) -> list[Any]:
    return [_aten.copy(x, source) for x, source in zip(tensors, sources, strict=True)]


def _by_name() -> dict[str, Callable[..., Any]]:
    made: dict[str, Callable[..., Any]] = {name: _one(getattr(torch, name)) for name in _UNARY}
    for name, function in _BINARY.items():
        number = _bound(name, function)
        made[f"{name}.Scalar"] = made[f"{name}.Tensor"] = _with_number(number)
        made[f"{name}.List"] = _with_list(function)
        made[f"{name}.ScalarList"] = _with_list(number)
    for name in _TERNARY:
        for overload in ("Scalar", "ScalarList"):
            made[f"{name}.{overload}"] = functools.partial(_third, getattr(torch, name))
    for overload in ("List", "Scalar", "ScalarList"):
        made[f"lerp.{overload}"] = _lerp
    made["pow.ScalarAndTensor"] = lambda number, tensors: [torch.pow(number, x) for x in tensors]
    made["max"] = _one(torch.max)
    made["zero"] = _one(torch.zeros_like)
    made["clone"] = lambda tensors, *, memory_format=None: [torch.clone(x) for x in tensors]
    made["norm.Scalar"] = _norm
    made["copy"] = _copy
    return made


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition, of those that this torch has."""
    made = {}
    for name, function in _by_name().items():
        packet, _, overload = name.partition(".")
        found = getattr(_aten, f"_foreach_{packet}", None)
        if found is not None and (overload or "default") in found.overloads():
            made[getattr(found, overload or "default")] = function
    return made
