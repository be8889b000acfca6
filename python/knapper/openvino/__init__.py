"""OpenVINO's read, compile and infer calls, run by Knapper.

    import knapper.openvino as ov             # was: import openvino as ov

    compiled = ov.Core().compile_model("model.onnx", "CPU")
    y = compiled([x])[compiled.output(0)]

A property that asks for memory or speed alone and is not honoured gives one
`HintWarning` (KNAPPER_OPENVINO_STRICT=1 or `set_strict(True)` refuses it);
everything else that is not honoured raises, all of it in one error.
docs/coming-from-openvino.md says what becomes of each option and call.

Programs that import openvino themselves run on Knapper after `install()`, or started
by `python -m knapper.openvino script.py`.
"""

from __future__ import annotations

import os
from typing import Any

import knapper
from knapper.errors import UserError
from knapper.hints import HintWarning, Refusal
from knapper.module import Module
from knapper.openvino.compiled import CompiledModel, InferRequest, Results
from knapper.openvino.ports import (
    Dimension,
    OpenVINOError,
    PartialShape,
    Port,
    Tensor,
    Type,
    find,
    refuse,
)
from knapper.openvino import properties
from knapper.openvino.queue import AsyncInferQueue
from knapper.openvino.settings import check, device, is_strict, options, set_strict
from knapper.openvino.switch import install

__all__ = [
    "AsyncInferQueue",
    "CompiledModel",
    "Core",
    "Dimension",
    "HintWarning",
    "InferRequest",
    "Model",
    "OpenVINOError",
    "PartialShape",
    "Port",
    "Results",
    "Tensor",
    "Type",
    "compile_model",
    "convert_model",
    "get_version",
    "install",
    "is_strict",
    "properties",
    "set_strict",
]

# The OpenVINO whose calls these are: programs compare it. Knapper's own version is
# `knapper.__version__`.
__version__ = "2026.4.1"

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
    def friendly_name(self) -> str:
        """The file's name without its ending; "model" for bytes."""
        if isinstance(self._source, (str, os.PathLike)):
            return os.path.splitext(os.path.basename(os.fspath(self._source)))[0]
        return "model"

    def get_friendly_name(self) -> str:
        """As `friendly_name`."""
        return self.friendly_name

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


class Core:
    """Reads and compiles ONNX models for the CPU."""

    def __init__(self) -> None:
        self._config: dict[Any, Any] = {}

    @property
    def available_devices(self) -> list[str]:
        """['CPU']."""
        return ["CPU"]

    def get_available_devices(self) -> list[str]:
        """['CPU']."""
        return self.available_devices

    def get_property(self, *arguments: Any) -> Any:
        """get_property(name) or ("CPU", name): what was set, and FULL_DEVICE_NAME.
        Raises OpenVINOError for what there is not."""
        if len(arguments) == 2:
            check(device(arguments[0]))
        name = str(arguments[-1])
        if name == "FULL_DEVICE_NAME":
            return knapper.devices()[0]["name"]
        found = {str(key): value for key, value in self._config.items()}
        if name not in found:
            raise OpenVINOError(f"property {name!r} was not set; set: {', '.join(found)}")
        return found[name]

    def set_property(self, *arguments: Any) -> None:
        """set_property(config) or ("CPU", config): for models compiled later.
        Raises OpenVINOError for what is refused, all of it."""
        said = device(arguments[0]) if len(arguments) == 2 else []
        _, kept, more = options(arguments[-1])
        check([*said, *more])
        self._config.update(kept)

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
        arguments, kept, said = options(_named(self._config) | _named(config or {}))
        said = [*device(device_name), *said]
        if isinstance(model, (str, os.PathLike)) and str(model).endswith(".knap"):
            return _loaded(model, arguments, kept, said)
        check(said)
        if not isinstance(model, Model):
            model = self.read_model(model)
        if model._dims:
            arguments["dim"] = ",".join(f"{n}={s}" for n, s in model._dims.items())
        return CompiledModel(
            _checked(knapper.compile, model._source, **arguments), kept, model.friendly_name
        )

    def import_model(
        self, model_stream: Any, device_name: str = "CPU", config: dict[Any, Any] | None = None
    ) -> CompiledModel:
        """Loads what `CompiledModel.export_model` gave: bytes or a stream of them.
        Raises as compile_model does."""
        if hasattr(model_stream, "read"):
            model_stream = model_stream.read()
        arguments, kept, said = options(_named(self._config) | _named(config or {}))
        return _loaded(bytes(model_stream), arguments, kept, [*device(device_name), *said])


def _named(config: dict[Any, Any]) -> dict[str, Any]:
    """By the properties' names, which may be given in several forms."""
    return {str(key): value for key, value in config.items()}


def _loaded(
    source: Any, arguments: dict[str, Any], kept: dict[str, Any], said: list[Refusal]
) -> CompiledModel:
    """The model of an artefact."""
    threads = arguments.pop("threads", 0)
    arguments.pop("cache_dir", None)  # it is compiled already
    said += [
        Refusal(f"{name} = {value!r} with a compiled model", "give the ONNX file")
        for name, value in arguments.items()
        if value
    ]
    check(said)
    return CompiledModel(_checked(knapper.load, source, threads=threads), kept)


def _checked(function: Any, *arguments: Any, **named: Any) -> Module:
    try:
        return function(*arguments, **named)
    except UserError as error:
        raise OpenVINOError(str(error), error.where, error.hint) from error


def compile_model(
    model: Any, device_name: str = "AUTO", config: dict[Any, Any] | None = None
) -> CompiledModel:
    """`Core().compile_model`."""
    return Core().compile_model(model, device_name, config)


def convert_model(input_model: Any, **rest: Any) -> Model:
    """`Core().read_model`. Raises OpenVINOError for a torch module and for further
    arguments."""
    if rest:
        raise refuse(f"convert_model({', '.join(rest)})", "leave them out; Model.reshape")
    if callable(input_model):
        raise refuse(f"convert_model of {type(input_model).__name__}", "export it to ONNX")
    return Core().read_model(input_model)


def get_version() -> str:
    """The OpenVINO whose calls these are, and Knapper's version."""
    return f"{__version__}-knapper-{knapper.version()}"
