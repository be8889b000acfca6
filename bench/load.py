#!/usr/bin/env python3
"""Times the load and the first run of a large file, by how its constants are compared with their hashes.

    bench/load.py [--gigabytes 1] [--rows 1 64] [--rounds 5] [--threads N]

Each figure is the median over fresh processes, which take turns; the file lies in the page cache. `not`: nothing is
compared (KNAPPER_VERIFY_NOT); `known`: an earlier process found the file whole; `first`: the first process that ever
reads the file; `at load`: all is compared when it is loaded. Outputs must be equal. Exits with 1 if `known` takes more
than 1.05 times as long as `not`, load and first run together.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python")]

WAYS = {"not": False, "known": None, "first": None, "at load": True}
WIDTH = 4096
BAR = 1.05

CHILD = """
import json, sys, time
import numpy as np
import knapper
path, rows, threads, verify = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
x = np.random.default_rng(0).standard_normal((rows, %d), np.float32)
begin = time.perf_counter()
module = knapper.load(path, threads=threads, **({} if verify is None else {"verify": verify}))
loaded = time.perf_counter()
y = np.asarray(module(x)[0])
first = time.perf_counter()
module(x)
second = time.perf_counter()
print(json.dumps([loaded - begin, first - loaded, second - first, float(y.sum())]))
""" % WIDTH


def write(path: Path, gigabytes: float) -> None:
    """Layers of one width, each with weights of its own."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    import knapper

    rng = np.random.default_rng(0)
    layers = max(1, round(gigabytes * 1e9 / (4 * WIDTH * WIDTH)))
    nodes, weights = [], []
    for i in range(layers):
        scale = np.float32(WIDTH**-0.5)
        weights.append(numpy_helper.from_array(rng.standard_normal((WIDTH, WIDTH), np.float32) * scale, f"w{i}"))
        nodes += [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"p{i}"]), helper.make_node("Tanh", [f"p{i}"], [f"x{i + 1}"])]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH]) for name in ("x0", f"x{layers}")]
    graph = helper.make_graph(nodes, "layers", value[:1], value[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx_path = path.with_suffix(".onnx")
    onnx.save(model, onnx_path, save_as_external_data=True, location="weights", size_threshold=0)
    knapper.compile(onnx_path, isa=best_isa(), cache=False).save(path)


def best_isa() -> str:
    """Of this machine alone: code for others would be compiled for nothing."""
    import knapper

    return knapper.devices()[0]["isa"].split(",")[0]


def child(path: Path, way: str, rows: int, threads: int, cache: str) -> list[float]:
    environment = os.environ | {"XDG_CACHE_HOME": cache, "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, "-c", CHILD, path, str(rows), str(threads), json.dumps(WAYS[way])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{way}: {done.stderr}")
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layers.knap"
        write(path, arguments.gigabytes)
        print(f"{path.stat().st_size / 1e9:.2f} GB, {arguments.threads} threads")
        time.sleep(3)  # a file that has just changed is not marked
        known = f"{folder}/known"
        for rows in arguments.rows:
            child(path, "at load", rows, arguments.threads, known)  # marks it; the pages are in the cache
            taken: dict[str, list[list[float]]] = {way: [] for way in WAYS}
            for _ in range(arguments.rounds):
                for way in WAYS:
                    with tempfile.TemporaryDirectory() as fresh:
                        taken[way].append(child(path, way, rows, arguments.threads, known if way == "known" else fresh))
            sums = {figures[3] for rows_of in taken.values() for figures in rows_of}
            if len(sums) != 1:
                raise SystemExit(f"outputs differ: {sums}")
            together = {way: statistics.median(f[0] + f[1] for f in figures) for way, figures in taken.items()}
            for way, figures in taken.items():
                load, first, later = (1e3 * statistics.median(f[i] for f in figures) for i in range(3))
                ratio = together[way] / together["not"]
                print(f"{rows:4} rows, {way:8} load {load:7.1f} ms  first run {first:7.1f} ms  later run {later:7.1f} ms  "
                      f"load and first run {ratio:.2f}x")  # fmt: skip
            missed |= together["known"] > BAR * together["not"]
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
