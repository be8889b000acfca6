"""A compiled graph as AOTAutograd calls it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from knapper.library import CTensor, check
from knapper.module import Module
from knapper.results import Handle, Result
from knapper.torch import sizes
from knapper.torch.describe import DTYPES, Description, Output
from knapper import dtypes

_EMPTY = torch.empty(0)


def _shapes(description: Description) -> Callable[[Any], Any] | None:
    """A function of the call's arguments that gives size, stride and the dims in
    memory of every output, and the sizes among the results; None where all of
    them are numbers. Sizes that only the run knows are None."""
    used: set[str] = set()
    lines = []
    symbolic = False

    def write(values: Any) -> str:
        nonlocal symbolic
        texts = []
        for value in values:
            if isinstance(value, int):
                texts.append(str(value))
                continue
            symbolic = True
            if not sizes.symbols(value) <= description.symbols.keys():
                return "None"
            used.update(sizes.symbols(value))
            texts.append(sizes.python(value))
        return "(" + "".join(text + ", " for text in texts) + ")"

    for output in description.outputs:
        memory = [1 if d in output.narrow else output.size[d] for d in output.order]
        lines.append(
            f"({write(output.size)}, {write(output.stride)}, {write(memory)})"
        )
    given = write([value for kind, value in description.results if kind == "size"])
    if not symbolic:
        return None
    source = ["def shapes(a):"]
    for name in sorted(used):
        argument, dim = description.symbols[name]
        where = f"a[{argument}]" if dim < 0 else f"a[{argument}].shape[{dim}]"
        source.append(f"    {name} = {where}")
    source.append(f"    return [{', '.join(lines)}], {given}")
    space: dict[str, Any] = {}
    exec("\n".join(source), space)
    return space["shapes"]


class _Slots:
    """The structs of one call."""

    def __init__(self, program: Program) -> None:
        description = program.description
        self.inputs = (CTensor * max(1, len(description.inputs)))()
        self.outputs = (CTensor * max(1, len(description.outputs)))()
        self.keep: list[Any] = []
        for slot, given in zip(self.inputs, description.inputs):
            shape = (ctypes.c_int64 * max(1, given.rank))()
            self.keep.append(shape)
            slot.rank = given.rank
            slot.shape = shape
        for slot, output in zip(self.outputs, description.outputs):
            shape = (ctypes.c_int64 * max(1, len(output.order)))()
            self.keep.append(shape)
            slot.rank = len(output.order)
            slot.shape = shape
            slot.dtype = program.codes[output.dtype]
        self.scalars = [ctypes.c_int64() for _ in description.inputs]
        self.out = ctypes.c_void_p()
        for index, given in enumerate(description.inputs):
            if given.symbol:
                slot = self.inputs[index]
                slot.data = ctypes.addressof(self.scalars[index])
                slot.bytes = 8
                slot.dtype = dtypes.NAMES.index("i64")


class Program:
    """Called with a list of arguments, which it empties, as a boxed function."""

    def __init__(self, module: Module, description: Description) -> None:
        self._boxed_call = True  # of the object: torch copies its __dict__
        self.module = module
        self.description = description
        self.codes = {
            dtype: dtypes.NAMES.index(name) for dtype, name in DTYPES.items()
        }
        self.copied = 0  # arguments that were copied because of how they lay
        self._shapes = _shapes(description)
        self._fixed = None if self._shapes else self._fixed_shapes()
        self._free: list[_Slots] = []
        self._run = module._lib.knapper_run
        self._release = module._lib.knapper_result_release
        self._handle = module._handle.value
        self._sized = [
            (argument, dim, name)
            for name, (argument, dim) in description.symbols.items()
        ]

    def _fixed_shapes(self) -> Any:
        rows = []
        for output in self.description.outputs:
            memory = tuple(
                1 if d in output.narrow else output.size[d] for d in output.order
            )
            rows.append((tuple(output.size), tuple(output.stride), memory))
        numbers = tuple(
            int(value) for kind, value in self.description.results if kind == "size"
        )
        return rows, numbers

    def __call__(self, arguments: list[Any]) -> list[Any]:
        description = self.description
        shapes, numbers = self._fixed or self._shapes(arguments)  # type: ignore[misc]
        try:
            slots = self._free.pop()
        except IndexError:
            slots = _Slots(self)
        held = []
        for index, given in enumerate(description.inputs):
            if given.symbol:
                argument, _ = description.symbols[given.symbol]
                slots.scalars[index].value = arguments[argument]
                continue
            tensor = given.tensor if given.tensor is not None else arguments[given.argument]
            tensor = self._in_memory(tensor, given.order)
            held.append(tensor)
            slot = slots.inputs[index]
            slot.data = tensor.data_ptr()
            slot.bytes = tensor.nbytes
            slot.dtype = self.codes[tensor.dtype]
            for dim, size in enumerate(tensor.shape):
                slot.shape[dim] = size
        outputs: list[Any] = []
        late = False
        for slot, output, (size, stride, memory) in zip(
            slots.outputs, description.outputs, shapes
        ):
            if memory is None:
                late = True
                slot.data = None
                slot.bytes = 0
                outputs.append(None)
                continue
            if output.dense and output.mutates < 0:
                made = torch.empty_strided(
                    size, stride, dtype=output.dtype, device=output.device
                )
            else:
                made = torch.empty(memory, dtype=output.dtype, device=output.device)
            outputs.append(made)
            count = 1
            for dim, entry in enumerate(memory):
                slot.shape[dim] = entry
                count *= entry
            slot.data = made.data_ptr() if count else None
            slot.bytes = count * made.element_size()
        out = slots.out
        error = self._run(
            self._handle, slots.inputs, len(description.inputs), slots.outputs,
            len(description.outputs), ctypes.byref(out),
        )  # fmt: skip
        if error is not None:
            check(error)
        if late:
            self._take_late(out, outputs)
        else:
            self._release(out)
        self._free.append(slots)
        del held
        for index, name, is_matrix in description.checks:
            torch._linalg_check_errors(outputs[index], name, is_matrix=is_matrix)
        for output, (size, stride, memory), index in zip(
            description.outputs, shapes, range(len(outputs))
        ):
            made = outputs[index]
            if output.mutates >= 0:
                target = arguments[output.mutates]
                with torch.no_grad():
                    target.copy_(_arranged(made, output))
            elif memory is None:
                outputs[index] = made.contiguous()  # as torch traces what data sizes
            elif not output.dense:
                outputs[index] = _restrided(made, output, size, stride)
        results = []
        number = iter(numbers or ())
        for kind, value in description.results:
            if kind == "output":
                results.append(outputs[value])
            elif kind == "argument":
                results.append(arguments[value])
            elif kind == "size":
                results.append(next(number))
            else:
                results.append(value)
        arguments.clear()
        return results

    def _in_memory(self, tensor: torch.Tensor, order: list[int] | None) -> torch.Tensor:
        """The tensor with its dims in the order that the program reads."""
        if tensor.requires_grad:
            tensor = tensor.detach()
        if order is not None and order != sorted(order):
            tensor = tensor.permute(order)
        if not tensor.is_contiguous():
            self.copied += 1
            tensor = tensor.contiguous()
        if tensor.is_neg() or tensor.is_conj():
            tensor = tensor.resolve_neg().resolve_conj()
        return tensor

    def _take_late(self, out: ctypes.c_void_p, outputs: list[Any]) -> None:
        """Outputs whose sizes the run decided, from the result's memory."""
        handle = ctypes.c_void_p(out.value)
        out.value = None
        result = Result(
            Handle(handle, self._release, self.module._handle),
            tuple(str(i) for i in range(len(outputs))),
            len(outputs),
        )
        for index, made in enumerate(outputs):
            if made is None:
                output = self.description.outputs[index]
                outputs[index] = _arranged(
                    torch.from_dlpack(result.tensor(index)), output
                ).clone()


def _arranged(memory: torch.Tensor, output: Output) -> torch.Tensor:
    """What lies in memory's order with the dims in their own."""
    back = [0] * len(output.order)
    for position, dim in enumerate(output.order):
        back[dim] = position
    return memory.permute(back)


def _restrided(memory: torch.Tensor, output: Output, size: Any, stride: Any) -> Any:
    """A copy with strides that leave gaps."""
    made = torch.empty_strided(size, stride, dtype=output.dtype, device=output.device)
    made.copy_(_arranged(memory, output))
    return made
