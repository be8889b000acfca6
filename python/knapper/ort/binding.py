"""IOBinding: memory for a session's inputs and outputs, bound once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from knapper import dtypes
from knapper.bound import Bound
from knapper.cancellation import Cancellation
from knapper.errors import Error, UserError
from knapper.results import Result
from knapper.ort import types
from knapper.ort.errors import BindingError, translated
from knapper.ort.value import OrtValue, host_only, memory_of_host
from knapper.tensor import Tensor

if TYPE_CHECKING:
    from knapper.ort.session import InferenceSession


class IOBinding:
    """Inputs and outputs of one session. Not for several threads at once.

    Bound memory is read and written in place at each run. It must stay alive: a
    binding holds arrays and values, for a `buffer_ptr` the caller does. Outputs
    are computed in the order of their binding; binding a name again replaces it.
    """

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}  # None: memory of the session
        self._result: Result | None = None
        self._results: list[str] = []
        self._call: Bound | None = None  # of bindings that a run has proven good

    @property
    def _iobinding(self) -> IOBinding:
        """Where libraries look for ONNX Runtime's binding behind Python's."""
        return self

    # ---- inputs

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Binds an array; it is copied now where it is not contiguous.

        Raises BindingError for an unknown name and what is no array.
        """
        self.bind_ortvalue_input(name, OrtValue.ortvalue_from_numpy(arr_on_cpu))

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any,
        shape: Sequence[int], buffer_ptr: int,
    ) -> None:  # fmt: skip
        """Binds memory by its address: dense and row-major, of this shape.
        element_type: a NumPy type or a number of `onnx.TensorProto`."""
        memory_of_host(device_type, device_id, f"input {name!r}")
        self._known(name, self._session._input_names, "input")
        self._set(self._inputs, name, _memory(name, element_type, shape, buffer_ptr))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds a value, which the binding keeps."""
        self._known(name, self._session._input_names, "input")
        self._set(self._inputs, name, ortvalue._data)

    def clear_binding_inputs(self) -> None:
        """Forgets the inputs."""
        self._inputs.clear()
        self._call = None

    # ---- outputs

    def bind_output(
        self, name: str, device_type: str = "cpu", device_id: int = 0,
        element_type: Any = None, shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:  # fmt: skip
        """Asks for an output, in memory of the session or, with `buffer_ptr`, in
        that of the caller, of exactly this shape and type.

        Raises ValueError for an address without shape and type.
        """
        check = host_only if buffer_ptr is None else memory_of_host
        check(device_type, device_id, f"output {name!r}")
        self._known(name, self._session._output_names, "output")
        if buffer_ptr is None:
            self._set(self._outputs, name, None)
            return
        if element_type is None or shape is None:
            raise ValueError(
                "`element_type` and `shape` are to be provided if pre-allocated "
                "memory is provided"
            )
        self._set(self._outputs, name, _memory(name, element_type, shape, buffer_ptr))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Writes an output into a value, which the binding keeps."""
        self._known(name, self._session._output_names, "output")
        self._set(self._outputs, name, ortvalue._data)

    def clear_binding_outputs(self) -> None:
        """Forgets the outputs and the results of the last run."""
        self._outputs.clear()
        self._call = None
        self._result = None
        self._results = []

    # ---- results

    def get_outputs(self) -> list[OrtValue]:
        """The results of the last run, in the order of the bindings; without a
        copy. Empty before the first run."""
        if self._result is None:
            return []
        return [OrtValue(self._result.tensor(name)) for name in self._results]

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        """The results as arrays of their own memory."""
        return [value.numpy().copy() for value in self.get_outputs()]

    def synchronize_inputs(self) -> None:
        """Host memory needs none."""

    def synchronize_outputs(self) -> None:
        """A run has ended when it returns."""

    # ---- running

    def _set(self, bound: dict[str, Any], name: str, data: Any) -> None:
        bound[name] = data
        self._call = None

    def _known(self, name: str, names: Iterable[str], kind: str) -> None:
        if name not in names:
            raise BindingError(
                f"Failed to find {kind} with name: {name}; the model has "
                f"{', '.join(names)}",
                where=name,
            )

    def _run(self, cancel: Cancellation | None = None) -> None:
        """Runs the session's module on what is bound."""
        session = self._session
        if not self._outputs:
            raise BindingError(
                "Error in execution: At least one output should be requested."
            )
        given = {n: data for n, data in self._outputs.items() if data is not None}
        try:
            if self._call is not None and cancel is None:
                self._call()
                return
            if given or cancel is not None:
                self._result = session.module.run(self._inputs, given, cancel)
            else:
                self._result = session.module(self._inputs)
        except Error as error:
            session._require(self._inputs)
            mismatch = session._mismatch(session.module, self._inputs)
            if mismatch is not None:
                raise BindingError(mismatch) from error
            raise translated(error, BindingError) from error
        self._results = list(self._outputs)
        for name, data in given.items():
            shape = self._result.tensor(name).shape
            if tuple(data.shape) != shape:
                raise BindingError(
                    f"The output memory provided for output {name!r} has shape "
                    f"{list(data.shape)} but the computed output shape for this "
                    f"run is {list(shape)}",
                    where=name,
                )
        if len(given) == len(session._output_names):
            # Nothing to ask for at the next run; not where data decides sizes.
            with contextlib.suppress(UserError):
                self._call = session.module.bind(self._inputs, given)


def _memory(
    name: str, element_type: Any, shape: Sequence[int], pointer: int
) -> np.ndarray | Tensor:
    """The caller's memory as an array; as a Tensor for bfloat16."""
    code = types.code_of(element_type, name)
    tensor = Tensor(int(pointer), tuple(int(d) for d in shape), code, None)
    return tensor if dtypes.numpy_of(code) is None else tensor.numpy()
