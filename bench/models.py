#!/usr/bin/env python3
"""Times each model of the bars beside other runtimes.

    bench/models.py [NAME...] [--set bars|wide] [--peers LIST] [--threads N] [--json FILE] [--bars]

All run in this process with the same number of threads, in turns, each at its
best (bench/peers.py). LIST is of ort, openvino, torch, iree; the default is
ort. `setup/python peers` installs the others. Outputs are compared: one that
differs by more than 2e-4 of the largest value makes the command fail. --bars
also fails it when the geometric mean of the ratios to the best peer is below
0.9 or one of them below 0.6.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

from comparison import Bars, Row, add_arguments, compare  # noqa: E402
from named_models import named_models  # noqa: E402
from peers import Job  # noqa: E402

BARS = Bars(mean=0.9, each=0.6)


def main() -> int:
    from export import MORE, NAMES, SETS, WIDE, definition, ensure

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add_arguments(parser)
    parser.add_argument("--set", choices=SETS, default="bars", help="which models, where none is named")
    arguments = parser.parse_args()
    names = named_models(parser, arguments.names, SETS[arguments.set], NAMES + WIDE + MORE)
    folder = ensure(names)

    def rows():
        for name in names:
            model = definition(name)
            job = Job(
                folder / f"{name}.onnx",
                model.feed(np.random.default_rng(1), model.bench),
                model.outputs,
                arguments.threads,
                model.module,
            )
            yield Row(name, "x".join(map(str, model.bench.values())), job)

    return compare(rows(), arguments, BARS)


if __name__ == "__main__":
    sys.exit(main())
