"""OpenVINO's read, compile and infer calls, run by Knapper.

    import knapper.openvino as ov             # was: import openvino as ov

    compiled = ov.Core().compile_model("model.onnx", "CPU")
    y = compiled([x])[compiled.output(0)]

An option that is not honoured raises; docs/coming-from-openvino.md says what
becomes of each option and call.
"""

from __future__ import annotations

import os
from typing import Any

import knapper
from knapper.errors import UserError
from knapper.module import Module
from knapper.openvino.compiled import CompiledModel, InferRequest, Results
from knapper.openvino.ports import (
    OpenVINOError,
    PartialShape,
    Port,
    Tensor,
    Type,
    find,
    refuse,
)

__all__ = [
    "CompiledModel",
    "Core",
    "InferRequest",
    "Model",
    "OpenVINOError",
    "PartialShape",
    "Port",
    "Results",
    "Tensor",
    "Type",
    "compile_model",
    "get_version",
]

# What the compiler's `inspect` calls a type.
_TYPES = {
    "FLOAT": "f32", "FLOAT16": "f16", "BFLOAT16": "bf16", "DOUBLE": "f64",
    "BOOL": "i1", "INT8": "i8", "UINT8": "u8", "INT16": "i16", "INT32": "i32",
    "INT64": "i64",
}  # fmt: skip


class Model:
    """An ONNX model that is not compiled yet: its signature, and `reshape`.

    Raises OpenVINOError for a damaged model.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self._dims: dict[str, int] = {}
        try:
            said = knapper.inspect(source)
        except UserError as error:
            raise OpenVINOError(str(error), error.where, error.hint) from error
        self._inputs, self._outputs = said["inputs"], said["outputs"]

    def _ports(self, values: list[dict[str, Any]], kind: str) -> tuple[Port, ...]:
        return tuple(
            Port(
                value["name"],
                PartialShape(
                    self._dims.get(name, -1) if isinstance(name, str) else name
                    for name in _names(value)
                ),
                Type(_TYPES.get(value["dtype"], value["dtype"])),
                index,
                kind,
            )
            for index, value in enumerate(values)
        )

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs, in order."""
        return self._ports(self._inputs, "input")

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs, as the file declares them."""
        return self._ports(self._outputs, "output")

    def input(self, key: int | str | None = None) -> Port:
        """An input by place or name; the only one for None."""
        return find(self.inputs, key)

    def output(self, key: int | str | None = None) -> Port:
        """An output by place or name; the only one for None."""
        return find(self.outputs, key)

    @property
    def dynamic(self) -> bool:
        """Whether an input has an open size."""
        return any(port.partial_shape.is_dynamic for port in self.inputs)

    def is_dynamic(self) -> bool:
        """Whether an input has an open size."""
        return self.dynamic

    def reshape(self, shapes: Any) -> None:
        """Fixes open sizes: a shape for the only input, or {input: shape}; -1 and
        "?" leave a size open.

        Raises OpenVINOError for a rank or a fixed size that differs, and where one
        symbol would get two sizes: compile for open sizes then.
        """
        if not isinstance(shapes, dict):
            shapes = {self.input().any_name: shapes}
        dims: dict[str, int] = {}
        for key, shape in shapes.items():
            port = self.input(key.any_name if isinstance(key, Port) else key)
            names = _names(self._inputs[port.index])
            if isinstance(shape, str):
                shape = shape.strip("[] ").split(",")
            wanted = [-1 if str(d).strip() == "?" else int(d) for d in shape]
            if len(wanted) != len(names):
                raise OpenVINOError(
                    f"input {port.any_name!r} has rank {len(names)}, not {len(wanted)}"
                )
            for axis, (name, size) in enumerate(zip(names, wanted)):
                if size < 0:
                    continue
                if dims.setdefault(name, size) != size if isinstance(name, str) else name != size:
                    raise OpenVINOError(
                        f"input {port.any_name!r}: dim {axis} is {name}"
                        f"{f' = {dims[name]}' if name in dims else ''}, not {size}"
                    )
        self._dims = dims


def _names(value: dict[str, Any]) -> list[int | str]:
    """Sizes, the compiler's names where they are open."""
    return [
        f"{value['name']}_dim{axis}" if dim is None else dim
        for axis, dim in enumerate(value["dims"] or ())
    ]


def _options(config: dict[Any, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of knapper.compile, and the properties as they are kept."""
    arguments: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    for key, value in config.items():
        name, text = str(key), str(value).upper().rsplit(".", 1)[-1]
        kept[name] = value
        if name == "INFERENCE_NUM_THREADS" and int(value) >= 0:
            arguments["threads"] = int(value)
        elif name == "INFERENCE_PRECISION_HINT" and text in ("F32", "BF16", "F16"):
            arguments["dtype"] = None if text == "F32" else text.lower()
        elif name == "CACHE_DIR":
            arguments["cache_dir"] = str(value) or None
        elif (name, text) not in _ACCEPTED:
            known = ", ".join(sorted({n for n, _ in _ACCEPTED} | set(_HONOURED)))
            raise refuse(
                f"property {name} = {value!r}",
                f"leave it out; properties that are taken: {known}",
            )
    return arguments, kept


_HONOURED = "CACHE_DIR", "INFERENCE_NUM_THREADS", "INFERENCE_PRECISION_HINT"
# What is done anyway.
_ACCEPTED = {
    ("PERFORMANCE_HINT", "LATENCY"),
    ("EXECUTION_MODE_HINT", "ACCURACY"),
    ("EXECUTION_MODE_HINT", "PERFORMANCE"),
    ("NUM_STREAMS", "1"),
    ("PERF_COUNT", "NO"),
    ("PERF_COUNT", "FALSE"),
}


class Core:
    """Reads and compiles ONNX models for the CPU."""

    def __init__(self) -> None:
        self._config: dict[Any, Any] = {}

    @property
    def available_devices(self) -> list[str]:
        """['CPU']."""
        return ["CPU"]

    def set_property(self, *arguments: Any) -> None:
        """set_property(config) or ("CPU", config): for models compiled later.
        Raises OpenVINOError for a property that is not honoured."""
        if len(arguments) == 2:
            _device(arguments[0])
        _options(arguments[-1])
        self._config.update(arguments[-1])

    def read_model(self, model: Any, weights: object = None) -> Model:
        """An ONNX file's path, its bytes, or an `onnx.ModelProto`.

        Raises OpenVINOError for OpenVINO's own format and for damaged models.
        """
        if weights is not None or (
            isinstance(model, (str, os.PathLike)) and str(model).endswith(".xml")
        ):
            raise refuse("OpenVINO's IR (.xml, .bin)", "give the ONNX file")
        return Model(model)

    def compile_model(
        self, model: Any, device_name: str = "CPU", config: dict[Any, Any] | None = None
    ) -> CompiledModel:
        """Compiles a Model, or what read_model takes; loads a `.knap` file.

        device_name: "CPU" or "AUTO". config: see docs/coming-from-openvino.md.
        Raises OpenVINOError for a model, device or property that is refused.
        """
        _device(device_name)
        merged = self._config | (config or {})
        arguments, kept = _options(merged)
        if isinstance(model, (str, os.PathLike)) and str(model).endswith(".knap"):
            threads = arguments.pop("threads", 0)
            if any(arguments.values()):
                raise refuse("options of compiling with a .knap", "give the ONNX file")
            return CompiledModel(_checked(knapper.load, model, threads=threads), kept)
        if not isinstance(model, Model):
            model = self.read_model(model)
        if model._dims:
            arguments["dim"] = ",".join(f"{n}={s}" for n, s in model._dims.items())
        return CompiledModel(
            _checked(knapper.compile, model._source, **arguments), kept
        )


def _checked(function: Any, *arguments: Any, **named: Any) -> Module:
    try:
        return function(*arguments, **named)
    except UserError as error:
        raise OpenVINOError(str(error), error.where, error.hint) from error


def _device(name: str) -> None:
    if name not in ("CPU", "AUTO", "AUTO:CPU"):
        raise refuse(f"device {name!r}", "'CPU'")


def compile_model(
    model: Any, device_name: str = "AUTO", config: dict[Any, Any] | None = None
) -> CompiledModel:
    """`Core().compile_model`."""
    return Core().compile_model(model, device_name, config)


def get_version() -> str:
    """Names Knapper and its version."""
    return f"Knapper {knapper.version()}"
