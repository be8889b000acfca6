"""The child of bench/jax_programs.py: a request a line, an answer a line."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "python")]
FAR = 4  # times JAX's error: written down, though rounding explains it
EVERY = 25  # programs after which JAX forgets what it compiled


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what anybody prints is no answer
    os.environ["JAX_PLATFORMS"] = "knapper,cpu"
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        serve(answers)


def serve(answers: object) -> None:
    import knapper.jax

    knapper.jax.install(device="cpu", threads=1)
    import jax

    from random_programs import program_check, program_data, program_draw

    for count, line in enumerate(sys.stdin):
        request = json.loads(line)
        try:
            if "program" in request:
                program = program_data.Program.of(request["program"])
            else:
                program = program_draw.program(request["seed"], request["number"])
            answer = program_check.check(program)
            if answer["status"] != "same" or answer.get("ratio", 0) > FAR:
                answer["program"] = program_data.record(program)
        except BaseException as error:  # noqa: BLE001
            answer = {"status": "broken", "why": f"{type(error).__name__}: {error}"[:300]}
        if count % EVERY == EVERY - 1:
            jax.clear_caches()
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
