"""Quantising models: integers for floats, with the accuracy that is left."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Unpack

from knapper import from_torch, library, log
from knapper.callbacks import Callbacks
from knapper.cancellation import Cancellation
from knapper.errors import UserError, WrongType, WrongValue
from knapper.library import (
    CQuantizeOptions,
    Sample,
    encode_path,
    take_string,
)
from knapper.loading import load_options
from knapper.module import Module
from knapper.options import CompileOptions, check_names
from knapper.request import Model, request_of

_OWN = (
    "output", "calibration", "range", "percentile", "activations", "keep",
    "weights_only", "group", "asymmetric", "target", "threads", "progress", "cancel",
)  # fmt: skip

Feed = Any  # a mapping of names to arrays, or a sequence of arrays


@dataclasses.dataclass(frozen=True)
class Quantized:
    """The result of `knapper.quantize`.

    module: the quantised model, loaded; None if an .onnx file was written.
    report: a mapping.
        `outputs`: each output's distance from float32. `relative_rms` is the root
            mean square of the error divided by that of the values.
        `layers`: the same for each layer, if it is the only quantised one
            (`alone`) and if all are (`together`).
        `kept`: the matmuls that stay float, each with the reason.
    """

    module: Module | None
    report: dict[str, Any]


def quantize(
    model: Model,
    output: str | os.PathLike[str] | None = None,
    *,
    calibration: Iterable[Feed] | None = None,
    range: str = "minmax",
    percentile: float = 99.99,
    activations: str = "u8",
    keep: Iterable[str] = (),
    weights_only: str | None = None,
    group: int = 64,
    asymmetric: bool = False,
    target: str = "cpu",
    threads: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
    cancel: Cancellation | None = None,
    **options: Unpack[CompileOptions],
) -> Quantized:
    """Quantises a model: static int8 with calibration data, or weights alone.

    model: as for `knapper.compile`.
    output: a file to write: an artefact (.knap), or a model with QuantizeLinear
        and DequantizeLinear (.onnx).
    calibration: inputs of runs, each a mapping of names to arrays or a sequence
        in the order of the signature. Static int8 takes the ranges of activations
        from them. With weights_only the accuracy is measured on them.
    range: the range of an activation that the integers cover: all numbers
        ("minmax"), `percentile` percent of them ("percentile"), or the range of
        the least square error ("error").
    activations: "u8", or "i8" around 0.
    keep: names of nodes, or of their results, that stay float.
    weights_only: "int8" or "int4": activations stay float32. `group` rows of a
        column have one scale and, if asymmetric, one zero point.
    threads: worker threads of the module. progress, cancel, target, options: as
        for `knapper.compile`. If the call ends early, a file that was complete
        before stays.

    Raises UserError for data that the model does not take or that is not finite,
    and what `knapper.compile` raises.
    """
    lib = library.library()
    log.follow()
    check_names(options, "quantize", _OWN)
    from_torch.refuse_module(model, "quantize")
    feeds = _feeds_of(calibration)
    held: list[object] = []
    table: dict[str, object] = {
        "target": target,
        "weight_group": group,
        "weight_zero_points": asymmetric,
    }
    table.update(options)
    request = request_of(model, table, held)
    if output is not None:
        request.output_path = encode_path(output, "output")

    callbacks = Callbacks(request, progress, cancel)
    borrowed: list[Module] = []
    alive: list[object] = []  # of the sample that is in use

    def sample(_user: Any, index: int, handle: int, tensors: Any) -> int:
        if not borrowed:
            borrowed.append(Module._borrow(handle))
        arguments = borrowed[0]._arguments
        try:
            values = arguments.bind_collection(feeds[index])
            prepared, keep_alive = arguments.prepare(values, cached=False)
        except UserError as error:
            message = f"sample {index}: {error}"
            raise type(error)(message, error.where, error.hint) from error
        alive[:] = [prepared, keep_alive]
        for i, view in enumerate(prepared.views):
            tensors[i] = view
        return 0

    names = [name.encode() for name in keep]
    kept = (ctypes.c_char_p * max(1, len(names)))(*names)
    how = CQuantizeOptions()
    how.size = ctypes.sizeof(CQuantizeOptions)
    how.weights_only = weights_only.encode() if weights_only is not None else None
    how.range = range.encode()
    how.percentile = percentile
    how.activations = activations.encode()
    how.keep = kept
    how.num_keep = len(names)
    how.num_samples = len(feeds)
    how.sample = Sample(callbacks.guard(sample, failed=1))
    handle = ctypes.c_void_p()
    text = ctypes.c_void_p()
    loads = output is None or not os.fspath(output).endswith(".onnx")
    error = lib.knapper_quantize(
        ctypes.byref(request),
        ctypes.byref(how),
        load_options(threads),
        ctypes.byref(handle) if loads else None,
        ctypes.byref(text),
    )
    found = take_string(text) if text else ""
    callbacks.finish(error, handle)
    return Quantized(Module._adopt(handle) if loads else None, json.loads(found))


def _feeds_of(calibration: Iterable[Feed] | None) -> list[Feed]:
    """All of them: the data is run through more than once."""
    if calibration is None:
        return []
    if isinstance(calibration, (str, bytes, os.PathLike, Mapping)):
        raise WrongType(
            f"calibration is an iterable of inputs, not {type(calibration).__name__}",
            where="calibration",
            hint="calibration=[{'x': array}, ...]",
        )
    feeds = list(calibration)
    if not feeds:
        raise WrongValue(
            "there is no calibration data",
            where="calibration",
            hint="give inputs that the model will meet in use",
        )
    return feeds
