"""Program N of a seed."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy as np

from drawn.line_draw import Skip, first_of_attempts
from random_programs import program_rules, program_rules_more
from random_programs.program_data import FLOATS, INTS, TRANSFORMS, Draw, Input, Program, bound, uses

RULES = [*program_rules.RULES, *program_rules_more.RULES]
SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 0)
LARGEST = 6000  # elements of a value


def program(seed: str, number: int) -> Program:
    return first_of_attempts(_attempt, seed, number)


def _inputs(d: Draw) -> dict[str, Input]:
    made: dict[str, Input] = {}
    for index in range(d.one([1, 2, 3, 4], [2, 4, 3, 1])):
        dims = [d.one(SIZES, [2, 3, 4, 3, 2, 2, 1, 1, 1, 1, 0.5, 0.4]) for _ in range(d.one(range(5), [1, 3, 6, 3, 1]))]
        if made and d.random.random() < 0.4:  # what broadcasts
            dims = [1 if d.random.random() < 0.2 else n for n in made[d.one(made)].dims]
            dims = dims[d.random.randrange(len(dims) + 1) :] if d.random.random() < 0.3 else dims
        kinds = (*FLOATS[:3], *INTS[:5], "bool", "complex64", *(("float64", "int64", "complex128") if d.x64 else ()))
        dtype = d.one(kinds, [14, 4, 4, 4, 1.5, 1.5, 1, 1, 2, 1.5, *((10, 2, 1) if d.x64 else ())])
        made[f"x{index}"] = Input(dims, dtype, d.one(["normal", "small", "special", "positive"], [6, 3, 2, 2]), d.random.randrange(1 << 30))
    return made


def _attempt(seed: str) -> Program:
    d = Draw(seed)
    d.x64 = d.random.random() < 0.15
    inputs = _inputs(d)
    kind = d.one(TRANSFORMS, [10, 4, 3, 1, 1, 0.5])
    whole = [name for name in list(inputs)[1:] if d.random.random() < 0.4] if kind.startswith("vmap") else []
    made = Program(inputs, [], [], {name: given.dtype for name, given in inputs.items()}, d.x64, kind, whole)
    d.values = {name: jax.ShapeDtypeStruct(tuple(given.dims), np.dtype(jax.numpy.dtype(given.dtype))) for name, given in inputs.items()}
    with warnings.catch_warnings(), jax.enable_x64(d.x64):
        warnings.simplefilter("ignore")
        _grow(d, made)
        arguments = made.arguments()
        if kind != "none" and (not made.differentiated() or not _traced(made, arguments)):
            made.transform, made.whole = "none", []
    return made


def _traced(made: Program, arguments: list[Any]) -> bool:
    try:
        jax.eval_shape(made.build(), *arguments)
        return True
    except Exception:
        return False


def _grow(d: Draw, made: Program) -> None:
    wanted = max(d.random.randint(2, 12) for _ in range(2))
    for _ in range(10 * wanted):
        if len(made.lines) >= wanted:
            break
        rule = d.one([r for r, _ in RULES], [w for _, w in RULES])
        try:
            _take(d, made, rule(d))
        except Skip:
            continue
    if len(made.lines) < 2:
        raise Skip
    used = [bound(line) for line in made.lines]
    unread = [name for name in used if not any(name in uses(line) for line in made.lines)]
    made.results = sorted({used[-1], *d.random.sample(unread, min(len(unread), 6)), *d.random.sample(used, d.one([0, 1]))})


def _take(d: Draw, made: Program, text: str) -> None:
    """Adds a line that JAX can trace."""
    name = f"v{len(made.lines)}"
    one = Program({n: made.inputs.get(n, Input([], "float32")) for n in d.values}, [f"{name} = {text}"], [name], {})
    try:
        [new] = jax.eval_shape(one.build(), *d.values.values())
    except Exception:
        return
    if new.size > LARGEST or len(new.shape) > 5 or new.dtype.name not in (*FLOATS, *INTS, "uint16", "uint64", "bool", "complex64", "complex128"):
        return
    made.lines.append(f"{name} = {text}")
    made.dtypes[name] = new.dtype.name
    d.values[name] = new
