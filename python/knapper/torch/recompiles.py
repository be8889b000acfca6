"""What frozen=True forbids: compiling a function a second time.

Dynamo counts the compiles of a code object (`frame_compile_id`), which all modules
of a class share. Here the same function is the same code object with the same
parameters, so each of several layers has a first compile of its own. Modules of one
class without parameters are one function.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from knapper.errors import UserError
from knapper.torch import versions
from knapper.torch.nodes import line_of

_lock = threading.Lock()
# Of each code object, by Dynamo's number: the compile and its parameters.
_compiled: dict[int, list[tuple[int, list[weakref.ref[torch.Tensor]]]]] = {}


def _parameters(arguments: Sequence[Any]) -> list[torch.nn.Parameter]:
    return [a for a in arguments if isinstance(a, torch.nn.Parameter)]


def refuse_further(gm: GraphModule, arguments: Sequence[Any]) -> None:
    """UserError where Dynamo compiles a remembered function anew."""
    current = torch._guards.CompileContext.current_compile_id()
    if current is None or not current.frame_compile_id:
        return  # the first of the code
    given = _parameters(arguments)
    with _lock:
        before = list(_compiled.get(current.frame_id or 0, ()))
    for compile_id, references in before:
        known = [reference() for reference in references]
        same = len(known) == len(given) and all(
            a is b for a, b in zip(known, given, strict=True)
        )
        if not same or compile_id == current.frame_compile_id:
            continue
        calls = (line_of(node) for node in gm.graph.nodes if node.op == "call_function")
        where = next((line for line in calls if line), "")
        raise UserError(
            f"{where + ': ' if where else ''}frozen=True, and this call needs another compile: "
            f"{versions.recompile_reason() or 'torch gives no reason'}",
            where=where,
            hint="dynamic=True or torch._dynamo.mark_dynamic for sizes that change, "
            "torch._dynamo.reset() to begin anew",
        )


def remember(arguments: Sequence[Any]) -> None:
    """That the compile at hand has been made."""
    current = torch._guards.CompileContext.current_compile_id()
    if current is None:
        return
    entry = (current.frame_compile_id or 0, [weakref.ref(p) for p in _parameters(arguments)])
    with _lock:
        kept = _compiled.setdefault(current.frame_id or 0, [])
        if not current.frame_compile_id:
            kept.clear()  # of the code that had the number before a reset
        # Of modules that are gone.
        kept[:] = [e for e in kept if all(reference() is not None for reference in e[1])]
        kept.append(entry)
