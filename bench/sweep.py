#!/usr/bin/env python3
"""Right and fast on cases nobody chose: random operators, sizes, fusions and modules.

    bench/sweep.py --target cpu [--cases 2000] [--seed TEXT] [--resume rows.jsonl]
    bench/sweep.py --target cuda --seconds 480
    bench/sweep.py --target cpu --case '{"family": ...}'      one case again, from its record

Case N of a seed is drawn from `seed:N` alone (bench/drawn): an operator of some forty families with sizes of real
models, primes, 2^n +- 1, 0 and 1, pointwise operators around it, or two to six blocks of a grammar of modules; a dtype;
one of torch's two ONNX exporters. The seed is the commit's hash unless --seed says otherwise, so that no case can be
tuned to. Each case is exported, compiled, run on random data, compared with float64 by the error of torch's own dtype,
and timed interleaved with eager PyTorch, ONNX Runtime (CPU, float32) and, every 20th case, torch.compile.

On a GPU all processor cores compile while one process runs. Every process is a child that a crash costs one case; rows
are appended to --resume as they come, and a second call goes on behind them. Failing cases are minimised with
--minimise. `--bars` fails for wrong results, crashes, refusals, and ratios below the project's bars.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "python")]

from drawn import summary  # noqa: E402
from drawn.workers import Worker, spread  # noqa: E402
from ratios import quantile  # noqa: E402
from torch_here import torch_here  # noqa: E402

BARS = {"5th percentile": (0.05, 0.85), "median": (0.5, 1.15), "least": (0.0, 0.5)}
BAD = ("wrong", "crash", "timeout", "internal", "refused")


def commit() -> str:
    """The commit's hash: of the checkout, or of the file that a copy without .git carries."""
    kept = ROOT / "COMMIT"
    if kept.exists():
        return kept.read_text().strip()
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "no commit"


class Sweep:
    def __init__(self, options: argparse.Namespace, folder: Path):
        self.options, self.folder = options, folder
        self.cuda = options.target == "cuda"
        self.log = Path(options.log) if options.log else None

    def request(self, number: int, case: Any) -> dict[str, Any]:
        return {
            "case": dataclasses.asdict(case),
            "folder": str(self.folder),
            "artefact": str(self.folder / f"{number}.knap"),
            "target": "cuda:sm_90a",
            "threads": self.options.threads,
            "seconds": self.options.each,
            "time": not self.options.check,
            "compile_peer": not self.options.check and number % self.options.compile_every == 0,
        }

    def worker(self, index: int) -> Worker:
        # One process runs on the GPU; those that compile must not see it.
        return Worker("compile", {"CUDA_VISIBLE_DEVICES": ""}, self.log) if self.cuda else Worker("cpu", {}, self.log)

    def first(self, worker: Worker, item: tuple[int, Any]) -> tuple[int, Any, dict[str, Any]]:
        """Compiles a case; on the CPU runs it too."""
        number, case = item
        if isinstance(case, str):  # could not be drawn
            return number, None, {"status": "internal", "why": case}
        return number, case, worker.ask(self.request(number, case), self.options.timeout)

    def rows(self, items: Iterator[tuple[int, Any]]) -> Iterator[dict[str, Any]]:
        runner = Worker("cuda", {}, self.log) if self.cuda else None
        try:
            for number, case, answer in spread(items, self.worker, self.first, self.options.jobs):
                if runner and answer["status"] == "compiled":
                    request = self.request(number, case)
                    answer |= runner.ask(request, self.options.timeout)
                    Path(request["artefact"]).unlink(missing_ok=True)
                record = dataclasses.asdict(case) if case else {}
                name = case.name if case else "?"
                yield {"number": number, "name": name, "family": record.get("family"), "case": record} | answer
        finally:
            if runner:
                runner.end()

    def one(self, case: Any) -> dict[str, Any]:
        return next(iter(self.rows(iter([(0, case)]))))


def drawn(options: argparse.Namespace, done: set[int], limits: Any) -> Iterator[tuple[int, Any]]:
    from drawn import sweep_case

    end = time.monotonic() + options.seconds
    shard, shards = options.shard
    for number in options.numbers or range(options.first, options.first + options.cases):
        if number % shards != shard or number in done:
            continue
        if time.monotonic() > end:
            return
        try:
            yield number, sweep_case.draw(options.seed, number, limits, options.only)
        except Exception as error:  # a family that draws what it cannot make: a defect of the sweep
            yield number, f"drawing: {type(error).__name__}: {error}"


def minimised(sweep: Sweep, row: dict[str, Any]) -> Any:
    from drawn.sweep_case import Case
    from drawn.minimise import minimise

    return minimise(Case(**row["case"]), lambda case: sweep.one(case)["status"] == row["status"])


def below_bars(rows: list[dict[str, Any]]) -> list[str]:
    found, problems = summary.ratios(rows), []
    for name, (share, bar) in BARS.items():
        if found and quantile(found, share) < bar:
            problems.append(f"{name} {quantile(found, share):.2f} is below {bar}")
    bad = [r for r in rows if r["status"] in BAD]
    if bad:
        problems.append(f"{len(bad)} cases are wrong, refused or ended badly")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--numbers", type=lambda t: [int(n) for n in t.split(",")], metavar="N,...", help="these cases instead")
    parser.add_argument("--seed", default=None, help="default: the commit's hash")
    parser.add_argument("--only", default="", help="families whose name contains this")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after this")
    parser.add_argument("--each", type=float, default=0.6, help="seconds to time a case on the CPU")
    parser.add_argument("--timeout", type=float, default=120, help="seconds a case may take")
    parser.add_argument("--threads", type=int, default=2, help="of a run on the CPU")
    parser.add_argument("--jobs", type=int, default=None, help="child processes; on the CPU, where they would disturb each other's times, one")
    parser.add_argument("--compile-every", type=int, default=20, help="every so many cases torch.compile is a peer")
    parser.add_argument("--check", action="store_true", help="no times")
    parser.add_argument("--shard", type=lambda t: tuple(map(int, t.split("/"))), default=(0, 1), metavar="I/N")
    parser.add_argument("--resume", type=Path, metavar="ROWS.jsonl")
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("--case", help="a record, as rows have it")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    parser.add_argument("--log", help="where the children's error output goes")
    parser.add_argument("--bars", action="store_true")
    options = parser.parse_args()
    if torch_here(gpu=options.target == "cuda") is None:
        return 0
    from drawn import sweep_case

    options.seed = options.seed or commit()
    if options.jobs is None:
        cores = len(os.sched_getaffinity(0))
        options.jobs = max(1, cores - 1) if options.target == "cuda" else cores if options.check else 1
    limits = sweep_case.CUDA if options.target == "cuda" else sweep_case.CPU
    with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
        sweep = Sweep(options, Path(folder))
        if options.case:
            row = sweep.one(sweep_case.Case(**json.loads(options.case)))
            print(json.dumps(row, indent=1))
            return int(row["status"] in BAD)
        rows = []
        if options.resume and options.resume.exists():
            rows = [json.loads(line) for line in options.resume.read_text().splitlines()]
        kept = open(options.resume, "a") if options.resume else None
        begin = time.monotonic()
        for row in sweep.rows(drawn(options, {r["number"] for r in rows}, limits)):
            rows.append(row)
            if kept:
                print(json.dumps(row), file=kept, flush=True)
            if row["status"] in BAD:
                print(f"{row['status']}  #{row['number']} {row['name']}: {row.get('why', '')[:200]}", flush=True)
        print(f"seed {options.seed}, {options.target}: {len(rows)} cases, {time.monotonic() - begin:.0f} s")
        print(summary.text(rows))
        if options.minimise:
            for row in [r for r in rows if r["status"] in BAD and r["case"]]:
                small = minimised(sweep, row)
                print(f"#{row['number']} {row['status']} smallest: {small.name}\n  --case '{json.dumps(dataclasses.asdict(small))}'", flush=True)
    if options.plot:
        summary.plot(rows, options.plot, f"Knapper on {options.target}, seed {options.seed[:10]}")
    problems = below_bars(rows) if options.bars else [r["name"] for r in rows if r["status"] in ("wrong", "crash")]
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
