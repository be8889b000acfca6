"""Operators that torch computes, called from inside of a compiled program."""

from __future__ import annotations

import ctypes
import json
import logging
import operator
import threading
from typing import Any

import torch

from knapper import operators
from knapper.library import CTensor, check, library
from knapper.torch.counters import count
from knapper.torch.description import DTYPES
from knapper.torch.nodes import is_by_torch, name_of

_log = logging.getLogger("knapper")
_TORCH = {name: dtype for dtype, name in DTYPES.items()}
_CODES = {dtype: operators._code(name) for dtype, name in DTYPES.items()}
_BY_CODE = {code: dtype for dtype, code in _CODES.items()}

_registered: dict[str, Any] = {}
_lock = threading.Lock()


def _borrowed(tensor: CTensor) -> torch.Tensor:
    """The program's memory as a tensor, without a copy."""
    shape = tuple(tensor.shape[: tensor.rank])
    dtype = _BY_CODE[tensor.dtype]
    if tensor.bytes == 0 or 0 in shape:
        return torch.empty(shape, dtype=dtype)
    memory = (ctypes.c_char * tensor.bytes).from_address(tensor.data)
    count_ = 1
    for size in shape:
        count_ *= size
    return torch.frombuffer(memory, dtype=dtype, count=count_).reshape(shape)


class _Call:
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
            return int(tensors[self.positions[value["n"]]])
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


class _Operator:
    """An overload, as the library calls it: shapes first, where the run already
    computes, then the copies."""

    def __init__(self, overload: Any) -> None:
        self.overload = overload
        self.calls: dict[str, _Call] = {}
        self.warned = False
        self.made = threading.local()

    def run(self, call: Any) -> list[torch.Tensor]:
        text = operators._attributes(call)["call"]
        known = self.calls.get(text)
        if known is None:
            known = self.calls[text] = _Call(self.overload, text)
            if not known.asked_for:
                count("fallback_ops")
            if not self.warned and not known.asked_for:
                self.warned = True
                _log.warning(
                    "torch computes %s (%s)", name_of(self.overload), known.line
                )
        with torch.no_grad():
            tensors = [_borrowed(t) for t in call.inputs[: call.num_inputs]]
            args, kwargs = known.values(tensors)
            made = self.overload(*args, **kwargs)
        if isinstance(made, torch.Tensor):
            made = (made,)
        return [tensor for tensor in made if isinstance(tensor, torch.Tensor)]

    def shapes(self, call: Any, results: Any) -> None:
        made = self.run(call)
        for i, tensor in enumerate(made[: call.num_outputs]):
            results[i].dtype = _CODES[tensor.dtype]
            results[i].rank = tensor.dim()
            results[i].shape[: tensor.dim()] = list(tensor.shape)
        self.made.results = made

    def compute(self, call: Any) -> None:
        made = getattr(self.made, "results", None)
        self.made.results = None
        if made is None:
            made = self.run(call)
        for i, tensor in enumerate(made[: call.num_outputs]):
            if tensor.numel():
                _borrowed(call.outputs[i]).copy_(tensor)


def register(overload: Any) -> None:
    """Lets compiled programs of this process call an overload. Idempotent."""
    name = name_of(overload)
    with _lock:
        if name in _registered:
            return
        functions = _Operator(overload)
        given = operators._COperator()
        given.size = ctypes.sizeof(operators._COperator)
        given.domain = b"torch"
        given.name = name.encode()
        given.shape = operators._Shape(operators._guarded(functions.shapes))
        given.compute = operators._Compute(operators._guarded(functions.compute))
        given.user = None
        check(library().knapper_register_operator(ctypes.byref(given)))
        _registered[name] = (given, functions)
