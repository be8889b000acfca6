"""Nodes of torch's control flow: what they call their graphs with."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.fx import Node


class Refused(Exception):
    """What of a node is not taken."""


@dataclasses.dataclass
class Parts:
    """The arguments and subgraphs of a higher-order operator."""

    arguments: dict[str, Any]  # as the row reads them, tensors only
    # (attribute of the module, what the graph is called with) each
    graphs: list[tuple[str, list[Any]]]


def is_known(target: Any) -> bool:
    """Whether a node of it is described with its graphs."""
    known = (torch.ops.higher_order.cond, torch.ops.higher_order.while_loop, torch.ops.higher_order.scan)
    return any(target is op for op in known)


def parts(node: Node) -> Parts:
    """Of a node of a known target. Refused where something in it is not taken."""
    if node.target is torch.ops.higher_order.cond:
        chosen, yes, no, given = node.args
        if not (isinstance(chosen, Node) and isinstance(chosen.meta.get("val"), torch.Tensor)):
            raise Refused("a condition that is no tensor")
        arguments = {"pred": chosen, "operands": _tensors(given)}
        return Parts(arguments, [(_path(yes), list(given)), (_path(no), list(given))])
    if node.target is torch.ops.higher_order.while_loop:
        test, body, carried, rest = node.args
        if len(_tensors(carried)) != len(carried):
            raise Refused("a carried number, give a tensor of one element")
        every = [*carried, *rest]
        arguments = {"carried": list(carried), "rest": _tensors(rest)}
        # The condition twice: before the first iteration and after each.
        return Parts(arguments, [(_path(g), every) for g in (test, body, test)])
    combine, init, xs, rest = node.args
    for values in (init, xs):
        if len(_tensors(values)) != len(values):
            raise Refused("a carried number, give a tensor of one element")
    arguments = {"init": list(init), "xs": list(xs), "rest": _tensors(rest)}
    return Parts(arguments, [(_path(combine), [*init, *xs, *rest])])


def _path(graph: Any) -> str:
    return str(graph.target)


def _tensors(values: Any) -> list[Any]:
    return [v for v in values if isinstance(v, Node) and isinstance(v.meta.get("val"), torch.Tensor)]
