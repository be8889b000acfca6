"""What a drop-in for another runtime does not honour.

A hint asks for memory or speed alone: without it every result is the same. It is
passed over with one `HintWarning` a process, and refused under strictness. What is
refused is collected, so that one error lists all of it.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from knapper.errors import Error


class HintWarning(UserWarning):
    """An option that touches memory or speed alone was passed over."""


@dataclass(frozen=True)
class Refusal:
    """what: the option and its value; instead: the thing to do; hint: whether it
    touches memory or speed alone."""

    what: str
    instead: str
    hint: bool = False


class Refusals:
    """What one drop-in passes over and refuses.

    module: its name. other: the runtime that it stands in for. variable: of the
    environment; hints are refused where it is 1. error: makes the exception of
    what, the thing to try and where.
    """

    def __init__(
        self, module: str, other: str, variable: str, error: Callable[[str, str, str], Error]
    ) -> None:
        self._module = module
        self._other = other
        self._variable = variable
        self._error = error
        self._strict: bool | None = None  # the environment's
        self._warned: set[str] = set()

    def set_strict(self, strict: bool | None) -> None:
        """Whether hints are refused like everything else that is not honoured; None:
        as the environment says. Of the whole process."""
        self._strict = None if strict is None else bool(strict)

    def is_strict(self) -> bool:
        """Whether hints are refused."""
        if self._strict is not None:
            return self._strict
        return os.environ.get(self._variable, "") not in ("", "0")

    def refused(self, refusal: Refusal) -> bool:
        """Whether it is an error now."""
        return not refusal.hint or self.is_strict()

    def passed_over(self, refusal: Refusal) -> None:
        """Warns of a hint, once a process, at the first line outside the package.
        Nothing under strictness: the hint is then refused where it is used."""
        if self.refused(refusal) or refusal.what in self._warned:
            return
        self._warned.add(refusal.what)
        package = os.path.dirname(__file__)
        frame, level = sys._getframe(1), 2
        while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
            frame, level = frame.f_back, level + 1
        warnings.warn(
            f"{self._module} differs from {self._other} in {refusal.what}: "
            f"{refusal.instead} (a hint of memory or speed; {self._variable}=1 refuses it)",
            HintWarning,
            stacklevel=level,
        )

    def hint(self, what: str, instead: str) -> None:
        """A call that is a hint: warns, or raises under strictness."""
        self.check([Refusal(what, instead, hint=True)])

    def check(self, refusals: Sequence[Refusal]) -> None:
        """Raises one error that lists all that is refused; warns of hints."""
        for refusal in refusals:
            self.passed_over(refusal)
        refused = [refusal for refusal in refusals if self.refused(refusal)]
        if not refused:
            return
        first = refused[0]
        lacks = f"not honoured by {self._module}"
        if len(refused) == 1:
            raise self._error(f"{first.what}: {lacks}", first.instead, first.what)
        raise self._error(
            f"{len(refused)} things: {lacks}: " + "; ".join(r.what for r in refused),
            "".join(f"\n    {r.what}: {r.instead}" for r in refused),
            first.what,
        )
