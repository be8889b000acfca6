"""The backend of torch.compile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule

from knapper.errors import UserError
from knapper.torch import custom, planes, recompiles, transforms, versions
from knapper.torch.counters import count
from knapper.torch.decompositions import table
from knapper.torch.describe import describe
from knapper.torch.description import DTYPES
from knapper.torch.expand import expand
from knapper.torch.guard import eager_of
from knapper.torch.options import Options
from knapper.torch.placement import (
    deterministic_of,
    device_of,
    target_of,
    tf32_of,
)
from knapper.torch.random_inputs import hoist
from knapper.torch.whole_attention import keep_whole

versions.check()


def compile_graph(
    module: GraphModule,
    example_inputs: Any,
    *,
    options: Options,
    trains: bool = False,
    held: Any = None,
) -> Any:
    """A functional graph as an Artefact. `trains`: it is a forward, whose last
    results the backward reads. `held`: the arguments at hand, of which freeze=True
    takes the weights."""
    return _artefact(module, options, trains, held, lazily=False)


def compile_backward(module: GraphModule, example_inputs: Any, *, options: Options) -> Any:
    """A backward as an Artefact, whose program is built by the first call: torch
    hands over backwards that may never run."""
    from knapper.torch.artefact import Refused

    try:
        return _artefact(module, options, False, None, lazily=True)
    except UserError as error:
        return Refused(error)


def _artefact(
    module: GraphModule, options: Options, trains: bool, held: Any, lazily: bool
) -> Any:
    from knapper.torch.artefact import Artefact, Recipe

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
        saved = versions.saves(context.fw_metadata)
    module = expand(module)
    device = device_of(module)
    eager, unmeasured = eager_of(module) if options.guard == "measure" else (None, "")
    parts = planes.split(module)
    module = parts.module
    if parts.arguments or parts.results:
        eager, unmeasured = None, "complex arguments or results"
    draws = hoist(module) if device.type == "cuda" else []
    if draws and eager is not None:
        eager, unmeasured = None, "eager draws other random numbers of a GPU"
    frozen = _frozen(module, held) if options.freeze else None
    description = describe(module, options.fallback == "allow", saved, frozen)
    if told is not None:  # what the backward is traced with
        strides = parts.claimed(description.strides)
        first = versions.tokens(context.fw_metadata)
        told += [strides.get(i) for i in range(first, len(description.results))]
    recipe = Recipe(
        description,
        options,
        device,
        target_of(device),
        tf32_of(device),
        deterministic_of(device),
        options.threads or torch.get_num_threads(),
        draws,
        eager,
        unmeasured,
        parts.arguments,
        parts.results,
        parts.written,
    )
    return Artefact(recipe, None if lazily else recipe.build())


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
    transforms.refuse_functional(example_inputs)
    current = torch._guards.CompileContext.current_compile_id()
    if chosen.frozen:
        recompiles.refuse_further(gm, example_inputs)
    if current is not None and current.frame_compile_id:
        count("recompiles")
    from knapper.torch import artefact

    # AOTAutograd's own cache keys on the graph and not on who compiles it.
    gm.__dict__["_knapper_key"] = artefact.key(chosen)
    # Frozen weights' elements are in no key.
    cached = chosen.cache and not chosen.freeze and artefact.is_cacheable(gm)
    keep_whole(gm)
    compiler = functools.partial(compile_graph, options=chosen)
    compilers = {
        "fw_compiler": functools.partial(compiler, trains=True),
        "bw_compiler": functools.partial(compile_backward, options=chosen),
        "inference_compiler": functools.partial(compiler, held=list(example_inputs)),
    }
    with versions.autograd_cache(artefact.Artefact, compilers, cached) as given:
        made = aot_autograd(
            **given,
            decompositions={**table(), **custom.decompositions()},
            partition_fn=_partition,
            keep_inference_input_mutations=True,
        )(gm, example_inputs)
    if chosen.frozen:
        recompiles.remember(example_inputs)
    return made


def _partition(joint: GraphModule, *args: Any, **kwargs: Any) -> Any:
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    _save_drawn(joint)
    return min_cut_rematerialization_partition(joint, *args, **kwargs)


def _save_drawn(joint: GraphModule) -> None:
    """What torch draws in a region that is computed again (`checkpoint`) is kept for
    the backward: a second draw would be another."""
    from torch.utils.checkpoint import CheckpointPolicy

    for node in joint.graph.nodes:
        again = node.meta.get("recompute")
        if again not in (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE):
            continue
        if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
            continue
        several = isinstance(node.meta.get("val"), (tuple, list))
        for each in (node, *node.users) if several else (node,):
            each.meta["recompute"] = CheckpointPolicy.MUST_SAVE


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
    if mode is not None:  # torch.compile takes either a mode or options
        options["mode"] = mode
    Options.of(options, None)
    return torch.compile(
        model,
        backend=backend,
        dynamic=dynamic,
        fullgraph=fullgraph,
        options=options or None,
    )
