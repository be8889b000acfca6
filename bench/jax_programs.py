#!/usr/bin/env python3
"""Random programs of JAX on `knapper` beside JAX's own CPU.

    bench/jax_programs.py --cases 5000 --resume rows.jsonl
    bench/jax_programs.py --seed f00 --only 17
    bench/jax_programs.py --resume rows.jsonl --minimise

Program N of a seed is drawn from `seed:N` alone (bench/random_programs): 2 to 12 lines of
jnp, lax, jax.nn, jax.random, jax.scipy and jnp.linalg; inputs of any dtype and of sizes 0, 1
and primes; odd values; plain, or under grad, vmap, jvp, vmap of grad, checkpoint; some with
64 bits enabled. The seed is the commit's hash unless --seed says otherwise. Both platforms run in
one process; where they differ, float64 decides (program_compare.py). Each worker is a process: a
crash or a hang costs one program. Rows are appended to --resume as they come, and a second call
goes on behind them. --minimise writes the smallest program of each failure.

Exit status 1 where a program is wrong, an error of ours, a crash or a hang. What is refused is counted.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "python")]

from drawn.workers import Worker, spread  # noqa: E402
from sweep import commit  # noqa: E402

BAD = ("wrong", "error", "crash", "timeout", "broken")
EXECUTE = ROOT / "bench" / "random_programs" / "program_process.py"


def shown(program: dict[str, Any]) -> str:
    from random_programs.program_data import Program

    made = Program.of(program)
    rows = [f"# {name}: {given}" for name, given in made.inputs.items()]
    rows += [f"# transform={made.transform} x64={made.x64} whole={made.whole}"]
    return "\n".join(rows) + "\n" + made.source()


def smallest(worker: Worker, row: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Of what fails as the row does."""
    from random_programs.program_draw import program
    from random_programs.program_data import Program, record
    from random_programs.program_minimise import minimise

    first = Program.of(row["program"]) if "program" in row else program(row["seed"], row["number"])

    def fails(smaller: Program) -> bool:
        return worker.ask({"program": record(smaller)}, timeout)["status"] == row["status"]

    return record(minimise(first, fails))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", help="default: the commit's hash")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after this")
    parser.add_argument("--timeout", type=float, default=120, help="seconds a case may take")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--resume", type=Path, metavar="ROWS.jsonl")
    parser.add_argument("--only", type=int, help="one case, printed with its answer")
    parser.add_argument("--program", help="a record, as rows have it, instead of a number")
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("--log", type=Path, help="where the workers' error output goes")
    options = parser.parse_args()
    seed = options.seed or commit()

    def worker(_: int = 0) -> Worker:
        return Worker("", {}, options.log, EXECUTE)

    if options.only is not None or options.program:
        from random_programs.program_draw import program
        from random_programs.program_data import record

        given = json.loads(options.program) if options.program else record(program(seed, options.only))
        one = worker()
        answer = one.ask({"program": given}, options.timeout) | {"program": given, "seed": seed}
        if options.minimise and answer["status"] != "same":
            answer["program"] = smallest(one, answer, options.timeout)
        one.end()
        print(shown(answer["program"]), answer["status"], answer.get("why", ""), sep="\n")
        return int(answer["status"] in BAD)
    rows = []
    if options.resume and options.resume.exists():
        rows = [json.loads(line) for line in options.resume.read_text().splitlines()]
        rows = [row for row in rows if row["seed"] == seed or not options.seed]
    done = {(row["seed"], row["number"]) for row in rows}
    end = time.monotonic() + options.seconds

    def numbers() -> Any:
        for number in range(options.first, options.first + options.cases):
            if time.monotonic() > end:
                return
            if (seed, number) not in done:
                yield number

    def work(worker: Worker, number: int) -> dict[str, Any]:
        row = {"seed": seed, "number": number}
        row |= worker.ask(row, options.timeout)
        if options.minimise and row["status"] in BAD:
            row["smallest"] = smallest(worker, row, options.timeout)
        return row

    begin = time.monotonic()
    for row in spread(numbers(), worker, work, options.jobs):
        rows.append(row)
        if options.resume:
            with options.resume.open("a") as file:
                print(json.dumps(row), file=file)
        if row["status"] in BAD:
            print(f"#{row['number']} {row['status']}: {row.get('why', '')[:300]}", flush=True)
            if "smallest" in row:
                print(shown(row["smallest"]), flush=True)
    counts = collections.Counter(row["status"] for row in rows)
    print(f"seed {seed}: {len(rows)} programs, {time.monotonic() - begin:.0f} s: {dict(counts)}")
    return int(any(counts[status] for status in BAD))


if __name__ == "__main__":
    sys.exit(main())
