"""Tensors that a description has with it, as constants of the program."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from knapper.module import Module

# Weights of more bytes go to the compiler in a file.
_MOST_IN_MEMORY = 64 << 20
_ALIGNMENT = 64


class Weights:
    """The data behind a description. One tensor is there once."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._size = 0
        self._places: dict[Any, int] = {}

    def place(self, tensor: torch.Tensor) -> int:
        """Takes the tensor's elements, row-major; where they begin."""
        with unset_fake_temporarily():
            return self._place(tensor.detach())

    def _place(self, tensor: torch.Tensor) -> int:
        key = (tensor.data_ptr(), tensor.device, tensor.dtype, tuple(tensor.shape), tensor.stride())
        if key not in self._places or not tensor.numel():
            self._places[key] = self._size
            flat = tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            pad = -len(flat) % _ALIGNMENT
            self._parts += [flat.data, b"\0" * pad]
            self._size += len(flat) + pad
        return self._places[key]

    def build(self, text: bytes, compile: Callable[[Any], Module]) -> Module:
        """What `compile` makes of the description and the data."""
        # Constants begin on a boundary of the whole.
        parts = [text + b"\0" * (_ALIGNMENT - len(text) % _ALIGNMENT), *self._parts]
        if self._size <= _MOST_IN_MEMORY:
            return compile(b"".join(parts))
        with tempfile.NamedTemporaryFile(suffix=".torch") as file:
            for part in parts:
                file.write(part)
            file.flush()
            return compile(file.name)
