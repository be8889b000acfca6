"""Smaller cases that fail alike: numbers halve, operators around go, blocks become fewer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from drawn import sweep_case
from drawn.sweep_case import Case


def smaller(case: Case) -> Iterator[Case]:
    """Simpler cases, boldest first."""
    if case.around:
        yield dataclasses.replace(case, around=[])
        for i in range(len(case.around)):
            yield dataclasses.replace(case, around=case.around[:i] + case.around[i + 1 :])
    if case.exporter == "dynamo":
        yield dataclasses.replace(case, exporter="script")
    if case.symbolic:
        yield dataclasses.replace(case, symbolic=False)
    if case.dtype != "f32":
        yield dataclasses.replace(case, dtype="f32")
    for name, value in case.choices.items():
        for other in _smaller_value(value):
            yield dataclasses.replace(case, choices=case.choices | {name: other})


def _smaller_value(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        if value:
            yield False
    elif isinstance(value, int):
        for other in (1, value // 8, value // 2, value - 1):
            if 0 < other < value:
                yield other
    elif isinstance(value, list):
        for i, dim in enumerate(value):
            for other in _smaller_value(dim):
                yield value[:i] + [other] + value[i + 1 :]


def minimise(case: Case, fails: Callable[[Case], bool], tries: int = 120) -> Case:
    """The smallest case found that `fails`, within so many tries."""
    improved = True
    while improved and tries > 0:
        improved = False
        for candidate in smaller(case):
            if tries <= 0:
                break
            try:
                sweep_case.build(candidate)
            except Exception:  # no case could be drawn so
                continue
            tries -= 1
            if fails(candidate):
                case, improved = candidate, True
                break
    return case
