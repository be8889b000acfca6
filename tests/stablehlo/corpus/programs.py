"""What a program of the corpus is: StableHLO text, its arguments, how exact.

`register` puts a family's programs in; `everything` gives them all, in order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

import ml_dtypes
import numpy as np

NUMPY = {
    "i1": np.bool_, "i2": ml_dtypes.int2, "i4": ml_dtypes.int4, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "ui2": ml_dtypes.uint2, "ui4": ml_dtypes.uint4, "ui8": np.uint8, "ui16": np.uint16,
    "ui32": np.uint32, "ui64": np.uint64, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32,
    "f64": np.float64, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz, "f8E4M3": ml_dtypes.float8_e4m3, "f8E3M4": ml_dtypes.float8_e3m4,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu, "f4E2M1FN": ml_dtypes.float4_e2m1fn, "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN": ml_dtypes.float6_e3m2fn, "complex<f32>": np.complex64, "complex<f64>": np.complex128,
}  # fmt: skip
SIGNED = ("i2", "i4", "i8", "i16", "i32", "i64")
UNSIGNED = ("ui2", "ui4", "ui8", "ui16", "ui32", "ui64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("bf16", "f16", "f32", "f64")
SMALL_FLOATS = (
    "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ", "f8E4M3", "f8E3M4", "f8E8M0FNU",
    "f4E2M1FN", "f6E2M3FN", "f6E3M2FN",
)  # fmt: skip
# Without scales and elements of scaled tensors: these are moved and converted, nobody computes with them.
COMPUTED = tuple(each for each in SMALL_FLOATS if each not in ("f8E8M0FNU", "f4E2M1FN"))
COMPLEX = ("complex<f32>", "complex<f64>")
NUMBERS = INTEGERS + FLOATS
TYPES = ("i1", *NUMBERS, *COMPLEX, *SMALL_FLOATS)


def is_float(element: str) -> bool:
    return element in FLOATS or element in SMALL_FLOATS


def tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


@dataclasses.dataclass(frozen=True)
class Program:
    """`op` and `element` are its place in the table of support."""

    name: str
    op: str
    element: str
    text: str
    arguments: tuple[np.ndarray, ...]
    argument_types: tuple[str, ...]
    result_types: tuple[str, ...]
    ulps: float = 0  # of the result's type that the outputs may differ by
    absolute: float = 0
    expected: tuple[np.ndarray, ...] | None = None  # None: the interpreter says it


FAMILIES: list[Callable[[], Iterator[Program]]] = []


def register(family: Callable[[], Iterator[Program]]) -> Callable[[], Iterator[Program]]:
    FAMILIES.append(family)
    return family


def element_of(type: str) -> str:
    return type[len("tensor<") : -1].split("x", type.count("x"))[-1] if "complex" not in type else type[type.index("complex") : -1]


def build(
    name: str, op: str, element: str, arguments: Sequence[tuple[np.ndarray, str]], body: str, results: Sequence[str],
    *, ulps: float = 0, absolute: float = 0, expected: Sequence[np.ndarray] | None = None, functions: str = "",
) -> Program:  # fmt: skip
    """A program whose body reads %a0, %a1... and makes %r0, %r1...; an argument
    is an array and its element type."""
    types = [tensor(array.shape, of) for array, of in arguments]
    head = ", ".join(f"%a{i}: {type}" for i, type in enumerate(types))
    values = ", ".join(f"%r{i}" for i in range(len(results)))
    text = (
        f"module {{\n  func.func public @main({head}) -> ({', '.join(results)}) {{\n    {body}\n"
        f"    return {values} : {', '.join(results)}\n  }}\n{functions}}}\n"
    )
    return Program(
        name, op, element, text, tuple(array for array, _ in arguments), tuple(types), tuple(results), ulps, absolute,
        None if expected is None else tuple(expected),
    )  # fmt: skip


def everything() -> list[Program]:
    from corpus import contractions, elementwise, movement, quantised, random_bits, regions, scatters, windows  # noqa: F401

    programs = [program for family in FAMILIES for program in family()]
    names = [program.name for program in programs]
    assert len(set(names)) == len(names), "names repeat"
    return programs


# ----------------------------------------------------------------------------
# Values
# ----------------------------------------------------------------------------


def limits(element: str) -> tuple[int, int]:
    bits = int(element.lstrip("ui"))
    return (0, 2**bits - 1) if element.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def cast(values: np.ndarray, element: str) -> np.ndarray:
    """To an element type; what it cannot hold wraps, or becomes what it has."""
    with np.errstate(all="ignore"):
        if element in INTEGERS:
            low, high = limits(element)
            wide = np.array([(int(v) - low) % (high - low + 1) + low for v in values.ravel()], dtype=object)
            return wide.astype(np.uint64 if element == "ui64" else np.int64).astype(NUMPY[element]).reshape(values.shape)
        return values.astype(NUMPY[element])


def edges(element: str) -> np.ndarray:
    """Numbers at which ops of the type have rules of their own."""
    if element == "i1":
        return np.array([True, False])
    if element in INTEGERS:
        low, high = limits(element)
        values = {0, 1, low, high, low + 1, high - 1, 2, 3, 5, 7} | ({-1, -2, -3, -7} if low else set())
        return cast(np.array(sorted(v for v in values if low <= v <= high), dtype=object), element)
    if element in COMPLEX:
        parts = np.array([0.0, 1.0, -1.0, 0.5, -2.25, 3.5])
        return (parts[:, None] + 1j * parts[None, ::-1]).ravel().astype(NUMPY[element])
    finite = ml_dtypes.finfo(NUMPY[element])
    values = [
        np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0, 0.25, -0.75, 100.25, -7.0, 1e-3, 11.0,
        float(finite.max), float(finite.min), float(finite.tiny), -float(finite.tiny),
    ]  # fmt: skip
    array = np.array(values).astype(NUMPY[element])
    return array


def tame(element: str, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Finite numbers of moderate size, exact in few bits."""
    random = np.random.default_rng(seed + 1000 * len(shape) + math.prod(shape))
    if element == "i1":
        return random.integers(0, 2, shape).astype(np.bool_)
    if element in INTEGERS:
        low, high = limits(element)
        return cast(random.integers(max(low, -9), min(high, 9) + 1, shape).astype(object), element)
    if element in COMPLEX:
        return (random.integers(-8, 9, shape) / 4 + 1j * random.integers(-8, 9, shape) / 4).astype(NUMPY[element])
    return (random.integers(-8, 9, shape) / 4).astype(NUMPY[element])
