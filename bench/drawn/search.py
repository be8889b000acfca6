"""The search for failing cases that both bench/torch_functions.py and bench/jax_programs.py are."""

from __future__ import annotations

import argparse
import collections
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep import commit

from drawn.workers import Worker, spread

BAD = ("wrong", "error", "crash", "timeout", "broken")


@dataclass
class Kind:
    """What is drawn.

    word: its name in rows and options ("function"); process: the script of a worker;
    draw(seed, number), read(record), record(case), minimise(case, fails), where `fails` is
    asked of smaller cases; setting(case): how it is called, for a comment."""

    word: str
    process: Path
    draw: Callable[[str, int], Any]
    read: Callable[[dict[str, Any]], Any]
    record: Callable[[Any], dict[str, Any]]
    minimise: Callable[[Any, Callable[[Any], bool]], Any]
    setting: Callable[[Any], str]

    def shown(self, record: dict[str, Any]) -> str:
        made = self.read(record)
        rows = [f"# {name}: {given}" for name, given in made.inputs.items()]
        return "\n".join([*rows, f"# {self.setting(made)}"]) + "\n" + made.source()

    def smallest(self, worker: Worker, row: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Of what fails as the row does."""
        first = self.read(row[self.word]) if self.word in row else self.draw(row["seed"], row["number"])

        def fails(smaller: Any) -> bool:
            return worker.ask({self.word: self.record(smaller)}, timeout)["status"] == row["status"]

        return self.record(self.minimise(first, fails))


def parse(kind: Kind, description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", help="default: the commit's hash")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after this")
    parser.add_argument("--timeout", type=float, default=120, help="seconds a case may take")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--resume", type=Path, metavar="ROWS.jsonl")
    parser.add_argument("--only", type=int, help="one case, printed with its answer")
    parser.add_argument(f"--{kind.word}", dest="record", help="a record, as rows have it, instead of a number")
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("--log", type=Path, help="where the workers' error output goes")
    return parser.parse_args()


def ask_one(kind: Kind, worker: Worker, seed: str, options: argparse.Namespace) -> int:
    given = json.loads(options.record) if options.record else kind.record(kind.draw(seed, options.only))
    answer = worker.ask({kind.word: given}, options.timeout) | {kind.word: given, "seed": seed}
    if options.minimise and answer["status"] != "same":
        answer[kind.word] = kind.smallest(worker, answer, options.timeout)
    worker.end()
    print(kind.shown(answer[kind.word]), answer["status"], answer.get("why", ""), sep="\n")
    return int(answer["status"] in BAD)


def search(kind: Kind, description: str) -> int:
    """The program: its exit status is 1 where a case is wrong, an error of ours, a crash or a hang."""
    options = parse(kind, description)
    seed = options.seed or commit()

    def worker(_: int = 0) -> Worker:
        return Worker("", {}, options.log, kind.process)

    if options.only is not None or options.record:
        return ask_one(kind, worker(), seed, options)
    rows = []
    if options.resume and options.resume.exists():
        rows = [json.loads(line) for line in options.resume.read_text().splitlines()]
        rows = [row for row in rows if row["seed"] == seed or not options.seed]
    done = {(row["seed"], row["number"]) for row in rows}
    end = time.monotonic() + options.seconds

    def numbers() -> Iterator[int]:
        for number in range(options.first, options.first + options.cases):
            if time.monotonic() > end:
                return
            if (seed, number) not in done:
                yield number

    def work(worker: Worker, number: int) -> dict[str, Any]:
        row = {"seed": seed, "number": number}
        row |= worker.ask(row, options.timeout)
        if options.minimise and row["status"] in BAD:
            row["smallest"] = kind.smallest(worker, row, options.timeout)
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
                print(kind.shown(row["smallest"]), flush=True)
    counts = collections.Counter(row["status"] for row in rows)
    print(f"seed {seed}: {len(rows)} {kind.word}s, {time.monotonic() - begin:.0f} s: {dict(counts)}")
    return int(any(counts[status] for status in BAD))
