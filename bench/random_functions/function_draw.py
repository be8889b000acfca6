"""Function N of a seed."""

from __future__ import annotations

import warnings

import torch

from drawn.line_draw import Skip, first_of_attempts
from random_functions.functions import FLOATS, INTS, Draw, Function, Input, bound
from random_functions import rules, rules_more

RULES = [*rules.RULES, *rules_more.RULES]
NAMES = ("n", "m", "k")
LARGEST = 20000  # elements of a value
LAYOUTS = ("dense", "transposed", "gaps", "offset", "expanded", "channels last")


def function(seed: str, number: int) -> Function:
    return first_of_attempts(_attempt, seed, number)


def _inputs(d: Draw) -> dict[str, Input]:
    made: dict[str, Input] = {}
    for index in range(d.one([1, 2, 3, 4], [2, 4, 3, 1])):
        dims = [d.one([d.one(NAMES), d.random.randint(1, 5), 1, 2], [5, 2, 1, 1]) for _ in range(d.one(range(5), [1, 3, 5, 3, 2]))]
        earlier = [name for name in made if len(made[name].dims) > 0]
        if earlier and d.random.random() < 0.35:  # what broadcasts
            dims = list(made[d.one(earlier)].dims)
            if d.random.random() < 0.5:
                dims = [1 if d.random.random() < 0.3 else x for x in dims][d.random.randrange(len(dims)) :]
        dtype = d.one((*FLOATS, *INTS, "bool"), [14, 2, 2, 2, 4, 2, 1, 1, 1, 3])
        layout = d.one(LAYOUTS, [12, 2, 2, 1, 1, 1])
        if earlier and d.random.random() < 0.06:
            of = d.one(earlier)
            made[f"x{index}"] = Input(made[of].dims, made[of].dtype, f"{d.one(['same', 'view'])} of {of}")
            continue
        values = d.one(["normal", "small", "special", "positive"], [6, 3, 1, 2])
        made[f"x{index}"] = Input(dims, dtype, layout, values, d.random.randrange(1 << 30))
    return made


def _attempt(seed: str) -> Function:
    d = Draw(seed)
    inputs = _inputs(d)
    kind = d.one(["static", "automatic", "dynamic"], [5, 3, 2])
    d.symbolic = kind != "static"
    sizes = [{name: d.one([1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 70, 130, 0], [1, 3, 3, 3, 2, 2, 2, 1, 1, 1, 0.7, 0.5, 0.3]) for name in NAMES}]
    if d.symbolic:
        sizes = [{name: d.random.choice([2, 3, 4, 5, 7, 8, 16, 17, 33, 70]) for name in NAMES} for _ in range(2)]
        if d.random.random() < 0.3:
            sizes.append({name: d.random.choice([0, 1, 2, 6, 9, 40]) for name in NAMES})
    made = Function(inputs, [], [], sizes, {"static": False, "automatic": None, "dynamic": True}[kind])
    made.grad = d.random.random() < 0.3
    made.inference = not made.grad and d.random.random() < 0.2
    with warnings.catch_warnings(), torch.set_grad_enabled(made.grad):
        warnings.simplefilter("ignore")
        _grow(d, made)
        # Further sizes may have no meaning: these are dropped.
        called = made.build()
        for binding in range(len(sizes) - 1, 0, -1):
            try:
                called(*made.arguments(binding))
            except Exception:
                del sizes[binding]
    return made


def _grow(d: Draw, made: Function) -> None:
    wanted = d.one([1, 2, 3, 5, 8, 12, 20], [2, 3, 4, 4, 4, 2, 1])
    arguments = made.arguments(0)
    if any(t.numel() > LARGEST for t in arguments):
        raise Skip
    d.values = dict(zip(made.inputs, arguments))
    for _ in range(10 * wanted):
        if len(made.lines) >= wanted:
            break
        rule = d.one([r for r, _ in RULES], [w for _, w in RULES])
        try:
            text = rule(d)
        except Skip:
            continue
        _take(d, made, text)
    if not made.lines:
        raise Skip
    used = [name for line in made.lines for name in bound(line)]
    if not used:
        made.results = [d.one(made.inputs)]
        return
    made.results = sorted({used[-1], *d.random.sample(used, min(len(used), d.one([1, 2, 3])))})


def _take(d: Draw, made: Function, text: str) -> None:
    """Adds a line if it runs: those that fail may have written half of what they
    write, so everything runs again on fresh inputs."""
    name = f"v{len(d.values)}"
    line = text[1:] if text.startswith("!") else f"{name} = {text}"
    trial = Function(made.inputs, [*made.lines, line], [], made.bindings, made.dynamic, made.grad)
    values = [*d.values, *([] if text.startswith("!") else [name])]
    trial.results = values
    try:
        arguments = trial.arguments(0)
        results = trial.build()(*arguments)
    except Exception:
        return
    if not all(isinstance(value, torch.Tensor) for value in results):
        return
    new = results[-1]
    if any(value.numel() > LARGEST or value.is_complex() or value.dim() > 6 for value in results):
        return
    if new.is_floating_point() and new.numel() and d.random.random() < 0.8:
        finite = new.detach().isfinite().double().mean()
        magnitude = new.detach().double().nan_to_num(0, 0, 0).abs().max()
        if finite < 0.6 or magnitude > 1e6:
            return
    made.lines.append(line)
    d.values = dict(zip(values, results))
