"""What `knapper.ort` passes over and refuses; see `knapper.hints`."""

from __future__ import annotations

from knapper.errors import Error
from knapper.hints import HintWarning, Refusal, Refusals
from knapper.ort.errors import NotImplemented, with_hint


def _error(what: str, instead: str, where: str) -> Error:
    return with_hint(NotImplemented, what, instead, where)


RULES = Refusals("knapper.ort", "ONNX Runtime", "KNAPPER_ORT_STRICT", _error)
check, hint, passed_over, refused = RULES.check, RULES.hint, RULES.passed_over, RULES.refused
is_strict, set_strict = RULES.is_strict, RULES.set_strict

__all__ = [
    "HintWarning",
    "Refusal",
    "check",
    "hint",
    "is_strict",
    "passed_over",
    "refused",
    "set_strict",
]
