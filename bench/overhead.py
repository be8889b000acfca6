#!/usr/bin/env python3
"""Microseconds that a call from Python takes beside the model itself.

    bench/overhead.py

A model of one addition on four numbers, one thread: what is measured is the
package, the C API and the runtime's hand-over. Time on the clock, and of the
calling thread's processor, which a busy machine disturbs less.
"""

from __future__ import annotations

import sys
import time
import timeit
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python")]

import knapper  # noqa: E402


def main() -> int:
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"], name="add")],
        "overhead",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n",))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n",))],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    )
    module = knapper.compile(model, threads=1)
    x = np.ones(4, np.float32)
    y = np.empty_like(x)
    bound = module.bind([x], [y])
    calls = {
        "m(x)": lambda: module(x),
        'm(x)["y"]': lambda: module(x)["y"],
        'm(x=x)["y"]': lambda: module(x=x)["y"],
        "m.run([x], [y])": lambda: module.run([x], [y]),
        "m.bind(...)()": bound,
    }
    for label, call in calls.items():
        call()
        wall, cpu = (
            min(timeit.repeat(call, number=5000, repeat=9, timer=timer)) / 5000
            for timer in (time.perf_counter, time.thread_time)
        )
        print(f"{label:<16}{wall * 1e6:6.1f} us, processor {cpu * 1e6:.1f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
