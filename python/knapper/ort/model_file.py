"""What ONNX Runtime tells about a model file, read from its bytes.

The package needs no `onnx`, so this walks the few fields of the protobuf that it
is asked for; nodes and weights are skipped by their lengths.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
from collections.abc import Iterator
from typing import Any

from knapper.ort.errors import InvalidProtobuf

Dim = int | str | None  # a size, a symbol, or unknown


@dataclasses.dataclass(frozen=True)
class ModelMetadata:
    """What the exporter wrote; "" where it wrote nothing, and a version of 2^63 - 1."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = (1 << 63) - 1
    custom_metadata_map: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Value:
    """An input or output as the file declares it; dims is None where it does not,
    type a number of TensorProto."""

    name: str = ""
    type: int = 0
    dims: list[Dim] | None = None
    denotations: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class ModelFile:
    """Metadata and signature of a model; inputs include initializers that the
    file lists among them, which are defaults from ir_version 4 on."""

    metadata: ModelMetadata = dataclasses.field(default_factory=ModelMetadata)
    inputs: list[Value] = dataclasses.field(default_factory=list)
    outputs: list[Value] = dataclasses.field(default_factory=list)
    ir_version: int = 0

    def symbols(self) -> set[str]:
        """Names of the inputs' symbolic dims."""
        return {d for v in self.inputs for d in v.dims or () if isinstance(d, str)}


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field: an integer, or the bytes of what has a length."""
    for number, value, _ in spans(data):
        yield number, value


def spans(data: memoryview) -> Iterator[tuple[int, Any, memoryview]]:
    """(number, value, the whole field) of each field."""
    at = 0
    while at < len(data):
        start = at
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            value = value - (1 << 64) if value >> 63 else value
            yield key >> 3, value, data[start:at]
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if size > len(data) - at:
            raise ValueError("a field is cut short")
        yield key >> 3, data[at : at + size], data[start : at + size]
        at += size


def _text(value: memoryview) -> str:
    return bytes(value).decode(errors="replace")


def _value(data: memoryview) -> Value:
    result = Value()
    for number, field in fields(data):
        if number == 1:
            result.name = _text(field)
        elif number == 2:
            for kind, tensor in fields(field):
                if kind == 1:
                    _shape(tensor, result)
    return result


def _shape(tensor: memoryview, result: Value) -> None:
    for number, shape in fields(tensor):
        if number == 1:
            result.type = shape
        if number != 2:
            continue
        result.dims = []
        for _, dim in fields(shape):
            size: Dim = None
            denotation = ""
            for part, field in fields(dim):
                if part == 1:
                    size = field if field >= 0 else None
                elif part == 2:
                    size = _text(field) or None
                elif part == 3:
                    denotation = _text(field)
            result.dims.append(size)
            result.denotations.append(denotation)


def _model(data: memoryview) -> ModelFile:
    texts = {2: "producer_name", 4: "domain", 6: "description"}
    known: dict[str, Any] = {}
    properties: dict[str, str] = {}
    result = ModelFile()
    for number, field in fields(data):
        if number in texts:
            known[texts[number]] = _text(field)
        elif number == 1:
            result.ir_version = field
        elif number == 5:
            known["version"] = field
        elif number == 14:
            pair = {part: _text(text) for part, text in fields(field)}
            properties[pair.get(1, "")] = pair.get(2, "")
        elif number == 7:
            for part, value in fields(field):
                if part == 2:
                    known["graph_name"] = _text(value)
                elif part == 10:
                    known["graph_description"] = _text(value)
                elif part == 11:
                    result.inputs.append(_value(value))
                elif part == 12:
                    result.outputs.append(_value(value))
    result.metadata = ModelMetadata(custom_metadata_map=properties, **known)
    return result


def read(source: str | bytes) -> ModelFile:
    """Reads the file at a path (mapped, not loaded) or a model's bytes.

    Raises InvalidProtobuf for what is no protobuf of this shape and OSError for
    a file that cannot be read.
    """
    try:
        if isinstance(source, bytes):
            return _model(memoryview(source))
        if os.path.getsize(source) == 0:
            raise ValueError("it is empty")
        with open(source, "rb") as file:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                # A view must be gone before the map closes, also after an error.
                with memoryview(mapped) as data:
                    try:
                        return _model(data)
                    except (IndexError, ValueError, TypeError, AttributeError) as error:
                        raise ValueError(str(error)) from None
    except (IndexError, ValueError, TypeError, AttributeError) as error:
        name = "the model" if isinstance(source, bytes) else source
        raise InvalidProtobuf(
            f"{name}: is no ONNX model: {error}\n  try: onnx.checker.check_model",
            where=name,
            hint="onnx.checker.check_model",
        ) from None
