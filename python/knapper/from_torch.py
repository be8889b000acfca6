"""PyTorch's modules as models, by way of its ONNX exporter. The only place that
knows about it."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from knapper.errors import WrongType, WrongValue

# Protobuf ends at 2 GiB; weights that come near go beside the graph.
_MOST_INSIDE = 1 << 30


@contextlib.contextmanager
def in_evaluation(module: Any) -> Iterator[None]:
    """The module in evaluation mode; each part has its own mode again afterwards."""
    modes = {part: part.training for part in module.modules()}
    try:
        module.eval()
        yield
    finally:
        for part, training in modes.items():
            part.training = training


def is_program(model: object) -> bool:
    """A program of torch.export, or the path of its file."""
    if isinstance(model, (str, os.PathLike)):
        return os.fsdecode(model).endswith(".pt2")
    return type(model).__name__ == "ExportedProgram" and type(
        model
    ).__module__.startswith("torch.export")


def is_module(model: object) -> bool:
    """A torch.nn.Module, or a program of torch.export in memory."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return isinstance(model, torch.nn.Module) or (
        not isinstance(model, (str, os.PathLike)) and is_program(model)
    )


def refuse_examples(example_inputs: object, dynamic_shapes: object) -> None:
    """For programs, which have been traced."""
    if example_inputs is not None or dynamic_shapes is not None:
        raise WrongValue(
            "example_inputs and dynamic_shapes: an exported program has them already",
            where="example_inputs",
            hint="leave them out",
        )


def is_onnx_program(model: object) -> bool:
    """What torch.onnx.export gives."""
    return type(model).__name__ == "ONNXProgram" and type(model).__module__.startswith(
        "torch.onnx"
    )


def export(module: Any, example_inputs: Any, dynamic_shapes: Any) -> Any:
    """The ONNXProgram of a module, as it computes in evaluation.

    Raises UserError where torch cannot export it, with torch's reason.
    """
    import torch

    arguments: dict[str, Any] = {}
    if example_inputs is None:
        first = next(iter(inspect.signature(module.forward).parameters), "x")
        raise WrongValue(
            f"example_inputs: to compile the torch module {type(module).__name__}, "
            "inputs are needed that it can be traced with",
            where="example_inputs",
            hint="knapper.compile(module, example_inputs=(torch.randn(2, 3),), "
            f'dynamic_shapes={{"{first}": {{0: "batch"}}}})',
        )
    if isinstance(example_inputs, Mapping):
        arguments = {"args": (), "kwargs": dict(example_inputs)}
    elif isinstance(example_inputs, (tuple, list)):
        arguments = {"args": tuple(example_inputs)}
    else:
        arguments = {"args": (example_inputs,)}
    arguments["dynamic_shapes"] = dynamic_shapes
    try:
        with in_evaluation(module):
            return torch.onnx.export(module, **arguments, dynamo=True, verbose=False)
    except ImportError as error:
        raise WrongValue(
            f"model: torch's ONNX exporter cannot be used: {error}",
            where="model",
            hint="pip install onnx onnxscript",
        ) from error
    except Exception as error:
        raise WrongValue(
            f"model: torch cannot export {type(module).__name__}: {_first_line(error)}",
            where="model",
            hint="torch.onnx.export(module, inputs, dynamo=True, report=True) says more",
        ) from error


def save(program: Any, folder: str, name: str) -> str:
    """Writes an ONNXProgram into a folder; the path of its model."""
    path = os.path.join(folder, f"{name}.onnx")
    weights = sum(
        value.const_value.nbytes
        for value in program.model.graph.initializers.values()
        if value.const_value is not None
    )
    program.save(path, external_data=weights > _MOST_INSIDE)
    return path


def refuse_module(model: object, function: str) -> None:
    """For functions that take models which are exported."""
    if is_module(model):
        raise WrongType(
            f"model: {function} takes exported models, not the torch module "
            f"{type(model).__name__}",
            where="model",
            hint="torch.onnx.export(module, inputs, dynamo=True) gives one",
        )


def _first_line(error: BaseException) -> str:
    """The text that says most: torch wraps the reason in advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"
