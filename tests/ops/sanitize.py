#!/usr/bin/env python3
"""Runs a sample of the op cases on the GPU under compute-sanitizer.

    sanitize.py [--seed N] [--count N] [--tool NAME]... [--filter TEXT] [--jobs N] [--op-cases FILE]

The sample is drawn by the seed (that of today, if none is given) and named with it. Exit code 1 where
a tool reports an error or a case is wrong. Without a GPU or compute-sanitizer it says so and ends with
code 0.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import cases

BUILD = Path(os.environ.get("KNAPPER_BUILD", Path(__file__).parents[2] / "build" / "dev"))
TOOLS = ("memcheck", "racecheck", "synccheck")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=datetime.date.today().toordinal())
    parser.add_argument("--count", type=int, default=60, help="cases a tool, about")
    parser.add_argument("--tool", action="append", choices=TOOLS)
    parser.add_argument("--filter", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--op-cases", type=Path, default=BUILD / "tests" / "ops" / "op_cases")
    arguments = parser.parse_args()
    sanitizer = shutil.which("compute-sanitizer")
    if not sanitizer or not Path("/dev/nvidiactl").exists():
        print("skipped: no compute-sanitizer or no NVIDIA GPU here")
        return 0
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "cases.json"
        cases.write(listed)
        # Under a tool the driver's cache would give code that another has made.
        environment = dict(os.environ, CUDA_CACHE_DISABLE="1")
        for tool in arguments.tool or TOOLS:
            runs = []
            for part in range(arguments.jobs):
                command = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--print-limit", "5"]
                command += [arguments.op_cases, listed, "--isa", "sm_90a", "--filter", arguments.filter]
                command += ["--sample", f"{arguments.seed}:{arguments.count}"]
                command += ["--part", str(part), "--parts", str(arguments.jobs)]
                runs.append(
                    subprocess.Popen(
                        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                        text=True, env=environment,
                    )
                )  # fmt: skip
            logs = [run.communicate()[0] for run in runs]
            count = sum(int(n) for log in logs for n in re.findall(r"^(\d+) cases,", log, re.M))
            bad = [log for log, run in zip(logs, runs) if run.returncode]
            print(f"{tool}: {count} cases of seed {arguments.seed}, {len(bad)} of {len(runs)} processes with errors")
            for log in bad:
                print(log[:4000])
            failed |= bool(bad) or count == 0
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
