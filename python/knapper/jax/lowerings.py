"""Rules that JAX has for platforms it knows, and none for others."""

from __future__ import annotations

from typing import Any

PLATFORM = "knapper"


def _call(ctx: Any, target: str, operands: list[Any], avals: list[Any]) -> list[Any]:
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    types = [
        ir.RankedTensorType.get(aval.shape, mlir.dtype_to_ir_type(aval.dtype))
        for aval in avals
    ]
    return list(mlir.custom_call(target, result_types=types, operands=operands).results)


def _eigh(ctx: Any, operand: Any, *, lower: bool, subset_by_index: Any = None, **_: Any) -> list[Any]:
    """Eigenvectors and values, rising, of which the lower triangle is read."""
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir.dialects import hlo

    aval = ctx.avals_in[0]
    if subset_by_index not in (None, (0, aval.shape[-1])):
        raise NotImplementedError(
            "eigh of a part of the eigenvalues is not supported on knapper: take all, and slice"
        )
    if not lower:
        order = [*range(aval.ndim - 2), aval.ndim - 1, aval.ndim - 2]
        operand = hlo.transpose(operand, mlir.dense_int_array(order))
    return _call(ctx, "knapper.eigh", [operand], ctx.avals_out)


def _register_factorisations() -> None:
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    mlir.register_lowering(linalg.eigh_p, _eigh, platform=PLATFORM)


def _allow_donation() -> None:
    """JAX drops donations on platforms outside of a list of its own."""
    from jax._src.interpreters import mlir

    platforms: Any = getattr(mlir, "_platforms_with_donation", None)
    if isinstance(platforms, list) and PLATFORM not in platforms:
        platforms.append(PLATFORM)


def register() -> None:
    _register_factorisations()
    _allow_donation()
