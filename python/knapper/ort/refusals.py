"""What is not honoured: hints are passed over with a warning, the rest is refused.

A hint asks for memory or speed alone: without it every result is the same. It is
passed over with one `HintWarning` a process, and refused under strictness
(`set_strict(True)`, or KNAPPER_ORT_STRICT=1 in the environment). What is refused is
collected, so that one error lists all of it.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from knapper.ort.errors import NotImplemented, refuse, with_hint

_strict: list[bool] = []  # what set_strict was given; empty: the environment's
_warned: set[str] = set()


class HintWarning(UserWarning):
    """An option that touches memory or speed alone was passed over."""


@dataclass(frozen=True)
class Refusal:
    """what: the option and its value; instead: the thing to do; hint: whether it
    touches memory or speed alone."""

    what: str
    instead: str
    hint: bool = False

    @property
    def refused(self) -> bool:
        """Whether it stops a session or a run now."""
        return not self.hint or is_strict()


def set_strict(strict: bool | None) -> None:
    """Whether hints are refused like everything else that is not honoured; None:
    as KNAPPER_ORT_STRICT says. Of the whole process."""
    _strict[:] = [] if strict is None else [bool(strict)]


def is_strict() -> bool:
    """Whether hints are refused."""
    if _strict:
        return _strict[0]
    return os.environ.get("KNAPPER_ORT_STRICT", "") not in ("", "0")


def passed_over(refusal: Refusal) -> None:
    """Warns of a hint, once a process, at the first line outside the package.
    Nothing under strictness: the hint is then refused where it is used."""
    if refusal.refused or refusal.what in _warned:
        return
    _warned.add(refusal.what)
    package = os.path.dirname(__file__)
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f"knapper.ort differs from ONNX Runtime in {refusal.what}: {refusal.instead} "
        "(a hint of memory or speed; KNAPPER_ORT_STRICT=1 refuses it)",
        HintWarning,
        stacklevel=level,
    )


def hint(what: str, instead: str) -> None:
    """A call that is a hint: warns, or raises NotImplemented under strictness."""
    refusal = Refusal(what, instead, hint=True)
    if refusal.refused:
        raise refuse(what, instead)
    passed_over(refusal)


def check(refusals: Sequence[Refusal]) -> None:
    """Raises NotImplemented, which lists all that is refused; warns of hints."""
    refused = [r for r in refusals if r.refused]
    for refusal in refusals:
        passed_over(refusal)
    if not refused:
        return
    if len(refused) == 1:
        raise refuse(refused[0].what, refused[0].instead)
    raise with_hint(
        NotImplemented,
        f"{len(refused)} things: not honoured by knapper.ort: "
        + "; ".join(r.what for r in refused),
        "".join(f"\n    {r.what}: {r.instead}" for r in refused),
        refused[0].what,
    )
