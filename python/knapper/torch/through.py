"""Operators that torch computes, called from inside of a compiled program."""

from __future__ import annotations

import ctypes
import logging
import threading
from typing import Any

import torch

from knapper import operators
from knapper.library import check, library
from knapper.torch.calls import CODES, Call, borrowed
from knapper.torch.counters import count
from knapper.torch.launches import Launches
from knapper.torch.nodes import name_of
from knapper.torch.triton_kernels import Kernel

_log = logging.getLogger("knapper")
_registered: dict[str, Any] = {}
_lock = threading.Lock()


class _Operator:
    """An overload, as the library calls it: shapes first, where the run already
    computes, then the copies."""

    def __init__(self, overload: Any) -> None:
        self.overload = overload
        self.calls: dict[str, Call] = {}
        self.warned = False
        self.made = threading.local()

    def run(self, call: Any) -> list[torch.Tensor]:
        text = operators._attributes(call)["call"]
        known = self.calls.get(text)
        if known is None:
            known = self.calls[text] = Call(self.overload, text)
            if not known.asked_for:
                count("fallback_ops")
            if not self.warned and not known.asked_for:
                self.warned = True
                _log.warning(
                    "torch computes %s (%s)", name_of(self.overload), known.line
                )
        with torch.no_grad():
            tensors = [borrowed(t) for t in call.inputs[: call.num_inputs]]
            args, kwargs = known.values(tensors)
            made = self.overload(*args, **kwargs)
        if isinstance(made, torch.Tensor):
            made = (made,)
        return [tensor for tensor in made if isinstance(tensor, torch.Tensor)]

    def shapes(self, call: Any, results: Any) -> None:
        made = self.run(call)
        for i, tensor in enumerate(made[: call.num_outputs]):
            results[i].dtype = CODES[tensor.dtype]
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
                borrowed(call.outputs[i]).copy_(tensor)


def register(overload: Any) -> None:
    """Lets compiled programs of this process call an overload. Idempotent."""
    name = name_of(overload)
    with _lock:
        if name in _registered:
            return
        functions = Launches(overload) if isinstance(overload, Kernel) else _Operator(overload)
        given = operators._COperator()
        given.size = ctypes.sizeof(operators._COperator)
        given.domain = b"torch"
        given.name = name.encode()
        given.shape = operators._Shape(operators._guarded(functions.shapes))
        given.compute = operators._Compute(operators._guarded(functions.compute))
        given.user = None
        given.on_device = isinstance(overload, Kernel)
        check(library().knapper_register_operator(ctypes.byref(given)))
        _registered[name] = (given, functions)
