"""Knapper under torch.compile.

    import torch

    fast = torch.compile(model, backend="knapper")
    y = fast(x)

`torch.compile` finds the backend by its name once the package is installed;
nothing needs to be imported. With typed options, and for everything else:

    import knapper.torch

    fast = knapper.torch.compile(model, fallback="error")
    knapper.torch.counters()

Importing this changes nothing in torch. Runs with torch 2.11 to 2.13.
"""

from knapper.torch.backend import backend, compile
from knapper.torch.counters import counters, reset_counters
from knapper.torch.custom import register_decomposition, register_external
from knapper.torch.explain import bench, explain
from knapper.torch.exported import export
from knapper.torch.options import Options

__all__ = [
    "Options", "backend", "bench", "compile", "counters", "explain", "export",
    "register_decomposition", "register_external", "reset_counters",
]  # fmt: skip
