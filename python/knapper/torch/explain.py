"""What becomes of a model, and how fast it is."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from knapper import html
from knapper.errors import WrongValue
from knapper.torch.backend import backend
from knapper.torch.backend import compile as compiled
from knapper.torch.counters import breaks, collector, counters
from knapper.torch.guard import CALLS, Measured
from knapper.torch.options import Options


@dataclasses.dataclass(frozen=True)
class Graph:
    """A compiled graph: how many nodes torch handed over, the module made of it,
    which overloads torch computes inside of it; with guard="measure" what was
    measured at each size, and where nothing was, why."""

    nodes: int
    module: Any
    fallback: tuple[str, ...]
    measured: tuple[Measured, ...] = ()
    unmeasured: str = ""

    @property
    def kernels(self) -> list[str]:
        """Of each kernel that a call launches: the nodes and lines it came from."""
        return [launch["origin"] for launch in self.module.describe()["launches"]]


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What `explain` found. Prints as a summary; `graphs` has the modules, whose
    `explain()` is the whole report of each."""

    graphs: list[Graph]
    breaks: list[str]  # why Dynamo ended graphs
    counters: dict[str, int]
    pages: list[Path]

    def rows(self) -> list[tuple[object, ...]]:
        return [
            (i, g.nodes, len(g.kernels), ", ".join(g.fallback) or "none")
            for i, g in enumerate(self.graphs)
        ]

    def __str__(self) -> str:
        lines = [f"{len(self.graphs)} graphs, {len(self.breaks)} reasons for breaks"]
        for number, nodes, kernels, fallback in self.rows():
            lines.append(
                f"  graph {number}: {nodes} operators, {kernels} kernels, by torch: {fallback}"
            )
            lines += [f"    {found}" for found in self.graphs[number].measured]
            if self.graphs[number].unmeasured:
                lines.append(f"    not measured: {self.graphs[number].unmeasured}")
        lines += [f"  break: {reason}" for reason in self.breaks]
        lines += [f"  report: {page}" for page in self.pages]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html.table(("graph", "operators", "kernels", "by torch"), self.rows())


@contextlib.contextmanager
def _collected() -> Iterator[list[Any]]:
    made: list[Any] = []
    token = collector.set(made)
    try:
        yield made
    finally:
        collector.reset(token)


def explain(
    model: Callable[..., Any],
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Explanation:
    """Compiles and calls `model(*args, **kwargs)` once, and says what became of it:
    its graphs and their kernels, what torch computes, where Dynamo broke the graph
    and why. Where gradients are recorded, the graph is the forward of training.

    path: a folder; the report of each graph is written there as HTML, with the
        lines of the Python program on every kernel.
    options: the fields of `Options`. With guard="measure" the model is called as
        often as measuring takes.

    Raises as the compiled function does. Compiled code of other functions stays.
    """
    given = dict(options or {})
    chosen = {name: given.pop(name) for name in ("dynamic", "fullgraph") if name in given}
    mode = given.pop("mode", None)

    def anew(gm: Any, example_inputs: Any) -> Any:
        # A backend of its own: Dynamo does not take what it compiled before.
        return backend(gm, example_inputs, options=given or None, mode=mode)

    Options.of(given, mode)
    before = breaks()
    with _collected() as found:
        call = torch.compile(model, backend=anew, **chosen)
        call(*args, **kwargs)
        if any(guard is not None for _, _, guard, _ in found):
            _measure(lambda: call(*args, **kwargs))
    reasons = [" ".join(reason.split())[:300] for reason in breaks() - before]
    graphs = [
        Graph(
            description.nodes, module, _torch_computes(module),
            tuple(guard.measured()) if guard is not None else (), unmeasured,
        )  # fmt: skip
        for module, description, guard, unmeasured in found
    ]
    pages = []
    if path is not None:
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        for number, graph in enumerate(graphs):
            pages.append(folder / f"graph_{number}.html")
            graph.module.explain(pages[-1])
    return Explanation(graphs, reasons, counters(), pages)


def _measure(call: Callable[[], Any]) -> None:
    for _ in range(CALLS - 1):
        call()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
        call()  # reads the events


def _torch_computes(module: Any) -> tuple[str, ...]:
    called = module.describe()["operators"]
    return tuple(sorted({c["name"] for c in called if c["domain"] == "torch"}))


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds of a call, the median of each; `first` of the first call, with what
    was compiled for it."""

    median: dict[str, float]
    first: dict[str, float]

    def rows(self) -> list[tuple[object, ...]]:
        eager = self.median["eager"]
        return [
            (name, f"{t * 1e3:.3f}", f"{eager / t:.2f}", f"{self.first[name]:.2f}")
            for name, t in self.median.items()
        ]

    def __str__(self) -> str:
        heads = ("", "ms a call", "x eager", "first call, s")
        return "\n".join(
            f"{a!s:10} {b!s:>10} {c!s:>8} {d!s:>14}" for a, b, c, d in [heads, *self.rows()]
        )

    def _repr_html_(self) -> str:
        return html.table(("", "ms a call", "x eager", "first call, s"), self.rows())


def bench(
    model: Callable[..., Any],
    *args: Any,
    backends: tuple[str, ...] = ("eager", "inductor", "knapper"),
    seconds: float = 1.0,
    options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Timing:
    """Calls `model(*args, **kwargs)` eagerly and compiled, interleaved, in this
    process: the median of as many calls each as `seconds` allow, at least 5.

    Gradients are not recorded. Raises as the compiled functions do, and
    WrongValue for backends without "eager", which the others are compared with.
    """
    if "eager" not in backends:
        raise WrongValue(
            f"backends is {backends!r}", where="backends", hint='begin with "eager"'
        )
    calls: dict[str, Callable[..., Any]] = {}
    for name in backends:
        if name == "eager":
            calls[name] = model
        elif name == "knapper":
            calls[name] = compiled(model, **(options or {}))
        else:
            calls[name] = torch.compile(model, backend=name)
    first: dict[str, float] = {}
    taken: dict[str, list[float]] = {name: [] for name in backends}
    with torch.no_grad():
        for name, call in calls.items():
            begin = time.perf_counter()
            call(*args, **kwargs)
            first[name] = time.perf_counter() - begin
            call(*args, **kwargs)
        end = time.perf_counter() + seconds * len(calls)
        while len(taken["eager"]) < 5 or time.perf_counter() < end:
            for name, call in calls.items():
                begin = time.perf_counter()
                call(*args, **kwargs)
                taken[name].append(time.perf_counter() - begin)
    return Timing({name: statistics.median(t) for name, t in taken.items()}, first)
