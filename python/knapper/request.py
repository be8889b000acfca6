"""A model and its options as the C API takes them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from knapper import dtypes, from_jax, from_torch, library, log
from knapper.callbacks import Callbacks
from knapper.cancellation import Cancellation
from knapper.errors import WrongType, WrongValue
from knapper.library import ARTEFACT, CCompileOptions, COption, encode_path
from knapper.loading import load_options
from knapper.module import Module
from knapper.options import CompileOptions, check_names, text_of

# A path, bytes, an object with SerializeToString (onnx.ModelProto) or what
# torch.onnx.export and jax.export give.
Model = Any

_OWN = (
    "target", "threads", "dtype", "output", "progress", "spin_microseconds", "device",
    "cancel",
)  # fmt: skip


def _wrong_model(name: str, hint: str) -> WrongValue:
    return WrongValue(
        f"model: {name} is a compiled artefact, not a model", where="model", hint=hint
    )


def _set_model(
    request: CCompileOptions, model: Model, keep: list[object], compiled: bool
) -> None:
    """The request's model, by path or by bytes; `compiled`: or an artefact."""
    if from_torch.is_onnx_program(model):
        import tempfile  # slow to import

        folder = tempfile.TemporaryDirectory(prefix="knapper-")
        keep.append(folder)
        model = from_torch.save(model, folder.name, "model")
    elif from_jax.is_exported(model):
        model = from_jax.bytecode(model)
    if isinstance(model, (str, os.PathLike)):
        path = encode_path(model, "model")
        if path.endswith(b".knap") and not compiled:
            name = os.fsdecode(path)
            raise _wrong_model(repr(name), f"knapper.load({name!r})")
        request.model_path = path
        return
    if hasattr(model, "SerializeToString"):
        try:
            model = model.SerializeToString()
        except ValueError as error:
            raise WrongValue(
                f"model: it cannot be passed in memory: {error}",
                where="model",
                hint="save it to a file and pass its path",
            ) from error
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise WrongType(
            f"model: a model is a path, bytes, an onnx.ModelProto or what "
            f"torch.onnx.export or jax.export gives, not {type(model).__name__}",
            where="model",
            hint="knapper.compile('model.onnx')",
        )
    data = bytes(model)
    if data.startswith(ARTEFACT) and not compiled:
        raise _wrong_model("this", "knapper.load(data)")
    keep.append(data)
    request.model_bytes = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p)
    request.model_size = len(data)


def request_of(
    model: Model,
    options: Mapping[str, object],
    keep: list[object],
    compiled: bool = False,
) -> CCompileOptions:
    """The request's struct; what it points to is added to `keep`."""
    request = CCompileOptions()
    request.size = ctypes.sizeof(CCompileOptions)
    _set_model(request, model, keep, compiled)
    given = {key: value for key, value in options.items() if value is not None}
    rows = (COption * max(1, len(given)))()
    for row, (key, value) in zip(rows, given.items()):
        row.key = key.replace("_", "-").encode()
        row.value = text_of(key, value).encode()
    keep.append(rows)
    request.options = rows
    request.num_options = len(given)
    return request


def float_name(dtype: object) -> str | None:
    """The dtype to convert to, of those that there are."""
    if dtype is None or dtype == "":
        return None
    name = dtypes.name_of(dtype)
    if name not in ("f32", "bf16", "f16"):
        raise WrongValue(
            f"dtype: a float32 model is not converted to {name}",
            where="dtype",
            hint='"bf16", "f16", or None to keep it; weights="int8" for integers',
        )
    return name


class Compiler:
    """A compile's arguments (see `knapper.compile`), checked; called with a model
    that needs no export it gives the Module."""

    def __init__(
        self,
        *,
        target: str = "cpu",
        threads: int = 0,
        dtype: object = None,
        output: str | os.PathLike[str] | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        spin_microseconds: int = -1,
        device: str | None = None,
        cancel: Cancellation | None = None,
        **options: Unpack[CompileOptions],
    ) -> None:
        self._lib = library.library()
        log.follow()
        check_names(options, "compile", _OWN)
        for name, value, kind in (
            ("progress", progress, "a function: progress(phase, done, total)"),
            ("cancel", cancel, "a knapper.Cancellation"),
        ):
            good = callable(value) if name == "progress" else isinstance(value, Cancellation)
            if value is not None and not good:
                raise WrongType(
                    f"{name}: {value!r} is not {kind}", where=name, hint=f"pass {kind}"
                )
        self._loading = load_options(threads, spin=spin_microseconds, device=device)
        self._table = {"target": target, "dtype": float_name(dtype), **options}
        self._output, self._progress, self._cancel = output, progress, cancel

    def __call__(self, model: Model) -> Module:
        keep: list[object] = []
        request = request_of(model, self._table, keep)
        if self._output is not None:
            request.output_path = encode_path(self._output, "output")
        callbacks = Callbacks(request, self._progress, self._cancel)
        handle = ctypes.c_void_p()
        error = self._lib.knapper_compile(
            ctypes.byref(request), self._loading, ctypes.byref(handle)
        )
        callbacks.finish(error, handle)
        return Module._adopt(handle)
