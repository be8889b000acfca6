"""The child of bench/torch_functions.py: a request a line, an answer a line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "python")]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what anybody prints is no answer
    from random_functions import function_check, function_draw, functions

    function_check.quick()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "function" in request:
                function = functions.Function.of(request["function"])
            else:
                function = function_draw.function(request["seed"], request["number"])
            answer = function_check.check(function)
            if answer["status"] in ("wrong", "error", "missing", "torch"):
                answer["function"] = functions.record(function)
        except BaseException as error:  # noqa: BLE001
            answer = {"status": "broken", "why": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
