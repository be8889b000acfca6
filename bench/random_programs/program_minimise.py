"""The smallest program that fails as one does."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

import jax
import numpy as np

from drawn.shrink import shrink
from random_programs.program_data import Input, Program, bound, uses


def minimise(program: Program, fails: Callable[[Program], bool]) -> Program:
    """`fails` runs a program, in a process of its own where it may crash."""
    return shrink(program, _smaller, fails)


def _smaller(program: Program) -> Iterator[Program]:
    change = dataclasses.replace
    if program.transform != "none":
        for kind in ("none", "grad", "vmap"):
            if kind != program.transform:
                yield change(program, transform=kind, whole=program.whole if kind == "vmap" else [])
    if program.x64:
        yield change(program, x64=False)
    if len(program.results) > 1:
        for name in program.results:
            yield _pruned(change(program, results=[name]))
    names = [bound(line) for line in program.lines]
    for i, name in enumerate(names[:-1]):  # an earlier value is the result
        yield _pruned(change(program, lines=program.lines[: i + 1], results=[name]))
    for i, name in enumerate(names):
        lines = program.lines[:i] + program.lines[i + 1 :]
        for other in sorted(uses(program.lines[i])):  # what the line made is another value
            rest = [re.sub(rf"\b{name}\b", other, line) for line in lines]
            results = [other if r == name else r for r in program.results]
            if all(r in names for r in results):
                yield _pruned(change(program, lines=rest, results=results))
    if program.transform == "none":
        for name in names[:-1]:
            try:
                yield _pruned(replaced(program, name))
            except Exception:
                continue
    for name, given in program.inputs.items():
        if given.values not in ("normal", "given"):
            yield change(program, inputs={**program.inputs, name: change(given, values="normal")})


def _pruned(program: Program) -> Program:
    """Without lines and inputs that nothing uses."""
    lines = list(program.lines)
    while True:
        used = set(program.results).union(*(uses(line) for line in lines))
        kept = [line for line in lines if bound(line) in used]
        if kept == lines:
            break
        lines = kept
    inputs = {name: given for name, given in program.inputs.items() if name in used} or dict(list(program.inputs.items())[:1])
    whole = [name for name in program.whole if name in inputs]
    if len(whole) == len(inputs):
        whole = whole[1:]
    return dataclasses.replace(program, lines=lines, inputs=inputs, whole=whole)


def replaced(program: Program, name: str) -> Program:
    """With a value as an input that holds it, computed by JAX's CPU."""
    at = next(i for i, line in enumerate(program.lines) if bound(line) == name)
    called = dataclasses.replace(program, lines=program.lines[: at + 1], results=[name])
    with jax.enable_x64(program.x64):
        [value] = jax.jit(called.build())(*jax.device_put(called.arguments(), jax.devices("cpu")[0]))
    value = np.asarray(value)
    if value.dtype.kind == "c" or value.size > 400:
        raise ValueError("too large to write down")
    new = f"x{max(int(n[1:]) for n in program.inputs) + 1}"
    numbers = value.reshape(-1).tolist()
    made = Input(list(value.shape), value.dtype.name, "given", 0, numbers)
    lines = [re.sub(rf"\b{name}\b", new, line) for i, line in enumerate(program.lines) if i != at]
    if name in program.results:
        raise ValueError("a result")
    dtypes = {**program.dtypes, new: value.dtype.name}
    return dataclasses.replace(program, inputs={**program.inputs, new: made}, lines=lines, dtypes=dtypes)
