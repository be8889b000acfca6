"""Random numbers of graphs that run on a GPU.

Torch's generator of a GPU hands out numbers to kernels of its own. They are
drawn by torch before the program runs, in the order of the graph, and are
inputs of it. So they follow `torch.manual_seed`, and a CUDA graph that the
user captures draws new ones in every replay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from knapper.errors import UserError
from knapper.torch import custom, sizes
from knapper.torch.nodes import arguments_of, is_random, line_of, name_of

_aten = torch.ops.aten


@dataclasses.dataclass
class Draw:
    """A call of a random operator; sizes in its arguments are Python of the
    graph's symbols."""

    overload: Any
    args: Any
    kwargs: dict[str, Any]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "overload": custom.packed(self.overload)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, overload=custom.unpacked(state["overload"]))

    def __call__(self, symbols: dict[str, int]) -> torch.Tensor:
        return self.overload(*_evaluated(self.args, symbols), **self.kwargs)


@dataclasses.dataclass(frozen=True)
class _Size:
    text: str


def _evaluated(value: Any, symbols: dict[str, int]) -> Any:
    if isinstance(value, _Size):
        return eval(value.text, {"max": max, "min": min}, dict(symbols))
    if isinstance(value, (list, tuple)):
        return [_evaluated(entry, symbols) for entry in value]
    return value


def _constant(value: Any) -> Any:
    """An argument without its nodes; ValueError where it is a tensor."""
    if isinstance(value, Node):
        value = value.meta.get("val")
    if isinstance(value, torch.Tensor):
        raise ValueError
    if isinstance(value, torch.SymInt):
        e = sizes.expression(value)
        return int(e) if e.is_Integer else _Size(sizes.python(value))
    if isinstance(value, (list, tuple)):
        return [_constant(entry) for entry in value]
    return value


class _Hoister:
    def __init__(self, module: GraphModule) -> None:
        self.graph = module.graph
        self.draws: list[Draw] = []
        self.last = [n for n in self.graph.nodes if n.op == "placeholder"]

    def draw(self, overload: Any, args: Any, kwargs: dict[str, Any], value: torch.Tensor) -> Node:
        """An input with the numbers of the call. `value`: a fake of them."""
        made = Draw(overload, _constant(args), {k: _constant(v) for k, v in kwargs.items()})
        if self.last:
            with self.graph.inserting_after(self.last[-1]):
                node = self.graph.placeholder(f"random_{len(self.draws)}")
        else:
            with self.graph.inserting_before(next(iter(self.graph.nodes))):
                node = self.graph.placeholder(f"random_{len(self.draws)}")
        node.meta.update(val=value, drawn=True)
        self.last.append(node)
        self.draws.append(made)
        return node

    def like(self, overload: Any, head: list[Any], of: torch.Tensor, dtype: Any = None) -> Node:
        dtype = dtype or of.dtype
        value = of.new_empty(of.shape, dtype=dtype)
        return self.draw(
            overload, [*head, list(of.shape)], {"dtype": dtype, "device": of.device}, value
        )

    def call(self, node: Node, overload: Any, *args: Any) -> Node:
        """A call in front of `node`, with the fake of its result."""
        with self.graph.inserting_before(node):
            made = self.graph.call_function(overload, args)
        made.meta["val"] = overload(*(a.meta["val"] if isinstance(a, Node) else a for a in args))
        made.meta["stack_trace"] = node.meta.get("stack_trace")
        return made

    def uniform(self, of: torch.Tensor) -> Node:
        """In [0, 1), in float32 where `of` is narrower: no probability is lost."""
        return self.like(_aten.rand.default, [], of, torch.float64 if of.dtype == torch.float64 else torch.float32)

    def replaced(self, node: Node, given: dict[str, Any]) -> Node | None:
        """What computes a random operator that reads a tensor; None: unknown."""
        name = name_of(node.target).removeprefix("aten.")
        source = given.get("self", given.get("input"))
        of = source.meta["val"] if isinstance(source, Node) else None
        if of is None:
            return None
        dtype = given.get("dtype")
        if name == "rand_like.default":
            return self.like(_aten.rand.default, [], of, dtype)
        if name == "randn_like.default":
            return self.like(_aten.randn.default, [], of, dtype)
        if name == "randint_like.default":
            return self.like(_aten.randint.low, [0, given["high"]], of, dtype)
        if name == "randint_like.low_dtype":
            return self.like(_aten.randint.low, [given["low"], given["high"]], of, dtype)
        if name == "bernoulli.p":
            hits = self.call(node, _aten.lt.Scalar, self.uniform(of), given["p"])
            return self.call(node, _aten.to.dtype, hits, of.dtype) if of.dtype != torch.bool else hits
        if name == "bernoulli.default":
            hits = self.call(node, _aten.lt.Tensor, self.uniform(of), source)
            return self.call(node, _aten.to.dtype, hits, of.dtype)
        if name == "uniform.default":
            low, high = given["from"], given["to"]
            scaled = self.call(node, _aten.mul.Scalar, self.like(_aten.rand.default, [], of), high - low)
            return self.call(node, _aten.add.Scalar, scaled, low)
        if name == "normal_functional.default":
            scaled = self.call(node, _aten.mul.Scalar, self.like(_aten.randn.default, [], of), given["std"])
            return self.call(node, _aten.add.Scalar, scaled, given["mean"])
        return None

    def dropout(self, node: Node, given: dict[str, Any]) -> None:
        """native_dropout: its two results are taken by getitem nodes."""
        source, p = given["input"], float(given["p"])
        mask = self.call(node, _aten.ge.Scalar, self.uniform(source.meta["val"]), p)
        kept = self.call(node, _aten.mul.Tensor, source, mask)
        scale = 1 / (1 - p) if p < 1 else 0.0
        made = (self.call(node, _aten.mul.Scalar, kept, scale), mask)
        for user in list(node.users):
            user.replace_all_uses_with(made[user.args[1]])
            self.graph.erase_node(user)

    def run(self) -> None:
        for node in list(self.graph.nodes):
            if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
                continue
            given = arguments_of(node, node.target._schema.arguments)
            if not is_random(node.target, given):
                continue
            if name_of(node.target) == "aten.native_dropout.default" and given.get("train") is not False:
                self.dropout(node, given)
                self.graph.erase_node(node)
                continue
            made = self.replaced(node, given)
            if made is None:
                try:
                    kwargs = {k: v for k, v in node.kwargs.items() if k not in ("pin_memory", "layout")}
                    made = self.draw(node.target, list(node.args), kwargs, node.meta["val"])
                except ValueError:
                    raise UserError(
                        f"{name_of(node.target)} draws random numbers by what a tensor of the GPU holds",
                        where=line_of(node) or str(node),
                        hint="leave the function that does this out with torch.compiler.disable",
                    ) from None
            node.replace_all_uses_with(made)
            self.graph.erase_node(node)


def hoist(module: GraphModule) -> list[Draw]:
    """Makes the random numbers of a graph inputs behind its others, in place;
    returns how they are drawn, in that order. UserError where what is drawn depends
    on a tensor in another way than known here."""
    hoister = _Hoister(module)
    fakes = [n.meta["val"] for n in module.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    mode = getattr(fakes[0], "fake_mode", None) if fakes else None
    if mode is None:
        hoister.run()
    else:
        with mode:
            hoister.run()
    if hoister.draws:
        module.recompile()
    return hoister.draws


def drawing(draws: list[Draw], symbols: dict[str, tuple[int, int]]) -> Callable[[list[Any]], None]:
    """Appends the numbers of a call to its arguments."""

    def draw(arguments: list[Any]) -> None:
        known = {name: arguments[a] if d < 0 else arguments[a].shape[d] for name, (a, d) in symbols.items()}
        with torch.no_grad():
            arguments.extend([each(known) for each in draws])

    return draw
