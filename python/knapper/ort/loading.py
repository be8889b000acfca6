"""From a session's arguments to a module."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import knapper
from knapper.errors import Error, UserError
from knapper.module import Module, TensorInfo
from knapper.ort import model_file
from knapper.ort.errors import (
    InvalidArgument,
    InvalidGraph,
    NoSuchFile,
    NotImplemented,
    refuse,
    translated,
    with_hint,
)
from knapper.ort.model_file import Dim, ModelFile, Value
from knapper.ort.options import SessionOptions
from knapper.ort.settings import DISABLED

PROVIDER = "CPUExecutionProvider"
_LACKING = "needs what is not supported yet"  # how the compiler begins its list
_ARTEFACT = b"KNAPPER\0"


def check_arguments(rest: dict[str, Any]) -> None:
    """Refuses what the constructor takes beyond its named arguments."""
    for name, value in rest.items():
        if name == "enable_fallback" or not value:
            continue  # one provider: no fallback with and without
        if name not in ("disabled_optimizers", "read_config_from_model"):
            raise TypeError(f"InferenceSession has no argument {name!r}")
        raise refuse(
            f"InferenceSession({name}={value!r})",
            "knapper.compile(model, disable='pass,...') leaves passes of ours out"
            if name == "disabled_optimizers"
            else "set the options in the program",
        )


def check_providers(providers: Any, options: Any) -> None:
    """Checks the providers as ONNX Runtime does.

    Raises ValueError for other forms, NotImplemented where the CPU is not among
    them or is given options; warns of each that there is not.
    """
    if providers is None:
        if options and any(options):
            raise ValueError("'provider_options' need 'providers'.")
        return
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    if options is not None:
        if len(options) != len(providers):
            raise ValueError(
                "'providers' and 'provider_options' should be the same length if "
                "both are given."
            )
        if not all(isinstance(p, str) for p in providers):
            raise ValueError(
                "Only string values for 'providers' are supported if "
                "'provider_options' is given."
            )
        if not all(isinstance(o, dict) for o in options):
            raise ValueError("'provider_options' values must be dicts.")
        providers = list(zip(providers, options))
    names = []
    for entry in providers:
        name, settings = entry if isinstance(entry, tuple) else (entry, {})
        if not isinstance(name, str) or not isinstance(settings, dict):
            raise ValueError(
                "'providers' values must be either strings or (string, dict) tuples."
            )
        names.append(name)
        if name != PROVIDER:
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names."
                f"Available providers: '{PROVIDER}'",
                stacklevel=3,
            )
            continue
        for key, value in settings.items():
            if (str(key), str(value)) != ("use_arena", "1"):
                raise refuse(f"{PROVIDER} option {key!r} = {value!r}", "leave it out")
    if names and PROVIDER not in names:
        raise refuse(f"providers {names}", f"add {PROVIDER!r} to the list")


def load(
    source: Any, options: SessionOptions
) -> tuple[Module, ModelFile | None, dict[str, int]]:
    """The module, what the file says (None for an artefact) and the sizes that
    the options fix.

    Raises TypeError for another kind of source; NoSuchFile, InvalidProtobuf,
    InvalidGraph, NotImplemented, InvalidArgument (a dim that there is not).
    """
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    if isinstance(source, (bytearray, memoryview)):
        source = bytes(source)
    elif hasattr(source, "SerializeToString"):
        source = source.SerializeToString()
    if not isinstance(source, (str, bytes)):
        raise TypeError(f"Unable to load from type '{type(source)}'")
    if isinstance(source, str):
        if not os.path.isfile(source):
            raise with_hint(
                NoSuchFile,
                f"Load model from {source} failed: File doesn't exist",
                "check the path",
                source,
            )
        if source.endswith(".ort"):
            raise refuse(f"{source}: ORT's own format", "give the ONNX file")
    spin = -1
    if "session.intra_op.allow_spinning" in options._entries:
        if options._entries["session.intra_op.allow_spinning"] == "0":
            spin = 0
    threads = options.intra_op_num_threads
    if _is_artefact(source):
        if options._dims or options._denotations or DISABLED[options.graph_optimization_level]:
            raise refuse(
                "options of compiling with a compiled model",
                "give the ONNX file, or compile the artefact with these options",
            )
        try:
            return knapper.load(source, threads=threads, spin_microseconds=spin), None, {}
        except Error as error:
            raise translated(error, InvalidGraph) from error
    file = model_file.read(source)
    dims = options._dims | _by_denotation(file, options._denotations)
    table: dict[str, object] = {}
    if dims:
        table["dim"] = ",".join(f"{name}={size}" for name, size in dims.items())
    if DISABLED[options.graph_optimization_level]:
        table["disable"] = ",".join(DISABLED[options.graph_optimization_level])
    try:
        module = knapper.compile(
            source, threads=threads, spin_microseconds=spin, **table
        )
    except Error as error:
        raise translated(error, _kind(error, source, dims)) from error
    return module, file, dims


def _is_artefact(source: str | bytes) -> bool:
    if isinstance(source, bytes):
        return source.startswith(_ARTEFACT)
    with open(source, "rb") as file:
        return file.read(len(_ARTEFACT)) == _ARTEFACT


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
    return NotImplemented if missing or _LACKING in str(error) else InvalidGraph


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
