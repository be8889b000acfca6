"""The smallest function that fails as one does."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

from drawn.shrink import shrink
from random_functions.functions import Function, Input, bound, uses


def minimise(function: Function, fails: Callable[[Function], bool]) -> Function:
    """`fails` runs a function, in a process of its own where it may crash."""
    return shrink(function, _smaller, fails)


def _smaller(function: Function) -> Iterator[Function]:
    change = dataclasses.replace
    if len(function.bindings) > 1:
        for i in range(len(function.bindings)):
            yield change(function, bindings=[b for j, b in enumerate(function.bindings) if j != i])
    for simpler in ({"dynamic": False}, {"grad": False}, {"inference": False}):
        yield change(function, **simpler)
    if len(function.results) > 1:
        for i in range(len(function.results)):
            yield change(function, results=[r for j, r in enumerate(function.results) if j != i])
    names = {name for line in function.lines for name in bound(line)}
    for i in reversed(range(len(function.lines))):  # an earlier value is the result
        for name in bound(function.lines[i]):
            if function.results != [name] and len(function.lines) > i + 1:
                yield _pruned(change(function, lines=function.lines[: i + 1], results=[name]))
    for i in reversed(range(len(function.lines))):
        lines = function.lines[:i] + function.lines[i + 1 :]
        for name in bound(function.lines[i]) or [""]:
            # What the line made is another value.
            for other in sorted(uses(function.lines[i]) - {name}) if name else [""]:
                rest = [re.sub(rf"\b{name}\b", other, line) for line in lines] if name else lines
                results = [other if r == name else r for r in function.results]
                if all(r in names for r in results) or not name:
                    yield _pruned(change(function, lines=rest, results=results))
    for i in range(len(function.lines) - 1):
        for name in bound(function.lines[i]):
            try:
                yield _pruned(replaced(function, name))
            except Exception:
                continue
    for name, given in function.inputs.items():
        if given.layout != "dense":
            yield change(function, inputs={**function.inputs, name: change(given, layout="dense")})
        if given.values not in ("normal", "given"):
            yield change(function, inputs={**function.inputs, name: change(given, values="normal")})


def _pruned(function: Function) -> Function:
    """Without lines and inputs that nothing uses."""
    lines = list(function.lines)
    while True:
        used = set(function.results).union(*(uses(line.partition(" = ")[2] if bound(line) else line) for line in lines))
        kept = [line for line in lines if not bound(line) or any(name in used for name in bound(line))]
        if kept == lines:
            break
        lines = kept
    bases = {given.layout.partition(" of ")[2] for name, given in function.inputs.items() if name in used}
    inputs = {name: given for name, given in function.inputs.items() if name in used | bases}
    if not inputs:
        inputs = dict(list(function.inputs.items())[:1])
    return dataclasses.replace(function, lines=lines, inputs=inputs)


def replaced(function: Function, name: str) -> Function:
    """With a value as an input that holds it, at one binding."""
    import torch

    at = next(i for i, line in enumerate(function.lines) if name in bound(line))
    called = dataclasses.replace(function, lines=function.lines[: at + 1], results=[name], grad=False)
    with torch.no_grad():
        [value] = called.build()(*called.arguments(0))
    new = f"x{len(function.inputs)}"
    while new in function.inputs:
        new = f"x{int(new[1:]) + 1}"
    numbers: Any = value.double().reshape(-1).tolist() if value.is_floating_point() else value.reshape(-1).tolist()
    made = Input(list(value.shape), str(value.dtype).removeprefix("torch."), "dense", "given", 0, numbers)
    lines = [re.sub(rf"\b{name}\b", new, line) for i, line in enumerate(function.lines) if i != at]
    results = [r for r in function.results if r != name]
    if not results:
        raise ValueError("the result itself")
    return dataclasses.replace(function, inputs={**function.inputs, new: made}, lines=lines, results=results, bindings=function.bindings[:1])
