"""Nodes of a graph of ATen operators: their overloads, arguments and the user's
lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from knapper.torch import custom


def is_random(overload: Any, given: Mapping[str, Any]) -> bool:
    """Whether a call with these arguments, by name, draws from torch's generator:
    torch's attention without dropout does not."""
    if torch.Tag.nondeterministic_seeded not in overload.tags:
        return False
    name = name_of(overload)
    is_attention = name.startswith("aten.") and "attention" in name
    return not is_attention or given.get("dropout_p") != 0


def is_by_torch(overload: Any, given: Mapping[str, Any]) -> bool:
    """Whether torch computes the call whatever `fallback` says."""
    return is_random(overload, given) or custom.is_external(overload)


def line_of(node: Node) -> str:
    """Where the user's program made it: "file.py:12"."""
    trace = node.meta.get("stack_trace")
    if not trace:
        return ""
    best = ""
    for line in trace.splitlines():
        line = line.strip()
        if line.startswith('File "'):
            path, _, rest = line[6:].partition('"')
            number = rest.partition("line ")[2].partition(",")[0].strip()
            best = f"{path}:{number}"
    return best


def name_of(overload: Any) -> str:
    """"aten.add.Tensor"."""
    return str(overload)


def arguments_of(node: Node, schema: Any) -> dict[str, Any]:
    """A call's arguments by name, with the schema's defaults."""
    given: dict[str, Any] = {}
    for position, argument in enumerate(schema):
        if position < len(node.args) and not argument.kwarg_only:
            given[argument.name] = node.args[position]
        elif argument.name in node.kwargs:
            given[argument.name] = node.kwargs[argument.name]
        elif argument.has_default_value():
            given[argument.name] = argument.default_value
    return given
