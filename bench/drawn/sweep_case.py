"""A case of the sweep: what is drawn for one number of one seed, as a module and its inputs."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import torch
from torch import nn

from drawn import blocks, operators
from drawn.draw import Draw, Rejected
from drawn.operators import FAMILIES, UNARY, Input, Operator, normal

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
BINARY = {"add_row": torch.add, "mul_row": torch.mul, "add_all": torch.add, "mul_all": torch.mul}


@dataclasses.dataclass
class Case:
    """What was drawn. `choices` are the family's; `around` the pointwise operators
    (name, before or after) of a family that may be fused. Numbers, lists and texts only."""

    family: str
    dtype: str
    exporter: str
    symbolic: bool
    elements: int
    around: list[list[str]]
    choices: dict[str, Any]

    @property
    def name(self) -> str:
        given = " ".join(f"{k}={_short(v)}" for k, v in self.choices.items() if "." not in k)
        names = "+".join(name for name, _ in self.around)
        return f"{self.family} {self.dtype} {given}" + (f" around {names}" if names else "")


def _short(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)


@dataclasses.dataclass
class Limits:
    """elements: of the largest tensor; dtypes and their shares; how often blocks instead of operators."""

    elements: int
    dtypes: tuple[str, ...]
    blocks: float = 0.25
    dynamo: float = 0.08


CPU = Limits(1 << 20, ("f32", "f32", "f32", "f32", "bf16", "f16"))
CUDA = Limits(1 << 26, ("bf16", "bf16", "bf16", "f32", "f16"))


class Net(nn.Module):
    """An operator with pointwise operators before and after it; extra operands are inputs."""

    def __init__(self, operator: Operator, around: list[list[str]]):
        super().__init__()
        self.operator, self.around, self.exactly = operator, around, False

    def _apply_around(self, x: Any, place: str, extra: list[Any]) -> Any:
        for name, where in self.around:
            if where == place:
                x = BINARY[name](x, extra.pop(0)) if name in BINARY else UNARY[name](x)
        return x

    def forward(self, *inputs: Any) -> Any:
        own = list(inputs[: len(self.operator.inputs)])
        extra = list(inputs[len(self.operator.inputs) :])
        own[0] = self._apply_around(own[0], "before", extra)
        function = self.operator.exact if self.exactly and self.operator.exact else self.operator.function
        return self._apply_around(function(*own), "after", extra)


@dataclasses.dataclass
class Built:
    module: nn.Module
    inputs: list[Input]
    picks: int | None
    jumps: bool = False  # a rounding can change which of several values is taken


def draw(seed: str, number: int, limits: Limits, only: str = "") -> Case:
    """Case `number` of the seed. `only`: of families whose name contains it."""
    rng = random.Random(f"{seed}:{number}")
    names = [n for n in [*FAMILIES, "blocks"] if only in n]
    family = "blocks" if rng.random() < limits.blocks and "blocks" in names else rng.choice(names)
    dtype = rng.choice(limits.dtypes)
    exporter = "dynamo" if rng.random() < limits.dynamo else "script"
    symbolic = rng.random() < 0.25
    # Most cases are small, so that odd sizes are many and none takes seconds.
    elements = max(1 << 12, int(limits.elements * 2 ** -rng.choice([0, 0, 1, 2, 3, 4, 6, 8])))
    around: list[list[str]] = []
    if family != "blocks":
        for _ in range(rng.choice([0, 0, 1, 2, 3, 5])):
            around.append([rng.choice([*UNARY, *BINARY]), rng.choice(["before", "after", "after"])])
    d = Draw(rng, None, elements)
    if family == "blocks":
        blocks.module(d)
    else:
        operator = FAMILIES[family](d)
        if not operator.fuse or operator.inputs[0].kind != "normal":
            around = []
    return Case(family, dtype, exporter, symbolic, elements, around, d.record)


def build(case: Case) -> Built:
    """The module of a case, its weights drawn. Raises Rejected for what no draw gives."""
    d = Draw(None, case.choices, case.elements)
    torch.manual_seed(1)  # of what modules draw themselves: each process has the same
    if case.family == "blocks":
        module, inputs = blocks.module(d)
        picks = None
    else:
        operator = FAMILIES[case.family](d)
        inputs, picks = list(operator.inputs), operator.picks
        module = Net(operator, case.around)
        if any(name in BINARY for name, _ in case.around):
            inputs += _operands(operator, case.around)
    generator = torch.Generator().manual_seed(1)
    for name, parameter in module.named_parameters():
        fan = parameter[0].numel() if parameter.dim() > 1 else 1
        drawn = torch.randn(parameter.shape, generator=generator)
        with torch.no_grad():
            # Vectors are scales and biases: around what they were made with.
            parameter.copy_(drawn * fan**-0.5 if parameter.dim() > 1 else parameter + 0.2 * drawn)
    jumps = any(isinstance(m, blocks.Router) for m in module.modules())
    return Built(module.eval(), inputs, picks, jumps)


def _operands(operator: Operator, around: list[list[str]]) -> list[Input]:
    """The extra inputs of binary operators, of the shape where they stand."""
    before = operator.inputs[0].shape
    after = tuple(_shape_after(operator))
    extra = []
    # In the order in which Net takes them: all before, then all after.
    for place, shape in (("before", before), ("after", after)):
        for name, where in around:
            if where == place and name in BINARY:
                extra.append(normal(*(shape if name.endswith("_all") else shape[-1:])))
    return extra


def _shape_after(operator: Operator) -> Any:
    values = [torch.empty(i.shape, dtype=torch.float32 if i.kind in ("normal", "positive") else
                          torch.int64 if i.kind == "index" else torch.bool, device="meta") for i in operator.inputs]
    return operator.function(*values).shape


def values(built: Built, dtype: torch.dtype, device: str, seed: int = 0) -> list[torch.Tensor]:
    """Random values of the inputs, those of float types in `dtype`."""
    generator = torch.Generator(device=device).manual_seed(seed)
    made = []
    for i in built.inputs:
        if i.kind == "index":
            made.append(torch.randint(0, max(1, i.below), i.shape, device=device, generator=generator))
            continue
        drawn = torch.randn(i.shape, device=device, generator=generator)
        if i.kind in ("bool", "mask"):
            drawn = drawn > 0
            if i.kind == "mask" and i.shape[-1]:
                drawn[..., 0] = True
            made.append(drawn)
            continue
        if i.kind == "positive":
            drawn = drawn.abs() + 0.1
        made.append((drawn * i.scale).to(dtype))
    return made


def export(case: Case, built: Built, path: Path) -> None:
    """Writes the module as ONNX, by the exporter of the case."""
    module, inputs = built.module.to(DTYPES[case.dtype]), values(built, DTYPES[case.dtype], "cpu")
    names = [f"x{i}" for i in range(len(inputs))]
    dynamic: Any = None
    # One dim of an operator is often two tensors' or none's: only blocks can have theirs named.
    symbolic = case.symbolic and case.family == "blocks"
    if case.exporter == "dynamo":
        if symbolic:
            dims = {i: torch.export.Dim.AUTO for i in (0, 1) if inputs[0].shape[i] > 1 and (inputs[0].dim() == 3 or i == 0)}
            dynamic = (dims,)
        torch.onnx.export(module, tuple(inputs), str(path), dynamo=True, input_names=names,
                          dynamic_shapes=dynamic, external_data=False, verbose=False)
        return
    if symbolic:
        axes = {0: "batch"} | ({1: "length"} if inputs[0].dim() in (2, 3) else {})
        dynamic = {"x0": axes, "y": {0: "batch"}}
    torch.onnx.export(module, tuple(inputs), str(path), dynamo=False, input_names=names, output_names=["y"],
                      dynamic_axes=dynamic, opset_version=18, verbose=False)


__all__ = ["CPU", "CUDA", "DTYPES", "Built", "Case", "Limits", "Rejected", "build", "draw", "export", "values", "operators"]
