"""InferenceSession: a compiled model behind ONNX Runtime's calls."""

from __future__ import annotations

import copy
import dataclasses
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from knapper import dtypes
from knapper.cancellation import Cancellation
from knapper.errors import Error
from knapper.module import Module
from knapper.results import Result
from knapper.ort import loading, types
from knapper.ort import providers as execution
from knapper.ort.binding import IOBinding
from knapper.ort.errors import InvalidArgument, MissingInput, refuse, translated
from knapper.ort.model_file import ModelFile, ModelMetadata
from knapper.ort.options import RunOptions, SessionOptions
from knapper.ort.profile import Profile
from knapper.ort.refusals import Refusal, check
from knapper.ort.settings import GraphOptimizationLevel
from knapper.ort.value import OrtValue


@dataclasses.dataclass(frozen=True)
class NodeArg:
    """An input or output. shape: sizes, names of symbolic ones, None for a size
    that the model leaves open. type: 'tensor(float)'..."""

    name: str
    type: str
    shape: list[int | str | None]


class InferenceSession:
    """Compiles a model and runs it, as onnxruntime.InferenceSession does.

    path_or_bytes: the path of an ONNX file or of a compiled `.knap`, the bytes of
        either, or an `onnx.ModelProto`. Only a path can have external data.
    sess_options: read now; later changes have no effect.
    providers, provider_options: 'CPUExecutionProvider', and 'CUDAExecutionProvider'
        where there is an NVIDIA GPU; others are left out with a warning, as ONNX
        Runtime does. Without them the CPU.

    Safe to run from any number of threads at once. `module` is the
    `knapper.Module` behind it: save, explain, profile, describe. A session can be
    pickled: one of a path is made again from that path, one of bytes from the
    compiled code, which then needs a processor as capable as this.

    Raises NoSuchFile, InvalidProtobuf, InvalidGraph; NotImplemented for operators
    and options that Knapper has not, all of them at once, with what to do instead.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, dict[str, Any]]] | None = None,
        provider_options: Sequence[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise TypeError(
                "sess_options is a knapper.ort.SessionOptions, not "
                f"{type(sess_options).__module__}.{type(sess_options).__name__}"
            )
        began = time.monotonic_ns()
        wanted = execution.normalized(providers, provider_options)
        self._options = sess_options or SessionOptions()
        said = [
            *self._options._refusals(),
            *loading.argument_refusals(kwargs),
            *execution.refusals(wanted),
        ]
        gpu = None if providers is None else execution.gpu_wanted(wanted, providers)
        self.module: Module
        self.module, file, dims = loading.load(path_or_bytes, self._options, said, gpu)
        is_path = isinstance(path_or_bytes, (str, os.PathLike))
        self._model_path = os.fspath(path_or_bytes) if is_path else None
        self._gpu = gpu
        self._describe(file, dims)
        # To make another module of, where initializers may be fed.
        self._source = path_or_bytes if self._overridable else None
        if gpu is not False and execution.CUDA in execution.available():
            on_gpu = self.module.describe()["device"] == "cuda"
            wanted = ({execution.CUDA: wanted.get(execution.CUDA, {})} if on_gpu else {}) | {
                execution.CPU: wanted[execution.CPU]
            }
        else:
            wanted = {execution.CPU: wanted[execution.CPU]}
        self._providers = wanted
        self._begin(began)
        if self._options.optimized_model_filepath:
            self.module.save(self._options.optimized_model_filepath)

    def _describe(self, file: ModelFile | None, dims: dict[str, int]) -> None:
        """Signature and metadata."""
        self._inputs, self._outputs = (
            [
                NodeArg(info.name, types.text_of(info.dtype), shape)
                for info, shape in zip(infos, loading.shapes(infos, declared, file, dims))
            ]
            for infos, declared in (
                (self.module.inputs, file and file.inputs),
                (self.module.outputs, file and file.outputs),
            )
        )
        self._metadata = file.metadata if file else ModelMetadata()
        self._input_names = tuple(i.name for i in self._inputs)
        # Inputs of the file that are none of the module's have initializers.
        listed = [v for v in file.inputs if v.name not in self._input_names] if file else []
        self._frozen = [v.name for v in listed]
        if file is None or file.ir_version < 4:  # these are constants by definition
            listed = []
        self._overridable = {
            v.name: NodeArg(v.name, types.text_of_number(v.type), list(v.dims or ()))
            for v in listed
        }
        self._fed: dict[frozenset[str], Module] = {}  # modules that take them
        self._output_names = tuple(o.name for o in self._outputs)

    def _begin(self, began: int) -> None:
        """Starts profiling if that is asked for. began: when the session was, in
        time.monotonic_ns()."""
        self._profile = (
            Profile(self._options.profile_file_prefix, next(iter(self._providers)), began)
            if self._options.enable_profiling
            else None
        )
    # ---- copies in other processes

    def __getstate__(self) -> dict[str, Any]:
        left = "module", "_profile", "_fed"
        state = {name: value for name, value in self.__dict__.items() if name not in left}
        if self._model_path is None:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model.knap")
                self.module.save(path)
                with open(path, "rb") as file:
                    state["_artefact"] = file.read()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        began = time.monotonic_ns()
        artefact = state.pop("_artefact", None)
        self.__dict__.update(state)
        self._fed = {}
        source = artefact if artefact is not None else self._model_path
        options = self._options
        if artefact is not None:  # compiled with these
            options = copy.copy(options)
            options._dims.clear()
            options._denotations.clear()
            options._initializers.clear()
            options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.module, _, _ = loading.load(source, options, [], self._gpu)
        self._begin(began)

    # ---- what it is

    def get_inputs(self) -> list[NodeArg]:
        """The inputs, in order."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in order."""
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Initializers that the file lists among its inputs. Feeding one compiles the
        model once more, with these names as inputs."""
        return list(self._overridable.values())

    def get_modelmeta(self) -> ModelMetadata:
        """What the exporter wrote into the file."""
        return self._metadata

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """What the session runs on, the CPU last."""
        return list(self._providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Those that were given, by provider."""
        return {name: dict(options) for name, options in self._providers.items()}

    def set_providers(
        self, providers: Any = None, provider_options: Any = None
    ) -> None:
        """Checks them as the constructor does. Raises NotImplemented where they ask
        for another device than the session's."""
        wanted = execution.normalized(providers, provider_options)
        said = execution.refusals(wanted)
        if execution.gpu_wanted(wanted, providers) != (execution.CUDA in self._providers):
            instead = "make a session with them"
            said.append(Refusal(f"set_providers({providers!r}): another device", instead))
        check(said)

    def enable_fallback(self) -> None:
        """There is one provider, so there is nothing to fall back to."""

    def disable_fallback(self) -> None:
        """There is one provider, so there is nothing to fall back to."""

    # ---- runs

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[np.ndarray]:
        """Runs the model: arrays of the outputs named, all of them for None or [].

        input_feed: arrays (contiguous ones are read in place), lists, OrtValues
            or tensors with DLPack, by the inputs' names.

        The arrays own their memory. Raises ValueError (MissingInput) for an input
        that is not fed; InvalidArgument for unknown names and for a wrong type,
        rank or size, with which input and what was expected.
        """
        result, indices = self._run(output_names, input_feed, run_options)
        return [result[i] for i in indices]

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """`run` with OrtValues in and out, without copies."""
        result, indices = self._run(output_names, input_dict_ort_values, run_options)
        return [OrtValue(result.tensor(i)) for i in indices]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[np.ndarray], Any, str], None],
        user_data: Any = None,
        run_options: RunOptions | None = None,
    ) -> None:
        """`run` in a thread of its own, which then calls callback(results,
        user_data, error): error is "" or the text, with no results. Arrays fed
        must not be changed before. Raises at once for names that are wrong."""
        self._selected(output_names)
        self._require(input_feed)

        def work() -> None:
            try:
                results, text = self.run(output_names, input_feed, run_options), ""
            except Exception as error:
                results, text = [], str(error)
            callback(results, user_data, text)

        threading.Thread(target=work, name="knapper.ort.run_async").start()

    def io_binding(self) -> IOBinding:
        """A new binding of this session's inputs and outputs."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Runs on bound memory. Raises as `run` does, BindingError (also a
        RuntimeError) for memory of a wrong shape, size or type."""
        if iobinding._session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        if run_options is None:
            iobinding._run()
        else:
            with run_options as cancel:
                iobinding._run(cancel)
        if self._profile is not None:
            self._profile.add(self.module.profile(iobinding._inputs))

    # ---- profiling

    def end_profiling(self) -> str:
        """Writes the trace of the runs so far (Chrome's format) and ends
        profiling. The file's name; "" where it was not enabled."""
        profile, self._profile = self._profile, None
        return profile.write() if profile is not None else ""

    def get_profiling_start_time_ns(self) -> int:
        """time.monotonic_ns() at the start; 0 where it was not enabled."""
        return self._profile.start if self._profile is not None else 0

    # ---- what there is not

    def set_ep_dynamic_options(self, options: object) -> None:
        """Raises NotImplemented."""
        raise refuse("set_ep_dynamic_options", "make a session with other options")

    def get_tuning_results(self) -> None:
        """Raises NotImplemented."""
        raise refuse("get_tuning_results", "keep the compiled model: session.module.save")

    def set_tuning_results(self, results: object, **_: object) -> None:
        """Raises NotImplemented."""
        raise refuse("set_tuning_results", "load a compiled model: InferenceSession('m.knap')")

    # ---- inside

    def _run(
        self, output_names: Any, feed: Mapping[str, Any], run_options: RunOptions | None
    ) -> tuple[Result, Iterable[int]]:
        indices = self._selected(output_names)
        module = self.module
        if self._overridable and not self._overridable.keys().isdisjoint(feed):
            module = self._taking(frozenset(self._overridable.keys() & feed.keys()))
        values = feed
        for value in feed.values():
            if type(value) is OrtValue:
                values = {
                    n: v._data if type(v) is OrtValue else v for n, v in feed.items()
                }
                break
        if run_options is None:
            result = self._call(module, values)
        else:
            with run_options as cancel:
                result = self._call(module, values, cancel)
        if self._profile is not None:
            self._profile.add(module.profile(values))
        return result, indices

    def _taking(self, names: frozenset[str]) -> Module:
        """The module that takes these initializers, compiled at the first use."""
        module = self._fed.get(names)
        if module is None:
            options = self._options
            module, _, _ = loading.load(self._source, options, [], self._gpu, names)
            self._fed[names] = module
        return module

    def _call(
        self,
        module: Module,
        values: Mapping[str, Any],
        cancel: Cancellation | None = None,
    ) -> Result:
        try:
            if cancel is not None:
                return module.run(values, cancel=cancel)
            return module(values)
        except Error as error:
            raise self._explained(error, module, values) from error

    def _selected(self, names: Any) -> Iterable[int]:
        """The outputs' places."""
        if names is None or len(names) == 0:
            return range(len(self._outputs))
        if isinstance(names, str):
            raise TypeError(f"output_names is a list of names: [{names!r}]")
        for name in names:
            if name not in self._output_names:
                raise InvalidArgument(
                    f"Invalid output name:{name}; the model gives "
                    f"{', '.join(self._output_names)}",
                    where=str(name),
                )
        return [self._output_names.index(name) for name in names]

    def _require(self, feed: Mapping[str, Any]) -> None:
        """Raises for inputs that are missing and for such as there are not."""
        missing = [name for name in self._input_names if name not in feed]
        if missing:
            takes = ", ".join(map(str, self.module.inputs))
            raise MissingInput(
                f"Required inputs ({missing}) are missing from input feed "
                f"({list(feed)}). The model takes {takes}.",
                where=missing[0],
            )
        for name in feed:
            if name not in self._input_names and name not in self._overridable:
                hint = (
                    "it is an initializer, which compiling freezes: take the "
                    "initializer out of the model to make it an input"
                    if name in self._frozen
                    else f"the model takes {', '.join(self._input_names)}"
                )
                raise InvalidArgument(
                    f"Invalid input name: {name}; {hint}", where=str(name), hint=hint
                )

    def _explained(self, error: Error, module: Module, feed: Mapping[str, Any]) -> Error:
        """The error of a run in ONNX Runtime's terms."""
        try:
            self._require(feed)
        except (InvalidArgument, MissingInput) as named:
            return named
        mismatch = self._mismatch(module, feed)
        if mismatch is not None:
            return InvalidArgument(mismatch)
        return translated(error, InvalidArgument)

    def _mismatch(self, module: Module, feed: Mapping[str, Any]) -> str | None:
        """What is wrong with the first input of another type, rank or size."""
        for info in module.inputs:
            value = feed[info.name]
            if not hasattr(value, "shape"):
                continue
            shape = tuple(value.shape)
            text = types.text_of(info.dtype)
            expected = f" for input: {info.name}, which is {info}"
            if isinstance(value, np.ndarray):
                given = types.numpy_text(value.dtype)
            else:
                name = str(value.dtype)
                given = types.text_of(name) if name in dtypes.NAMES else text
            if given != text:
                return (
                    f"Unexpected input data type. Actual: ({given}) , expected: "
                    f"({text}){expected}"
                )
            if len(shape) != len(info.shape):
                return (
                    f"Invalid rank for input: {info.name} Got: {len(shape)} Expected: "
                    f"{len(info.shape)} Please fix either the inputs/outputs or the "
                    f"model: it is {info}"
                )
            wrong = [
                f" index: {axis} Got: {size} Expected: {wanted}"
                for axis, (size, wanted) in enumerate(zip(shape, info.shape))
                if isinstance(wanted, int) and size != wanted
            ]
            if wrong:
                return "\n".join(
                    [
                        f"Got invalid dimensions for input: {info.name} for the "
                        "following indices",
                        *wrong,
                        f" Please fix either the inputs/outputs or the model: it is {info}",
                    ]
                )
        return None
