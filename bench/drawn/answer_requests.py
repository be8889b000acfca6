"""The loop of a worker's child: a request a line of the standard input, an answer a line of the standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO


def own_output() -> TextIO:
    """The standard output, for answers alone: what is printed later goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def answer_requests(answers: TextIO, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answers each request; an exception of `answer` is an answer of status `broken`."""
    for line in sys.stdin:
        try:
            made = answer(json.loads(line))
        except BaseException as error:  # noqa: BLE001
            made = {"status": "broken", "why": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(made), file=answers, flush=True)
