#!/usr/bin/env python3
"""Microseconds that a run on an NVIDIA GPU takes beside its kernels' own work.

    bench/gpu_overhead.py [--kernels N] [--build FOLDER] [--bars]

A chain of N kernels of 256 elements, each after the one before, captured as one
program: the time of a run from the call to the device's end for each kernel, and
what the calling thread's processor computes until the program is handed over.
`knapper_launches` of the build measures; --keep FILE only writes the program, for
a machine that has a GPU. Medians of processes of their own: on some hosts one in
three takes three times as long for each of the driver's calls.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNEL_US, SUBMISSION_US = 2.5, 10.0
PROCESSES = 7


def chain(kernels: int) -> str:
    """Softmax along one dim after the other: no two of them are one kernel."""
    t = "tensor<16x16xf32>"
    lines = [f"  %v{i + 1} = ts.softmax %v{i} dim {i % 2} : {t}" for i in range(kernels)]
    body = "\n".join(lines)
    return f"func.func @main(%v0: {t}) -> {t} {{\n{body}\n  return %v{kernels} : {t}\n}}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--bars", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "chain.mlir"
        source.write_text(chain(arguments.kernels))
        file = arguments.keep or Path(folder) / "chain.knap"
        compiler = arguments.build / "bin" / "knapper"
        command = [compiler, "compile", source, "-o", file, "--target", "cuda:sm_90a"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        if arguments.keep:
            return 0
        rows = []
        for _ in range(PROCESSES):
            done = subprocess.run([arguments.build / "bench" / "knapper_launches", file], stdout=subprocess.PIPE)
            if done.returncode:
                return done.returncode
            rows.append(json.loads(done.stdout))
            if "skipped" in rows[-1]:
                print(f"skipped: {rows[-1]['skipped']}")
                return 0
    row = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    each = ", ".join(f"{row['submission_us']:.1f}" for row in rows)
    print(
        f"{row['launches']} kernels in {row['run_us']:.1f} us, {row['kernel_us']:.2f} each\n"
        f"submission {row['submission_us']:.1f} us ({each}); the driver's launch {row['replay_us']:.1f}, "
        f"waiting for the default stream {row['order_us']:.1f}, whose memory it is {row['memory_us']:.1f}"
    )
    slow = row["kernel_us"] > KERNEL_US or row["submission_us"] > SUBMISSION_US
    return int(arguments.bars and slow)


if __name__ == "__main__":
    sys.exit(main())
