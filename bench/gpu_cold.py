#!/usr/bin/env python3
"""Times the first result of models on an NVIDIA GPU in a process that knows nothing.

    bench/gpu_cold.py [NAME...] [--dtype bf16|f32] [--rounds R] [--json FILE] [--bars]

NAME: a model of bench/gpu_models.py; without one, gpt2 and bert. Each is exported
to ONNX first. Then, R times interleaved, with all caches empty, ours and the driver's:

- a process compiles the file, loads it and runs it once;
- a second process loads the artefact that the first left and runs it.

Times are from the package's import on, medians; NumPy's import, which takes as
long as the driver's start and is none of ours, is printed aside. A run copies its
results to the host. --bars fails the command where the first process takes more
than 5 s to its first result, or the second more than 0.3 s without the time that
the copy of the weights to the GPU took, as the library's log gives it. Without a
GPU, torch or transformers it says so and ends with code 0.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from gpu_models import DEFAULT, DTYPES, IMAGES, ROOT, SIZES, export, module
from named_models import named_models
from torch_here import torch_here

COLD_S, SECOND_S = 5.0, 0.3

# Reads nothing but its arguments: the package's import is part of the time.
CHILD = """
import json, logging, re, sys, time
begin = time.perf_counter()
import numpy as np
start = time.perf_counter()
numpy_s = start - begin
import knapper
said = []
class Keep(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())
logging.getLogger("knapper").addHandler(Keep())
logging.getLogger("knapper").setLevel(logging.INFO)
source, made, dtype, shape = sys.argv[1], sys.argv[2], sys.argv[3] or None, json.loads(sys.argv[4])
if source:
    m = knapper.compile(source, target="cuda:sm_90a", dtype=dtype, output=made)
else:
    m = knapper.load(made)
loaded = time.perf_counter() - start
copied = re.search(r"bytes of constants copied in ([0-9.]+) ms", " ".join(said))
random = np.random.default_rng(1)
given = []
for i in m.inputs:
    if i.dtype == "i64":
        given.append(random.integers(1, 30000, shape) if not given else np.ones(shape, np.int64))
    else:
        given.append(random.standard_normal((shape[0], 3, 224, 224)).astype(np.float32))
begin = time.perf_counter()
m.run(given)
first = time.perf_counter() - begin
again = []
for _ in range(5):
    begin = time.perf_counter()
    m.run(given)
    again.append(time.perf_counter() - begin)
print(json.dumps({"numpy_s": numpy_s, "load_s": loaded,
                  "weights_s": float(copied[1]) / 1e3 if copied else 0.0,
                  "first_s": first, "run_s": sorted(again)[2]}))
"""


def child(source: str, made: Path, dtype: str | None, name: str, caches: Path) -> dict[str, float]:
    """What one process took. Caches of ours and of the driver live in `caches`."""
    environment = os.environ | {
        "KNAPPER_CACHE_DIR": str(caches / "knapper"),
        "KNAPPER_CACHE": "true",
        "CUDA_CACHE_PATH": str(caches / "driver"),
        "PYTHONPATH": str(ROOT / "python"),
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD, source, made, dtype or "", json.dumps(SIZES[name])],
        check=True, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def measure(name: str, path: Path, converted: str | None, rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "made.knap"
            for process, source in (("cold", str(path)), ("second", "")):
                found = child(source, made, converted, name, Path(folder))
                for key, value in found.items():
                    taken.setdefault(f"{process}_{key}", []).append(value)
    result = {key: statistics.median(values) for key, values in taken.items()}
    result["cold_s"] = result["cold_load_s"] + result["cold_first_s"]
    result["second_s"] = result["second_load_s"] + result["second_first_s"]
    result["aside_s"] = result["second_s"] - result["second_weights_s"]
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    options = parser.parse_args()
    names = named_models(parser, options.names, DEFAULT, SIZES)
    if (torch := torch_here("transformers")) is None:
        return 0
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(folder) / f"{name}.onnx"
            dtype = getattr(torch, DTYPES[options.dtype])
            converted = export(torch, name, module(name, 12, name not in IMAGES), dtype, path)
            row = rows[name] = measure(name, path, converted, options.rounds)
            print(
                f"{name} {'x'.join(map(str, SIZES[name]))}: compiled and loaded {row['cold_load_s']:.2f} s, "
                f"first run {row['cold_first_s']:.2f}, together {row['cold_s']:.2f}; second process: loaded "
                f"{row['second_load_s']:.3f}, first run {row['second_first_s']:.3f}, of that weights "
                f"{row['second_weights_s']:.3f}, without them {row['aside_s']:.3f}; a run {row['second_run_s']:.3f}, "
                f"NumPy {row['second_numpy_s']:.3f}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    slow = [n for n, r in rows.items() if r["cold_s"] > COLD_S or r["aside_s"] > SECOND_S]
    return int(options.bars and bool(slow))


if __name__ == "__main__":
    raise SystemExit(main())
