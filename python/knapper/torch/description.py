"""What a call needs to know of a graph's description: inputs, outputs, results.
describe.py makes it; it is pickled into torch's cache."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from knapper.torch import custom, sizes
from knapper.torch.weights import Weights

DTYPES = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float64: "f64",
    torch.bool: "i1",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.float8_e4m3fn: "f8e4m3fn",
    torch.float8_e4m3fnuz: "f8e4m3fnuz",
    torch.float8_e5m2: "f8e5m2",
    torch.float8_e5m2fnuz: "f8e5m2fnuz",
}
NARROW = [dtype for dtype, name in DTYPES.items() if name.startswith("f8")]


@dataclasses.dataclass
class Input:
    """An input of the compiled program: an argument of the call (`argument`), a view
    of the memory that one lies in (`view`), a tensor that the graph holds (`tensor`),
    or the value of a symbol (`symbol`).

    sign: of a symbol for numbers below zero, too, is +1 the input that is what is
    above zero, -1 that below; symbols of the program are never negative."""

    argument: int = -1
    view: View | None = None
    tensor: torch.Tensor | None = None
    symbol: str = ""
    sign: int = 0
    order: list[int] | None = None  # None: not dense, it is copied
    rank: int = 0
    dtype: torch.dtype | None = None

    def among(self, arguments: list[Any]) -> torch.Tensor:
        """The tensor, of a call with these arguments."""
        if self.view is not None:
            return self.view.of(arguments, [])
        return self.tensor if self.tensor is not None else arguments[self.argument]

    def of(self, value: int) -> int:
        """What the input is where the symbol has this value."""
        return max(0, self.sign * value) if self.sign else value


@dataclasses.dataclass
class Output:
    """An output of the compiled program."""

    dtype: torch.dtype
    device: torch.device
    size: Any  # of ints and sizes.Formula, as torch claims
    stride: Any
    order: list[int]
    narrow: list[int]  # dims with one element in memory
    dense: bool  # the claimed strides are those of `order`
    mutates: int = -1  # the argument that it is written to


class View:
    """A result that lies within an argument or an output, behind its beginning.
    AOTAutograd makes the user's tensor of where the result lies."""

    def __init__(
        self, value: Any, base: tuple[str, int], begin: Any, symbols: Any,
        fixed: bool = False, counted: dict[str, tuple[int, int]] | None = None,
    ) -> None:  # fmt: skip
        """base: ("argument" | "output", index), behind whose beginning the result begins
        by `begin`. fixed: the place counts from the storage's beginning, wherever the base lies in it.
        counted: as sizes.evaluator has them. sizes.Unknown where a number of it has
        no place."""
        self.base = base
        self._fixed = fixed
        self._rank = value.dim()
        given = [*value.shape, *value.stride(), begin]
        self._given, self._symbols = [sizes.kept(size) for size in given], symbols
        self._counted = counted or {}
        self._numbers = sizes.evaluator(self._given, symbols, self._counted)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_numbers"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._numbers = sizes.evaluator(self._given, self._symbols, self._counted)

    def of(self, arguments: list[Any], outputs: list[Any]) -> torch.Tensor:
        kind, index = self.base
        tensor = (arguments if kind == "argument" else outputs)[index]
        numbers, rank = self._numbers(arguments, outputs), self._rank
        with torch.no_grad():
            begin = 0 if self._fixed else tensor.storage_offset()
            return tensor.as_strided(numbers[:rank], numbers[rank : 2 * rank], numbers[-1] + begin)


class Number:
    """A result that is a number which data decides."""

    def __init__(self, value: Any, symbols: Any, counted: dict[str, tuple[int, int]]) -> None:
        self._given = sizes.kept(value), symbols, counted
        self._number = sizes.evaluator([self._given[0]], symbols, counted)

    def __reduce__(self) -> Any:
        return Number, self._given

    def of(self, arguments: list[Any], outputs: list[Any]) -> int:
        return int(self._number(arguments, outputs)[0])


_OVERLOADS = ("overloads", "by_torch")  # fields of a Description that hold them


@dataclasses.dataclass
class Description:
    """A described graph: its text for the compiler, and how a call's arguments and results map to inputs and outputs."""

    text: bytes
    inputs: list[Input]
    outputs: list[Output]
    # What the call gives: ("output", index), ("argument", index), ("view", View),
    # ("size", sizes.Formula), ("number", Number) or ("value", anything).
    results: list[tuple[str, Any]]
    # Where symbols are read: name -> (argument, dim), or (argument, -1) for an
    # int.
    symbols: dict[str, tuple[int, int]]
    overloads: set[Any]  # that the graph calls
    by_torch: set[Any]  # of them, what torch computes whatever `fallback` says
    nodes: int
    # What a factorisation says of its success, which torch raises an error for:
    # (output, function's name, whether of one matrix).
    checks: list[tuple[int, str, bool]]
    arguments: int = 0  # that the graph takes
    # Where in its storage an argument must begin that a view of it writes to.
    begins: dict[int, int] = dataclasses.field(default_factory=dict)
    # Of results that lie in another way than torch claims: their strides.
    strides: dict[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    # Of `torch._assert_async`: (output that must be true, the error's text).
    assertions: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    weights: Weights = dataclasses.field(default_factory=Weights)  # behind the text

    def __getstate__(self) -> dict[str, Any]:
        packed = {name: {custom.packed(each) for each in vars(self)[name]} for name in _OVERLOADS}
        return {**vars(self), **packed, "strides": {}, "weights": Weights()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for name in _OVERLOADS:
            setattr(self, name, {custom.unpacked(each) for each in state[name]})
