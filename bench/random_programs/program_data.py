"""A random program of JAX as data: its lines, its inputs, how it is transformed and called."""

from __future__ import annotations

import dataclasses
import linecache
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from drawn.line_draw import LineDraw, Skip

FLOATS = ("float32", "bfloat16", "float16", "float64")
INTS = ("int32", "int8", "uint8", "int16", "uint32", "int64")
TRANSFORMS = ("none", "grad", "vmap", "jvp", "vmap of grad", "remat")
BATCH = 3
WIDER = {"float32": "float64", "bfloat16": "float64", "float16": "float64", "complex64": "complex128"}


@dataclasses.dataclass
class Input:
    """dims: of one example. values: what it holds; "given": the numbers of `given`."""

    dims: list[int]
    dtype: str
    values: str = "normal"
    seed: int = 0
    given: Any = None


@dataclasses.dataclass
class Program:
    """inputs: of the names x0, x1, ... dtypes: of every name, as the lines have it.
    lines: `v0 = ...` each. results: names. x64: with jax_enable_x64. transform: what
    is done with the function; of `vmap` all inputs but those of `whole` have a batch."""

    inputs: dict[str, Input]
    lines: list[str]
    results: list[str]
    dtypes: dict[str, str]
    x64: bool = False
    transform: str = "none"
    whole: list[str] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, record: dict[str, Any]) -> Program:
        inputs = {name: Input(**given) for name, given in record["inputs"].items()}
        return cls(**{**record, "inputs": inputs})

    def source(self) -> str:
        lines = self.lines + [f"return ({''.join(f'{name}, ' for name in self.results)})"]
        return f"def program({', '.join(self.inputs)}):\n" + "".join(f"    {line}\n" for line in lines)

    def differentiated(self) -> list[int]:
        """Places of the inputs that gradients are of."""
        return [i for i, given in enumerate(self.inputs.values()) if given.dtype in FLOATS]

    def build(self, moved: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """The function, transformed. With `moved` its floats are float64, and a line is
        `moved(function, result dtype, operand dtypes, place, *operands)`."""
        source, space = self.source(), {"jax": jax, "jnp": jnp, "lax": lax, "np": np}
        if moved is not None:
            source, space["moved"] = _wide(self), moved
        name = f"<random program {abs(hash(source))}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        exec(compile(source, name, "exec"), space)
        return _transformed(self, space["program"])

    def arguments(self, wide: bool = False) -> list[np.ndarray]:
        batched = self.transform.startswith("vmap")
        made = []
        for name, given in self.inputs.items():
            shape = [*([BATCH] if batched and name not in self.whole else []), *given.dims]
            value = array(given, shape)
            made.append(value.astype(WIDER.get(given.dtype, given.dtype)) if wide else value)
        return made


def _wide(program: Program) -> str:
    def widened(text: str) -> str:
        # What must keep its width says `jnp.dtype("float32")`.
        return re.sub(r"jnp\.(float32|bfloat16|float16|complex64)\b", lambda m: f"jnp.{WIDER[m[1]]}", text)

    lines = []
    for place, line in enumerate(program.lines):
        name, _, text = line.partition(" = ")
        # An operand that is read twice is read twice: each has roundings of its own.
        read: list[str] = []
        text = re.sub(r"\b[xv]\d+\b", lambda m: f"a{len(read)}" if read.append(m[0]) is None else "", widened(text))
        names = ", ".join(f"a{i + 1}" for i in range(len(read)))
        given = [program.dtypes[each] for each in read]
        lines.append(f'{name} = moved(lambda {names}: {text}, "{program.dtypes[name]}", {given}, {place}, {", ".join(read)})')
    return dataclasses.replace(program, lines=lines).source()


def _weighted(results: Any) -> Any:
    """One number, of what has a gradient."""
    floats = [r for r in results if jnp.issubdtype(r.dtype, jnp.floating)]
    # No two elements weigh the same.
    return sum(jnp.sum(r.astype(jnp.promote_types(r.dtype, jnp.float32)) * (1 + jnp.arange(r.size, dtype=jnp.float32).reshape(r.shape) % 7 / 8)) for r in floats)


def _transformed(program: Program, function: Callable[..., Any]) -> Callable[..., Any]:
    kind, places = program.transform, tuple(program.differentiated())
    axes = tuple(None if name in program.whole else 0 for name in program.inputs)
    if kind == "remat":
        function, kind = jax.checkpoint(function), "grad"
    if kind in ("grad", "vmap of grad"):
        inner = function

        def function(*arguments):  # type: ignore[misc]
            (_, results), slopes = jax.value_and_grad(lambda *a: (_weighted(r := inner(*a)), r), places, has_aux=True)(*arguments)
            return results, slopes

    elif kind == "jvp":
        inner = function

        def function(*arguments):  # type: ignore[misc]
            def of(*floats):
                full = list(arguments)
                for place, value in zip(places, floats):
                    full[place] = value
                return inner(*full)

            floats = tuple(jnp.asarray(arguments[place]) for place in places)
            return jax.jvp(of, floats, tuple(jnp.ones_like(value) for value in floats))

    return jax.vmap(function, in_axes=axes) if kind.startswith("vmap") else function


def array(given: Input, shape: list[int]) -> np.ndarray:
    dtype = jnp.dtype(given.dtype)
    if given.values == "given":
        return np.broadcast_to(np.asarray(given.given).astype(dtype).reshape(given.dims), shape).copy()
    generator = np.random.default_rng(given.seed)
    if dtype == bool:
        return generator.random(shape) < 0.5
    if jnp.issubdtype(dtype, jnp.integer):
        most = jnp.iinfo(dtype)
        if given.values == "special":
            pool = np.array([0, 1, 2, 3, 7, most.max, most.min, most.max - 1], dtype)
            return pool[generator.integers(0, len(pool), shape)]
        return generator.integers(0 if most.min == 0 or given.values in ("small", "positive") else -9, 10, shape).astype(dtype)
    values = _floats(given, shape, generator)
    if dtype.kind == "c":
        return (values + 1j * _floats(given, shape, generator)).astype(dtype)
    return values.astype(dtype)


def _floats(given: Input, shape: list[int], generator: np.random.Generator) -> np.ndarray:
    values = generator.standard_normal(shape)
    if given.values == "special":
        pool = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -1.5, np.inf, -np.inf, np.nan, 1e4, 1e-5])
        return np.where(generator.random(shape) < 0.4, pool[generator.integers(0, len(pool), shape)], values)
    if given.values == "small":
        return np.round(values * 2) / 2
    return np.abs(values) + 0.1 if given.values == "positive" else values


def uses(line: str) -> set[str]:
    """Names of values that a line reads."""
    return set(re.findall(r"\b[xv]\d+\b", line.partition(" = ")[2]))


def bound(line: str) -> str:
    return line.partition(" = ")[0]


def record(program: Program) -> dict[str, Any]:
    return dataclasses.asdict(program)


class Draw(LineDraw):
    """A program in the making; `values` has shape and dtype of each name."""

    def __init__(self, seed: str):
        super().__init__(seed)
        self.values: dict[str, jax.ShapeDtypeStruct] = {}
        self.x64 = False

    def kind(self, name: str) -> str:
        return kind(self.values[name])

    def float(self, rank: int = 0) -> str:
        return self.any(lambda t: kind(t) == "f" and len(t.shape) >= rank)

    def inexact(self, rank: int = 0) -> str:
        return self.any(lambda t: kind(t) in "fc" and len(t.shape) >= rank)

    def number(self, rank: int = 0) -> str:
        return self.any(lambda t: kind(t) in "fi" and len(t.shape) >= rank)

    def arithmetic(self, rank: int = 0) -> str:
        return self.any(lambda t: kind(t) in "fic" and len(t.shape) >= rank)

    def int(self, rank: int = 0) -> str:
        return self.any(lambda t: kind(t) == "i" and len(t.shape) >= rank)

    def bool(self) -> str:
        return self.any(lambda t: kind(t) == "b")

    def like(self, name: str, kinds: str = "fi") -> str:
        return self.broadcast(name, lambda t: kind(t) in kinds)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name].shape

    def dtype(self, name: str) -> str:
        return self.values[name].dtype.name

    def axis(self, name: str, filled: bool = False) -> int:
        axes = [i for i, n in enumerate(self.shape(name)) if n or not filled]
        if not axes:
            raise Skip
        at = self.one(axes)
        return at if self.random.random() < 0.5 else at - len(self.shape(name))

    def matrix(self, name: str) -> str:
        """A well conditioned square matrix made of a float's last dims."""
        n = self.shape(name)[-1]
        if len(self.shape(name)) < 2 or n < 1 or n > 12 or self.dtype(name) not in ("float32", "float64"):
            raise Skip
        tame = f"jnp.clip(jnp.nan_to_num({name}), -9, 9)"
        return f"(jnp.einsum('...ij,...ik->...jk', {tame}, {tame}) + {n} * jnp.eye({n}, dtype={name}.dtype))"

    def scalar(self) -> str:
        return self.one(["2", "-1", "3", "0.5", "-1.5", "0", "1", "2.25", "7"])

    def whole(self) -> str:
        return self.one(["2", "-1", "3", "0", "1", "7", "-5"])


def kind(value: Any) -> str:
    if value.dtype == bool:
        return "b"
    if jnp.issubdtype(value.dtype, jnp.integer):
        return "i"
    return "c" if jnp.issubdtype(value.dtype, jnp.complexfloating) else "f"
