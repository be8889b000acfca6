"""Every kernel of a call against float64."""

from __future__ import annotations

import ctypes
import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from knapper import dtypes
from knapper.errors import InternalError
from knapper.library import CTensor, check, library, take_string
from knapper.request import request_of
from knapper.torch.description import DTYPES

_SCRIPT = '''"""Checks every kernel of a compiled graph against float64."""

import json
from pathlib import Path

import torch

from knapper.torch.verify import kernels

here = Path(__file__).parent
inputs = torch.load(here / "inputs.pt")
for kernel in kernels((here / "graph.json").read_bytes(), inputs):
    if not kernel["passed"]:
        print(json.dumps(kernel, indent=1))
'''


def _rows_of(tensors: list[torch.Tensor]) -> tuple[Any, list[Any]]:
    """Row-major tensors as the C API takes them, and what must live as long."""
    codes = {dtype: dtypes.NAMES.index(name) for dtype, name in DTYPES.items()}
    rows = (CTensor * max(1, len(tensors)))()
    held: list[Any] = [tensors]
    for row, tensor in zip(rows, tensors):
        row.shape = shape = (ctypes.c_int64 * max(1, tensor.dim()))(*tensor.shape)
        held.append(shape)
        row.rank = tensor.dim()
        row.dtype = codes[tensor.dtype]
        row.data = tensor.data_ptr() if tensor.numel() else None
        row.bytes = tensor.nbytes
    return rows, held


def kernels(graph: bytes, inputs: list[torch.Tensor]) -> list[dict[str, Any]]:
    """What `knapper.verify` says of the kernels of a graph's description, on row-major
    tensors in the order of its inputs."""
    keep: list[object] = []
    request = request_of(graph, {"model_format": "torch"}, keep)
    rows, held = _rows_of(inputs)
    text = ctypes.c_void_p()
    check(library().knapper_verify(ctypes.byref(request), rows, len(inputs), ctypes.byref(text)))
    del held
    return json.loads(take_string(text))["kernels"]


def verify(graph: bytes, inputs: list[torch.Tensor]) -> None:
    """InternalError for the first kernel that diverges, with a folder that has the
    graph, the inputs and a script that shows it."""
    with torch.random.fork_rng(devices=[]):  # the call draws its own numbers after
        bad = next((k for k in kernels(graph, inputs) if not k["passed"]), None)
    if bad is None:
        return
    folder = Path(tempfile.mkdtemp(prefix="knapper-verify-"))
    (folder / "graph.json").write_bytes(graph)
    torch.save([tensor.clone() for tensor in inputs], folder / "inputs.pt")
    (folder / "reproduce.py").write_text(_SCRIPT)
    raise InternalError(
        f"the kernel of {bad['origin']} differs from float64 by {bad['error']}, "
        f"{bad['bound']} is allowed",
        where="verify=True",
        hint=f"python {folder / 'reproduce.py'} shows it; please report the folder",
    )
