"""What the library calls an operator of torch's with: the program's memory as tensors,
and the arguments of a node."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import torch

from knapper import operators
from knapper.library import CTensor
from knapper.torch.description import DTYPES
from knapper.torch.nodes import is_by_torch

_TORCH = {name: dtype for dtype, name in DTYPES.items()}
CODES = {dtype: operators._code(name) for dtype, name in DTYPES.items()}
_BY_CODE = {code: dtype for dtype, code in CODES.items()}
_HOST = torch.device("cpu")


def borrowed(tensor: CTensor, device: torch.device = _HOST) -> torch.Tensor:
    """The program's memory as a tensor, without a copy."""
    shape = tuple(tensor.shape[: tensor.rank])
    dtype = _BY_CODE[tensor.dtype]
    if tensor.bytes == 0 or 0 in shape:
        return torch.empty(shape, dtype=dtype, device=device)
    if device.type != "cpu":
        storage = torch._C._construct_storage_from_data_pointer(tensor.data, device, tensor.bytes)
        return torch.empty(0, dtype=dtype, device=device).set_(storage, 0, shape)
    memory = (ctypes.c_char * tensor.bytes).from_address(tensor.data)
    count_ = 1
    for size in shape:
        count_ *= size
    return torch.frombuffer(memory, dtype=dtype, count=count_).reshape(shape)


class Call:
    """One node's arguments."""

    def __init__(self, overload: Any, text: str) -> None:
        given = json.loads(text)
        self.line = given["line"]
        self.positions = {name: i for i, name in enumerate(given["operands"])}
        self.arguments = given["args"]
        # None: all arguments go by name.
        self.schema = getattr(overload, "_schema", None)
        # A tensor, of an operator of the user's, says nothing.
        dropout = self.arguments.get("dropout_p")
        if isinstance(dropout, dict) and "f" in dropout:
            dropout = float(dropout["f"])
        self.asked_for = is_by_torch(overload, {"dropout_p": dropout})

    def decode(self, value: Any, tensors: list[torch.Tensor], kind: str) -> Any:
        if isinstance(value, list):
            return [self.decode(entry, tensors, kind) for entry in value]
        if not isinstance(value, dict):
            return value
        if "n" in value:  # a size
            given = tensors[self.positions[value["n"]]]
            if "below" in value:  # of no elements, which are on a GPU
                return given.shape[0] - tensors[self.positions[value["below"]]].shape[0]
            return int(given)
        if "%" in value:
            given = tensors[self.positions[value["%"]]]
            return given.item() if kind and "Tensor" not in kind else given
        if "f" in value:
            return float(value["f"])
        if "dtype" in value:
            name = value["dtype"]
            return _TORCH.get(name) or getattr(torch, name.removeprefix("torch."))
        text = value.get("text", "")
        if text.startswith("torch."):
            return getattr(torch, text[6:])
        if kind.startswith("Device") or "Device" in kind:
            return torch.device(text)
        return text

    def values(self, tensors: list[torch.Tensor]) -> tuple[list[Any], dict[str, Any]]:
        args, kwargs = [], {}
        if self.schema is None:
            given = self.arguments.items()
            return [], {key: self.decode(value, tensors, "") for key, value in given}
        for entry in self.schema.arguments:
            if entry.name not in self.arguments:
                continue
            value = self.decode(self.arguments[entry.name], tensors, str(entry.type))
            if entry.kwarg_only:
                kwargs[entry.name] = value
            else:
                args.append(value)
        return args, kwargs
