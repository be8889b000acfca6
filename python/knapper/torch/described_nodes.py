"""The inputs and nodes of a functional graph as describe.py's description has them."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node

from knapper.errors import UserError
from knapper.torch import control, custom, memory, sizes, triton_kernels, versions
from knapper.torch.description import DTYPES, Input, View
from knapper.torch.nodes import arguments_of, is_by_torch, line_of, name_of
from knapper.torch.planes import Outside
from knapper.torch.reals import Reals
from knapper.torch.weights import Weights


class NodeDescriber:
    """Walks a functional graph once. Collects its inputs, its nodes, and the operators that no row imports (`missing`)."""

    def __init__(
        self, module: GraphModule, frozen: dict[int, torch.Tensor] | None = None
    ) -> None:
        """frozen: arguments that are constants."""
        self.frozen = frozen or {}
        self.weights = Weights()
        self.module = module
        self.module_of = [module]  # whose nodes are walked
        self.inputs: list[Input] = []
        self.described: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.keys: dict[Node, str] = {}
        self.symbols: dict[str, tuple[int, int]] = {}
        self.mutations: dict[int, Node] = {}  # argument -> copy_
        self.overloads: set[Any] = set()
        self.by_torch: set[Any] = set()  # of them, whatever `fallback` says
        self.prefix = ""  # of names in a graph that a node holds
        self.ints: dict[str, torch.SymInt] = {}
        self.signed: set[str] = set()  # of them, those that may be below zero
        self.begins: dict[int, int] = {}  # as Description has them
        self.counted: dict[str, Node] = {}  # tensors of one element that symbols are
        self.is_called = True  # with tensors of the user's; a module's are row-major
        self.missing: list[str] = []
        self.checks: list[tuple[Any, str, bool]] = []
        self.assertions: list[tuple[Any, str]] = []
        self.reals = Reals(lambda node: self.nodes.append(node))
        self.written: dict[Node, list[str]] = {}  # Triton launch -> its results
        self.line = ""  # of the node at hand
        self.effects = {
            node
            for node in module.graph.nodes
            if node.op == "call_function" and node.target is torch.ops.higher_order.with_effects
        }
        # Tensors without elements that only keep effects in order.
        self.tokens = {node.args[0] for node in self.effects}

    # ---- inputs

    def placeholders(self) -> None:
        """Describes the graph's inputs: tensors, sizes and numbers, in order."""
        found = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        for index, node in enumerate(found):
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                if sizes.is_symbol(value) and not sizes.is_nested(value):
                    name = sizes.expression(value).name
                    self.symbols.setdefault(name, (index, -1))
                    self.ints[name] = value
            elif index in self.frozen and not _is_written(node):
                self.freeze(node, self.frozen[index])
            elif isinstance(value, torch.Tensor) and node not in self.tokens:
                self.add_tensor(node, value, Input(argument=index))
        bare: set[str] = set()
        for index, node in enumerate(found):
            value = node.meta.get("val")
            # Sizes of drawn numbers are computed from those of the others.
            if isinstance(value, torch.Tensor) and not node.meta.get("drawn"):
                for dim, size in enumerate(value.shape):
                    if sizes.is_symbol(size):
                        name = sizes.expression(size).name
                        bare.add(name)
                        self.symbols[name] = (index, dim)
        # Symbols that only an int names.
        for name in sorted(self.ints.keys() - bare):
            self.add_number(name, name, 0)
            if sizes.is_negative(self.ints[name]):
                self.signed.add(name)
                self.inputs[-1].sign = 1
                self.add_number(name, sizes.below(name), -1)

    def add_number(self, name: str, binds: str, sign: int) -> None:
        self.inputs.append(Input(symbol=name, sign=sign))
        self.described.append(
            {"name": f"size_{binds}", "dtype": "i64", "shape": [], "binds": binds}
        )

    def add_tensor(self, node: Node, value: torch.Tensor, made: Input) -> None:
        """Adds an input that is a tensor, with its dtype, dims and strides."""
        refuse_device(value, f"input {node.name}")
        if value.layout != torch.strided or value.dtype not in DTYPES:
            self.missing.append(
                f"input {node.name}: {value.dtype}, {value.layout}"
            )
            return
        order, repeated = sizes.order_of(value.shape, value.stride())
        made.rank = value.dim()
        made.dtype = value.dtype
        made.order = order if not repeated else None
        entry: dict[str, Any] = {
            "name": self.prefix + node.name,
            "dtype": DTYPES[value.dtype],
            "shape": [sizes.encoded(size) for size in value.shape],
        }
        if made.order is not None and made.order != sorted(made.order):
            entry["order"] = made.order
        self.inputs.append(made)
        self.described.append(entry)
        self.keys[node] = entry["name"]

    def freeze(self, node: Node, tensor: torch.Tensor) -> None:
        """An argument that the program has in it; calls still give it."""
        self.described.append(
            {
                "name": node.name,
                "dtype": DTYPES[tensor.dtype],
                "shape": list(tensor.shape),
                "offset": self.weights.place(tensor),
            }
        )
        self.keys[node] = node.name

    def held(self, node: Node, held: Any) -> None:
        """A tensor of the graph's own. One number that tracing has met
        (`torch.tensor(0.5)`) is a constant: kernels have it in them."""
        if not isinstance(held, torch.Tensor):
            return
        traced = str(node.target).startswith(("_tensor_constant", "_expanded_"))
        if not traced or held.dim() or held.dtype not in DTYPES or held.device.type != "cpu":
            self.add_tensor(node, node.meta.get("val", held), Input(tensor=held))
            return
        with unset_fake_temporarily():
            number = held.item()
        self.keys[node] = self.prefix + node.name
        self.nodes.append(
            {
                "name": self.keys[node],
                "op": "aten.full.default",
                "line": line_of(node),
                "args": {"size": [], "fill_value": self.argument(number, [])},
                "operands": [],
                "results": [{"dtype": DTYPES[held.dtype], "shape": [], "used": True}],
            }
        )

    # ---- nodes

    def argument(self, value: Any, operands: list[str]) -> Any:
        """An argument as the description has it. Adds the names of the tensors in it to `operands`."""
        if isinstance(value, Node):
            meta = value.meta.get("val")
            if isinstance(meta, (torch.SymInt, int)) and not isinstance(meta, bool):
                return sizes.encoded(meta)
            if isinstance(meta, torch.SymFloat):
                return self.real(meta, operands)
            if value not in self.keys:
                return {"text": f"unknown {value.name}"}
            key = self.keys[value]
            if key not in operands:
                operands.append(key)
            return {"%": key}
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            return {"f": repr(value)}
        if isinstance(value, torch.SymInt):
            return sizes.encoded(value)
        if isinstance(value, torch.SymFloat):
            return self.real(value, operands)
        if isinstance(value, torch.dtype):
            return {"dtype": DTYPES.get(value, str(value))}
        if isinstance(value, (list, tuple)):
            return [self.argument(entry, operands) for entry in value]
        return {"text": str(value)}

    def real(self, value: torch.SymFloat, operands: list[str]) -> Any:
        """A float that torch computes from sizes or from elements of tensors."""
        try:
            key = self.reals.key(value.node.expr, self.prefix, self.line)
        except sizes.Unknown:
            return {"text": str(value)}
        if key not in operands:
            operands.append(key)
        return {"%": key}

    def call(self, node: Node) -> None:
        """Describes one call of an operator, or notes why it cannot."""
        target = node.target
        self.line = line_of(node)
        value = node.meta.get("val")
        if target is operator.getitem:
            base, index = node.args
            if base in self.effects and index == 0:
                self.tokens.add(node)
                return
            if base in self.effects:
                index -= 1
            index = self.index_of(base, index)
            key = self.keys.get(base)
            if key is not None:
                self.keys[node] = key if index == 0 else f"{key}#{index}"
            return
        if node in self.effects:
            self.effect(node)
            return
        if target is torch.ops.higher_order.auto_functionalized_v2:
            wrapped = custom.Functional(node.args[0])
            self.outside(node, wrapped, node.kwargs, value)
            return
        if isinstance(target, Outside):
            self.outside(node, target, node.kwargs, value)
            return
        if control.is_known(target):
            self.control(node)
            return
        if target is torch.ops.higher_order.triton_kernel_wrapper_functional:
            self.launch(node)
            return
        if not isinstance(target, torch._ops.OpOverload):
            has_graphs = isinstance(target, torch._ops.HigherOrderOperator)
            if not has_graphs and not isinstance(value, (torch.Tensor, tuple, list)):
                return  # arithmetic on sizes, and what has no result
            self.missing.append(f"{versions.told(target, node.kwargs)}\n    {line_of(node)}")
            return
        name = name_of(target)
        if name == "aten._linalg_check_errors.default":
            self.check(node.args, node.kwargs)
            return
        if name.startswith("aten._assert_async."):
            if len(self.module_of) > 1:
                self.missing.append(f"{name} in a part of a graph\n    {line_of(node)}")
                return
            text = "Expected Tensor with single nonzero value, but got zero"
            self.assertions.append((node.args[0], str([*node.args, text][1])))
            return
        if value is None or isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat, int)):
            if name == "aten.copy_.default":
                pass
            elif value is None or name.startswith(("aten.sym_", "aten._assert")):
                return
            elif name == "aten._local_scalar_dense.default" and sizes.is_symbol(value):
                self.number(node, name, sizes.expression(value).name)
                return
            elif (
                name == "aten._local_scalar_dense.default"
                and isinstance(value, torch.SymFloat)
                and value.node.expr.is_Symbol
                and node.args[0] in self.keys
            ):
                self.reals.symbols[value.node.expr.name] = self.keys[node.args[0]]
                return
            else:
                self.missing.append(f"{name}\n    {line_of(node)}")
                return
        if name == "aten.copy_.default":
            self.mutation(node)
            return
        if name in memory.READS and self.view(node, memory.viewed(node)):
            return
        schema = target._schema.arguments
        self.calls(target, arguments_of(node, schema))
        self.nodes.append(self.entry(node, name, schema, value))
        self.keys[node] = self.prefix + node.name

    def calls(self, overload: Any, given: dict[str, Any]) -> None:
        self.overloads.add(overload)
        if is_by_torch(overload, given):
            self.by_torch.add(overload)

    def number(self, node: Node, name: str, symbol: str) -> None:
        """A tensor's element becomes the value of a symbol."""
        if len(self.module_of) == 1 and isinstance(node.args[0], Node):
            self.counted[symbol] = node.args[0]
        operands: list[str] = []
        args = {"self": self.argument(node.args[0], operands), "symbol": {"text": symbol}}
        self.nodes.append(
            {
                "name": self.prefix + node.name,
                "op": name,
                "line": line_of(node),
                "args": args,
                "operands": operands,
                "results": [],
            }
        )

    def effect(self, node: Node) -> None:
        """An operator that keeps its place among others: the first of its results
        is a token."""
        overload, given = node.args[1], node.args[2:]
        if not isinstance(overload, torch._ops.OpOverload):
            self.missing.append(f"{overload}\n    {line_of(node)}")
            return
        if name_of(overload) == "aten._linalg_check_errors.default":
            self.check(given, node.kwargs)
            return
        arguments = dict(zip((a.name for a in overload._schema.arguments), given))
        self.outside(node, overload, {**arguments, **node.kwargs}, node.meta["val"][1:], 1)

    def outside(
        self, node: Node, overload: Any, given: Any, value: Any, first: int = 0
    ) -> None:
        """A node that calls `overload` with arguments by name. `first`: of its
        results, that the overload gives."""
        operands: list[str] = []
        self.calls(overload, given)
        self.keys[node] = self.prefix + node.name
        self.nodes.append(
            {
                "name": self.keys[node],
                "op": name_of(overload),
                "line": line_of(node),
                "args": {key: self.argument(v, operands) for key, v in given.items()},
                "operands": operands,
                "results": self.results(node, value, first),
            }
        )

    def launch(self, node: Node) -> None:
        """A node that launches a Triton kernel."""
        try:
            given = triton_kernels.launch_of(node)
        except triton_kernels.Refused as error:
            name = versions.told(node.target, node.kwargs)
            self.missing.append(f"{name}: {error}\n    {line_of(node)}")
            return
        self.written[node] = given.written
        self.outside(node, given.kernel, given.arguments, [node.meta["val"][name] for name in given.written])
        self.nodes[-1]["on_device"] = True

    def control(self, node: Node) -> None:
        """A node that holds graphs."""
        try:
            given = control.parts(node)
            operands: list[str] = []
            args = {key: self.argument(v, operands) for key, v in given.arguments.items()}
            name = self.prefix + node.name
            graphs = [
                self.graph(attribute_of(self.module_of[-1], path), list(inputs), f"{name}/{index}/")
                for index, (path, inputs) in enumerate(given.graphs)
            ]
        except control.Refused as error:
            self.missing.append(f"{node.target}: {error}\n    {line_of(node)}")
            return
        self.nodes.append(
            {
                "name": name,
                "op": f"higher_order.{node.target}",
                "line": line_of(node),
                "args": args,
                "operands": operands,
                "results": self.results(node, node.meta["val"]),
                "graphs": graphs,
            }
        )
        self.keys[node] = name

    def graph(self, module: GraphModule, inputs: list[Any], prefix: str) -> dict[str, Any]:
        """A graph that a node holds; `inputs` are what it is called with."""
        around, self.prefix = (self.nodes, self.prefix), prefix
        self.nodes = []
        self.module_of.append(module)
        names, outputs = [], []
        places = iter(inputs)
        try:
            for node in module.graph.nodes:
                if node.op == "placeholder":
                    source = next(places)
                    value = node.meta.get("val", source)
                    if isinstance(value, torch.Tensor):
                        self.keys[node] = prefix + node.name
                        names.append(self.keys[node])
                    elif not isinstance(source, Node) and isinstance(value, torch.SymInt):
                        raise control.Refused("a number that changes inside")
                elif node.op == "call_function":
                    if node.target is torch.ops.aten.copy_.default:
                        raise control.Refused("a write to a tensor from around it")
                    self.call(node)
                elif node.op == "get_attr":
                    self.held(node, attribute_of(module, str(node.target)))
                elif node.op == "output":
                    given = node.args[0]
                    for entry in given if isinstance(given, (tuple, list)) else [given]:
                        if entry not in self.keys:
                            raise control.Refused("a result that is no tensor")
                        outputs.append(self.keys[entry])
            return {"inputs": names, "nodes": self.nodes, "outputs": outputs}
        finally:
            self.nodes, self.prefix = around
            self.module_of.pop()

    def check(self, args: Any, kwargs: Any) -> None:
        self.checks.append((args[0], str(args[1]), bool(kwargs["is_matrix"])))

    def entry(self, node: Node, name: str, schema: Any, value: Any) -> dict[str, Any]:
        """The description of a node: overload, arguments, results and the user's line."""
        operands: list[str] = []
        given = arguments_of(node, schema)
        order = self.storage(node, name, given)
        arguments = {key: self.argument(v, operands) for key, v in given.items()}
        made: dict[str, Any] = {
            "name": self.prefix + node.name,
            "op": name,
            "line": line_of(node),
            "args": arguments,
            "operands": operands,
            "results": self.results(node, value),
        }
        common = _common(given)
        if common:
            made["common"] = common
        if order is not None:
            arguments["storage"] = order
        return made

    def storage(self, node: Node, name: str, given: dict[str, Any]) -> list[int] | None:
        """The order of the dims of the memory that an as_strided walks over, whose
        arguments become those over that memory; None where it has no such order."""
        if name in memory.READS:
            root, fixed = memory.read_of(node)
            if not memory.is_whole(root.meta["val"]) or not self.stays(root, fixed):
                return None
            # What the trace makes of an argument that it changes begins nowhere.
            changed = memory.changed_arguments(root) if fixed else []
            if not all(self.stays(a, True) and a.meta["val"].storage_offset() == 0 for a in changed):
                return None
            given["storage_offset"], given["self"] = memory.offset_of(node), root
            return sizes.order_of(root.meta["val"].shape, root.meta["val"].stride())[0]
        if name != memory.WRITES:
            return None
        source = node.args[0]
        assert isinstance(source, Node)
        value = source.meta["val"]
        order, repeated = sizes.order_of(value.shape, value.stride())
        begin = value.storage_offset()
        if order is None or repeated or not isinstance(begin, int):
            return None
        if not (memory.is_whole(value) or memory.is_within(node)):
            return None
        root, _ = memory.root_of(source)
        if not self.stays(root, True):
            return None
        given["storage_offset"] = memory.offset_of(node) - begin
        return order

    def stays(self, root: Node, fixed: bool) -> bool:
        """Whether a storage begins where the trace says, `fixed`: that matters. An
        argument's is looked at in each call."""
        if root.op != "placeholder" or not self.is_called or not fixed:
            return True
        value = root.meta["val"]
        if len(self.module_of) > 1:
            return False
        if memory.is_saved(root):
            return memory.is_whole(value)
        begin = value.storage_offset()
        if isinstance(begin, int):
            self.begins[self.place_of(root)] = begin
        return isinstance(begin, int)

    def place_of(self, argument: Node) -> int:
        found = [n for n in self.module.graph.nodes if n.op == "placeholder"]
        return found.index(argument)

    def view(self, node: Node, value: Any) -> bool:
        """A part of the memory that an argument lies in is an input of its own: False
        where the node reads no argument of the call."""
        root, fixed = memory.read_of(node)
        if root.op != "placeholder" or not self.is_called or len(self.module_of) > 1:
            return False
        if memory.is_saved(root) or value.dtype not in DTYPES:
            return False
        used = set().union(*map(sizes.symbols, value.shape))
        if any(self.symbols.get(symbol, (0, -1))[1] < 0 for symbol in used):
            return False  # a program takes no input of a size that a number says
        index = self.place_of(root)
        start = 0 if fixed else root.meta["val"].storage_offset()
        try:
            begin = value.storage_offset() - start
            made = View(value, ("argument", index), begin, self.symbols, fixed)
        except sizes.Unknown:
            return False
        self.add_tensor(node, value, Input(argument=index, view=made))
        return True

    def results(
        self, node: Node, value: Any, first: int = 0
    ) -> list[dict[str, Any] | None]:
        """What torch says of each result; None for one that nobody reads."""
        values = value if isinstance(value, (tuple, list)) else [value]
        if len(values) > 1 or isinstance(value, (tuple, list)):
            used = {
                self.index_of(node, user.args[1]) - first
                for user in node.users
                if user.target is operator.getitem and user.users
            }
        else:
            used = {0}
        made: list[dict[str, Any] | None] = []
        for index, tensor in enumerate(values):
            if not isinstance(tensor, torch.Tensor):
                made.append(None)
                continue
            made.append(
                {
                    "dtype": DTYPES.get(tensor.dtype, str(tensor.dtype)),
                    "shape": [sizes.encoded(size) for size in tensor.shape],
                    "used": index in used,
                }
            )
        return made

    def index_of(self, node: Node, key: Any) -> int:
        return self.written[node].index(key) if node in self.written else key

    def mutation(self, node: Node) -> None:
        """Describes an `aten.copy_` into an input at the end of the graph."""
        target, source = node.args[0], node.args[1]
        assert isinstance(target, Node)
        if target.op != "placeholder" or not isinstance(source, Node):
            self.missing.append(f"aten.copy_.default\n    {line_of(node)}")
            return
        index = self.place_of(target)
        key = node.name
        operands = [self.keys[target], self.keys[source]]
        self.nodes.append(
            {
                "name": key,
                "op": "aten.copy.default",
                "line": line_of(node),
                "args": {"self": {"%": operands[0]}, "src": {"%": operands[1]}},
                "operands": operands,
                "results": self.results(node, target.meta["val"]),
            }
        )
        self.keys[node] = key
        node.meta.setdefault("val", target.meta["val"])
        self.mutations[index] = node


def refuse_device(value: torch.Tensor, where: str) -> None:
    if value.device.type not in ("cpu", "cuda"):
        raise UserError(
            f"{value.device.type.upper()} tensors are not taken, those of the CPU and of NVIDIA GPUs are",
            where=where,
            hint="torch.compile(model) for this device",
        )


def _is_written(node: Node) -> bool:
    return any(
        user.target is torch.ops.aten.copy_.default and user.args[0] is node
        for user in node.users
    )


def _common(arguments: dict[str, Any]) -> str:
    """The dtype that two operands are compared in."""
    other = "sorted_sequence" if "sorted_sequence" in arguments else "other"
    if "self" not in arguments or other not in arguments:
        return ""
    values = [
        value.meta.get("val") if isinstance(value, Node) else value
        for value in (arguments["self"], arguments[other])
    ]
    values = [
        1 if isinstance(v, torch.SymInt) else 1.0 if isinstance(v, torch.SymFloat) else v
        for v in values
    ]
    if not all(isinstance(v, (torch.Tensor, int, float)) for v in values):
        return ""
    return DTYPES.get(torch.result_type(*values), "")


def attribute_of(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module
