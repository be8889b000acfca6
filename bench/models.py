#!/usr/bin/env python3
"""Times each model of the bars beside ONNX Runtime.

    bench/models.py [NAME...] [--threads N] [--json FILE] [--bars]

Both sides run in this process with the same number of threads, in turns; the
peer with full optimisation and inputs and outputs bound once. Outputs are
compared: one that differs by more than 2e-4 of the largest value makes the
command fail. --bars also fails it when the geometric mean of the ratios is
below 0.9 or one of them below 0.6.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

import knapper  # noqa: E402
from side_by_side import medians  # noqa: E402

LIMIT = 2e-4
MEAN_BAR, EACH_BAR = 0.9, 0.6


class Peer:
    """ONNX Runtime at its best: all optimisations, bound and reused outputs."""

    def __init__(self, path: Path, threads: int, feed: dict[str, np.ndarray]):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = (
            onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        )
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        self.names = [o.name for o in self.session.get_outputs()]
        first = self.session.run(self.names, feed)
        self.binding = self.session.io_binding()
        self.held = []
        for name, array in feed.items():
            value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
            self.held.append(value)
            self.binding.bind_ortvalue_input(name, value)
        self.outputs = {}
        for name, array in zip(self.names, first):
            value = onnxruntime.OrtValue.ortvalue_from_numpy(np.empty_like(array))
            self.outputs[name] = value
            self.binding.bind_ortvalue_output(name, value)

    def __call__(self) -> None:
        self.session.run_with_iobinding(self.binding)

    def results(self) -> dict[str, np.ndarray]:
        self()
        return {name: value.numpy() for name, value in self.outputs.items()}


def difference(got: np.ndarray, wanted: np.ndarray) -> float:
    """Largest error over the largest value; infinite when shapes differ or a
    value is not finite."""
    if got.shape != wanted.shape or not np.isfinite(got).all():
        return math.inf
    return float(np.abs(got - wanted).max() / np.abs(wanted).max())


def measure(name: str, path: Path, size: dict[str, int], feed, threads: int, rounds):
    start = time.perf_counter()
    module = knapper.compile(path, threads=threads)
    compiled = time.perf_counter() - start
    peer = Peer(path, threads, feed)
    values = [feed[info.name] for info in module.inputs]
    result = module(*values)
    error = max(
        difference(result[output], wanted)
        for output, wanted in peer.results().items()
    )
    del result
    mine, other = medians([lambda: module(*values), peer], rounds=rounds)
    return {
        "model": name,
        "size": size,
        "threads": threads,
        "knapper_ms": mine * 1e3,
        "onnxruntime_ms": other * 1e3,
        "ratio": other / mine,
        "error": error,
        "compile_s": compiled,
    }


def main() -> int:
    from definitions import MODELS
    from export import NAMES, ensure

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    arguments = parser.parse_args()
    names = arguments.names or list(NAMES)
    unknown = [n for n in names if n not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]}; there are: {', '.join(MODELS)}")
    folder = ensure(names)

    head = f"{'model':<16}{'size':>8}{'knapper':>10}{'ort':>10}{'ratio':>8}{'error':>10}"
    print(f"milliseconds, {arguments.threads} threads\n{head}", flush=True)
    rows, failures = [], []
    for name in names:
        model = MODELS[name]
        feed = model.feed(np.random.default_rng(1), model.bench)
        try:
            row = measure(
                name,
                folder / f"{name}.onnx",
                model.bench,
                feed,
                arguments.threads,
                arguments.rounds,
            )
        except knapper.Error as error:
            failures.append(f"{name}: {error}")
            print(f"{name:<16}  failed", flush=True)
            continue
        rows.append(row)
        size = "x".join(str(v) for v in model.bench.values())
        print(
            f"{name:<16}{size:>8}{row['knapper_ms']:>10.2f}"
            f"{row['onnxruntime_ms']:>10.2f}{row['ratio']:>7.2f}x{row['error']:>10.1e}",
            flush=True,
        )
        if not row["error"] <= LIMIT:
            failures.append(f"{name}: outputs differ by {row['error']:.1e}")
    summary: dict[str, object] = {"models": rows}
    if rows:
        ratios = [row["ratio"] for row in rows]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        summary |= {"geometric_mean": mean, "least": min(ratios)}
        print(f"geometric mean {mean:.2f}x, least {min(ratios):.2f}x")
        if arguments.bars and (mean < MEAN_BAR or min(ratios) < EACH_BAR):
            failures.append(f"the bars are {MEAN_BAR}x and {EACH_BAR}x")
    if arguments.json:
        arguments.json.write_text(json.dumps(summary, indent=1) + "\n")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
