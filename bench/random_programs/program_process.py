"""The child of bench/jax_programs.py: a request a line, an answer a line."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "python")]

from drawn.answer_requests import answer_requests, own_output  # noqa: E402

FAR = 4  # times JAX's error: written down, though rounding explains it
EVERY = 25  # programs after which JAX forgets what it compiled


def main() -> None:
    answers = own_output()
    os.environ["JAX_PLATFORMS"] = "knapper,cpu"
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        serve(answers)


def serve(answers: TextIO) -> None:
    import knapper.jax

    knapper.jax.install(device="cpu", threads=1)
    import jax

    from random_programs import program_check, program_data, program_draw

    count = 0

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal count
        count += 1
        if count % EVERY == 0:
            jax.clear_caches()
        if "program" in request:
            program = program_data.Program.of(request["program"])
        else:
            program = program_draw.program(request["seed"], request["number"])
        made = program_check.check(program)
        if made["status"] != "same" or made.get("ratio", 0) > FAR:
            made["program"] = program_data.record(program)
        return made

    answer_requests(answers, answer)


if __name__ == "__main__":
    main()
