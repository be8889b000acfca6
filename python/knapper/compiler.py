"""Compiling models."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable
from typing import Any, Unpack

from knapper import from_torch, library
from knapper.cancellation import Cancellation
from knapper.errors import WrongType, WrongValue
from knapper.library import check, take_string
from knapper.module import Module
from knapper.options import CompileOptions, check_names
from knapper.request import Compiler, Model, float_name, request_of

_OWN = (
    "target", "threads", "dtype", "output", "progress", "spin_microseconds", "device",
    "cancel", "example_inputs", "dynamic_shapes",
)  # fmt: skip


def compile(
    model: Model,
    *,
    target: str = "cpu",
    threads: int = 0,
    dtype: object = None,
    output: str | os.PathLike[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    spin_microseconds: int = -1,
    device: str | None = None,
    cancel: Cancellation | None = None,
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
    **options: Unpack[CompileOptions],
) -> Module:
    """Compiles a model and loads the result.

    model: the path of an ONNX file, its bytes, an `onnx.ModelProto`, what
        `torch.onnx.export` gives, an `ExportedProgram` or the path of a .pt2 file
        (see `knapper.torch.export`), or a `torch.nn.Module`, which torch exports
        to ONNX first. Only a path can have external
        data. Or a StableHLO program: what `jax.export.export(jitted)(*arguments)`
        gives, its `mlir_module_serialized`, or a file of that.
    target: what to generate code for: "cpu", "cuda", or "cpu,cuda" for one file
        that runs on both. Without a GPU here a module for "cuda" can be saved and
        explained, and what runs it raises DeviceError.
    threads: worker threads of the module that is returned; 0: $KNAPPER_THREADS,
        else one for each core that the process may use (see `load`).
    dtype: bf16 or f16 converts a float32 model, by any usual name ("fp16",
        np.float16, torch.bfloat16); None keeps it.
    output: also write the artefact there (a .knap file).
    progress: called as progress(phase, done, total) while it compiles. What it
        raises ends the compile and is raised here (so does Ctrl-C).
    spin_microseconds: how long idle workers spin before they sleep; -1: default.
    device: "cpu" or "cuda", what to run on of several targets; None: a GPU where
        one is found.
    cancel: ends the compile from another thread, with a UserError; cancelled too
        when `progress` raises.
    example_inputs: for a torch module: a tuple of its arguments, or a mapping of
        their names; the module is exported as for evaluation.
    dynamic_shapes: for a torch module: the dims that calls decide, as
        torch.onnx.export takes them: {"x": {0: "batch"}}; None: sizes are those
        of the examples.
    options: further rows of the options table, `knapper.options.CompileOptions`
        (`knapper compile --help` explains them), with underscores for dashes:
        `dim={"batch": 1}` fixes a size, `dump_dir="/tmp/dump"`.

    Raises UserError for a model that is damaged or needs what is not supported
    (all of it is listed), and for unknown options; DeviceError when the machine
    fails; InternalError for a defect. Errors are Python's own too where these
    fit: ValueError, TypeError, FileNotFoundError, MemoryError.
    """
    check_names(options, "compile", _OWN)
    compiler = Compiler(
        target=target, threads=threads, dtype=dtype, output=output, progress=progress,
        spin_microseconds=spin_microseconds, device=device, cancel=cancel, **options,
    )  # fmt: skip
    if isinstance(model, type):
        name = model.__name__
        raise WrongType(
            f"model: {name} is a class, not a model", where="model", hint=f"{name}(...)"
        )
    if from_torch.is_program(model):
        from_torch.refuse_examples(example_inputs, dynamic_shapes)
        from knapper.torch import export

        return export(
            model, target=target, threads=threads, dtype=dtype, output=output,
            progress=progress, spin_microseconds=spin_microseconds, device=device,
            cancel=cancel, **options,
        )  # fmt: skip
    if from_torch.is_module(model):
        model = from_torch.export(model, example_inputs, dynamic_shapes)
    elif example_inputs is not None or dynamic_shapes is not None:
        raise WrongValue(
            "example_inputs and dynamic_shapes are for a torch module, this is "
            f"{type(model).__name__}",
            where="example_inputs",
            hint='leave them out; dim={"batch": 1} fixes sizes of a model',
        )
    return compiler(model)


def _text_of(what: str, model: Model, options: Any) -> str:
    """What knapper_inspect or knapper_translate, by name, say of a model."""
    check_names(options, what, ())
    from_torch.refuse_module(model, what)
    keep: list[object] = []
    request = request_of(model, options, keep, compiled=what == "translate")
    text = ctypes.c_void_p()
    function = getattr(library.library(), f"knapper_{what}")
    check(function(ctypes.byref(request), ctypes.byref(text)))
    return take_string(text)


def inspect(model: Model, **options: Unpack[CompileOptions]) -> dict[str, Any]:
    """What a model needs, without compiling it: signature, sizes, operators by
    name, opset and dtype, and which of them are not supported.

    Raises UserError for a damaged model.
    """
    return json.loads(_text_of("inspect", model, options))


def translate(model: Model, **options: Unpack[CompileOptions]) -> str:
    """A model as portable StableHLO text, for other accelerators' compilers; of
    a .knap file or its bytes, the model that `keep_source=True` kept in it.
    Every size must be a number (`dim="batch=1"`).

    Raises UserError with everything that StableHLO has no spelling for.
    """
    return _text_of("translate", model, options)


def verify(
    model: Model,
    inputs: Any,
    *,
    target: str = "cpu",
    dtype: object = None,
    **options: Unpack[CompileOptions],
) -> dict[str, Any]:
    """Compiles a model, runs it, and checks every kernel against a slow
    evaluation in float64 on the values that the kernel read: {"kernels":
    [{"origin", "hero", "error", "bound", "passed", "worst"}],
    "first_divergent": index or None}.

    inputs: as for `Module.run`; target, dtype, options: as for `compile`. Raises
    as `compile` and a call do; a kernel that diverges is no error.
    """
    check_names(options, "verify", ("target", "dtype"))
    from_torch.refuse_module(model, "verify")
    # It knows the order of the inputs.
    module = compile(model, target=target, dtype=dtype, **options)
    values = module._arguments.bind_collection(inputs)
    prepared, held = module._arguments.prepare(values)
    keep: list[object] = [held]
    table = {"target": target, "dtype": float_name(dtype), **options}
    request = request_of(model, table, keep)
    text = ctypes.c_void_p()
    check(
        library.library().knapper_verify(
            ctypes.byref(request), prepared.tensors, len(values), ctypes.byref(text)
        )
    )
    return json.loads(take_string(text))
