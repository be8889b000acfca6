#!/usr/bin/env python3
"""A step of decoding against the memory's read bandwidth.

    bench/decode.py [NAME[:SIZES]] [--in-place] [--threads N] [--rounds N] [--json FILE] [--bars]

A step reads every weight of its matmuls once, and the keys and values held.
--in-place: the same model with keys and values in caches of fixed room, which
are updated in place (tests/models/decode_in_place.py); without, they come out
one longer, as a new tensor.
What those bytes take at the read bandwidth is compared with what the call
takes. Call and bandwidth take turns (bench/peaks, memory of the same size in
huge pages): peak, call, peak, call, ..., peak; each turn is compared with the
better of the peaks before and after it, the median share is printed. --bars
fails the command below 0.85.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

import knapper  # noqa: E402
from comparison import bound  # noqa: E402

BAR = 0.85
SPARE = 32  # tokens that an in-place cache has room for, beyond those held


def weights(path: Path) -> int:
    """Bytes of the matrices that the model multiplies by. A table whose rows
    are gathered is read in part only, and not counted."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    multiplied = {name for node in graph.node if node.op_type in ("MatMul", "Gemm") for name in node.input}
    # Through a transposition and the like.
    for node in reversed(graph.node):
        if node.op_type in ("Transpose", "Identity", "Cast") and node.output[0] in multiplied:
            multiplied.add(node.input[0])
    return sum(
        int(np.prod(value.dims)) * 4
        for value in graph.initializer
        if value.name in multiplied and len(value.dims) > 1
    )


def bandwidth(tool: Path, bytes_: int, threads: int) -> float:
    done = subprocess.run(
        [tool, str(threads), f"read={bytes_}"], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)["reads"][0]["gbps"] * 1e9


def in_place(path: Path, feed: dict[str, np.ndarray], threads: int):
    """A call of the model with caches that are updated, and the caches."""
    import onnx
    from decode_in_place import build

    ids = feed["input_ids"]
    held = next(array for name, array in feed.items() if name.startswith("past")).shape[2]
    values = {"input_ids": ids, "held": np.full(len(ids), held)}
    for name, array in feed.items():
        if name.startswith("past_key_values"):
            room = np.pad(array, ((0, 0), (0, 0), (0, SPARE), (0, 0)))
            values[name.replace("past_key_values", "past")] = room
    module = knapper.compile(build(onnx.load(path)), threads=threads)
    presents = {out: values[under[0]] for out, under in module.in_place.items() if out.startswith("present")}
    assert len(presents) == len(values) - 2
    return module.bind(values, presents), values


def once(call, seconds: float = 0.5) -> float:
    """Median seconds of a call."""
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> int:
    from export import definition, ensure

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("name", nargs="?", default="llama-decode", metavar="NAME[:SIZES]")
    parser.add_argument("--in-place", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    arguments = parser.parse_args()
    tool = arguments.build / "bench" / "peaks" / "knapper-peaks"
    if not tool.exists():
        parser.error(f"{tool} is missing: build the target knapper-peaks")
    name, _, numbers = arguments.name.partition(":")
    model = definition(name)
    size = model.bench
    if numbers:
        size = dict(zip(size, map(int, numbers.split("x")), strict=True))
    path = ensure([name]) / f"{name}.onnx"
    feed = model.feed(np.random.default_rng(1), size)
    held = sum(array.nbytes for array in feed.values())
    if arguments.in_place:
        call, feed = in_place(path, feed, arguments.threads)
        name += " in place"
    else:
        module = knapper.compile(path, threads=arguments.threads)
        call = bound(module, [feed[info.name] for info in module.inputs])
    read = weights(path) + held
    shares, peaks, taken = [], [bandwidth(tool, read, arguments.threads)], []
    for _ in range(arguments.rounds):
        taken.append(once(call))
        peaks.append(bandwidth(tool, read, arguments.threads))
        shares.append(read / taken[-1] / max(peaks[-2:]))
    share = statistics.median(shares)
    print(
        f"{name} {'x'.join(map(str, size.values()))}: {read / 1e6:.0f} MB read, {held / 1e6:.0f} of them held;"
        f" {statistics.median(taken) * 1e3:.2f} ms, {read / statistics.median(taken) * 1e-9:.1f} GB/s,"
        f" {share:.0%} of {statistics.median(peaks) * 1e-9:.1f} GB/s ({min(shares):.0%} to {max(shares):.0%})"
    )
    if arguments.json:
        figures = {"model": name, "size": size, "bytes": read, "seconds": taken, "peaks": peaks, "share": share}
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    if arguments.bars and share < BAR:
        print(f"the bar is {BAR:.0%}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
