"""Every kernel of a call against float64."""

from __future__ import annotations

import ctypes
import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from knapper import compiler
from knapper.errors import InternalError
from knapper.library import check, library, take_string

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


def kernels(graph: bytes, inputs: list[torch.Tensor]) -> list[dict[str, Any]]:
    """What `knapper.verify` says of the kernels of a graph's description, on row-major
    tensors in the order of its inputs."""
    from knapper.torch.program import tensors_of

    keep: list[object] = []
    request = compiler._request(graph, {"model_format": "torch"}, keep)
    rows, held = tensors_of(inputs)
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
