"""A random function of tensors as data: its lines, its inputs, how it is compiled and called."""

from __future__ import annotations

import dataclasses
import itertools
import linecache
import re
from collections.abc import Callable
from typing import Any

import torch

from drawn.line_draw import LineDraw, Skip

FLOATS = ("float32", "float64", "bfloat16", "float16")
INTS = ("int64", "int32", "int16", "int8", "uint8")
_numbers = itertools.count()


@dataclasses.dataclass
class Input:
    """dims: sizes, and names of sizes that a binding has. layout: how it lies.
    values: what it holds; "given": the numbers of `given`."""

    dims: list[int | str]
    dtype: str
    layout: str = "dense"
    values: str = "normal"
    seed: int = 0
    given: Any = None


@dataclasses.dataclass
class Function:
    """inputs: of the names x0, x1, ... bindings: sizes of the names, one for each
    call. dynamic: as torch.compile takes it. grad: inputs of floats want gradients."""

    inputs: dict[str, Input]
    lines: list[str]
    results: list[str]
    bindings: list[dict[str, int]]
    dynamic: bool | None = False
    grad: bool = False
    inference: bool = False
    exact: bool = False  # inputs of floats are float64, of what their own dtype holds

    @classmethod
    def of(cls, record: dict[str, Any]) -> Function:
        inputs = {name: Input(**given) for name, given in record["inputs"].items()}
        return cls(**{**record, "inputs": inputs})

    def source(self) -> str:
        lines = self.lines + [f"return ({''.join(f'{name}, ' for name in self.results)})"]
        return f"def function({', '.join(self.inputs)}):\n" + "".join(f"    {line}\n" for line in lines)

    def build(self) -> Callable[..., Any]:
        """The function, with lines that errors can quote."""
        name = f"<random function {next(_numbers)}>"
        linecache.cache[name] = (len(self.source()), None, self.source().splitlines(True), name)
        space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        exec(compile(self.source(), name, "exec"), space)
        return space["function"]

    def in_float64(self) -> Function:
        """The same with float64 for every other float. Its inputs hold the same numbers."""
        narrow = "|".join([*(name for name in FLOATS if name != "float64"), "float", "half"])
        lines = [re.sub(rf"torch\.({narrow})\b", "torch.float64", line) for line in self.lines]
        lines = [re.sub(r"\.(float|half|bfloat16)\(\)", ".double()", line) for line in lines]
        return dataclasses.replace(self, lines=lines, exact=True)

    def arguments(self, binding: int) -> list[torch.Tensor]:
        """Fresh ones, the same each time."""
        made: dict[str, torch.Tensor] = {}
        for name, given in self.inputs.items():
            made[name] = tensor(given, self.bindings[binding], made, self.exact)
        if self.grad:
            for made_one in made.values():
                if made_one.is_floating_point() and made_one._base is None:
                    made_one.requires_grad_()
        return list(made.values())


def tensor(
    given: Input, sizes: dict[str, int], others: dict[str, torch.Tensor], exact: bool = False
) -> torch.Tensor:
    shape = [sizes[d] if isinstance(d, str) else d for d in given.dims]
    dtype = getattr(torch, given.dtype)
    kind, _, base = given.layout.partition(" of ")
    if kind == "same":
        return others[base]
    if kind == "view":  # of another input's memory
        return others[base][..., 1:] if others[base].dim() else others[base].view(1)
    if given.values == "given":
        flat = torch.tensor(given.given, dtype=dtype).reshape(shape)
    else:
        flat = _values(given, shape, dtype)
    if exact and dtype.is_floating_point:
        flat = flat.double()
    return _laid(flat, kind)


def _values(given: Input, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(given.seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if not dtype.is_floating_point:
        if given.values == "special":
            most = torch.iinfo(dtype)
            pool = torch.tensor([0, 1, 2, 3, 7, most.max, most.min, most.max - 1], dtype=dtype)
            return pool[torch.randint(len(pool), shape, generator=generator)]
        least = 0 if dtype == torch.uint8 or given.values == "small" else -9
        return torch.randint(least, 10, shape, generator=generator).to(dtype)
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    if given.values == "special":
        pool = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -1.5, float("inf"), float("-inf"), float("nan"), 1e4, 1e-5])
        chosen = pool[torch.randint(len(pool), shape, generator=generator)].double()
        values = torch.where(torch.rand(shape, generator=generator) < 0.4, chosen, values)
    elif given.values == "small":
        values = torch.round(values * 2) / 2
    elif given.values == "positive":
        values = values.abs() + 0.1
    return values.to(dtype)


def _laid(flat: torch.Tensor, kind: str) -> torch.Tensor:
    """The same numbers, lying as `kind` says."""
    if kind == "transposed" and flat.dim() > 1:
        return flat.transpose(0, -1).contiguous().transpose(0, -1)
    if kind == "channels last" and flat.dim() == 4:
        return flat.contiguous(memory_format=torch.channels_last)
    if kind == "gaps" and flat.dim():
        wide = torch.zeros([*flat.shape[:-1], flat.shape[-1] * 2 + 1], dtype=flat.dtype)
        wide[..., 1::2] = flat
        return wide[..., 1::2]
    if kind == "offset":
        wide = torch.zeros(flat.numel() + 3, dtype=flat.dtype)
        wide[3:] = flat.reshape(-1)
        return wide[3:].view(flat.shape)
    if kind == "expanded" and flat.dim() and flat.numel():
        return flat[:1].contiguous().expand(flat.shape)
    return flat


def uses(line: str) -> set[str]:
    """Names of values in a line."""
    return set(re.findall(r"\b[xv]\d+\b", line))


def bound(line: str) -> list[str]:
    """Names that a line binds."""
    left, mark, _ = line.partition(" = ")
    return re.findall(r"\bv\d+\b", left) if mark else []


class Draw(LineDraw):
    """A function in the making; every line has run."""

    def __init__(self, seed: str):
        super().__init__(seed)
        self.lines: list[str] = []
        self.values: dict[str, torch.Tensor] = {}  # of the first binding
        self.symbolic = False
        self.sizes: dict[str, int] = {}

    def tensor(self, want: Callable[[torch.Tensor], bool] = lambda t: True) -> str:
        return self.any(want)

    def float(self, rank: int = 0) -> str:
        return self.tensor(lambda t: t.is_floating_point() and t.dim() >= rank)

    def number(self, rank: int = 0) -> str:
        return self.tensor(lambda t: t.dtype != torch.bool and t.dim() >= rank)

    def int(self, rank: int = 0) -> str:
        return self.tensor(lambda t: not t.is_floating_point() and t.dtype != torch.bool and t.dim() >= rank)

    def bool(self) -> str:
        return self.tensor(lambda t: t.dtype == torch.bool)

    def like(self, name: str, want: Callable[[torch.Tensor], bool] = lambda t: True) -> str:
        return self.broadcast(name, want)

    def dim(self, name: str) -> int:
        rank = self.values[name].dim()
        if rank == 0:
            raise Skip
        return self.random.randrange(-rank, rank)

    def size(self, name: str, dim: int) -> str:
        """Of a dim, as a number or, where sizes have names, as a program writes it."""
        return f"{name}.shape[{dim}]" if self.symbolic else str(self.values[name].shape[dim])

    def scalar(self) -> str:
        return self.one(["2", "-1", "3", "0.5", "-1.5", "0", "1", "2.25", "7", "True"])


def record(function: Function) -> dict[str, Any]:
    return dataclasses.asdict(function)
