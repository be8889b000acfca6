"""One function, compiled and compared with eager."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

import knapper.torch
from knapper.errors import UserError
from knapper.torch.decompositions import table
from random_functions.function_compare import call, differences, explained
from random_functions.functions import Function


def check(function: Function) -> dict[str, Any]:
    """{"status", "why"}: "same", "missing" (said to be not supported), "torch" (tracing
    by torch itself does it), "undefined", "wrong", "error"."""
    warnings.simplefilter("ignore")
    eager = function.build()
    try:
        wanted = [call(eager, function, i) for i in range(len(function.bindings))]
    except Exception as error:
        return {"status": "undefined", "why": f"eager: {error}"[:200]}
    try:
        got = _calls(function, knapper.torch.backend, {"fallback": "error", "cache": False})
    except Exception as error:
        return _judged(function, error)
    for binding, (mine, other) in enumerate(zip(got, wanted)):
        told = differences(mine, other)
        if told:
            told = explained(function, binding, mine, other)
        if told == "undefined":
            return {"status": "undefined", "why": ""}
        if told:
            blamed = _traced(function)
            if blamed is not None and differences(blamed[binding], other) and not differences(blamed[binding], mine):
                return {"status": "torch", "why": f"call {binding}: {told}"}
            if blamed is not None and explained(function, binding, blamed[binding], other) not in ("", "undefined"):
                return {"status": "torch", "why": f"call {binding}, tracing alone is off too: {told}"}
            return {"status": "wrong", "why": f"call {binding}: {told}"}
    return {"status": "same", "why": ""}


def _calls(function: Function, backend: Any, options: Any = None) -> list[Any]:
    torch._dynamo.reset()
    compiled = torch.compile(function.build(), backend=backend, fullgraph=True, dynamic=function.dynamic, options=options)
    return [call(compiled, function, i) for i in range(len(function.bindings))]


def _plain(gm: Any, inputs: Any) -> Any:
    """AOTAutograd under our decompositions, its graphs run by torch."""
    from torch._dynamo.backends.common import aot_autograd
    from functorch.compile import make_boxed_func

    def run(module: Any, _: Any) -> Any:
        return make_boxed_func(module.forward)

    return aot_autograd(fw_compiler=run, bw_compiler=run, inference_compiler=run, decompositions=table(), keep_inference_input_mutations=True)(gm, inputs)


def _traced(function: Function) -> list[Any] | None:
    try:
        return _calls(function, _plain)
    except Exception:
        return None


def _judged(function: Function, error: BaseException) -> dict[str, Any]:
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip() and "TORCHDYNAMO" not in line]
    told = " | ".join(lines[:4])[:400]
    ours = isinstance(error, torch._dynamo.exc.BackendCompilerFailed) or "knapper" in type(error).__module__
    if not ours and _traced(function) is None:
        return {"status": "torch", "why": f"{type(error).__name__}: {told}"}
    inner = getattr(error, "inner_exception", error)
    if isinstance(inner, UserError) and "not supported" in text:
        return {"status": "missing", "why": told}
    if ours and "knapper" not in type(inner).__module__ and _traced(function) is None:
        return {"status": "torch", "why": f"{type(inner).__name__}: {told}"}
    return {"status": "error", "why": f"{type(inner).__name__}: {told}"}


@functools.cache
def quick() -> None:
    """Compiles of many small graphs, without what torch does for timings of its own."""
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0
    torch.set_num_threads(1)
    import logging

    logging.disable(logging.WARNING)
