"""The backend of torch.compile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule

import knapper
from knapper.torch import versions
from knapper.torch.counters import count
from knapper.torch.decompositions import table
from knapper.torch.describe import describe
from knapper.torch.options import Options
from knapper.torch.program import Program
from knapper.torch.through import register

versions.check()


def compile_graph(module: GraphModule, example_inputs: Any, *, options: Options) -> Any:
    """A functional graph as a boxed function of a list of arguments."""
    description = describe(module, options.fallback == "allow")
    count("graphs")
    if not description.outputs:  # nothing to compute
        return _Identity(description)
    if options.fallback == "allow":
        for overload in description.overloads:
            register(overload)
    compiled = knapper.compile(
        description.text,
        model_format="torch",
        threads=options.threads or torch.get_num_threads(),
        cache=options.cache,
    )
    return Program(compiled, description)


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
    # AOTAutograd's own cache keys on the graph and not on who compiles it.
    gm.__dict__["_knapper_key"] = f"knapper {knapper.version()} {chosen.key()}"
    compiler = functools.partial(compile_graph, options=chosen)
    return aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=table(),
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
