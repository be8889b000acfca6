"""Initializers that a session replaces, or makes inputs, in the model's bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from knapper.ort.errors import InvalidArgument, InvalidProtobuf, refuse
from knapper.ort.model_file import fields, spans

_GRAPH = 7  # of ModelProto
_INITIALIZER = 5  # of GraphProto
_DIMS, _TYPE, _NAME, _RAW, _LOCATION = 1, 2, 8, 9, 14  # of TensorProto
_NUMERIC = {
    "f4": 1, "u1": 2, "i1": 3, "u2": 4, "i2": 5, "i4": 6, "i8": 7, "b1": 9, "f2": 10,
    "f8": 11, "u4": 12, "u8": 13,
}  # fmt: skip


def edited(
    source: str | bytes, replaced: Mapping[str, np.ndarray], dropped: Collection[str] = ()
) -> bytes:
    """The model's bytes with initializers of other values, and without those in
    `dropped`, which thereby become inputs.

    Raises InvalidArgument for a name that no initializer has, NotImplemented for a
    model whose other weights lie in files beside it.
    """
    if isinstance(source, str):
        with open(source, "rb") as file:
            data = file.read()
    else:
        data = source
    missing = {*replaced, *dropped}
    parts: list[bytes | memoryview] = []
    try:
        for number, value, whole in spans(memoryview(data)):
            if number != _GRAPH:
                parts.append(whole)
                continue
            graph = list(_graph(value, replaced, dropped, missing, source))
            parts.append(_field(_GRAPH, b"".join(graph)))
    except (IndexError, ValueError, TypeError) as error:
        raise InvalidProtobuf(f"the model is no ONNX model: {error}") from None
    if missing:
        raise InvalidArgument(
            f"the model has no initializer {', '.join(map(repr, sorted(missing)))}",
            where=sorted(missing)[0],
        )
    return b"".join(parts)


def _graph(
    graph: memoryview,
    replaced: Mapping[str, np.ndarray],
    dropped: Collection[str],
    missing: set[str],
    source: str | bytes,
) -> Iterator[bytes | memoryview]:
    for number, value, whole in spans(graph):
        if number != _INITIALIZER:
            yield whole
            continue
        known = {n: v for n, v in fields(value) if n in (_NAME, _LOCATION)}
        name = bytes(known.get(_NAME, b"")).decode(errors="replace")
        missing.discard(name)
        if name in replaced:
            yield _field(_INITIALIZER, _tensor(name, replaced[name]))
        elif name not in dropped:
            if known.get(_LOCATION) == 1 and isinstance(source, str):
                raise refuse(
                    f"other initializers of {source}, whose {name!r} lies in a file "
                    "beside it",
                    "give a model that holds its weights, or all of them",
                )
            yield whole


def _tensor(name: str, array: np.ndarray) -> bytes:
    kind = _NUMERIC.get(f"{array.dtype.kind}{array.dtype.itemsize}")
    if kind is None:
        raise refuse(f"an initializer of {array.dtype}", "write it into the model")
    return b"".join(
        [
            *(_number(_DIMS, size) for size in array.shape),
            _number(_TYPE, kind),
            _field(_NAME, name.encode()),
            _field(_RAW, np.ascontiguousarray(array).tobytes()),
        ]
    )


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
