"""Launches of Triton kernels, called from inside of a compiled program."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch

from knapper import operators
from knapper.torch.calls import CODES, Call, borrowed
from knapper.torch.description import DTYPES
from knapper.torch.triton_kernels import Kernel

_BY_NAME = {DTYPES[dtype]: code for dtype, code in CODES.items()}


class Launches:
    """The launches of a kernel, as the library calls them."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._calls: dict[str, Call] = {}

    def _arguments(self, call: Any, device: torch.device) -> tuple[dict[str, Any], list[torch.Tensor]]:
        text = operators._attributes(call)["call"]
        known = self._calls.get(text)
        if known is None:
            known = self._calls[text] = Call(self._kernel, text)
        tensors = [borrowed(t, device) for t in call.inputs[: call.num_inputs]]
        _, arguments = known.values(tensors)
        return arguments, tensors

    def shapes(self, call: Any, results: Any) -> None:
        arguments, _ = self._arguments(call, _device_of(call))
        for result, (_, dtype, shape) in zip(results, arguments["made"]):
            result.dtype, result.rank = _BY_NAME[dtype], len(shape)
            result.shape[: len(shape)] = shape

    def compute(self, call: Any) -> None:
        device = _device_of(call)
        with torch.no_grad(), _stream(call.stream)():
            arguments, _ = self._arguments(call, device)
            tensors = dict(arguments["tensors"])
            results = {}
            for index, (name, _, _) in enumerate(arguments["made"]):
                results[name] = borrowed(call.outputs[index], device)
                given = tensors.get(name)
                if given is not None and given.data_ptr() != results[name].data_ptr():
                    results[name].copy_(given)
            tensors.update(results)
            for name, stride in arguments["strides"]:
                tensors[name] = _laid(tensors[name], stride)
            for name, other in arguments["same"]:
                tensors[name] = tensors[other]
            if all(size > 0 for grid in arguments["grids"] for size in grid):
                self._kernel.launch(arguments["grids"], dict(tensors), dict(arguments["numbers"]))
            for name, result in results.items():
                if tensors[name].data_ptr() != result.data_ptr():
                    result.copy_(tensors[name])


def _laid(tensor: torch.Tensor, stride: list[int]) -> torch.Tensor:
    """A copy that lies as the trace says, where kernels look for it."""
    made = torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device)
    target, source = made, tensor
    for dim, step in enumerate(stride):
        if step == 0 and made.shape[dim] > 1:
            target, source = target.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
    target.copy_(source)
    return made


def _device_of(call: Any) -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if call.stream else torch.device("cpu")


LEGACY_STREAM = 1  # CU_STREAM_LEGACY


def _stream(address: int | None) -> Callable[[], Any]:
    """A context in which torch and Triton work in the program's stream."""
    if not address:
        return contextlib.nullcontext
    if address == LEGACY_STREAM:
        return functools.partial(torch.cuda.stream, torch.cuda.default_stream())
    return _external(address)


@functools.lru_cache(maxsize=64)
def _external(address: int) -> Callable[[], Any]:
    return functools.partial(torch.cuda.stream, torch.cuda.ExternalStream(address))
