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


def _by_routine(ctx: Any, operand: Any, function: Any) -> list[Any]:
    from knapper.jax import callbacks, routines

    run = routines.batched(function, ctx.avals_out)
    return callbacks.call(ctx, run, [operand], ctx.avals_in, ctx.avals_out)


def _eig(ctx: Any, operand: Any, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, **_: Any) -> list[Any]:
    from knapper.jax import routines

    return _by_routine(ctx, operand, routines.eig(compute_left_eigenvectors, compute_right_eigenvectors))


def _schur(ctx: Any, operand: Any, *, compute_schur_vectors: bool, sort_eig_vals: bool, **_: Any) -> list[Any]:
    from knapper.jax import routines

    if sort_eig_vals:
        raise NotImplementedError("schur with sorted eigenvalues is not supported, as on JAX's CPU")
    return _by_routine(ctx, operand, routines.schur(compute_schur_vectors))


def _hessenberg(ctx: Any, operand: Any, **_: Any) -> list[Any]:
    from knapper.jax import routines

    return _by_routine(ctx, operand, routines.hessenberg)


def _tridiagonal(ctx: Any, operand: Any, *, lower: bool, **_: Any) -> list[Any]:
    from knapper.jax import routines

    return _by_routine(ctx, operand, routines.tridiagonal(lower))


def _pivoted_qr(ctx: Any, a: Any, pivots: Any, **_: Any) -> list[Any]:
    import numpy as np

    from knapper.jax import callbacks, routines

    avals = ctx.avals_out

    def run(a: Any, pivots: Any) -> tuple[Any, ...]:
        out = tuple(np.zeros(aval.shape, aval.dtype) for aval in avals)
        for place in np.ndindex(a.shape[:-2]) if a.size else ():
            for result, given in zip(out, routines.pivoted_qr(a[place], pivots[place]), strict=True):
                result[place] = given
        return out

    return callbacks.call(ctx, run, [a, pivots], ctx.avals_in, avals)


def _of_complex(primitive: Any, routine: Any) -> None:
    """Complex matrices go to SciPy, real ones as before: ours, or JAX's plain ops.
    `routine(*matrices, **parameters)` is of one matrix each."""
    import numpy as np
    from jax._src.interpreters import mlir

    from knapper.jax import routines

    known = mlir._platform_specific_lowerings[PLATFORM].get(primitive) or mlir._lowerings[primitive]
    usual = getattr(known, "rule", known)

    def lower(ctx: Any, *operands: Any, **parameters: Any) -> Any:
        from knapper.jax import callbacks

        if np.dtype(ctx.avals_in[0].dtype).kind != "c":
            return usual(ctx, *operands, **parameters)
        avals = ctx.avals_out

        def run(*arrays: Any) -> tuple[Any, ...]:
            out = tuple(np.zeros(aval.shape, aval.dtype) for aval in avals)
            for place in np.ndindex(arrays[0].shape[:-2]):
                try:
                    found = routine(*(array[place] for array in arrays), **parameters)
                except np.linalg.LinAlgError:
                    found = [routines.nan(result.dtype) for result in out]
                for result, given in zip(out, found, strict=True):
                    result[place] = given
            return out

        return callbacks.call(ctx, run, operands, ctx.avals_in, avals)

    mlir.register_lowering(primitive, lower, platform=PLATFORM, cacheable=False)


def _register_complex() -> None:
    from jax._src.lax import linalg

    from knapper.jax import routines

    for name, routine in routines.COMPLEX.items():
        if hasattr(linalg, name):
            _of_complex(getattr(linalg, name), routine)


def _register_factorisations() -> None:
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    mlir.register_lowering(linalg.eigh_p, _eigh, platform=PLATFORM)
    for name, rule in (
        ("eig_p", _eig), ("schur_p", _schur), ("hessenberg_p", _hessenberg), ("tridiagonal_p", _tridiagonal), ("geqp3_p", _pivoted_qr),
    ):  # fmt: skip
        if hasattr(linalg, name):  # some came in a later version
            mlir.register_lowering(getattr(linalg, name), rule, platform=PLATFORM, cacheable=False)


def _keep_order(ctx: Any, effect: Any) -> None:
    """Calls run in the program's order anyway: the token that JAX hands round stays
    as it is."""
    from jax._src.interpreters import mlir

    token = ctx.tokens_in.get(effect)
    ctx.set_tokens_out(ctx.tokens_in.update_tokens(mlir.TokenSet({effect: token})))


def _pure_callback(ctx: Any, *operands: Any, callback: Any, **parameters: Any) -> list[Any]:
    from jax._src import callback as jax_callback

    from knapper.jax import callbacks

    parameters["sharding"] = None

    def run(*arrays: Any) -> Any:
        return tuple(jax_callback.pure_callback_impl(*arrays, callback=callback, **parameters))

    return callbacks.call(ctx, run, operands, ctx.avals_in, ctx.avals_out)


def _io_callback(ctx: Any, *operands: Any, callback: Any, ordered: bool, **parameters: Any) -> list[Any]:
    from jax._src import callback as jax_callback

    from knapper.jax import callbacks

    if ordered:
        _keep_order(ctx, jax_callback._OrderedIOEffect)
    parameters["sharding"] = None

    def run(*arrays: Any) -> Any:
        return tuple(jax_callback.io_callback_impl(*arrays, callback=callback, ordered=False, **parameters))

    return callbacks.call(ctx, run, operands, ctx.avals_in, ctx.avals_out)


def _debug_callback(ctx: Any, *operands: Any, callback: Any, effect: Any, **_: Any) -> list[Any]:
    from jax._src import debugging

    from knapper.jax import callbacks

    if effect is debugging.ordered_debug_effect:
        _keep_order(ctx, effect)

    def run(*arrays: Any) -> tuple[()]:
        callback(*arrays)
        return ()

    return callbacks.call(ctx, run, operands, ctx.avals_in, ctx.avals_out)


def _debug_print(
    ctx: Any, *operands: Any, fmt: str, ordered: bool, in_tree: Any, static_args: Any, np_printoptions: Any,
    has_placeholders: bool, logging_record: Any, **_: Any,
) -> list[Any]:  # fmt: skip
    from functools import partial

    from jax._src import debugging

    callback = partial(debugging._format_print_callback, fmt, dict(np_printoptions), has_placeholders, logging_record)
    flat = debugging._make_flat_callback(in_tree, callback, static_args)
    effect = debugging.ordered_debug_effect if ordered else debugging.debug_effect
    return _debug_callback(ctx, *operands, callback=flat, effect=effect)


def _register_callbacks() -> None:
    from jax._src import callback as jax_callback
    from jax._src import debugging
    from jax._src.interpreters import mlir

    mlir.register_lowering(jax_callback.pure_callback_p, _pure_callback, platform=PLATFORM, cacheable=False)
    mlir.register_lowering(jax_callback.io_callback_p, _io_callback, platform=PLATFORM, cacheable=False)
    mlir.register_lowering(debugging.debug_callback_p, _debug_callback, platform=PLATFORM, cacheable=False)
    if hasattr(debugging, "debug_print_p"):  # of a later version
        mlir.register_lowering(debugging.debug_print_p, _debug_print, platform=PLATFORM, cacheable=False)


def _register_collectives() -> None:
    """One that JAX has for GPUs alone."""
    from jax._src.interpreters import mlir
    from jax._src.lax import parallel

    rule = getattr(parallel, "_pbroadcast_lowering", None)
    if rule is not None:
        mlir.register_lowering(parallel.pbroadcast_p, rule, platform=PLATFORM)


def _allow_donation() -> None:
    """JAX drops donations on platforms outside of a list of its own."""
    from jax._src.interpreters import mlir

    platforms: Any = getattr(mlir, "_platforms_with_donation", None)
    if isinstance(platforms, list) and PLATFORM not in platforms:
        platforms.append(PLATFORM)


def _count_before_compiling() -> None:
    """`Lowered.cost_analysis()` on `knapper`: XLA's cost analysis of the HLO. JAX asks
    a plugin for the cost of compiled programs only."""
    import functools

    from jax._src import xla_bridge
    from jax._src.interpreters import pxla
    from jax._src.lib import _jax, xla_client

    computation: Any = getattr(pxla, "MeshComputation", None)
    usual = getattr(computation, "cost_analysis", None)
    count = getattr(_jax, "hlo_module_cost_analysis", None)
    if usual is None or count is None or hasattr(usual, "__wrapped__"):
        return

    @functools.cache
    def counter() -> Any:
        try:
            return xla_bridge.get_backend("cpu")
        except RuntimeError:  # not among the platforms of this process
            return xla_client.make_cpu_client()

    @functools.wraps(usual)
    def cost_analysis(self: Any) -> dict[str, float]:
        if self.compile_args["backend"].platform != PLATFORM:
            return usual(self)
        return count(counter(), self.hlo().as_hlo_module())

    computation.cost_analysis = cost_analysis


def register() -> None:
    _register_factorisations()
    _register_complex()
    _register_callbacks()
    _register_collectives()
    _allow_donation()
    _count_before_compiling()
