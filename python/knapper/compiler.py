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

    model: one of
        - ONNX: a path, bytes, an `onnx.ModelProto`, or the result of
          `torch.onnx.export`. Only a path can have external data.
        - torch: an `ExportedProgram`, the path of a .pt2 file (see
          `knapper.torch.export`), or a `torch.nn.Module`, which torch exports to
          ONNX first.
        - StableHLO: the result of `jax.export.export(jitted)(*arguments)`, its
          `mlir_module_serialized`, or a file of that.
    target: the target to generate code for: "cpu", "cuda", or "cpu,cuda" for one
        file that runs on both. On a machine without a GPU a module for "cuda" can
        be saved and explained. Running it raises DeviceError.
    threads: worker threads of the returned module. 0: $KNAPPER_THREADS; if that
        is not set, one for each core that the process may use (see `load`).
    dtype: bf16 or f16 converts a float32 model. Any usual name is taken ("fp16",
        np.float16, torch.bfloat16). None: the model's own dtypes.
    output: a path (.knap) to which the artefact is written, too.
    progress: called as progress(phase, done, total) during the compile. If it
        raises, the compile ends and raises that exception. Ctrl-C does the same.
    spin_microseconds: how long idle workers spin before they sleep; -1: default.
    device: "cpu" or "cuda": the device that runs the module, if it has several
        targets. None: a GPU if there is one, else the CPU.
    cancel: ends the compile from another thread, with a UserError. It is
        cancelled too if `progress` raises.
    example_inputs: for a torch module: a tuple of its arguments, or a mapping of
        their names. The module is exported in evaluation mode.
    dynamic_shapes: for a torch module: the dims that calls decide, in the form of
        torch.onnx.export: {"x": {0: "batch"}}. None: the sizes of the examples.
    options: further rows of the options table, `knapper.options.CompileOptions`
        (`knapper compile --help` explains them), with underscores for dashes:
        `dim={"batch": 1}` fixes a size, `dump_dir="/tmp/dump"`.

    Raises UserError for a damaged model, for a model that needs operators that
    are not supported (the message lists all), and for unknown options;
    DeviceError if the machine fails; InternalError for a defect. An error also
    has Python's own class if one fits: ValueError, TypeError, FileNotFoundError,
    MemoryError.
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
    """Says what a model needs, without compiling it: signature, sizes, operators
    by name, opset and dtype, and which of these are not supported.

    Raises UserError for a damaged model.
    """
    return json.loads(_text_of("inspect", model, options))


def translate(model: Model, **options: Unpack[CompileOptions]) -> str:
    """Translates a model to portable StableHLO text, for other accelerators'
    compilers. A .knap file (or its bytes) is taken if it was compiled with
    `keep_source=True`. Every size must be a number (`dim="batch=1"`).

    Raises UserError that lists every op that StableHLO does not have.
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

    inputs: as for `Module.run`. target, dtype, options: as for `compile`. Raises
    what `compile` and a call raise. A kernel that diverges is not an error.
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
