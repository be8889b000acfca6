"""The backend of torch.compile."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule

import knapper
from knapper.errors import UserError
from knapper.torch import custom, versions
from knapper.torch.counters import count
from knapper.torch.decompositions import table
from knapper.torch.describe import DTYPES, describe, is_by_torch
from knapper.torch.expand import expand
from knapper.torch.options import Options
from knapper.torch.placement import (
    deterministic_of,
    device_of,
    target_of,
    tf32_of,
)
from knapper.torch.program import Program
from knapper.torch.random_inputs import drawing, hoist
from knapper.torch.through import register
from knapper.torch.whole_attention import keep_whole

versions.check()

# Where `explain` wants the modules that are made: (module, description) each.
collector: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar(
    "collector", default=None
)


def compile_graph(
    module: GraphModule,
    example_inputs: Any,
    *,
    options: Options,
    trains: bool = False,
    held: Any = None,
) -> Any:
    """A functional graph as a boxed function of a list of arguments. `trains`: it
    is a forward, whose last results the backward reads. `held`: the arguments at
    hand, of which freeze=True takes the weights."""
    if options.freeze and held is None:
        raise UserError(
            "freeze=True is for inference, this graph has a backward",
            where="options",
            hint="call it under torch.no_grad(), or leave freeze out to train",
        )
    context = torch._guards.TracingContext.try_get() if trains else None
    told = context.output_strides if context is not None else None
    saved = None
    if context is not None and told is not None:
        saved = getattr(context.fw_metadata, "num_forward", None)
    module = expand(module)
    device = device_of(module)
    draws = hoist(module) if device.type == "cuda" else []
    frozen = _frozen(module, held) if options.freeze else None
    description = describe(module, options.fallback == "allow", saved, frozen)
    if told is not None:  # what the backward is traced with
        told += [description.strides.get(i) for i in range(len(description.results))]
    count("graphs")
    if not description.outputs:  # nothing to compute
        return _Identity(description)
    for overload in description.overloads:
        if options.fallback == "allow" or is_by_torch(overload):
            register(overload)
    phases: set[str] = set()
    build = functools.partial(
        knapper.compile,
        model_format="torch",
        target=target_of(device),
        allow_tf32=tf32_of(device),
        deterministic=deterministic_of(device),
        threads=options.threads or torch.get_num_threads(),
        cache=options.cache,
        progress=lambda phase, done, total: phases.add(phase),
    )
    text = description.text
    compiled = description.weights.build(text, build) if frozen else build(text)
    if options.cache and phases <= {"hash", "done"}:  # nothing was compiled
        count("cache_hits")
    made = collector.get()
    if made is not None:
        made.append((compiled, description))
    program = Program(compiled, description, options.verify, device)
    if draws:
        program.draw = drawing(draws, description.symbols)
    return program


def _frozen(module: GraphModule, held: Any) -> dict[int, torch.Tensor]:
    """Parameters and buffers among the arguments."""
    context = torch._guards.TracingContext.try_get()
    given = [
        node
        for node in module.graph.find_nodes(op="placeholder")
        if not node.meta.get("drawn")
    ]
    if context is None or context.fw_metadata is None or len(given) != len(held):
        raise UserError(
            "freeze=True: which arguments of the graph are weights is not known",
            where="options",
            hint="leave freeze out, or give each weight a memory of its own",
        )
    return {
        index: held[index]
        for index in context.fw_metadata.static_input_indices
        if isinstance(held[index], torch.Tensor)
        and held[index].dtype in DTYPES
        and held[index].layout == torch.strided
    }


class _Identity:
    """A graph that computes nothing: its results are arguments and values."""

    def __init__(self, description: Any) -> None:
        self._boxed_call = True
        self._results = description.results
        self._symbols = description.symbols

    def __call__(self, arguments: list[Any]) -> list[Any]:
        from knapper.torch import sizes

        made = []
        for kind, value in self._results:
            if kind == "argument":
                made.append(arguments[value])
            elif kind == "view":
                made.append(value.of(arguments, []))
            elif kind == "size" and not isinstance(value, int):
                known = {
                    name: arguments[a] if d < 0 else arguments[a].shape[d]
                    for name, (a, d) in self._symbols.items()
                }
                made.append(eval(sizes.python(value), {"max": max, "min": min}, known))
            else:
                made.append(value)
        arguments.clear()
        return made


def backend(
    gm: GraphModule,
    example_inputs: Any,
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """What `torch.compile(model, backend="knapper", options=..., mode=...)` calls
    with a graph of Dynamo's.

    options: the fields of `Options`. mode: as there. Raises UserError for options
    that there are not, and, with fallback="error", for operators without a row.
    """
    from torch._dynamo.backends.common import aot_autograd

    chosen = Options.of(options, mode)
    current = torch._guards.CompileContext.current_compile_id()
    if current is not None and current.frame_compile_id:
        count("recompiles")
    # AOTAutograd's own cache keys on the graph and not on who compiles it.
    key = f"knapper {knapper.version()} {chosen.key()} {custom.key()}"
    gm.__dict__["_knapper_key"] = key
    keep_whole(gm)
    compiler = functools.partial(compile_graph, options=chosen)
    return aot_autograd(
        fw_compiler=functools.partial(compiler, trains=True),
        bw_compiler=compiler,
        inference_compiler=functools.partial(compiler, held=list(example_inputs)),
        decompositions={**table(), **custom.decompositions()},
        partition_fn=_partition,
        keep_inference_input_mutations=True,
    )(gm, example_inputs)


def _partition(*args: Any, **kwargs: Any) -> Any:
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    return min_cut_rematerialization_partition(*args, **kwargs)


def compile(
    model: Any,
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    mode: str | None = None,
    **options: Any,
) -> Any:
    """`torch.compile(model, backend="knapper")` with the fields of `Options` as
    keywords. Raises UserError for unknown ones at once."""
    Options.of(options, mode)
    return torch.compile(
        model,
        backend=backend,
        dynamic=dynamic,
        fullgraph=fullgraph,
        mode=mode,
        options=options or None,
    )
