#!/usr/bin/env python3
"""Random functions of tensors through torch.compile(backend="knapper") against eager.

    bench/torch_functions.py --cases 10000 --resume rows.jsonl
    bench/torch_functions.py --seed f00 --only 17
    bench/torch_functions.py --resume rows.jsonl --minimise

Function N of a seed is drawn from `seed:N` alone (bench/random_functions): lines of
pointwise operators, views, slices, writes in place, reductions, gathers, matmuls,
pools; inputs of any dtype and layout, the same tensor twice, views of each other;
odd values; static, automatically dynamic or dynamic with a second and third size;
no_grad, inference_mode or gradients. The seed is the commit's hash unless --seed says
otherwise. Results, inputs behind the call, gradients and what shares memory are
compared with eager; what rounding explains is measured on the function itself, by
eager with every operator's result moved (function_compare.py). Each worker is a process: a
crash or a hang costs one function. Rows are appended to --resume as they come, and a
second call goes on behind them. --minimise writes the smallest function of each failure.

Exit status 1 where a function is wrong, an error of ours, a crash or a hang.
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
EXECUTE = ROOT / "bench" / "random_functions" / "function_process.py"


def shown(function: dict[str, Any]) -> str:
    from random_functions.functions import Function

    made = Function.of(function)
    rows = [f"# {name}: {given}" for name, given in made.inputs.items()]
    rows += [f"# dynamic={made.dynamic} grad={made.grad} inference={made.inference} sizes={made.bindings}"]
    return "\n".join(rows) + "\n" + made.source()


def smallest(worker: Worker, row: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Of what fails as the row does."""
    from random_functions.function_draw import function
    from random_functions.functions import Function, record
    from random_functions.function_minimise import minimise

    first = Function.of(row["function"]) if "function" in row else function(row["seed"], row["number"])

    def fails(smaller: Function) -> bool:
        return worker.ask({"function": record(smaller)}, timeout)["status"] == row["status"]

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
    parser.add_argument("--function", help="a record, as rows have it, instead of a number")
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("--log", type=Path, help="where the workers' error output goes")
    options = parser.parse_args()
    seed = options.seed or commit()

    def worker(_: int = 0) -> Worker:
        return Worker("", {}, options.log, EXECUTE)

    if options.only is not None or options.function:
        from random_functions.function_draw import function
        from random_functions.functions import record

        given = json.loads(options.function) if options.function else record(function(seed, options.only))
        one = worker()
        answer = one.ask({"function": given}, options.timeout) | {"function": given, "seed": seed}
        if options.minimise and answer["status"] != "same":
            answer["function"] = smallest(one, answer, options.timeout)
        one.end()
        print(shown(answer["function"]), answer["status"], answer.get("why", ""), sep="\n")
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
    print(f"seed {seed}: {len(rows)} functions, {time.monotonic() - begin:.0f} s: {dict(counts)}")
    return int(any(counts[status] for status in BAD))


if __name__ == "__main__":
    sys.exit(main())
