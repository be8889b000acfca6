"""CompiledModel and InferRequest."""

from __future__ import annotations

import io
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from knapper.errors import Error, UserError
from knapper.module import Module
from knapper.results import Pending
from knapper.openvino.ports import OpenVINOError, PartialShape, Port, Tensor, Type, find


class Results(Mapping):
    """Arrays of the outputs by port, name or place; they own their memory."""

    def __init__(self, ports: tuple[Port, ...], arrays: list[np.ndarray]) -> None:
        self._ports = ports
        self._arrays = arrays

    def __getitem__(self, key: int | str | Port) -> np.ndarray:
        try:
            return self._arrays[find(self._ports, key).index]
        except OpenVINOError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[Port]:
        return iter(self._ports)

    def __len__(self) -> int:
        return len(self._ports)

    def to_dict(self) -> dict[Port, np.ndarray]:
        """By port."""
        return dict(zip(self._ports, self._arrays))

    def to_tuple(self) -> tuple[np.ndarray, ...]:
        """In order."""
        return tuple(self._arrays)

    def __repr__(self) -> str:
        return repr(self.to_dict())


def ports(infos: Any, kind: str) -> tuple[Port, ...]:
    """Ports of a module's inputs or outputs."""
    return tuple(
        Port(
            info.name,
            PartialShape(d if isinstance(d, int) else -1 for d in info.shape),
            Type(str(info.dtype)),
            index,
            kind,
        )
        for index, info in enumerate(infos)
    )


class CompiledModel:
    """A compiled model: `compiled(x)`, or a request for tensors that stay.

    Made by `Core.compile_model`. Calls are safe from any number of threads at
    once. `module` is the `knapper.Module` behind it.
    """

    def __init__(
        self, module: Module, properties: dict[str, Any], name: str = "model"
    ) -> None:
        self.module = module
        self._name = name
        self.inputs = ports(module.inputs, "input")
        self.outputs = ports(module.outputs, "output")
        self._properties = properties

    def input(self, key: int | str | None = None) -> Port:
        """An input by place or name; the only one for None. Raises OpenVINOError."""
        return find(self.inputs, key)

    def output(self, key: int | str | None = None) -> Port:
        """An output by place or name; the only one for None. Raises OpenVINOError."""
        return find(self.outputs, key)

    def __call__(
        self, inputs: Any = None, share_inputs: bool = True, share_outputs: bool = False
    ) -> Results:
        """Runs the model on an array, a list in order, or a dict by place, name or
        port; arrays of another dtype are converted, Tensors are not.

        share_inputs: contiguous arrays of the right dtype are read in place in any
            case; share_outputs: the results own their memory in any case.

        Raises OpenVINOError for missing or unknown inputs and wrong shapes, with
        which input and what was expected.
        """
        return self.infer_new_request(inputs)

    def infer_new_request(self, inputs: Any = None) -> Results:
        """`infer` of a new request."""
        return self.create_infer_request().infer(inputs)

    def create_infer_request(self) -> InferRequest:
        """A request: inputs that stay, and the last results."""
        return InferRequest(self)

    def get_property(self, name: str) -> Any:
        """A property that compile_model was given, or what is done without it.
        Raises OpenVINOError for what there is not."""
        known = {
            "EXECUTION_DEVICES": ["CPU"],
            "INFERENCE_NUM_THREADS": len(os.sched_getaffinity(0)),
            "NETWORK_NAME": self._name,
            "NUM_STREAMS": 1,
            "OPTIMAL_NUMBER_OF_INFER_REQUESTS": 1,
            "PERFORMANCE_HINT": "LATENCY",
        } | self._properties
        known["SUPPORTED_PROPERTIES"] = sorted(known)
        if str(name) not in known:
            raise OpenVINOError(
                f"property {str(name)!r} was not set; there are {', '.join(known)}"
            )
        return known[str(name)]

    def release_memory(self) -> None:
        """Memory of runs is given back when the model goes."""

    def export_model(self) -> io.BytesIO:
        """The compiled model, as `module.save` writes it, for `Core.import_model`."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.knap")
            self.module.save(path)
            with open(path, "rb") as file:
                return io.BytesIO(file.read())

    def __repr__(self) -> str:
        return f"<CompiledModel: inputs{list(self.inputs)} outputs{list(self.outputs)}>"


class InferRequest:
    """Inputs that stay between runs, and the results of the last. Not for
    several threads at once."""

    def __init__(self, compiled: CompiledModel) -> None:
        self._compiled = compiled
        self._inputs: dict[str, np.ndarray] = {}
        self._outputs: dict[str, np.ndarray] = {}  # memory that was set
        self._results: Results | None = None
        self._pending: Pending | None = None
        self._callback: Callable[[Any], None] | None = None
        self._waiter: threading.Thread | None = None  # of a run with a callback
        self._error: BaseException | None = None  # of that run or its callback
        self._began = 0
        self.userdata: Any = None
        self.latency = 0.0  # of the last run, in ms

    # ---- tensors

    def set_tensor(self, key: str | Port, tensor: Tensor) -> None:
        """Sets an input, which is read in place at each run, or an output, which is
        written in place and must have exactly its shape. Raises OpenVINOError for
        another type."""
        if isinstance(key, Port):
            port = key
        else:
            port = find((*self._compiled.inputs, *self._compiled.outputs), key)
        if tensor.element_type != port.element_type:
            raise OpenVINOError(
                f"the tensor for {port.kind} {port.any_name!r} is "
                f"{tensor.element_type.name}, the model has {port.element_type.name}"
            )
        held = self._inputs if port.kind == "input" else self._outputs
        held[port.any_name] = tensor.data

    def set_tensors(self, tensors: Mapping[str | Port, Tensor]) -> None:
        """`set_tensor` of each."""
        for key, tensor in tensors.items():
            self.set_tensor(key, tensor)

    def set_output_tensor(self, *arguments: Any) -> None:
        """set_output_tensor(tensor) of the only output, or (place, tensor)."""
        key, tensor = arguments if len(arguments) == 2 else (None, *arguments)
        self.set_tensor(self._compiled.output(key), tensor)

    def get_input_tensor(self, index: int | None = None) -> Tensor:
        """An input that is set, the only one for None. Raises OpenVINOError where
        it is not."""
        name = self._compiled.input(index).any_name
        if name not in self._inputs:
            raise OpenVINOError(f"input {name!r} is not set: set_input_tensor first")
        return Tensor(self._inputs[name], shared_memory=True)

    @property
    def model_inputs(self) -> tuple[Port, ...]:
        """The model's inputs."""
        return self._compiled.inputs

    @property
    def model_outputs(self) -> tuple[Port, ...]:
        """The model's outputs."""
        return self._compiled.outputs

    def get_compiled_model(self) -> CompiledModel:
        """The model."""
        return self._compiled

    def set_input_tensor(self, *arguments: Any) -> None:
        """set_input_tensor(tensor) of the only input, or (place, tensor)."""
        key, tensor = arguments if len(arguments) == 2 else (None, *arguments)
        self.set_tensor(self._compiled.input(key), tensor)

    def get_tensor(self, key: str | Port) -> Tensor:
        """An output of the last run or an input that is set."""
        name = key.any_name if isinstance(key, Port) else key
        if name in self._inputs and not (isinstance(key, Port) and key.kind == "output"):
            return Tensor(self._inputs[name], shared_memory=True)
        return Tensor(self.results[key], shared_memory=True)

    def get_output_tensor(self, index: int | None = None) -> Tensor:
        """An output of the last run; the only one for None."""
        port = self._compiled.output(index)
        return Tensor(self.results[port], shared_memory=True)

    @property
    def output_tensors(self) -> list[Tensor]:
        """The outputs of the last run."""
        return [Tensor(a, shared_memory=True) for a in self.results.to_tuple()]

    @property
    def results(self) -> Results:
        """Of the last run. Raises OpenVINOError before the first."""
        self.wait()
        if self._results is None:
            raise OpenVINOError("there are no results: the request has not run")
        return self._results

    # ---- running

    def infer(
        self, inputs: Any = None, share_inputs: bool = True, share_outputs: bool = False
    ) -> Results:
        """Runs on what is given, and what was set before. See CompiledModel."""
        self.start_async(inputs)
        self.wait()
        return self.results

    def set_callback(self, callback: Callable[[Any], None], userdata: Any = None) -> None:
        """callback(userdata) after each run, in a thread of its own; `wait` raises what
        it raises."""
        self._callback = callback
        self.userdata = userdata

    def start_async(
        self, inputs: Any = None, userdata: Any = None, share_inputs: bool = False
    ) -> None:
        """Starts a run; arrays must not be changed before `wait()`. userdata: for the
        callback, from here on. Raises as CompiledModel's call does, and where a run
        has not been waited for."""
        if self._waiter is not None and not self._waiter.is_alive():
            self.wait()  # it has ended
        if self._pending is not None or self._waiter is not None:
            raise OpenVINOError("the request runs: wait() first")
        if userdata is not None:
            self.userdata = userdata
        self._results = None
        self._take(inputs)
        self._began = time.monotonic_ns()
        try:
            self._pending = self._compiled.module.start(self._inputs, self._outputs or None)
        except UserError as error:
            raise OpenVINOError(str(error), error.where, error.hint) from error
        if self._callback is not None:
            self._waiter = threading.Thread(target=self._finish, args=(self._callback,))
            self._waiter.start()

    def _finish(self, callback: Callable[[Any], None]) -> None:
        try:
            self._collect()
        except Error as error:
            self._error = error
        try:
            callback(self.userdata)
        except BaseException as error:
            self._error = self._error or error

    def wait(self) -> None:
        """Waits for a run that was started, and its callback. Raises the error of
        either."""
        waiter = self._waiter
        if waiter is threading.current_thread():  # the callback asks for results
            if self._error is not None:
                raise self._error
            return
        if waiter is None:
            self._collect()
            return
        waiter.join()
        self._waiter = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _collect(self) -> None:
        """The results of a run that was started."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        try:
            result = pending.wait()
        except UserError as error:
            raise OpenVINOError(str(error), error.where, error.hint) from error
        self.latency = (time.monotonic_ns() - self._began) / 1e6
        self._results = Results(self._compiled.outputs, list(result))

    def _take(self, inputs: Any) -> None:
        """Sets the inputs of one call."""
        takes = self._compiled.inputs
        if inputs is None:
            return
        if isinstance(inputs, Mapping):
            pairs = list(inputs.items())
        elif isinstance(inputs, (list, tuple)):
            if len(inputs) > len(takes):
                raise OpenVINOError(
                    f"the model takes {len(takes)} input{'s' * (len(takes) != 1)}, "
                    f"{len(inputs)} were given"
                )
            pairs = list(enumerate(inputs))
        else:
            pairs = [(None, inputs)]
        for key, value in pairs:
            port = find(takes, key)
            if isinstance(value, Tensor):
                self.set_tensor(port, value)
                continue
            try:
                self._inputs[port.any_name] = np.asarray(
                    value, port.element_type.to_dtype(), order="C"
                )
            except (TypeError, ValueError, Error) as error:
                raise OpenVINOError(
                    f"input {port.any_name!r}: {type(value).__name__} is no array of "
                    f"{port.element_type.name}: {error}"
                ) from error
