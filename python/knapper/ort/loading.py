"""From a session's arguments to a module."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Sequence
from typing import Any

import knapper
from knapper.arguments import TensorInfo
from knapper.errors import Error, UserError
from knapper.library import ARTEFACT
from knapper.module import Module
from knapper.ort import model_file, providers
from knapper.ort.errors import (
    InvalidArgument,
    InvalidGraph,
    NoSuchFile,
    NotImplemented,
    translated,
    with_hint,
)
from knapper.ort.initializers import edited
from knapper.ort.model_file import Dim, ModelFile, Value
from knapper.ort.options import SessionOptions
from knapper.ort.refusals import Refusal, check, refused
from knapper.ort.settings import DISABLED

# What the compiler says of valid models that it cannot take.
_LACKING = "needs what is not supported yet", "is a sequence or an optional"


def argument_refusals(rest: dict[str, Any]) -> list[Refusal]:
    """What is to say of the constructor's further arguments."""
    said = []
    for name, value in rest.items():
        if name == "enable_fallback" or not value:
            continue  # a run is never tried again on another provider
        what = f"InferenceSession({name}={value!r})"
        if name == "disabled_optimizers":
            instead = "knapper.compile(model, disable='pass,...') leaves passes of ours out"
            said.append(Refusal(what, instead, hint=True))
        elif name == "read_config_from_model":
            said.append(Refusal(what, "set the options in the program"))
        else:
            instead = "there is no such argument, and ONNX Runtime ignores it"
            said.append(Refusal(what, instead, hint=True))
    return said


def load(
    source: Any,
    options: SessionOptions,
    said: list[Refusal],
    gpu: bool | None,
    inputs: Collection[str] = (),
) -> tuple[Module, ModelFile | None, dict[str, int]]:
    """The module, what the file says (None for an artefact) and the sizes that
    the options fix.

    said: what is not honoured so far. gpu: run on an NVIDIA GPU if the model can
    (where it cannot, a warning says why); None: not said, which is the CPU for a
    model, and for an artefact what it has code for. inputs: initializers that are
    to be inputs.

    Raises TypeError for another kind of source; NoSuchFile, InvalidProtobuf,
    InvalidGraph, NotImplemented (with everything that is refused),
    InvalidArgument (a dim that there is not).
    """
    source = _plain(source)
    if isinstance(source, str):
        if not os.path.isfile(source):
            raise with_hint(
                NoSuchFile,
                f"Load model from {source} failed: File doesn't exist",
                "check the path",
                source,
            )
        if source.endswith(".ort"):
            said.append(Refusal(f"{source}: ORT's own format", "give the ONNX file"))
            check(said)
    spin = -1
    if options._entries.get("session.intra_op.allow_spinning") == "0":
        spin = 0
    threads = max(0, options.intra_op_num_threads)
    level = options.graph_optimization_level
    if _is_artefact(source):
        for given, what in (
            (options._dims or options._denotations, "free dimension overrides"),
            (options._initializers, "other initializers"),
        ):
            if given:
                instead = "give the ONNX file, or compile the artefact with them"
                said.append(Refusal(f"{what} with a compiled model", instead))
        if DISABLED[level]:
            what = f"{level.name} with a compiled model"
            said.append(Refusal(what, "it is compiled already", hint=True))
        check(said)
        try:
            module = knapper.load(
                source,
                threads=threads,
                spin_microseconds=spin,
                device="cpu" if gpu is False else None,
            )
        except Error as error:
            raise translated(error, InvalidGraph) from error
        return module, None, {}
    if any(map(refused, said)):
        check([*said, *_lacking(source)])
    if options._initializers or inputs:
        source = edited(source, options._initializers, inputs)
    file = model_file.read(source)
    dims = options._dims | _by_denotation(file, options._denotations)
    table: dict[str, Any] = {"threads": threads, "spin_microseconds": spin}
    if dims:
        table["dim"] = ",".join(f"{name}={size}" for name, size in dims.items())
    if options.use_deterministic_compute:
        table["deterministic"] = True
    if DISABLED[level]:
        table["disable"] = ",".join(DISABLED[level])
    check(said)
    try:
        module = _compiled(source, table, bool(gpu))
    except Error as error:
        raise translated(error, _kind(error, source, dims)) from error
    return module, file, dims


def _compiled(source: str | bytes, table: dict[str, Any], gpu: bool) -> Module:
    """The module; where the GPU's code cannot be made, the CPU's with a warning."""
    if gpu:
        try:
            return knapper.compile(source, target="cuda", **table)
        except UserError as error:
            warnings.warn(
                f"{providers.CUDA}: the model is compiled for the CPU instead: {error}",
                stacklevel=4,
            )
    return knapper.compile(source, **table)


def _plain(source: Any) -> str | bytes:
    """A path or bytes. Raises TypeError."""
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    if isinstance(source, (bytearray, memoryview)):
        source = bytes(source)
    elif hasattr(source, "SerializeToString"):
        source = source.SerializeToString()
    if not isinstance(source, (str, bytes)):
        raise TypeError(f"Unable to load from type '{type(source)}'")
    return source


def _lacking(source: str | bytes) -> list[Refusal]:
    """Operators of the model that there are not, beside other refusals."""
    try:
        missing = knapper.inspect(source)["unsupported"]
    except Error:
        return []  # a damaged model: the other refusals come first
    return [Refusal(f"operator {name}", "see docs/support.md") for name in missing]


def _is_artefact(source: str | bytes) -> bool:
    if isinstance(source, bytes):
        return source.startswith(ARTEFACT)
    with open(source, "rb") as file:
        return file.read(len(ARTEFACT)) == ARTEFACT


def _by_denotation(file: ModelFile, wanted: dict[str, int]) -> dict[str, int]:
    """Sizes by the dims' names."""
    dims: dict[str, int] = {}
    for denotation, size in wanted.items():
        found = [
            dim
            for value in file.inputs
            for dim, name in zip(value.dims or (), value.denotations)
            if name == denotation and not isinstance(dim, int)
        ]
        if not found or None in found:
            raise with_hint(
                InvalidArgument,
                f"dim denotation {denotation!r}: "
                + ("a dim that has it has no name" if found else "no input's dim has it"),
                "add_free_dimension_override_by_name; symbolic dims: "
                + (", ".join(sorted(file.symbols())) or "none"),
                denotation,
            )
        dims.update((dim, size) for dim in found)
    return dims


def _kind(error: Error, source: Any, dims: dict[str, int]) -> type[Error]:
    """What a UserError of the compiler is called in ONNX Runtime."""
    if not isinstance(error, UserError):
        return InvalidGraph
    if any(error.where == f"dim {name!r}" for name in dims):
        return InvalidArgument
    try:
        missing = knapper.inspect(source)["unsupported"]
    except Error:
        return InvalidGraph
    lacking = missing or any(text in str(error) for text in _LACKING)
    return NotImplemented if lacking else InvalidGraph


def shapes(
    infos: Sequence[TensorInfo],
    declared: list[Value] | None,
    file: ModelFile | None,
    dims: dict[str, int],
) -> list[list[Dim]]:
    """Shapes as ONNX Runtime tells them: symbols by the file's names, None for
    sizes without one. An artefact's are the compiler's."""
    if declared is None or file is None:
        return [list(info.shape) for info in infos]
    by_name = {value.name: value.dims for value in declared}
    known = file.symbols()
    result = []
    for info in infos:
        written = by_name.get(info.name)
        if written is None or len(written) != len(info.shape):
            written = [None] * len(info.shape)
        shape: list[Dim] = []
        for mine, text in zip(info.shape, written):
            if isinstance(mine, int):
                shape.append(mine)
            elif text is not None:
                shape.append(dims.get(text, text) if isinstance(text, str) else text)
            else:
                name = mine.strip("`")  # quoted where it is no identifier
                shape.append(name if name in known else None)
        result.append(shape)
    return result
