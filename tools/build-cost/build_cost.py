#!/usr/bin/env python3
"""Where the time of a build goes: translation units by CPU time, headers by what including them costs.

    tools/build-cost/build_cost.py [--build build/dev] [--sample 1:5] [--files REGEX] [--top 10]

Compiles each file of the sample alone with clang's -ftime-trace, without ccache and into a folder that is
removed. The build must be complete: generated headers and precompiled headers are taken from it. A header
counts with all that it includes; what a precompiled header holds costs a file nothing and does not appear.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def compiler(command: str, output: Path) -> list[str]:
    """The compiler's own command line of an entry, its launcher left out, its output elsewhere."""
    words = shlex.split(command)
    first = next(i for i, word in enumerate(words) if re.search(r"(^|/)clang(\+\+)?(-\d+)?$", word))
    words = words[first:]
    words[words.index("-o") + 1] = str(output)
    return [*words, "-ftime-trace", "-ftime-trace-granularity=1000"]


def seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def header_times(trace: Path) -> dict[str, float]:
    """Seconds a header, of one file's trace."""
    begun: dict[int, dict] = {}
    spent: Counter[str] = Counter()
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event["name"] != "Source":
            continue
        if event["ph"] == "b":
            begun[event["id"]] = event
        elif event["ph"] == "e" and (start := begun.pop(event["id"], None)):
            spent[start["args"]["detail"]] += (event["ts"] - start["ts"]) / 1e6
    return spent


def short(path: str) -> str:
    for prefix in (f"{ROOT}/", "/usr/lib/llvm-22/include/", "/usr/include/"):
        path = path.removeprefix(prefix)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    parser.add_argument("--sample", default="0:1", help="FIRST:STEP of the list of files (0:1, all)")
    parser.add_argument("--files", default="", help="those whose path matches")
    parser.add_argument("--top", type=int, default=10)
    arguments = parser.parse_args()

    first, step = map(int, arguments.sample.split(":"))
    entries = json.loads((arguments.build / "compile_commands.json").read_text())
    entries = [e for e in entries if re.search(arguments.files, short(e["file"]))][first::step]
    if not entries:
        sys.exit(f"build_cost: no file of {arguments.build} matches")
    units: list[tuple[float, str]] = []
    headers: Counter[str] = Counter()
    users: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "unit.o"
        for entry in entries:
            before = seconds()
            subprocess.run(compiler(entry["command"], output), cwd=entry["directory"], check=True)
            units.append((seconds() - before, short(entry["file"])))
            for header, spent in header_times(output.with_suffix(".json")).items():
                headers[short(header)] += spent
                users[short(header)] += 1
    print(f"{len(units)} files, {sum(cpu for cpu, _ in units):.1f} s of CPU\n")
    print("CPU s  file")
    for cpu, name in sorted(units, reverse=True)[: arguments.top]:
        print(f"{cpu:5.2f}  {name}")
    print("\nsum s  files  header")
    for header, spent in headers.most_common(arguments.top):
        print(f"{spent:5.2f}  {users[header]:5}  {header}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
