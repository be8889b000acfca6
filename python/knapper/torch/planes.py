"""Complex numbers of a graph as two real tensors each, their planes.

The program knows real numbers only. Arguments and results of the call are read and
written where they lie, as real tensors with a last dim of two (`torch.view_as_real`).
In between an operator is replaced by what it does to the planes, as torch's
`ComplexTensor` defines it. An operator that it does not define is one of torch's,
called on complex numbers (`Outside`).
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from knapper.errors import UserError
from knapper.torch import custom, memory, versions
from knapper.torch.complex_functions import REAL, function_of, is_made
from knapper.torch.decompositions import table
from knapper.torch.nodes import arguments_of, line_of, name_of

_aten = torch.ops.aten
# What a trace follows; other values are constants of it.
_TRACED = (torch.Tensor, torch.SymInt, torch.SymFloat)
# What torch raises where it does not define an operator for planes.
_NOT_DEFINED = (TypeError, RuntimeError, AttributeError, AssertionError)


@dataclasses.dataclass(frozen=True)
class Planes:
    """A complex value of the graph."""

    re: Node
    im: Node


@dataclasses.dataclass(frozen=True)
class Outside:
    """An operator of torch's on complex numbers that lie in the program's memory as
    real ones. It is called by name. `complex_arguments`: names of tensors, "name:2" is
    that at a place of a list, and of numbers, which are texts."""

    op: Any

    @property
    def tags(self) -> Any:
        return self.op.tags

    def __str__(self) -> str:
        return f"{self.op} of complex numbers"

    def __reduce__(self) -> Any:
        return _outside, (custom.packed(self.op),)

    # What torch.fx writes of a function that a node calls.
    __name__ = "outside"
    __module__ = "knapper.torch.planes"

    def __call__(self, /, complex_arguments: list[str], **given: Any) -> Any:
        for place in complex_arguments:
            name, _, index = place.partition(":")
            holder, key = (given[name], int(index)) if index else (given, name)
            value = holder[key]
            holder[key] = complex(value) if isinstance(value, str) else torch.view_as_complex(value)
        args, kwargs = [], {}
        for entry in self.op._schema.arguments:
            if entry.name not in given:
                continue
            value = given[entry.name]
            if entry.kwarg_only:
                kwargs[entry.name] = value
            else:
                args.append(value)
        return pytree.tree_map_only(torch.Tensor, as_real, self.op(*args, **kwargs))


def _outside(packed: Any) -> Outside:
    return Outside(custom.unpacked(packed))


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or the real one with a last dim of two."""
    if not tensor.is_complex():
        return tensor
    return torch.view_as_real(tensor.resolve_conj().resolve_neg())


@dataclasses.dataclass
class Boundary:
    """A program of real numbers, called with complex ones: `arguments` and `results`
    are the places of these."""

    run: Callable[[list[Any]], list[Any]]
    arguments: list[int]
    results: list[int]
    written: list[int]  # of the arguments, those that the program changes

    def __post_init__(self) -> None:
        self._boxed_call = True

    def __call__(self, arguments: list[Any]) -> list[Any]:
        written = []
        with torch.no_grad():
            for place in self.arguments:
                given = arguments[place]
                arguments[place] = as_real(given)
                # That is a copy: what is written goes back.
                if place in self.written and (given.is_conj() or given.is_neg()):
                    written.append((given, arguments[place]))
            made = list(self.run(arguments))
            for given, copy in written:
                given.copy_(torch.view_as_complex(copy))
            for place in self.results:
                made[place] = torch.view_as_complex(made[place])
        return made


@dataclasses.dataclass
class Split:
    """A module without complex numbers, and where the call has them."""

    module: GraphModule
    arguments: list[int] = dataclasses.field(default_factory=list)
    results: list[int] = dataclasses.field(default_factory=list)
    written: list[int] = dataclasses.field(default_factory=list)

    def claimed(self, strides: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
        """Strides of results, by place: of complex ones in complex numbers."""
        return {
            place: tuple(step // 2 for step in steps[:-1]) if place in self.results else steps
            for place, steps in strides.items()
        }


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_complex()


def split(module: GraphModule) -> Split:
    """The module itself where it has no complex numbers; else a copy. UserError for
    what cannot be split."""
    from torch._guards import detect_fake_mode

    leaves = ((n, leaf) for n in module.graph.nodes for leaf in pytree.tree_leaves(n.meta.get("val")))
    found = [(node, leaf.dtype) for node, leaf in leaves if _is_complex(leaf)]
    if not found:
        return Split(module)
    for node, dtype in found:
        if dtype not in REAL:
            raise UserError(
                f"{dtype} is not supported",
                where=line_of(node) or "knapper.torch",
                hint="convert to torch.complex64",
            )
    graph = Graph()
    output = graph.graph_copy(module.graph, known := {})
    made = graph.output(output)
    for node, copy in known.items():
        copy.meta = dict(node.meta)
    made.meta = dict(next(n for n in module.graph.nodes if n.op == "output").meta)
    splitter = _Splitter(
        GraphModule(module, graph), detect_fake_mode([n.meta.get("val") for n in known])
    )
    splitter.run()
    return splitter.made


class _Splitter:
    def __init__(self, module: GraphModule, mode: Any) -> None:
        self.module = module
        self.graph = module.graph
        self.made = Split(module)
        # Of nodes that were complex: Planes, or a tuple where a node has several results.
        self.values: dict[Node, Any] = {}
        self.mode = mode

    def run(self) -> None:
        nodes = list(self.graph.nodes)
        first = next(n for n in nodes if n.op != "placeholder")
        index = 0
        with self.mode or torch.no_grad(), torch.no_grad():
            for node in nodes:
                if node.op == "placeholder":
                    if _is_complex(node.meta.get("val")):
                        self.made.arguments.append(index)
                        self.become_real(node, first)
                    index += 1
                elif node.op == "get_attr":
                    self.held(node)
                elif node.op == "output":
                    self.output(node)
                elif node.op == "call_function":
                    self.call(node)
        # Readers before what they read.
        for node in reversed(nodes):
            if node in self.values and node.op == "call_function":
                self.graph.erase_node(node)
        self.graph.eliminate_dead_code()
        self.module.recompile()

    # ---- what the graph is given

    def become_real(self, node: Node, before: Node) -> None:
        """A placeholder or a tensor that the graph holds."""
        node.meta["val"] = as_real(node.meta["val"])
        with self.graph.inserting_before(before):
            self.values[node] = self.planes_of(node, node)

    def held(self, node: Node) -> None:
        value: Any = getattr(self.module, str(node.target), None)
        if not _is_complex(value):
            return
        if not value.dim() and value.device.type == "cpu":
            with unset_fake_temporarily():
                number = value.item()
            with self.graph.inserting_before(node.next):
                self.values[node] = Planes(*(
                    self.add(node, _aten.full.default, [], part, dtype=REAL[value.dtype])
                    for part in (number.real, number.imag)
                ))  # fmt: skip
            return
        name = f"{node.target}_planes"
        with unset_fake_temporarily():
            setattr(self.module, name, as_real(value))
        node.target = name
        self.become_real(node, node.next)

    def planes_of(self, interleaved: Node, like: Node) -> Planes:
        return Planes(
            self.add(like, _aten.select.int, interleaved, -1, 0),
            self.add(like, _aten.select.int, interleaved, -1, 1),
        )

    def add(self, like: Node, target: Any, *args: Any, **kwargs: Any) -> Node:
        made = self.graph.call_function(target, args, kwargs)
        values = pytree.tree_map_only(Node, lambda n: n.meta["val"], args)
        made.meta["val"] = target(*values, **kwargs)
        made.meta["stack_trace"] = like.meta.get("stack_trace")
        return made

    def interleaved(self, value: Any, like: Node) -> Any:
        """Planes as one node; others as they are."""
        if not isinstance(value, Planes):
            return value
        return self.add(like, _aten.stack.default, [value.re, value.im], -1)

    # ---- nodes

    def call(self, node: Node) -> None:
        if node.target is operator.getitem and node.args[0] in self.values:
            value = self.values[node.args[0]][node.args[1]]  # type: ignore[index]
            if isinstance(value, Planes):
                self.values[node] = value
            elif isinstance(value, Node):
                self.keep(node, value)
            return
        leaves = pytree.tree_leaves((node.args, node.kwargs))
        reads = any(isinstance(leaf, Node) and leaf in self.values for leaf in leaves)
        if not reads and not any(map(_is_complex, pytree.tree_leaves(node.meta.get("val")))):
            return
        if isinstance(node.meta.get("val"), torch.SymInt):
            self.number(node)
            return
        if not isinstance(node.target, torch._ops.OpOverload):
            raise UserError(
                f"{node.target} of complex numbers is not supported yet",
                where=line_of(node) or "knapper.torch",
                hint="torch.view_as_real, or torch.compiler.disable for the function",
            )
        if node.target is _aten.copy_.default:
            target, source = node.args
            assert isinstance(target, Node) and isinstance(source, Node)
            with self.graph.inserting_before(node):
                value = self.values.get(source)
                if value is None:  # real numbers
                    value = Planes(source, self.add(node, _aten.zeros_like.default, source))
                node.args = (target, self.interleaved(value, node))
            node.meta["val"] = target.meta["val"]
            places = [n for n in self.graph.nodes if n.op == "placeholder"]
            if target in places:
                self.made.written.append(places.index(target))
            return
        if name_of(node.target) in (*memory.READS, memory.WRITES):
            raise UserError(
                f"{node.target} of complex numbers is not supported yet",
                where=line_of(node) or "knapper.torch",
                hint="torch.view_as_real gives the same memory as real numbers",
            )
        self.keep(node, self.inlined(node) or self.outside(node))

    def number(self, node: Node) -> None:
        """A size of a complex tensor is one of its planes'."""

        def real(value: Node) -> Node:
            planes = self.values.get(value, value)
            return planes.re if isinstance(planes, Planes) else planes

        node.args, node.kwargs = pytree.tree_map_only(Node, real, (node.args, node.kwargs))

    def keep(self, node: Node, results: Any) -> None:
        """The results of what replaces a node: of a node with a real result that is it."""
        if isinstance(results, Node):
            results.meta["val"] = node.meta["val"]  # with the strides that torch claims
            node.replace_all_uses_with(results)
        self.values[node] = results

    def inlined(self, node: Node) -> Any:
        """What the node does to planes, in front of it; None where that is not defined."""
        from torch.fx.experimental.proxy_tensor import make_fx

        library = versions.complex_tensors()
        if library is None:
            return None
        leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
        places: list[tuple[int, int]] = []  # of each leaf that is a node: its inputs
        sources: list[Node] = []
        for index, leaf in enumerate(leaves):
            if not isinstance(leaf, Node):
                continue
            value = self.values.get(leaf, leaf)
            parts = [value.re, value.im] if isinstance(value, Planes) else [value]
            if not all(isinstance(part.meta.get("val"), _TRACED) for part in parts):
                leaves[index] = leaf.meta.get("val")  # a number
                continue
            places.append((index, len(parts)))
            sources += parts
        shape: list[Any] = []

        dtype = next(
            (REAL.get(v.dtype) for v in pytree.tree_leaves(node.meta["val"]) if _is_complex(v)), None
        )
        made_of_nothing = is_made(node.target)
        own = function_of(node.target, library)

        def call(*given: Any) -> Any:
            rest, filled = list(given), list(leaves)
            for index, leaf in enumerate(leaves):
                if isinstance(leaf, complex) and dtype is not None and not made_of_nothing:
                    parts = (torch.scalar_tensor(x, dtype=dtype) for x in (leaf.real, leaf.imag))
                    filled[index] = library.joined(*parts)
            for index, count in places:
                filled[index] = library.joined(*rest[:count]) if count == 2 else rest[0]
                del rest[:count]
            args, kwargs = pytree.tree_unflatten(filled, spec)
            results = own(*args, **kwargs) if own else library.apply(node.target, args, kwargs)
            made, told = pytree.tree_flatten(results)
            shape[:] = [told, [library.is_complex(leaf) for leaf in made]]
            return [part for leaf in made for part in library.parts(leaf)]

        try:
            traced = make_fx(call, decomposition_table=table())(*[s.meta["val"] for s in sources])
        except NotImplementedError:
            return None
        except _NOT_DEFINED:
            if own is not None:
                raise
            return None
        called = (getattr(n.target, "_schema", None) for n in traced.graph.nodes)
        if any(schema is not None and schema.is_mutable for schema in called):
            return None
        inner = _Splitter(traced, self.mode)  # numbers have become complex constants
        inner.run()
        made = self.copied(traced, sources, node)
        told, kinds = shape
        results = [Planes(next(made), next(made)) if is_complex else next(made) for is_complex in kinds]
        return self.checked(node, pytree.tree_unflatten(results, told))

    def checked(self, node: Node, results: Any) -> Any:
        """None where a result has another type or size than torch says."""
        wanted = node.meta["val"]
        if isinstance(wanted, (tuple, list)):
            if not isinstance(results, (tuple, list)) or len(wanted) != len(results):
                return None
            pairs = list(zip(wanted, results, strict=True))
        else:
            pairs = [(wanted, results)]
        for want, result in pairs:
            parts = [result.re, result.im] if isinstance(result, Planes) else [result]
            if not all(isinstance(part, Node) for part in parts) or _is_complex(want) != (len(parts) == 2):
                return None
            for part in parts:
                value = part.meta["val"]
                if value.dim() != want.dim() or value.dtype not in (want.dtype, REAL.get(want.dtype)):
                    return None
                if any(statically_known_true(a != b) for a, b in zip(value.shape, want.shape, strict=True)):
                    return None
        return results

    def copied(self, traced: GraphModule, sources: list[Node], node: Node) -> Any:
        """The results of a traced function, whose nodes come in front of `node`."""
        known: dict[Node, Node] = {}
        given = iter(sources)
        with self.graph.inserting_before(node):
            for inner in traced.graph.nodes:
                if inner.op == "placeholder":
                    known[inner] = next(given)
                elif inner.op == "output":
                    return iter([known.get(x, x) for x in inner.args[0]])
                else:
                    made = known[inner] = self.graph.node_copy(inner, known.__getitem__)
                    if inner.op == "get_attr":
                        made.target = f"_expanded_{made.name}"
                        setattr(self.module, made.target, getattr(traced, str(inner.target)))
                    made.meta = {k: v for k, v in inner.meta.items() if k == "val"}
                    made.meta["stack_trace"] = node.meta.get("stack_trace")
        return iter(())

    def outside(self, node: Node) -> Any:
        """The node, computed by torch."""
        given = arguments_of(node, node.target._schema.arguments)  # type: ignore[union-attr]
        places = []

        def real(value: Any, place: str) -> Any:
            if isinstance(value, Node) and value in self.values:
                places.append(place)
                return self.interleaved(self.values[value], node)
            if isinstance(value, complex):
                places.append(place)
                return str(value)
            if isinstance(value, (list, tuple)):
                return [real(each, f"{place}:{i}") for i, each in enumerate(value)]
            return value

        with self.graph.inserting_before(node):
            named = {name: real(value, name) for name, value in given.items()}
            made = self.graph.call_function(
                Outside(node.target), (), {"complex_arguments": places, **named}
            )
            made.meta["stack_trace"] = node.meta.get("stack_trace")
            wanted = node.meta["val"]
            made.meta["val"] = pytree.tree_map_only(torch.Tensor, _dense_real, wanted)
            if not isinstance(wanted, (tuple, list)):
                return self.planes_of(made, node) if _is_complex(wanted) else made
            parts = [self.add(node, operator.getitem, made, i) for i in range(len(wanted))]
            return tuple(
                self.planes_of(part, node) if _is_complex(want) else part
                for part, want in zip(parts, wanted, strict=True)
            )

    # ---- results

    def output(self, node: Node) -> None:
        results = list(node.args[0])  # type: ignore[arg-type]
        with self.graph.inserting_before(node):
            for place, entry in enumerate(results):
                if not isinstance(entry, Node) or entry not in self.values:
                    continue
                self.made.results.append(place)
                if entry.op == "placeholder" or entry.target is _aten.copy_.default:
                    continue
                value = entry.meta["val"]
                made = results[place] = self.interleaved(self.values[entry], entry)
                if not (value.is_conj() or value.is_neg()):
                    made.meta["val"] = torch.view_as_real(value)  # with torch's strides
        node.args = (tuple(results),)


def _dense_real(value: torch.Tensor) -> torch.Tensor:
    """A fake of what `Outside` makes of a tensor."""
    if not value.is_complex():
        return value
    return value.new_empty((*value.shape, 2), dtype=REAL[value.dtype])

