"""Smaller cases that fail as one does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

Case = TypeVar("Case")


def shrink(case: Case, smaller: Callable[[Case], Iterator[Case]], fails: Callable[[Case], bool]) -> Case:
    """The first that `fails` of those that `smaller` makes of it, and so on until none does."""
    going = True
    while going:
        going = False
        for candidate in smaller(case):
            if candidate != case and fails(candidate):
                case, going = candidate, True
                break
    return case
