"""Whether what a bench compares with is here."""

from __future__ import annotations

import importlib
from types import ModuleType


def torch_here(*packages: str, gpu: bool = True) -> ModuleType | None:
    """PyTorch, if it, the packages and, with `gpu`, an NVIDIA GPU are here; else says what is missing."""
    try:
        torch = importlib.import_module("torch")
        for package in packages:
            importlib.import_module(package)
    except ImportError as missing:
        print(f"skipped: {missing.name} is not installed")
        return None
    if gpu and not torch.cuda.is_available():
        print("skipped: this machine has no NVIDIA GPU")
        return None
    return torch
