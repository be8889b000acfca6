"""A functional graph of ATen operators as the description that the front end
reads (frontends/torch/ImportTorch.h)."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch.fx import GraphModule, Node

from knapper.errors import UserError
from knapper.torch import memory, sizes, versions
from knapper.torch.described_nodes import NodeDescriber, attribute_of, refuse_device
from knapper.torch.description import Description, Number, Output, View
from knapper.torch.nodes import line_of, name_of


class Describer(NodeDescriber):
    """Adds what the graph gives: results, and whose memory they are in."""

    def run(
        self, fallback: bool, names: list[str] | None = None, saved: int | None = None
    ) -> Description:
        """`names`: of the outputs of a module, which are row-major and of tensors
        only; else the outputs are those of a call. `saved`: where the results
        begin that only the backward reads: these are dense, whatever torch claims."""
        self.is_called = names is None
        self.placeholders()
        output: Node | None = None
        for node in self.module.graph.nodes:
            if node.op == "call_function":
                self.call(node)
            elif node.op == "get_attr":
                self.held(node, attribute_of(self.module, str(node.target)))
            elif node.op == "output":
                output = node
        assert output is not None
        if self.missing:
            raise UserError(
                "the graph needs what is not supported yet:\n  "
                + "\n  ".join(self.missing),
                where="knapper.torch",
                hint="leave the function that does this out with torch.compiler.disable",
            )
        given = output.args[0]
        if names is not None:
            text = self.text(fallback, self.named(list(given), names))  # type: ignore[arg-type]
            return Description(text, self.inputs, [], [], {}, self.overloads, self.by_torch, len(self.nodes), [])
        results = Results(self, given, saved)
        for index, node in self.mutations.items():
            results.add(node, index)
        told = [results.result(position, entry) for position, entry in enumerate(given)]  # type: ignore[arg-type]
        checks = [(results.add(node), name, is_matrix) for node, name, is_matrix in self.checks]
        assertions = [(results.add(node), what) for node, what in self.assertions]
        text = self.text(fallback, results.named)
        return Description(
            text, self.inputs, results.outputs, told, self.symbols, self.overloads, self.by_torch,
            len(self.nodes), checks, len(results.argument_of), self.begins, results.strides, assertions,
        )  # fmt: skip

    def teller(self, symbol: str) -> tuple[Node, int] | None:
        """A tensor and which of its dims the symbol is; -1: it is its element."""
        if symbol in self.counted:
            return self.counted[symbol], -1
        for node in self.keys:
            value = node.meta.get("val")
            for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
                if sizes.is_symbol(size) and sizes.expression(size).name == symbol:
                    return node, dim
        return None

    def begin_of(self, node: Node, start: Any) -> Any:
        """Where a result begins behind the beginning of its base. torch has a symbol of
        its own for that of a slice whose start data decides."""
        value = node.meta["val"]
        offset = value.storage_offset()
        sliced = node.target is torch.ops.aten.slice.Tensor and len(node.args) > 2
        first = node.args[2] if sliced else None
        if not isinstance(first, Node) or not sizes.is_symbol(offset):
            return offset - start
        whole, dim = node.args[0].meta["val"], node.args[1]  # type: ignore[union-attr]
        if not sizes.symbols(value.shape[dim]) <= self.symbols.keys():
            return offset - start  # data decides where it ends, too
        return sizes.Begin(
            whole.storage_offset() - start, whole.stride(dim), first.meta["val"], whole.shape[dim], value.shape[dim]
        )

    def base_of(
        self, node: Node, outputs: Any, argument_of: dict[Node, int], trained: bool
    ) -> tuple[str, Node, int] | None:
        """What the result is a view of: an argument, also one that has been written, or
        another result that is all of the memory. trained: with a backward, where
        AOTAutograd itself makes what begins where another result does."""
        value = node.meta["val"]
        storage = value.untyped_storage()._cdata

        def holds(other: Any) -> bool:
            meta = other.meta.get("val") if isinstance(other, Node) else None
            return (
                isinstance(meta, torch.Tensor)
                and other is not node
                and meta.dtype == value.dtype
                and meta.untyped_storage()._cdata == storage
            )

        for other, index in argument_of.items():
            if holds(other):
                return "argument", other, index
        for index, written in self.mutations.items():
            if holds(written.args[1]):
                return "argument", written.args[1], index  # type: ignore[return-value]
        offset = value.storage_offset()
        if trained and isinstance(offset, int) and offset == 0:
            return None
        for other in outputs:
            if other is node and memory.is_whole(value):
                return None  # the memory is that of the first
            if holds(other) and other in self.keys and memory.is_whole(other.meta["val"]):
                return "output", other, -1
        return None

    def named(self, given: list[Any], names: list[str]) -> list[dict[str, Any]]:
        """The outputs of a module."""
        made = []
        for entry, name in zip(given, names, strict=True):
            if entry is None:
                continue
            if not isinstance(entry, Node) or entry not in self.keys:
                raise UserError(
                    f"the result {name!r} is no tensor",
                    where="knapper.torch",
                    hint="return tensors only",
                )
            made.append({"name": name, "value": self.keys[entry]})
        return made

    def text(self, fallback: bool, outputs: list[dict[str, Any]]) -> bytes:
        told: dict[str, Any] = {
            "version": 1,
            "torch": torch.__version__,
            "fallback": fallback,
            "random": sorted(map(name_of, self.by_torch)),
            "saturating": versions.saturating(),
            "inputs": self.described,
            "nodes": self.nodes,
            "outputs": outputs,
        }
        if self.signed:
            told = sizes.with_signs(told, self.signed)
        return json.dumps(told, separators=(",", ":")).encode()


class Results:
    """The outputs of a described graph, and how each result of a call comes from
    them. `saved`: as of `Describer.run`."""

    def __init__(self, graph: Describer, given: Any, saved: int | None) -> None:
        self.graph, self.given, self.saved = graph, given, saved
        self.outputs: list[Output] = []
        self.named: list[dict[str, Any]] = []
        self.strides: dict[int, tuple[int, ...]] = {}
        placeholders = (n for n in graph.module.graph.nodes if n.op == "placeholder")
        self.argument_of = {node: index for index, node in enumerate(placeholders)}
        self._made: dict[tuple[str, int], int] = {}

    def add(self, node: Node, mutates: int = -1, stride: Any = None) -> int:
        """The number of the output that has the node's value, and is written into
        the argument `mutates`."""
        key = (self.graph.keys[node], mutates)
        if key in self._made:
            return self._made[key]
        value = node.meta["val"]
        refuse_device(value, f"result {node.name}")
        claimed = stride or value.stride()
        order, narrow = sizes.order_of(value.shape, claimed)
        dense = order is not None
        entry: dict[str, Any] = {
            "name": f"result_{len(self.outputs)}",
            "value": self.graph.keys[node],
        }
        if order is None:
            order, narrow = list(range(value.dim())), []
        if order != sorted(order):
            entry["order"] = order
        if narrow:
            entry["narrow"] = narrow
        self.named.append(entry)
        self.outputs.append(
            Output(
                value.dtype, value.device, tuple(map(sizes.kept, value.shape)),
                tuple(map(sizes.kept, claimed)),
                order, narrow, dense, mutates,
            )  # fmt: skip
        )
        self._made[key] = len(self.outputs) - 1
        return self._made[key]

    def result(self, position: int, entry: Any) -> tuple[str, Any]:
        """A row of `Description.results`."""
        graph = self.graph
        if not isinstance(entry, Node):
            return "value", entry
        value = entry.meta.get("val")
        if entry in graph.tokens:
            return "value", None
        if isinstance(value, torch.SymInt) and entry in self.argument_of:
            return "argument", self.argument_of[entry]
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            return self._number(entry, value)
        if entry in self.argument_of:
            return "argument", self.argument_of[entry]
        if entry in graph.mutations.values():
            return "argument", next(i for i, n in graph.mutations.items() if n is entry)
        if value is None and entry not in graph.keys:
            return "value", None
        if self.saved is None or position < self.saved:
            return self._tensor(entry, value)
        dense = _dense_strides(value)
        if dense is not None and (graph.keys[entry], -1) not in self._made:
            self.strides[position] = dense
        return "output", self.add(entry, stride=dense)

    def _number(self, entry: Node, value: Any) -> tuple[str, Any]:
        symbols = self.graph.symbols
        if sizes.symbols(value) <= symbols.keys():
            return "size", sizes.kept(value)
        try:
            return "number", Number(value, symbols, self._counted(value))
        except sizes.Unknown:
            raise UserError(
                f"the number {value}, which data decides, is a result",
                where=line_of(entry) or "knapper.torch",
                hint="return it as a tensor",
            ) from None

    def _tensor(self, entry: Node, value: torch.Tensor) -> tuple[str, Any]:
        """An output, or a view of an argument or of another output."""
        found = self.graph.base_of(entry, self.given, self.argument_of, self.saved is not None)
        if found is None:
            return "output", self.add(entry)
        kind, base, place = found
        place = self.add(base) if kind == "output" else place
        start = base.meta["val"].storage_offset()
        try:
            begin = self.graph.begin_of(entry, start)
            counted = self._counted(*value.shape, *value.stride(), begin)
            made_of = View(value, (kind, place), begin, self.graph.symbols, counted=counted)
        except sizes.Unknown:
            raise UserError(
                "a result that is a part of an argument or of another result, and "
                "begins or ends where data says, is not supported yet",
                where=line_of(entry) or "knapper.torch",
                hint="return a clone of it",
            ) from None
        return "view", made_of

    def _counted(self, *numbers: Any) -> dict[str, tuple[int, int]]:
        """The outputs, perhaps further ones, that tell numbers which data decides."""
        found = {}
        for symbol in set().union(*map(sizes.symbols, numbers)) - self.graph.symbols.keys():
            told = self.graph.teller(symbol)
            if told is not None:
                found[symbol] = (self.add(told[0]), told[1])
        return found


def _dense_strides(value: torch.Tensor) -> tuple[int, ...] | None:
    """Of a tensor that torch claims to lie with gaps or repeated elements, where
    its sizes are numbers: those of its row-major copy."""
    order, narrow = sizes.order_of(value.shape, value.stride())
    if order is not None and not narrow:
        return None
    if not all(isinstance(size, int) for size in value.shape):
        return None
    strides, count = [], 1
    for size in reversed(value.shape):
        strides.append(count)
        count *= max(1, size)
    return tuple(reversed(strides))


def describe(
    module: GraphModule,
    fallback: bool,
    saved: int | None = None,
    frozen: dict[int, torch.Tensor] | None = None,
) -> Description:
    """Walks the graph once. `saved`: where the results begin that only the backward
    reads. `frozen`: arguments that become constants. UserError that lists all
    operators which no row can have, with the user's lines."""
    describer = Describer(module, frozen)
    made = describer.run(fallback, saved=saved)
    made.weights = describer.weights
    return made
