#!/usr/bin/env python3
"""Times single kernels of many families against their roofline and a loop nest.

    bench/floors.py [NAME...] [--threads N] [--json FILE] [--bars] [--table]

Each of the shapes of `floor_shapes.py` is compiled alone, compared with NumPy
and timed beside

  its roofline   the longer of bytes / bandwidth and operations / peak, where
                 bandwidth is that of a copy of as many bytes and the peak that
                 of multiply-adds, both measured interleaved with the kernel
  a loop nest    in C, compiled by clang -O3 -march=native, its outermost loop
                 cut into a part for each thread

Calls are timed in C (`naive.py`), those of compiled models as those of nests.
The cost of a call that computes one element is printed first and taken off each
time, that of an empty nest off the nest's. The median of five turns counts, for
the share of the roofline and for the ratio to the nest. A NAME selects a family
or the shapes whose names contain it. --table prints Markdown.

--bars fails the command below a median of 0.85 over all shapes, and for a shape
under 0.6, or slower than its nest by more than turns differ (0.95). Where
docs/performance/floors.md gives a reason, it must reach 0.8 of that row's figures,
or the ratio to the nest that the reason calls the least.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python")]

import knapper  # noqa: E402
from floor_shapes import SHAPES, Kernel, line_aligned, relu  # noqa: E402
from kernels import peaks  # noqa: E402
from naive import Model, Nests  # noqa: E402

MEDIAN, LEAST, NEST = 0.85, 0.6, 0.95
WAIVED = 0.8  # of what the page says of a shape with a reason
PAGE = ROOT / "docs" / "performance" / "floors.md"
TURNS = 5
# Largest error over the largest value; the nests add in the order of memory.
LIMIT, NEST_LIMIT = 1e-5, 1e-3


@dataclass
class Reason:
    """Why a shape may be below the bars, and the figures of the page's row."""

    text: str
    share: float
    nest: float

    def bars(self) -> tuple[float, float]:
        """What the shape must reach of the roofline and of its nest: less than usual
        only as far as the page says, and as runs differ."""
        least = re.search(r"least ([\d.]+\d)", self.text)
        nest = float(least[1]) if least else WAIVED * self.nest
        return min(LEAST, WAIVED * self.share), min(NEST, nest)


def reasons() -> dict[str, Reason]:
    """Of the page's shapes, by name: `| name | us | share | bound | nest | reason |`."""
    row = r"^\| ([^|]+?) \|[^|]*\| *(\d+)% *\|[^|]*\| *([\d.]+) *\| ([^|]*) \|$"
    rows = re.findall(row, PAGE.read_text(), re.MULTILINE)
    return {
        name: Reason(text.strip(), int(share) / 100, float(nest))
        for name, share, nest, text in rows
        if text.strip()
    }


class Timed:
    """A compiled kernel beside its nest."""

    def __init__(self, kernel: Kernel, nests: Nests, name: str, threads: int):
        self.kernel = kernel
        self.module = knapper.compile(kernel.model, threads=threads)
        # Both write to the same memory: where it lies counts.
        y = line_aligned(np.zeros(kernel.shape, np.float32))
        wanted = kernel.wanted()
        scale = max(float(np.abs(wanted).max()), 1e-30)
        arrays = kernel.inputs + kernel.constants
        self.nest = nests.bind(name, arrays, y, kernel.steps, threads)
        with self.nest as call:
            call()
        self.nest_error = float(np.abs(y - wanted).max()) / scale
        y[...] = 0
        self.run = self.module.bind(kernel.inputs, [y])
        self.run()
        self.error = float(np.abs(y - wanted).max()) / scale
        self.nests, self.model = nests, model(self.run)

    def kernels(self) -> int:
        """How many launches a run has."""
        return len(self.module.profile(*self.kernel.inputs)["launches"])


def model(run) -> Model:
    """What `time_calls` wants to know of a bound call; `run` is to be kept."""
    call, (module, inputs, num_inputs, outputs, num_outputs, _) = run._call.func, run._call.args

    def address(pointer) -> int:
        return ctypes.cast(pointer, ctypes.c_void_p).value

    return Model(
        address(call), address(run._release), module, address(inputs), address(outputs),
        num_inputs, num_outputs,
    )  # fmt: skip


def once(nests: Nests, model: Model | None, seconds=0.03) -> float:
    """Of a model, or of the nest that is bound."""
    time.sleep(0.002)
    return nests.seconds(model, seconds)


def measure(timed: Timed, idle: Timed, threads: int, tool: Path) -> list[dict]:
    kernel = timed.kernel
    moved = max(kernel.moved, 4096)
    turns = []
    before = peaks(tool, threads, moved // 2)
    for _ in range(TURNS):
        nests = timed.nests
        call = once(nests, idle.model, 0.01)
        mine = once(nests, timed.model)
        with idle.nest:
            nest_call = once(nests, None, 0.01)
        with timed.nest:
            theirs = once(nests, None)
        after = peaks(tool, threads, moved // 2)
        flops, copy = map(max, before, after)
        before = after
        bytes_seconds = kernel.moved / copy * 1e-9
        work_seconds = 2 * kernel.operations / flops * 1e-9
        seconds = max(mine - call, 1e-9)
        turns.append(
            {
                "seconds": seconds,
                "call": call,
                "share": max(bytes_seconds, work_seconds) / seconds,
                "bound": "bytes" if bytes_seconds > work_seconds else "work",
                "nest": max(theirs - nest_call, 0) / seconds,
                "gbps": kernel.moved / seconds * 1e-9,
                "gflops": 2 * kernel.operations / seconds * 1e-9,
                "copy": copy,
                "peak": flops,
            }
        )
    return turns


def summary(turns: list[dict]) -> dict:
    """The turn of the median share, with the median ratio to the nest."""
    turn = dict(sorted(turns, key=lambda t: t["share"])[len(turns) // 2])
    turn["nest"] = statistics.median(t["nest"] for t in turns)
    return turn


def print_row(row: dict, table: bool, why: str) -> None:
    us = f"{row['us']:.1f}" if row["us"] < 1000 else f"{row['us']:.0f}"
    many = f"{row['launches']} launches; " if row["launches"] != 1 else ""
    if table:
        print(
            f"| {row['name']} | {us} | {row['share']:.0%} | {row['bound']} | "
            f"{row['nest']:.2f} | {why} |"
        )
        return
    print(
        f"{row['name']:<40}{us:>9}{row['share']:>7.0%} {row['bound']:<6}{row['gbps']:>7.1f}"
        f"{row['gflops']:>8.1f}{row['nest']:>8.2f}{row['error']:>9.0e}  {many}{why}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    arguments = parser.parse_args()
    threads = arguments.threads
    tool = arguments.build / "bench" / "peaks" / "knapper-peaks"
    if not tool.exists():
        parser.error(f"{tool} is missing: build the target knapper-peaks")
    chosen = [
        s
        for s in SHAPES
        if not arguments.names or any(n == s.family or n in s.name for n in arguments.names)
    ]
    if not chosen:
        parser.error("no shape has such a name")

    made = {f"shape{i}": shape.make() for i, shape in enumerate(chosen)}
    why = reasons() if PAGE.exists() else {}
    rows, failures = [], []
    with tempfile.TemporaryDirectory() as folder:
        nests = Nests({n: k.nest for n, k in made.items()} | {"idle": ""}, Path(folder))
        idle = Timed(relu(1, 1)(), nests, "idle", threads)
        if not arguments.table:
            print(f"{threads} threads; a call takes {once(nests, idle.model) * 1e6:.1f} us")
            print(
                f"{'kernel':<40}{'us':>9}{'share':>7} {'of':<6}{'GB/s':>7}{'GF/s':>8}"
                f"{'x nest':>8}{'error':>9}"
            )
        for (name, kernel), shape in zip(made.items(), chosen):
            try:
                timed = Timed(kernel, nests, name, threads)
            except knapper.Error as problem:
                failures.append(f"{shape.name}: {problem}")
                continue
            row = summary(measure(timed, idle, threads, tool))
            row |= {
                "name": shape.name,
                "family": shape.family,
                "us": row.pop("seconds") * 1e6,
                "error": timed.error,
                "launches": timed.kernels(),
                "reason": why[shape.name].text if shape.name in why else "",
            }
            rows.append(row)
            print_row(row, arguments.table, row["reason"])
            for who, error, limit in (
                ("its", timed.error, LIMIT),
                ("the nest's", timed.nest_error, NEST_LIMIT),
            ):
                if not error <= limit:
                    failures.append(f"{shape.name}: {who} result is wrong by {error:.1e}")

    median = statistics.median(r["share"] for r in rows) if rows else 0.0
    print(
        f"\n{len(rows)} shapes, median {median:.0%}, {sum(r['share'] < LEAST for r in rows)} "
        f"under {LEAST:.0%}, {sum(r['nest'] < NEST for r in rows)} slower than the nest"
    )
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"threads": threads, "median": median, "kernels": rows}, indent=1) + "\n"
        )
    if arguments.bars:
        if median < MEDIAN:
            failures.append(f"the median is {median:.0%}, the bar {MEDIAN:.0%}")
        for row in rows:
            reason = why.get(row["name"])
            share, nest = reason.bars() if reason else (LEAST, NEST)
            if row["share"] < share:
                failures.append(f"{row['name']}: {row['share']:.0%}, the bar {share:.0%}")
            if row["nest"] < nest:
                failures.append(
                    f"{row['name']}: {row['nest']:.2f} times as fast as the nest, the bar {nest:.2f}"
                )
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
