#!/usr/bin/env python3
"""Times models as compiled beside the same models after `knapper tune`.

    bench/tuned.py [NAME...] [--set bars|wide] [--budget 60s] [--threads N] [--json FILE] [--bars]

Each model is tuned from nothing in a fresh process, within the budget; then the
two artefacts run interleaved in this process, in a circle. Where a
file lies in memory makes a difference of up to 4 %, so each is there twice. The
ratio is the tuned one's time over the untuned one's: 1 where the tuner kept
nothing and the artefacts are the same. Bits of the outputs are compared too.

--bars fails the command when the geometric mean of the ratios is below 0.95,
a tuned artefact is slower than the untuned one (by more than 2 %, the least
that the tuner itself can tell), or a search takes more than 1.1 times its
budget.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

import knapper  # noqa: E402
from named_models import named_models  # noqa: E402
from ratios import geometric_mean  # noqa: E402
from verdict import finish  # noqa: E402

MEAN_BAR, SLOWER_BAR, BUDGET_BAR = 0.95, 1.02, 1.1


def seconds_of(text: str) -> float:
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


def in_turns(first: list, second: list, seconds: float) -> tuple[float, float, float]:
    """Median seconds of both, each the mean of its functions, and the median of
    second over first of each turn."""
    turns: list[tuple[float, float]] = []
    end = None
    while end is None or len(turns) < 10 or time.perf_counter() < end:
        taken = [0.0, 0.0]
        # In a circle, kinds alternating: each runs after as many others, whose data is then in the caches.
        for which, function in ((w, f) for pair in zip(first, second, strict=True) for w, f in enumerate(pair)):
            start = time.perf_counter()
            function()
            taken[which] += time.perf_counter() - start
        if end is None:  # warms up
            end = time.perf_counter() + seconds
            continue
        turns.append((taken[0] / len(first), taken[1] / len(second)))
    ratio = statistics.median(b / a for a, b in turns)
    return statistics.median(a for a, _ in turns), statistics.median(b for _, b in turns), ratio


def measure(tool: Path, path: Path, model, arguments) -> dict:
    """Tunes one model and times what comes of it."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KNAPPER_")}
        environment["XDG_CACHE_HOME"] = scratch

        def run(*command: object) -> str:
            done = subprocess.run(
                [str(tool), *map(str, command)], capture_output=True, text=True, env=environment
            )
            if done.returncode:
                raise SystemExit(f"{path.name}: {done.stderr}")
            return done.stdout

        before, after, records = (Path(scratch) / n for n in ("a.knap", "b.knap", "r.json"))
        run("compile", path, "-o", before)
        sizes = [x for name, value in model.bench.items() for x in ("--dim", f"{name}={value}")]
        start = time.perf_counter()
        found = json.loads(
            run(
                *("tune", path, "-o", after, "--records", records, "--json"),
                *("--budget", arguments.budget, "--threads", arguments.threads, *sizes),
            )
        )
        took = time.perf_counter() - start
        feed = model.feed(np.random.default_rng(1), model.bench)
        calls: dict[Path, list] = {before: [], after: []}
        results = []
        for i, artefact in enumerate((before, after, after, before)):
            copy = artefact.with_suffix(f".{i}")
            shutil.copyfile(artefact, copy)
            module = knapper.load(copy, threads=arguments.threads)
            values = [feed[info.name] for info in module.inputs]
            calls[artefact].append(lambda module=module, values=values: module(*values))
            result = module(*values)
            results.append([result[name].copy() for name in model.outputs])
            del result
        same = all(
            np.array_equal(x, y, equal_nan=True) for x, y in zip(results[0], results[1], strict=True)
        )
        one, other, ratio = in_turns(calls[before], calls[after], arguments.seconds)
        if filecmp.cmp(before, after, shallow=False):
            ratio = 1.0
        kernels = [k for k in found["kernels"] if k["choice"]]
        return {
            "untuned_ms": one * 1e3,
            "tuned_ms": other * 1e3,
            "ratio": ratio,
            "same_bits": same,
            "tune_s": took,
            "rounds": found["rounds"],
            "kept": found["kept"],
            "rolled_back": found["rolled_back"],
            "kernels": [
                {key: k[key] for key in ("origin", "share", "us", "gain", "choice")}
                for k in sorted(kernels, key=lambda k: -k["us"])
            ],
        }


def main() -> int:
    from export import MORE, NAMES, SETS, WIDE, definition, ensure

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--set", choices=SETS, default="bars", help="which models, where none is named")
    parser.add_argument("--budget", default="60s", help="of each search: 60s, 5m")
    parser.add_argument("--seconds", type=float, default=4, help="how long both artefacts run interleaved")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    arguments = parser.parse_args()
    tool = arguments.build / "bin" / "knapper"
    if not tool.exists():
        parser.error(f"{tool} is missing: build it first")
    names = named_models(parser, arguments.names, SETS[arguments.set], NAMES + WIDE + MORE)
    folder = ensure(names)
    budget = seconds_of(arguments.budget)

    rows, failures = {}, []
    print(f"milliseconds, {arguments.threads} threads; tuned within {arguments.budget}")
    print(f"{'model':<17}{'untuned':>9}{'tuned':>9}{'ratio':>8}{'kept':>6}{'back':>6}{'rounds':>8}{'took s':>8}  bits")
    for name in names:
        row = measure(tool, folder / f"{name}.onnx", definition(name), arguments)
        rows[name] = row
        print(
            f"{name:<17}{row['untuned_ms']:>9.2f}{row['tuned_ms']:>9.2f}{row['ratio']:>8.3f}{row['kept']:>6}"
            f"{row['rolled_back']:>6}{row['rounds']:>8}{row['tune_s']:>8.1f}  {'same' if row['same_bits'] else 'others'}",
            flush=True,
        )
        if row["ratio"] > SLOWER_BAR:
            failures.append(f"{name}: {row['ratio']:.3f} times the untuned time after tuning")
        if row["tune_s"] > BUDGET_BAR * budget:
            failures.append(f"{name}: {row['tune_s']:.0f} s of a budget of {arguments.budget}")
    mean = geometric_mean([row["ratio"] for row in rows.values()])
    print(f"geometric mean {mean:.3f}, least {min(row['ratio'] for row in rows.values()):.3f}")
    if mean < MEAN_BAR:
        failures.append(f"geometric mean {mean:.3f}, the bar is {MEAN_BAR}")
    summary = {"models": [{"model": name} | row for name, row in rows.items()], "geometric_mean": mean}
    return finish(failures if arguments.bars else [], arguments.json, summary)


if __name__ == "__main__":
    sys.exit(main())
