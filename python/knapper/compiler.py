"""Compiling models."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable
from typing import Any

from knapper import library, log
from knapper.callbacks import Callbacks
from knapper.cancellation import Cancellation
from knapper.errors import UserError
from knapper.library import (
    CCompileOptions,
    COption,
    check,
    encode_path,
    take_string,
)
from knapper.module import Module, load_options

Model = Any  # a path, bytes, or an object with SerializeToString (onnx.ModelProto)


def _request(
    model: Model, options: dict[str, object], keep: list[object]
) -> CCompileOptions:
    """The request's struct; what it points to is added to `keep`."""
    request = CCompileOptions()
    request.size = ctypes.sizeof(CCompileOptions)
    if isinstance(model, (str, os.PathLike)):
        request.model_path = encode_path(model)
    else:
        if hasattr(model, "SerializeToString"):
            try:
                model = model.SerializeToString()
            except ValueError as error:
                raise UserError(
                    f"the model cannot be passed in memory: {error}",
                    where="model",
                    hint="save it to a file and pass its path",
                ) from error
        if not isinstance(model, (bytes, bytearray, memoryview)):
            raise UserError(
                f"a model is a path, bytes or an onnx.ModelProto, not "
                f"{type(model).__name__}",
                where="model",
            )
        data = bytes(model)
        keep.append(data)
        request.model_bytes = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p)
        request.model_size = len(data)
    rows = (COption * max(1, len(options)))()
    for row, (key, value) in zip(rows, options.items()):
        text = str(int(value) if isinstance(value, bool) else value)
        row.key = key.replace("_", "-").encode()
        row.value = text.encode()
    keep.append(rows)
    request.options = rows
    request.num_options = len(options)
    return request


def compile(
    model: Model,
    *,
    target: str = "cpu",
    threads: int = 0,
    dtype: str | None = None,
    output: str | os.PathLike[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    spin_microseconds: int = -1,
    device: str | None = None,
    cancel: Cancellation | None = None,
    **options: object,
) -> Module:
    """Compiles a model and loads the result.

    model: the path of an ONNX file, its bytes, or an `onnx.ModelProto`. Only a
        path can have external data.
    target: what to generate code for: "cpu", "cuda", or "cpu,cuda" for one file
        that runs on both.
    threads: worker threads of the module that is returned; 0: one a core.
    dtype: "bf16" or "f16" converts a float32 model; None keeps it.
    output: also write the artefact there (a .knap file).
    spin_microseconds: how long idle workers spin before they sleep; -1: default.
    device: "cpu" or "cuda", what to run on of several targets; None: a GPU where
        one is found.
    progress: called as progress(phase, done, total) while it compiles. What it
        raises ends the compile and is raised here (so does Ctrl-C).
    cancel: ends the compile from another thread, with a UserError; cancelled too
        when `progress` raises.
    options: further rows of the options table (`knapper compile --help`), with
        underscores for dashes: `dump_dir="/tmp/dump"`.

    Raises UserError for a model that is damaged or needs what is not supported
    (all of it is listed), and for unknown options; DeviceError when the machine
    fails; InternalError for a defect.
    """
    lib = library.library()
    log.follow()
    keep: list[object] = []
    table: dict[str, object] = {"target": target}
    if dtype is not None:
        table["dtype"] = dtype
    table.update((k, v) for k, v in options.items() if v is not None)
    request = _request(model, table, keep)
    if output is not None:
        request.output_path = encode_path(output)

    callbacks = Callbacks(request, progress, cancel)
    handle = ctypes.c_void_p()
    error = lib.knapper_compile(
        ctypes.byref(request),
        load_options(threads, spin=spin_microseconds, device=device),
        ctypes.byref(handle),
    )
    callbacks.finish(error, handle)
    return Module._adopt(handle)


def inspect(model: Model, **options: object) -> dict[str, Any]:
    """What a model needs, without compiling it: signature, sizes, operators by
    name, opset and dtype, and which of them are not supported.

    Raises UserError for a damaged model.
    """
    keep: list[object] = []
    request = _request(model, options, keep)
    text = ctypes.c_void_p()
    check(
        library.library().knapper_inspect(ctypes.byref(request), ctypes.byref(text))
    )
    return json.loads(take_string(text))


def verify(model: Model, inputs: Any, **options: object) -> dict[str, Any]:
    """Compiles a model, runs it, and checks every kernel against a slow
    evaluation in float64 on the values that the kernel read: {"kernels":
    [{"origin", "hero", "error", "bound", "passed", "worst"}],
    "first_divergent": index or None}.

    inputs: as for `Module.run`. Raises as `compile` and a call do; a kernel that
    diverges is no error.
    """
    module = compile(model, **options)  # knows the order of the inputs
    values = module._bind_collection(inputs)
    prepared, held = module._prepare(values)
    keep: list[object] = [held]
    request = _request(model, options, keep)
    text = ctypes.c_void_p()
    check(
        library.library().knapper_verify(
            ctypes.byref(request), prepared.tensors, len(values), ctypes.byref(text)
        )
    )
    return json.loads(take_string(text))
