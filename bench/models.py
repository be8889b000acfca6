#!/usr/bin/env python3
"""Times models beside other runtimes.

    bench/models.py [NAME[:SIZES]...] [--set SET] [--peers LIST] [--threads N] [--json FILE] [--bars]

NAME is a model of tests/models at its own size, or at SIZES: one number for
each of its symbols (bert-base:1x16). Without a NAME the rows of SET:

    bars      each model of the bars at its own size (the default)
    wide      the eight architectures unlike those
    batches   the models of the bars at 1, 4 and 16 times their batch
    few       few rows: short and long texts, a step of decoding
    all       batches, few and wide

All run in this process with the same number of threads, interleaved, each at its
best (bench/peers.py), one model at a time. LIST is of ort, openvino, torch,
iree; the default is ort. `setup/python peers` installs the others. Outputs are
compared: one that differs by more than 2e-4 of the largest value makes the
command fail. --bars also fails it when the geometric mean of the ratios to the
best peer is below 1.15 or one of them below 0.95.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

from comparison import Bars, Row, add_arguments, compare  # noqa: E402
from peers import Job  # noqa: E402

BARS = Bars(mean=1.15, each=0.95)
# The same network as minilm, with trained weights.
ONCE = {"minilm-real"}
FEW = [
    ("minilm", {"batch": 1, "sequence": 16}),
    ("bert-base", {"batch": 1, "sequence": 16}),
    ("bert-base", {"batch": 1, "sequence": 512}),
    ("llama-decode", {"batch": 1, "past": 512}),
]
SETS = ("bars", "wide", "batches", "few", "all")

Size = dict[str, int]


def rows_of(chosen: str) -> list[tuple[str, Size]]:
    """Models and sizes of a set; rows of one model follow each other."""
    from export import NAMES, WIDE, definition

    def own(names):
        return [(name, definition(name).bench) for name in names]

    def batches():
        return [
            (name, size | {"batch": size["batch"] * times})
            for name, size in own(n for n in NAMES if n not in ONCE)
            for times in (1, 4, 16)
        ]

    if chosen == "bars":
        return own(NAMES)
    if chosen == "wide":
        return own(WIDE)
    if chosen == "batches":
        return batches()
    if chosen == "few":
        return FEW
    order = {name: i for i, name in enumerate(NAMES)}
    return sorted(batches() + FEW, key=lambda row: order.get(row[0], len(order))) + own(WIDE)


def named(parser: argparse.ArgumentParser, given: list[str]) -> list[tuple[str, Size]]:
    from export import DECODE, MORE, NAMES, WIDE, definition

    known = NAMES + WIDE + DECODE + MORE
    rows = []
    for text in given:
        name, _, numbers = text.partition(":")
        if name not in known:
            parser.error(f"no model {name}; there are: {', '.join(known)}")
        size = definition(name).bench
        if numbers:
            values = numbers.split("x")
            if len(values) != len(size) or not all(value.isdigit() for value in values):
                parser.error(f"{text}: sizes are {'x'.join(size)}")
            size = dict(zip(size, map(int, values)))
        rows.append((name, size))
    return rows


def main() -> int:
    from export import definition, ensure

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add_arguments(parser)
    parser.add_argument("--set", choices=SETS, default="bars", help="which rows, where no model is named")
    arguments = parser.parse_args()
    chosen = named(parser, arguments.names) or rows_of(arguments.set)
    folder = ensure(list(dict.fromkeys(name for name, _ in chosen)))

    def rows():
        for name, size in chosen:
            model = definition(name)
            job = Job(
                folder / f"{name}.onnx",
                model.feed(np.random.default_rng(1), size),
                model.outputs,
                arguments.threads,
                model.module,
            )
            yield Row(name, "x".join(map(str, size.values())), job)

    return compare(rows(), arguments, BARS)


if __name__ == "__main__":
    sys.exit(main())
