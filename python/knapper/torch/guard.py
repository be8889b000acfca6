"""A compiled graph beside the same graph run by torch, one operator after the
other: where the second measures faster, it runs."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import statistics
import threading
import time
import types
from typing import Any

import torch
from torch.fx import Graph, GraphModule

from knapper.torch import sizes
from knapper.torch.counters import count
from knapper.torch.description import Description
from knapper.torch.program import Program

_log = logging.getLogger("knapper")

# The first calls at a size: blocks of the program's and of torch's, interleaved. The
# first call of a block is not counted: threads of the other side may still spin.
_BLOCK = 4
_BLOCKS = 4
CALLS = _BLOCK * _BLOCKS
# Eager runs where the program takes more than this many times its time.
_MARGIN = 1.05
# Sizes of a graph that are measured; at further ones the program runs.
_MOST_SIZES = 256


class Eager:
    """A functional graph as Python that torch runs."""

    def __init__(self, source: str, names: dict[str, Any], held: dict[str, Any]) -> None:
        """source: of `forward(self, ...)`. names: what is global in it. held: the
        tensors that it reads of `self`."""
        self._state = (source, names, held)
        space = dict(names)
        exec(source, space)
        self._forward = space["forward"]
        self._self = types.SimpleNamespace(**held)

    def __call__(self, *arguments: Any) -> Any:
        return self._forward(self._self, *arguments)

    def __reduce__(self) -> Any:
        source, names, held = self._state
        modules = {n: v.__name__ for n, v in names.items() if isinstance(v, types.ModuleType)}
        rest = {n: v for n, v in names.items() if n not in modules}
        return _unpickled, (source, modules, rest, held)


def _unpickled(source: str, modules: dict[str, str], rest: dict[str, Any], held: Any) -> Eager:
    imported = {name: importlib.import_module(module) for name, module in modules.items()}
    return Eager(source, {**imported, **rest}, held)


def eager_of(module: GraphModule) -> tuple[Eager | None, str]:
    """A functional graph as torch runs it; or None and why it is not measured."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    if torch.are_deterministic_algorithms_enabled():
        return None, "torch.use_deterministic_algorithms asks for the same bits in every run"
    graph = Graph()
    known: dict[Any, Any] = {}
    held: dict[str, Any] = {}
    for node in module.graph.nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return None, f"{node.target} runs in the compiled program alone"
        values = node.meta.get("val")
        for each in values if isinstance(values, (list, tuple)) else [values]:
            if isinstance(each, (torch.Tensor, torch.SymInt)) and free_unbacked_symbols(each):
                return None, "data decides a size"
        made = known[node] = graph.node_copy(node, known.__getitem__)
        made.meta, made.type = {}, None
        if node.op == "get_attr":
            made.target = f"held_{len(held)}"
            value: Any = module
            for part in str(node.target).split("."):
                value = getattr(value, part)
            held[made.target] = value
    code = graph.python_code("self")
    return Eager(code.src, dict(code.globals), held), ""


@dataclasses.dataclass
class Measured:
    """What was found at one size of a graph, seconds of a call each."""

    size: dict[str, int]  # the values of the graph's symbols
    program: float = 0.0
    eager: float = 0.0
    known: bool = False  # whether enough calls were made
    by_eager: bool = False

    def __str__(self) -> str:
        size = ", ".join(f"{name}={value}" for name, value in self.size.items())
        at = f" at {size}" if size else ""
        if not self.known:
            return f"not measured yet{at}"
        times = f"{self.eager * 1e3:.3g} ms, the program {self.program * 1e3:.3g} ms"
        return f"{'eager runs' if self.by_eager else 'the program runs'}{at}: eager {times}"


class _Row:
    """The calls at one size so far."""

    def __init__(self, told: Measured) -> None:
        self.told = told
        self.calls = 0
        self.seconds: tuple[list[float], list[float]] = ([], [])  # program, eager
        # Of a GPU: (side, start, end) of calls that it has not finished.
        self.events: list[tuple[int, Any, Any]] = []


def _values_of(symbols: dict[str, tuple[int, int]]) -> Any:
    """A function of a call's arguments that gives the values of the symbols."""
    places = [f"a[{argument}]" + f".shape[{dim}]" * (dim >= 0) for argument, dim in symbols.values()]
    return eval(f"lambda a: ({''.join(place + ', ' for place in places)})")


class Guard:
    """Called with a list of arguments, which it empties, as the program is.

    Each call runs one side only, once, so that what it writes and what it draws
    happen once. On a GPU a call's time is that between two events of its stream;
    nothing waits for them. May be called from several threads.
    """

    def __init__(
        self, program: Program, eager: Eager, description: Description, device: torch.device
    ) -> None:
        self._boxed_call = True  # of the object: torch copies its __dict__
        self._program, self._eager = program, eager
        self._gpu = device if device.type == "cuda" else None
        self._description = description
        self._size = _values_of(description.symbols)
        self._rows: dict[tuple[int, ...], _Row] = {}
        self._lock = threading.Lock()

    @property
    def program(self) -> Any:
        return self._program

    def measured(self) -> list[Measured]:
        """Of each size that calls came with."""
        with self._lock:
            return [row.told for row in self._rows.values()]

    def __call__(self, arguments: list[Any]) -> list[Any]:
        size = self._size(arguments)
        row = self._rows.get(size)
        if row is None:
            row = self._begin(size)
            if row is None:
                return self._program(arguments)
        if row.told.known:
            return self._by_eager(arguments) if row.told.by_eager else self._program(arguments)
        if self._gpu and torch.cuda.is_current_stream_capturing():
            return self._program(arguments)  # a graph keeps what it captures
        return self._measure(row, arguments)

    def _begin(self, size: tuple[int, ...]) -> _Row | None:
        with self._lock:
            if size not in self._rows:
                if len(self._rows) >= _MOST_SIZES:
                    return None
                named = dict(zip(self._description.symbols, size))
                self._rows[size] = _Row(Measured(named))
            return self._rows[size]

    def _measure(self, row: _Row, arguments: list[Any]) -> list[Any]:
        with self._lock:
            place = row.calls
            row.calls += 1
            if row.calls > CALLS:
                self._decide(row)
        side = place // _BLOCK % 2
        run = self._by_eager if side else self._program
        if place >= CALLS or place % _BLOCK == 0:
            return run(arguments) if place < CALLS else self._program(arguments)
        if self._gpu:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            stream = torch.cuda.current_stream(self._gpu)
            start.record(stream)
            made = run(arguments)
            end.record(stream)
            with self._lock:
                row.events.append((side, start, end))
            return made
        begin = time.perf_counter()
        made = run(arguments)
        took = time.perf_counter() - begin
        with self._lock:
            row.seconds[side].append(took)
            if place == CALLS - 1:
                self._decide(row)
        return made

    def _decide(self, row: _Row) -> None:
        """From the calls that have finished; later where there are too few."""
        if row.told.known:
            return
        if any(not end.query() for _, _, end in row.events):
            return
        for side, start, end in row.events:
            row.seconds[side].append(start.elapsed_time(end) / 1e3)
        row.events.clear()
        if not all(row.seconds):  # calls have failed
            row.calls = 0
            return
        told = row.told
        told.program, told.eager = (statistics.median(s) for s in row.seconds)
        told.by_eager = told.program > _MARGIN * told.eager
        told.known = True
        if told.by_eager:
            count("eager_graphs")
            _log.warning("of a graph of %d operators, %s", self._description.nodes, told)

    def _by_eager(self, arguments: list[Any]) -> list[Any]:
        self._program.refuse_overlaps(arguments)
        claims = self._program.claims(arguments)
        given = list(arguments)
        arguments.clear()
        with torch.no_grad():
            made = list(self._eager(*given))
        for index, (kind, value) in enumerate(self._description.results):
            if kind == "output":
                made[index] = _as_claimed(made[index], *claims[value][:2])
        return made


def _as_claimed(made: torch.Tensor, size: Any, stride: Any) -> torch.Tensor:
    """The tensor, or a copy where it lies in another way than the graph claims."""
    if all(has == claim for n, has, claim in zip(size, made.stride(), stride) if n != 1):
        return made
    narrow = tuple(1 if step == 0 else n for n, step in zip(size, stride))
    for dim, (n, step) in enumerate(zip(size, stride)):
        if step == 0 and n > 1:
            made = made.narrow(dim, 0, 1)
    memory = torch.empty_strided(narrow, stride, dtype=made.dtype, device=made.device)
    with torch.no_grad():
        memory.copy_(made)
    return memory.as_strided(size, stride)
