"""Arguments over one memory of which a program writes one.

AOTAutograd makes one argument of those that lie over each other when it traces. It
does not guard static sizes for that, and its own test finds some only in one order
of the arguments. A program of apart arguments would give wrong numbers then.
"""

from __future__ import annotations

from typing import Any

import numpy
import torch

from knapper.errors import UserError
from knapper.torch.description import Description


class Overlaps:
    """The check that a call of a described graph begins with."""

    def __init__(self, description: Description) -> None:
        self._written = {o.mutates for o in description.outputs if o.mutates >= 0}
        read = {i.argument for i in description.inputs if i.tensor is None and not i.symbol}
        self._places = sorted(read | self._written)
        self._symbolic = bool(description.symbols)
        self._bytes: list[int] | None = None  # of each place, where sizes are numbers

    def __bool__(self) -> bool:
        return bool(self._written) and len(self._places) > 1

    def refuse(self, arguments: list[Any]) -> None:
        """UserError where a written argument lies over another one."""
        begins = [arguments[place].data_ptr() for place in self._places]
        lengths = self._bytes
        if lengths is None:
            lengths = [_bytes(arguments[place]) for place in self._places]
            if not self._symbolic:
                self._bytes = lengths
        spans = sorted(zip(begins, lengths, self._places))
        end = 0
        for begin, length, _ in spans:
            if begin < end:
                break
            end = begin + length
        else:
            return
        before: list[tuple[int, int]] = []  # (end, place) of those that reach here
        for begin, length, place in spans:
            before = [each for each in before if each[0] > begin]
            for _, other in before:
                self._refuse_pair(arguments, place, other)
            before.append((begin + length, place))

    def _refuse_pair(self, arguments: list[Any], one: int, other: int) -> None:
        written = next((place for place in (one, other) if place in self._written), None)
        if written is None or not _share(arguments[one], arguments[other]):
            return
        raise UserError(
            f"arguments {min(one, other)} and {max(one, other)} of the graph lie over each other, and it "
            f"writes argument {written}; it was compiled for arguments that lie apart",
            where="knapper.torch",
            hint="give a clone of one",
        )


def _bytes(tensor: torch.Tensor) -> int:
    """From its first element to behind its last."""
    if tensor.is_contiguous() or not tensor.numel():
        return tensor.nbytes
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.itemsize


class _Memory:
    """A tensor's memory to NumPy, which reads none of it: it may be a GPU's."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), True),
            "typestr": f"|V{tensor.itemsize}",
            "shape": tuple(tensor.shape),
            "strides": tuple(step * tensor.itemsize for step in tensor.stride()),
        }


# Of NumPy before 1.25 it is one of the package's own names.
_TooHardError: type[Exception] = getattr(numpy, "exceptions", numpy).TooHardError
_MOST_WORK = 100_000  # candidate solutions; NumPy takes a millisecond


def _share(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether an element of one lies in one of the other; true where that takes too long to find out."""
    try:
        return numpy.shares_memory(
            numpy.asarray(_Memory(one)), numpy.asarray(_Memory(other)), max_work=_MOST_WORK
        )
    except _TooHardError:
        return True
