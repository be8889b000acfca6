"""Cases that are lines of code, each of which names values of earlier lines.

A case is drawn again where the draw leads to none.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")
MOST = 100  # attempts


class Skip(Exception):
    """The draw leads to no case: another attempt draws again."""


def first_of_attempts(draw: Callable[[str], Made], seed: str, number: int) -> Made:
    """Case `number` of the seed: the first attempt that makes one. Each attempt has a seed of its own."""
    for attempt in range(MOST):
        try:
            return draw(f"{seed}:{number}:{attempt}")
        except Skip:
            continue
    raise AssertionError(f"no case for {seed}:{number}")


class LineDraw:
    """A case in the making. `values` has each name's tensor, or what has its shape and dtype."""

    def __init__(self, seed: str):
        self.random = random.Random(seed)
        self.values: dict[str, Any] = {}

    def one(self, values: Any, weights: Any = None) -> Any:
        return self.random.choices(list(values), weights)[0]

    def any(self, want: Callable[[Any], bool] = lambda t: True) -> str:
        """A value's name, a late one more often."""
        names = [name for name, value in self.values.items() if want(value)]
        if not names:
            raise Skip
        return self.one(names, range(2, len(names) + 2))

    def ranked(self, rank: int) -> str:
        return self.any(lambda t: len(t.shape) >= rank)

    def broadcast(self, name: str, want: Callable[[Any], bool]) -> str:
        """A value that broadcasts with another."""
        shape = self.values[name].shape
        return self.any(lambda t: want(t) and all(a == b or 1 in (a, b) for a, b in zip(reversed(t.shape), reversed(shape))))
