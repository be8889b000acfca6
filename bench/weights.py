#!/usr/bin/env python3
"""Times a matmul with integer weights beside the same in float32.

    bench/weights.py [ROWS...] [--size N] [--threads N] [--cold] [--json FILE]

One matrix of N x N with a bias; the models take turns in this process, with
--cold one call at a time, so that weights come from memory. The
error is the root mean square against float32 over that of the values.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python")]

import knapper  # noqa: E402
from side_by_side import medians  # noqa: E402

FORMATS = {
    "float32": {},
    "int8": {"weights": "int8", "weight_group": 64},
    "int4": {"weights": "int4", "weight_group": 64},
    "int4 zero": {"weights": "int4", "weight_group": 32, "weight_zero_points": True},
}


def linear(path: Path, size: int) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = rng.standard_normal((size, size), np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", size])],
        [
            numpy_helper.from_array(weights, "w"),
            numpy_helper.from_array(rng.standard_normal(size, np.float32), "b"),
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def cold(calls, rounds: int) -> list[float]:
    """Median seconds of each, called one after the other."""
    taken = [[] for _ in calls]
    for _ in range(rounds):
        for call, times in zip(calls, taken, strict=True):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in taken]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("rows", nargs="*", type=int, default=[1, 4, 8, 32, 128])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "linear.onnx"
        linear(path, arguments.size)
        modules = {
            name: knapper.compile(path, threads=arguments.threads, **options)
            for name, options in FORMATS.items()
        }
    found = []
    for rows in arguments.rows:
        x = np.random.default_rng(1).standard_normal((rows, arguments.size), np.float32)
        exact = np.array(modules["float32"](x)["y"])
        calls = [lambda m=m: m(x) for m in modules.values()]
        if arguments.cold:
            times = cold(calls, 20 * arguments.rounds)
        else:
            times = medians(calls, rounds=arguments.rounds)
        for name, seconds in zip(modules, times, strict=True):
            error = np.array(modules[name](x)["y"]) - exact
            row = {
                "rows": rows,
                "weights": name,
                "ms": seconds * 1e3,
                "ratio": times[0] / seconds,
                "error": float(np.sqrt(np.mean(error**2) / np.mean(exact**2))),
            }
            found.append(row)
            print(
                f"{rows:5} rows  {name:10} {row['ms']:8.3f} ms  {row['ratio']:5.2f}x"
                f"  error {row['error']:.2e}"
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
