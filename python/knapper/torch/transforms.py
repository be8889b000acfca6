"""Transforms of torch's around a compiled function that it cannot be called in. Within
`torch.func` Dynamo itself runs the function eager, or refuses with fullgraph=True."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from knapper.errors import UserError


def refuse_tangents(arguments: Any) -> None:
    """Where forward derivatives are taken: the program would lose them."""
    for value in arguments:
        if isinstance(value, torch.Tensor) and forward_ad.unpack_dual(value).tangent is not None:
            raise UserError(
                "a tensor has a tangent (torch.autograd.forward_ad), which the compiled program does not carry on",
                where="knapper.torch",
                hint="compile the function that calls torch.func.jvp",
            )


def refuse_functional(example_inputs: Any) -> None:
    """Within torch.func.functionalize."""
    if any(isinstance(value, torch.Tensor) and torch._is_functional_tensor(value) for value in example_inputs):
        raise UserError(
            "torch.func.functionalize is around the compiled function, whose graph torch makes functional itself",
            where="knapper.torch",
            hint="leave functionalize out, or compile what it gives",
        )
