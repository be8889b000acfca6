#!/usr/bin/env python3
"""Times cold compilation: a fresh process, an empty cache, the file written.

    bench/compile.py [NAME...] [--build DIR] [--json FILE] [--bars]

Prints wall time, processor time and peak memory of `knapper compile -o` beside
the size of the weights. --bars fails the command above 4 s, or above twice the
weights and 300 MB. Name bert-48 beside bert-base to see what depth costs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "models")]

SECONDS_BAR = 4.0
DEEP = "bert-48"  # has no bar of its own
DEFAULT = ["bert-base", "gpt2", "resnet50"]


def run(command: list[str], environment: dict[str, str]) -> tuple[float, float, int]:
    """Wall seconds, processor seconds and peak bytes of a process."""
    start = time.perf_counter()
    process = os.posix_spawn(command[0], command, environment)
    _, status, usage = os.wait4(process, 0)
    wall = time.perf_counter() - start
    if status != 0:
        raise SystemExit(f"failed: {' '.join(command)}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main() -> int:
    from definitions import MODELS
    from export import ensure

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    arguments = parser.parse_args()
    names = arguments.names or DEFAULT
    unknown = [n for n in names if n not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]}; there are: {', '.join(MODELS)}")
    tool = arguments.build / "bin" / "knapper"
    if not tool.exists():
        parser.error(f"{tool} is missing: build it first")
    folder = ensure(names)

    rows, failures = [], []
    print(f"{'model':<16}{'wall s':>8}{'cpu s':>8}{'peak MB':>9}{'weights':>9}")
    for name in names:
        model = folder / f"{name}.onnx"
        model.read_bytes()  # the file is in the page cache for every run
        taken = []
        for _ in range(arguments.repeat):
            with tempfile.TemporaryDirectory() as scratch:
                environment = os.environ | {"XDG_CACHE_HOME": scratch}
                output = os.path.join(scratch, "model.knap")
                command = [str(tool), "compile", str(model), "-o", output]
                taken.append(run(command, environment))
                size = os.path.getsize(output)
        wall, cpu, peak = (statistics.median(t) for t in zip(*taken))
        weights = model.stat().st_size
        rows.append(
            {
                "model": name,
                "wall_s": wall,
                "cpu_s": cpu,
                "peak_bytes": peak,
                "weights_bytes": weights,
                "artefact_bytes": size,
            }
        )
        print(
            f"{name:<16}{wall:>8.2f}{cpu:>8.2f}{peak / 1e6:>9.0f}{weights / 1e6:>9.0f}",
            flush=True,
        )
        if wall > SECONDS_BAR and name != DEEP:
            failures.append(f"{name}: {wall:.1f} s, the bar is {SECONDS_BAR} s")
        if peak > 2 * weights + 300e6:
            failures.append(f"{name}: peak of {peak / 1e6:.0f} MB")
    if arguments.json:
        arguments.json.write_text(json.dumps({"compile": rows}, indent=1) + "\n")
    for failure in failures if arguments.bars else []:
        print(failure, file=sys.stderr)
    return 1 if failures and arguments.bars else 0


if __name__ == "__main__":
    sys.exit(main())
