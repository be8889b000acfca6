"""Whether two platforms' results are the same program's, as far as rounding goes.

Where they differ, the program runs in float64 on JAX's CPU, exactly and with every value moved, where it is
made and where it is read, by a rounding of the dtype that the program has there; so are the values of operations inside
of a line (the variance in a norm). An element is wrong that is further from the exact one than a few times what
rounding moves it and JAX's own error there, jitted or an operation after the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from random_programs.program_data import Program

UNITS = {"float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10, "float64": 2.0**-52, "complex64": 2.0**-23, "complex128": 2.0**-52}
# XLA's CPU takes numbers below for zero; of float16 they are numbers like others.
LEAST = {"float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-24, "float64": 2.0**-1022, "complex64": 2.0**-126, "complex128": 2.0**-1022}
MOST = {"float32": 3.4028235e38, "float16": 65504.0, "bfloat16": 3.3895314e38}
QUICK = 8  # roundings that need no proof
MOVES = 4  # how often rounding's largest move
OTHERS = 2  # how often JAX's own error
INPUT = {"float16": 0.5, "bfloat16": 0.5}  # inputs are about one: what cancels inside of a line keeps a rounding of theirs


def leaves(results: Any) -> list[np.ndarray]:
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(results)]
    return [np.zeros(leaf.shape, bool) if leaf.dtype == jax.dtypes.float0 else leaf for leaf in arrays]  # of integers' slopes


def wide(value: np.ndarray) -> np.ndarray:
    if value.dtype.kind == "c":
        return value.astype(np.complex128)
    return value.astype(np.float64) if jnp.issubdtype(value.dtype, jnp.floating) else value


def _apart(mine: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Distance of each element; infinite where one is not finite and the other is something else."""
    if mine.dtype.kind not in "fc" or other.dtype.kind not in "fc":
        return np.where(mine == other, 0.0, np.inf)
    with np.errstate(all="ignore"):
        off = np.abs(mine - other)
        finite = np.isfinite(mine) & np.isfinite(other)
        same = (mine == other) | (np.isnan(mine) & np.isnan(other))
        if mine.dtype.kind == "c":  # which part is not finite is nobody's promise
            same |= ~np.isfinite(mine) & ~np.isfinite(other)
        return np.where(same, 0.0, np.where(finite, off, np.inf))


def unequal(mine: list[np.ndarray], other: list[np.ndarray]) -> list[np.ndarray | None]:
    """Elements of each leaf that a few roundings do not explain; None: nothing fits."""
    found: list[np.ndarray | None] = []
    for a, b in zip(mine, other):
        if a.shape != b.shape or a.dtype != b.dtype:
            found.append(None)
        elif a.dtype.name in UNITS:
            with np.errstate(all="ignore"):
                limit = np.nan_to_num(QUICK * UNITS[a.dtype.name] * np.abs(wide(b)), nan=0, posinf=0, neginf=0) + QUICK * LEAST[a.dtype.name]
            found.append(_apart(wide(a), wide(b)) > limit)
        else:
            found.append(np.asarray(a != b))
    return found


def _signs(value: Any, number: Any, place: int) -> Any:
    """1 or -1 for each element."""
    mixed = (jnp.arange(value.size, dtype=jnp.uint32) + jnp.uint32(place * 7919 + 1) + number * jnp.uint32(104729)) * jnp.uint32(2654435761)
    mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(2246822519)
    return jnp.where((mixed ^ (mixed >> 13)) & 64 != 0, 1.0, -1.0).reshape(value.shape)


@jax.custom_jvp
def _moved(value: Any, factor: Any, slope: Any) -> Any:
    """Tangents and cotangents are rounded on their own."""
    return value * factor


_moved.defjvp(lambda given, tangents: (_moved(*given), tangents[0] * given[2]))


def _inside(jaxpr: Any, constants: Any, given: Any, move: Callable[[Any, int], Any]) -> list[Any]:
    """The results of a jaxpr with every operation's moved; calls are gone through."""
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *given]))
    for place, equation in enumerate(jaxpr.eqns):
        operands = [each.val if hasattr(each, "val") else known[each] for each in equation.invars]
        if equation.primitive.name in ("jit", "pjit"):
            inner = equation.params["jaxpr"]
            results = _inside(inner.jaxpr, inner.consts, operands, lambda value, at, place=place: move(value, 31 * place + at))
        else:
            parameters = equation.primitive.get_bind_params(equation.params)
            functions, parameters = parameters if isinstance(parameters, tuple) else ((), parameters)  # by JAX's version
            results = equation.primitive.bind(*functions, *operands, **parameters)
            results = results if equation.primitive.multiple_results else [results]
            results = [move(value, place) for value in results]
        known.update(zip(equation.outvars, results))
    return [each.val if hasattr(each, "val") else known[each] for each in jaxpr.outvars]


class Exact:
    """The program in float64, with its values moved by roundings: operands where they are read,
    and what each operation inside of a line gives."""

    def __init__(self, program: Program):
        self.program = program
        self.device = jax.devices("cpu")[0]
        seed: list[Any] = []

        def move(value: Any, dtype: str, place: int) -> Any:
            if dtype not in UNITS or not jnp.issubdtype(jnp.asarray(value).dtype, jnp.inexact):
                return value
            value = jnp.asarray(value)
            number, units = seed
            signs = [_signs(value, number, 2 * place + i) * units for i in range(2)]
            factor, slope = ((1 + sign * UNITS[dtype] / 2).astype(value.dtype) for sign in signs)
            value = _moved(value, factor, slope) + (signs[0] * LEAST[dtype]).astype(value.dtype)
            if dtype in MOST and not jnp.issubdtype(value.dtype, jnp.complexfloating):  # overflows in some runs
                over = (jnp.abs(value) > MOST[dtype]) & (number % 2 == 1) & (units > 0)
                value = jnp.where(over, jnp.sign(value) * jnp.inf, value)
            return value

        def line(function: Any, dtype: str, dtypes: list[str], place: int, *operands: Any) -> Any:
            first = 1000 * place
            operands = tuple(move(value, each, first + i) for i, (value, each) in enumerate(zip(operands, dtypes)))
            coarsest = max((each for each in (dtype, *dtypes) if each in UNITS), key=UNITS.__getitem__, default=dtype)
            jaxpr = jax.make_jaxpr(function)(*operands)
            [result] = _inside(jaxpr.jaxpr, jaxpr.consts, operands, lambda value, at: move(value, coarsest, first + 100 + at))
            return move(result, dtype, first + 99)

        function = program.build(line)

        def called(number: Any, units: Any, *arguments: Any) -> Any:
            seed[:] = [number, units]
            return function(*arguments)

        self.called = jax.jit(called)

    def run(self, number: int, units: float) -> list[np.ndarray]:
        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arguments = jax.device_put([np.uint32(number), np.float64(units), *self.program.arguments(wide=True)], self.device)
            return leaves(self.called(*arguments))


def wrong(program: Program, mine: list[np.ndarray], other: list[np.ndarray]) -> str:
    """What is wrong; "" where rounding explains it."""
    return judged(program, mine, other)["why"]


def judged(program: Program, mine: list[np.ndarray], other: list[np.ndarray]) -> dict[str, Any]:
    """{"why"}: what is wrong, or "". Where float64 said it also "ratio": our error in JAX's, of the worst result."""
    if len(mine) != len(other):
        return {"why": f"{len(mine)} results for {len(other)}"}
    found = unequal(mine, other)
    for place, bad in enumerate(found):
        if bad is None:
            return {"why": f"result {place} is {mine[place].dtype} {mine[place].shape} for {other[place].dtype} {other[place].shape}"}
    if not any(bad is not None and bad.any() for bad in found):
        return {"why": ""}
    try:
        exact = Exact(program)
        centre = exact.run(0, 0.0)
    except Exception as error:
        return {"why": _told(found, mine, other, None) + f"; no float64: {type(error).__name__} {str(error)[:80]}"}
    answer = {"why": "", "ratio": max(map(_ratio, mine, other, centre), default=1.0)}
    moved = [np.zeros(leaf.shape) for leaf in centre]
    for units, runs in ((1.0, 12), (2.0, 24)):
        for number in range(1, runs + 1):
            again = exact.run(number, units)
            moved = [np.maximum(old, _apart(wide(a), wide(b))) if a.shape == b.shape else old + np.inf for old, a, b in zip(moved, again, centre)]
        left = [_beyond(*each) for each in zip(found, mine, other, other, centre, moved)]
        if not any(each.any() for each in left):
            return answer
    left = [_beyond(*each) for each in zip(found, mine, other, one_by_one(program, other), centre, moved)]
    return answer | {"why": _told(left, mine, other, centre) if any(each.any() for each in left) else ""}


def _ratio(mine: np.ndarray, other: np.ndarray, exact: np.ndarray) -> float:
    """Of the root mean squares, with a rounding of the largest number added to JAX's."""
    if mine.dtype.name not in UNITS or exact.shape != mine.shape or not mine.size:
        return 1.0
    ours, theirs = _apart(wide(mine), wide(exact)), _apart(wide(other), wide(exact))
    good = np.isfinite(ours) & np.isfinite(theirs) & np.isfinite(exact)
    if not good.any():
        return 1.0
    least = UNITS[mine.dtype.name] * np.abs(exact[good]).max() + LEAST[mine.dtype.name]
    return float(np.sqrt(np.mean(ours[good] ** 2)) / (np.sqrt(np.mean(theirs[good] ** 2)) + least))


def one_by_one(program: Program, otherwise: list[np.ndarray]) -> list[np.ndarray]:
    """JAX's results with every operation rounded; `otherwise` where it cannot say."""
    try:
        with jax.enable_x64(program.x64), jax.disable_jit(), jax.default_device(jax.devices("cpu")[0]):
            given = leaves(program.build()(*[jnp.asarray(value) for value in program.arguments()]))
    except Exception:
        return otherwise
    return given if [leaf.shape for leaf in given] == [leaf.shape for leaf in otherwise] else otherwise


def _beyond(bad: Any, mine: np.ndarray, other: np.ndarray, rounded: np.ndarray, exact: np.ndarray, moved: np.ndarray) -> np.ndarray:
    if exact.shape != mine.shape:
        return bad
    if mine.dtype.name not in UNITS:
        as_exact = mine == exact.astype(mine.dtype)
        return bad & (moved == 0) & ~as_exact & (mine != rounded)
    unit, least = UNITS[mine.dtype.name], LEAST[mine.dtype.name]
    a, b, c, d = wide(mine), wide(other), wide(exact), wide(rounded)
    with np.errstate(all="ignore"):
        c = np.where(np.abs(c) > MOST.get(mine.dtype.name, np.inf), np.sign(c) * np.inf, c) if c.dtype.kind == "f" else c
        theirs, theirs_rounded = _apart(b, c), _apart(d, c)
        usual = np.sqrt(np.mean(np.where(np.isfinite(theirs_rounded), theirs_rounded, 0) ** 2)) + unit * np.abs(c[np.isfinite(c)]).max(initial=INPUT.get(mine.dtype.name, 2.0**-6))
        limit = MOVES * moved + OTHERS * (theirs + theirs_rounded + usual) + QUICK * unit * np.where(np.isfinite(c), np.abs(c), 0) + QUICK * least
        ours = _apart(a, c)
        # Where JAX gives no number and float64 does, infinity and NaN are as good.
        return bad & ~(ours <= limit)


def _told(left: Any, mine: list[np.ndarray], other: list[np.ndarray], exact: list[np.ndarray] | None) -> str:
    place = next(i for i, each in enumerate(left) if each.any())
    at = tuple(np.argwhere(left[place])[0]) if left[place].ndim else ()
    text = f"result {place} {mine[place].dtype}{list(mine[place].shape)} at {[int(i) for i in at]}: {mine[place][at]} for JAX's {other[place][at]}"
    if exact is not None and exact[place].shape == mine[place].shape:
        text += f", exactly {exact[place][at]}"
    return f"{text}; {int(left[place].sum())} of {left[place].size}"
