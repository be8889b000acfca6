"""Nodes that a function of torch operators stands for: attention whose scores and masks
are graphs, determinants and solutions whose factors are read (factors.py). They are
traced in place, so that what they compute is compiled with what is around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.fx import GraphModule, Node

from knapper.torch import factors
from knapper.torch.decompositions import table


def _functions() -> dict[Any, Callable[..., Any]]:
    """Higher-order operator -> what it computes, as torch defines it."""
    known = torch.ops.higher_order
    dense = torch._C.DispatchKey.CompositeExplicitAutograd
    return {
        op: op.py_kernels[dense]
        for op in (known.flex_attention, known.flex_attention_backward)
        if dense in op.py_kernels
    }


def expand(module: GraphModule) -> GraphModule:
    """The module itself, changed where it has such nodes."""
    functions = _functions()
    graph = module.graph
    found = [
        (node, function)
        for node in graph.nodes
        if node.op == "call_function"
        and (function := functions.get(node.target) or factors.function_of(node)) is not None
    ]
    for node, function in found:
        _inline(module, node, function)
    if found:
        graph.eliminate_dead_code()
        module.recompile()
    return module


def _inline(module: GraphModule, node: Node, function: Callable[..., Any]) -> None:
    from torch._guards import detect_fake_mode
    from torch.fx.experimental.proxy_tensor import make_fx

    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    places, values = [], []
    for index, leaf in enumerate(leaves):
        if not isinstance(leaf, Node):
            continue
        if leaf.op == "get_attr" and isinstance(getattr(module, str(leaf.target), None), GraphModule):
            leaves[index] = getattr(module, str(leaf.target))
        else:
            places.append((index, leaf))
            values.append(leaf.meta["val"])

    def call(*given: Any) -> Any:
        filled = list(leaves)
        for (index, _), value in zip(places, given):
            filled[index] = value
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return function(*args, **kwargs)

    mode = detect_fake_mode(values)
    assert mode is not None
    with mode, torch.no_grad():
        pure = torch.func.functionalize(call, remove="mutations")
        traced = make_fx(pure, decomposition_table=table())(*values)
    known: dict[Node, Any] = {}
    sources = iter(places)
    with module.graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "placeholder":
                known[inner] = next(sources)[1]
            elif inner.op == "output":
                _replace(node, pytree.tree_map_only(Node, known.__getitem__, inner.args[0]))
            else:
                made = module.graph.node_copy(inner, known.__getitem__)
                if inner.op == "get_attr":
                    made.target = f"_expanded_{made.name}"
                    setattr(module, made.target, getattr(traced, str(inner.target)))
                for key in ("stack_trace", "nn_module_stack"):
                    if key in node.meta:
                        made.meta[key] = node.meta[key]
                known[inner] = made
    module.graph.erase_node(node)


def _replace(node: Node, results: Any) -> None:
    """`results` in place of what is read of `node`."""
    import operator

    for user in list(node.users):
        assert user.target is operator.getitem
        result = results[user.args[1]]
        if isinstance(result, Node):
            result.meta["val"] = user.meta["val"]  # with the strides that torch claims
            user.replace_all_uses_with(result)
        elif isinstance(result, (tuple, list)):
            _replace(user, result)
        elif user.users:
            for reader in list(user.users):
                reader.args = pytree.tree_map(lambda x: result if x is user else x, reader.args)
        node.graph.erase_node(user)
