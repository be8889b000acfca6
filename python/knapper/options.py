"""The rows of the compiler's table of options (compiler/options/Options.def) as
Python takes them; a test compares the two."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from knapper.errors import WrongType, WrongValue

# Rows that `knapper.compile` has as arguments of its own.
ARGUMENTS = ("target", "dtype", "threads")


class CompileOptions(TypedDict, total=False):
    """Options of a compile by name; `knapper compile --help` says what each does.

    dim fixes symbolic sizes: {"batch": 1}, ["batch=1"] or "batch=1,seq=128".
    """

    isa: str | Sequence[str]
    allow_tf32: bool
    deterministic: bool
    float32_matmul: Literal["f32", "bf16x6", "bf16x3"]
    weights: Literal["", "f32", "int8", "int4"]
    weight_group: int
    weight_zero_points: bool
    dim: str | Mapping[str, int] | Sequence[str]
    records: str | os.PathLike[str]
    kernels: str | os.PathLike[str]
    vendor: str | Sequence[str]
    vendor_always: bool
    stop_after: str
    start_from: str
    model_format: Literal["", "onnx", "mlir", "torch", "stablehlo"]
    print_after: str
    dump_dir: str | os.PathLike[str]
    disable: str | Sequence[str]
    verify_each: bool
    devices: int
    keep_source: bool
    cache: bool
    verify_files: bool
    cache_dir: str | os.PathLike[str]
    cache_bytes: int


# Names that rows had before, which are still read.
FORMER = ("float32_products",)


class NoOptions(TypedDict):
    """None besides a function's own arguments: what is misspelt is told by
    `check_names`, and by type checkers."""


def check_names(
    options: Mapping[str, Any],
    function: str,
    own: Sequence[str],
    rows: type = CompileOptions,
) -> None:
    """Raises for an option that there is not, with the one that may be meant."""
    known = [*own, *rows.__annotations__]
    for name in options:
        if name in known or (rows is CompileOptions and name in FORMER):
            continue
        from difflib import get_close_matches  # slow to import

        near = get_close_matches(name, known, 1)
        raise WrongType(
            f"{function}: there is no option {name!r}"
            + (f", did you mean {near[0]!r}?" if near else "")
            + f"; there are: {', '.join(known)}",
            where=name,
            hint=f"{near[0]}=..." if near else f"help(knapper.{function})",
        )


def text_of(name: str, value: object) -> str:
    """An option's value as the library takes it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, Mapping) and name == "dim":
        for size, number in value.items():
            if "," in str(size):
                raise WrongValue(
                    f"dim: the size {size!r} has a comma in its name",
                    where="dim",
                    hint="rename it in the model",
                )
            _is_whole(f"dim: size {size!r}", number)
        return ",".join(f"{size}={number}" for size, number in value.items())
    if (
        isinstance(value, Sequence)
        and not isinstance(value, (bytes, bytearray))
        and all(isinstance(part, str) for part in value)
    ):
        return ",".join(value)
    if hasattr(value, "__index__"):
        return str(value.__index__())
    raise WrongType(
        f"option {name}: {value!r} is no value for it",
        where=name,
        hint='{"batch": 1} or "batch=1"' if name == "dim" else "a text, a number or a path",
    )


def _is_whole(what: str, number: object) -> None:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise WrongType(
            f"{what} is {number!r}, it must be a whole number",
            where="dim",
            hint='dim={"batch": 1}',
        )
