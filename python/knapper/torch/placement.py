"""On which device a graph runs, and what is compiled for it."""

from __future__ import annotations

import torch
from torch.fx import GraphModule

from knapper.errors import UserError

# By compute capability.
_ISAS = {(8, 0): "sm_80", (8, 6): "sm_86", (8, 9): "sm_89", (9, 0): "sm_90a"}


def device_of(module: GraphModule) -> torch.device:
    """The one device of the graph's tensors: numbers of rank 0 may lie on the host
    beside tensors of a GPU, which computes whatever the graph says on the host as
    well. UserError where inputs lie on several."""
    from knapper.torch.nodes import line_of

    host = torch.device("cpu")
    found = host
    for node in module.graph.nodes:
        values = node.meta.get("val")
        for value in values if isinstance(values, (list, tuple)) else [values]:
            if not isinstance(value, torch.Tensor) or value.device.type != "cuda":
                continue  # `describe` refuses other devices
            if found not in (host, value.device):
                raise UserError(
                    f"a tensor is on {value.device}, another on {found}",
                    where=line_of(node) or str(node),
                    hint="keep what is compiled together on the CPU or on one NVIDIA GPU",
                )
            found = value.device
    if found == host:
        return host
    for node in module.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device == host and value.dim() > 0:
            raise UserError(
                f"a tensor of shape {tuple(value.shape)} is on the CPU, others are on {found}",
                where=line_of(node) or str(node),
                hint="move it to the GPU before the compiled function",
            )
    if (found.index or 0) != 0:
        raise UserError(
            f"the tensors are on {found}, and compiled graphs run on the first GPU",
            where="device",
            hint="choose the GPU by CUDA_VISIBLE_DEVICES",
        )
    return found


def target_of(device: torch.device) -> str:
    """What `knapper.compile` takes: "cpu", "cuda:sm_90a"."""
    if device.type == "cpu":
        return "cpu"
    capability = torch.cuda.get_device_capability(device)
    if capability not in _ISAS:
        known = ", ".join(f"{a}.{b}" for a, b in _ISAS)
        raise UserError(
            f"the GPU has compute capability {capability[0]}.{capability[1]}",
            where="device",
            hint=f"GPUs of {known} are supported",
        )
    return f"cuda:{_ISAS[capability]}"


def deterministic_of(device: torch.device) -> bool:
    """Whether results must have the same bits in every run, as the user told torch."""
    return device.type == "cuda" and torch.are_deterministic_algorithms_enabled()


def tf32_of(device: torch.device) -> bool:
    """Whether matmuls of float32 may round to tf32, as the user told torch."""
    return device.type == "cuda" and torch.backends.cuda.matmul.allow_tf32
