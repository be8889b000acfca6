#!/usr/bin/env python3
"""Times single kernels against what the machine can do.

    bench/kernels.py [--threads N] [--json FILE] [--bars]

Memory-bound kernels are compared with a copy of the same bytes (the better of
memcpy and non-temporal stores; buffers of both start at cache lines), matrix
matmuls with constant weights with the peak of fused multiply-adds. Kernel and
peaks take turns: peaks, kernel, peaks, kernel, ..., peaks. Each turn of the
kernel is compared with the better of the peaks before and after it; the turn of
the median share is printed. (What memory gives differs by a factor of two
between minutes on machines shared with others.) Outputs are checked. --bars
fails the command below 0.85 of either.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python")]

import knapper  # noqa: E402
from side_by_side import medians  # noqa: E402

BAR = 0.85


def model(nodes, rows, columns, out_columns, constants):
    """An ONNX model from x [rows, columns] to y [rows, out_columns]."""
    graph = helper.make_graph(
        nodes,
        "kernel",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (rows, columns))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (rows, out_columns))],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    )


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs, [output], name=f"{kind}_{output}", **attributes)


def pointwise(x):
    nodes = [
        node("Relu", ["x"], "a"),
        node("Mul", ["a", "half"], "b"),
        node("Add", ["b", "one"], "y"),
    ]
    constants = {"half": np.float32(0.5), "one": np.float32(1)}
    constants = {k: np.asarray(v) for k, v in constants.items()}
    wanted = np.maximum(x, 0) * 0.5 + 1
    return model(nodes, *x.shape, x.shape[1], constants), wanted


def softmax(x):
    exponent = np.exp(x - x.max(1, keepdims=True), dtype=np.float64)
    wanted = exponent / exponent.sum(1, keepdims=True)
    return model([node("Softmax", ["x"], "y", axis=-1)], *x.shape, x.shape[1], {}), wanted


def layer_norm(x):
    generator = np.random.default_rng(3)
    gain, bias = generator.standard_normal((2, x.shape[1]), np.float32)
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(
        wide.var(1, keepdims=True) + 1e-5
    ) * gain + bias
    nodes = [node("LayerNormalization", ["x", "gain", "bias"], "y", axis=-1)]
    return model(nodes, *x.shape, x.shape[1], {"gain": gain, "bias": bias}), wanted


def matmul(columns):
    def make(x):
        generator = np.random.default_rng(4)
        weights = generator.standard_normal((x.shape[1], columns), np.float32)
        wanted = x.astype(np.float64) @ weights
        nodes = [node("MatMul", ["x", "w"], "y")]
        return model(nodes, *x.shape, columns, {"w": weights}), wanted

    return make


MEMORY_BOUND = [
    ("relu(x)*0.5+1", pointwise, (4096, 4096)),
    ("softmax", softmax, (4096, 2048)),
    ("layer norm", layer_norm, (4096, 2048)),
]
# rows x columns x inner; the weights are columns x inner.
MATMULS = [(512, 512, 512), (1024, 1024, 1024), (128, 3072, 768), (128, 768, 3072)]


def peaks(tool: Path, threads: int, size: int) -> tuple[float, float]:
    """GFLOP/s of multiply-adds, GB/s of a copy of `size` bytes."""
    text = subprocess.run(
        [tool, str(threads), str(size)], check=True, capture_output=True, text=True
    ).stdout
    found = json.loads(text)
    copy = found["copies"][0]
    return found["fma_gflops"], max(copy["memcpy_gbps"], copy["streaming_gbps"])


def at_cache_line(shape) -> np.ndarray:
    """An uninitialised float32 array that starts at a cache line."""
    line = 64
    count = int(np.prod(shape)) * 4
    memory = np.empty(count + line, np.uint8)
    start = -memory.ctypes.data % line
    return memory[start : start + count].view(np.float32).reshape(shape)


TURNS = 5


def measure(make, shape, threads: int, tool: Path):
    """(error, turns, bytes) of one kernel; a turn: (seconds, peak GFLOP/s,
    copy GB/s)."""
    x = at_cache_line(shape)
    np.random.default_rng(2).standard_normal(dtype=np.float32, out=x)
    onnx_model, wanted = make(x)
    module = knapper.compile(onnx_model, threads=threads)
    y = at_cache_line(wanted.shape)
    module.run([x], [y])
    error = float(np.abs(y - wanted).max() / np.abs(wanted).max())
    moved = x.nbytes + y.nbytes
    turns = []
    before = peaks(tool, threads, moved // 2)
    for _ in range(TURNS):
        (seconds,) = medians([lambda: module.run([x], [y])], rounds=1)
        after = peaks(tool, threads, moved // 2)
        turns.append((seconds, *map(max, before, after)))
        before = after
    return error, turns, moved


def median_turn(turns, work: float, column: int):
    """(seconds, GB/s or GFLOP/s, peak) of the turn with the median share."""
    rated = [(turn[0], work / turn[0] * 1e-9, turn[column]) for turn in turns]
    return sorted(rated, key=lambda r: r[1] / r[2])[len(rated) // 2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    arguments = parser.parse_args()
    threads = arguments.threads
    tool = arguments.build / "bench" / "peaks" / "knapper-peaks"
    if not tool.exists():
        parser.error(f"{tool} is missing: build the target knapper-peaks")

    rows = []
    print(f"{threads} threads\n{'kernel':<22}{'ms':>9}{'achieved':>14}{'peak':>9}{'share':>8}{'error':>10}")

    def note(name, seconds, achieved, peak, unit, error):
        share = achieved / peak
        rows.append(
            {
                "kernel": name,
                "ms": seconds * 1e3,
                unit: achieved,
                "peak": peak,
                "share": share,
                "error": error,
            }
        )
        print(
            f"{name:<22}{seconds * 1e3:>9.3f}{achieved:>8.1f} {unit:<5}{peak:>9.1f}"
            f"{share:>8.0%}{error:>10.1e}",
            flush=True,
        )

    failures = []
    for name, make, shape in MEMORY_BOUND:
        label = f"{name} {shape[0]}x{shape[1]}"
        try:
            error, turns, moved = measure(make, shape, threads, tool)
            note(label, *median_turn(turns, moved, 2), "GB/s", error)
        except knapper.Error as problem:
            failures.append(f"{label}: {problem}")
    for m, n, k in MATMULS:
        label = f"matmul {m}x{n}x{k}"
        try:
            error, turns, _ = measure(matmul(n), (m, k), threads, tool)
            note(label, *median_turn(turns, 2 * m * n * k, 1), "GF/s", error)
        except knapper.Error as problem:
            failures.append(f"{label}: {problem}")

    if arguments.json:
        arguments.json.write_text(json.dumps({"kernels": rows}, indent=1) + "\n")
    bad = [r for r in rows if not r["error"] <= 1e-5]
    for row in bad:
        print(f"{row['kernel']}: wrong by {row['error']:.1e}", file=sys.stderr)
    low = [r for r in rows if arguments.bars and r["share"] < BAR]
    for row in low:
        print(f"{row['kernel']}: {row['share']:.0%}, the bar is {BAR:.0%}", file=sys.stderr)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if bad or low or failures else 0


if __name__ == "__main__":
    sys.exit(main())
