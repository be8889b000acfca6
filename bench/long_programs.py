"""Compile time of StableHLO programs of very many ops: seconds an op should not rise with the program.

    .venv/bin/python bench/long_programs.py [KIND...] [--ops 5000,10000,20000] [--isa ISA]

Each op of a program is elementwise, over 64 numbers, and reads two earlier values:

    near      the last and one of the three before it
    far       two of any distance; the last fifty values are results
    chain     the last, and one of any distance: nothing can be left out
    results   the last two; every tenth value is a result
    reversed  the last, and one of any distance from its end to its start

A line a program: seconds of processors (which other work on the machine hardly changes) and of the clock,
microseconds of processors an op, launches.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("near", "far", "chain", "results", "reversed")
OPERATORS = ("add", "subtract", "multiply", "maximum", "minimum")
TYPE = "tensor<64xf32>"


def operands(kind: str, i: int, draw: random.Random) -> tuple[int, int]:
    if kind == "near":
        return i - 1, max(0, i - 1 - draw.randrange(1, 4))
    if kind == "far":
        return draw.randrange(i), draw.randrange(i)
    return i - 1, i - 2 if kind == "results" else draw.randrange(i)


def program(kind: str, count: int, seed: int = 1) -> str:
    draw = random.Random(seed)
    lines = []
    for i in range(2, count + 2):
        a, b = operands(kind, i, draw)
        second = f"%v{b}"
        if kind == "reversed":
            second = f"%r{i}"
            lines.append(f"  {second} = stablehlo.reverse %v{b}, dims = [0] : {TYPE}")
        lines.append(f"  %v{i} = stablehlo.{draw.choice(OPERATORS)} %v{a}, {second} : {TYPE}")
    last = count + 1
    results = [last]
    if kind == "results":
        results = [*range(9, last, 10), last]
    elif kind == "far":
        results = list(range(max(2, last - 49), last + 1))
    types = ", ".join([TYPE] * len(results))
    head = f"func.func public @main(%v0: {TYPE}, %v1: {TYPE}) -> ({types}) {{"
    values = ", ".join(f"%v{i}" for i in results)
    return "\n".join(["module {", head, *lines, f"  return {values} : {types}", "}", "}"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS])
    parser.add_argument("--ops", default="5000,10000,20000")
    parser.add_argument("--isa", default="x86-64-v4")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model, artefact = Path(scratch) / "program.mlir", Path(scratch) / "program.knap"
        for kind in arguments.kinds or KINDS:
            for count in map(int, arguments.ops.split(",")):
                model.write_text(program(kind, count))
                command = [arguments.build / "bin" / "knapper", "compile", model, "-o", artefact, "--cache=false"]
                before, begin = os.times(), time.perf_counter()
                done = subprocess.run(
                    [*command, "--isa", arguments.isa, "--json"], check=True, capture_output=True, text=True
                )
                seconds, after = time.perf_counter() - begin, os.times()
                used = after.children_user + after.children_system - before.children_user - before.children_system
                launches = json.loads(done.stdout)["launches"]
                print(
                    f"{kind:8} {count:7,} ops {used:7.2f} s of processors {seconds:7.2f} s "
                    f"{used / count * 1e6:6.0f} us an op {launches:5} launches",
                    flush=True,
                )


if __name__ == "__main__":
    main()
