"""The child of bench/torch_functions.py: a request a line, an answer a line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "python")]

from drawn.answer_requests import answer_requests, own_output  # noqa: E402


def main() -> None:
    answers = own_output()
    from random_functions import function_check, function_draw, functions

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if "function" in request:
            function = functions.Function.of(request["function"])
        else:
            function = function_draw.function(request["seed"], request["number"])
        made = function_check.check(function)
        if made["status"] in ("wrong", "error", "missing", "torch"):
            made["function"] = functions.record(function)
        return made

    function_check.quick()
    answer_requests(answers, answer)


if __name__ == "__main__":
    main()
