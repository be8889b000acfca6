#!/usr/bin/env python3
"""Times about forty architectures, exported by both of torch's exporters, beside the peers of their machine.

    bench/architectures.py [NAME...] [--target cuda|cpu] [--exporter NAME] [--jobs N] [--rounds R] [--json FILE] [--bars]

The modules are those of bench/architecture_modules.py with seeded random weights. Each is exported with dynamic sizes by the
TorchScript exporter and by torch.export's, compiled once a file, and run on random inputs at one size. On a GPU it computes in
bf16, beside torch.compile in its default mode and in reduce-overhead; on a CPU in float32 on two threads, beside ONNX Runtime,
OpenVINO and torch.compile. All lie in one process and take turns; a time is that of one call to the end of the device's work, the
median of the rounds; the ratio is that of the best peer to the slower of our files.

An architecture has a process of its own. Those that are being prepared run side by side (--jobs); what is timed runs alone.
--json keeps a line a finished one and is read at the start: a run that was cut goes on. The command fails where an output is
wrong: on a GPU an error of the norm against float64 above 1.2 times that of eager torch, on a CPU a difference to the module
of more than 2e-4 of the largest element. --bars fails it also where the geometric mean of the ratios is below 1.3 (GPU) or 1.2
(CPU), or one below 1.0 (0.9). Without a GPU, or a package, it says so and ends with code 0.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import inspect
import io
import json
import logging
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]

from architecture_modules import ARCHITECTURES, INPUTS, SIZES  # noqa: E402
from gpu_models import DTYPES  # noqa: E402
from named_models import named_models  # noqa: E402

EXPORTERS = ("torchscript", "dynamo")
MODES = ("default", "reduce-overhead")
BARS = {"cuda": (1.3, 1.0), "cpu": (1.2, 0.9)}
ERROR, SINGLE = 1.2, 2e-4
LIMIT_S = 900
Calls = dict[str, Callable[[], Any]]


def export(torch: Any, name: str, model: Any, exporter: str, path: Path) -> None:
    """Writes the module with the dynamic sizes of its kind."""
    made = ARCHITECTURES[name]
    values = tuple(made.draw(torch, (2, 40), 3))
    names = [n for n, _ in INPUTS[made.kind]]
    axes = dict(INPUTS[made.kind])
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if exporter == "torchscript":
            torch.onnx.export(model, values, str(path), input_names=names, output_names=["out"],
                              dynamic_axes=axes, dynamo=False, opset_version=17)  # fmt: skip
        else:
            # A module of *values has one input, a tuple, to torch.export.
            together = inspect.getfullargspec(model.forward).varargs is not None
            shapes = tuple({axis: torch.export.Dim.DYNAMIC for axis in of} for of in axes.values())
            torch.onnx.export(model, values, str(path), input_names=names, output_names=["out"], dynamo=True,
                              dynamic_shapes=(shapes,) if together else shapes, external_data=False, verbose=False)  # fmt: skip


def compiled_files(torch: Any, name: str, model: Any, target: str, exporters: list[str], row: dict[str, Any]) -> dict[str, Any]:
    """Our modules by exporter; what cannot be exported or is refused stands in the row."""
    import knapper

    files = {}
    for exporter in exporters:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            try:
                export(torch, name, model, exporter, path)
            except Exception as error:  # noqa: BLE001: any, of an exporter
                row["no_export"][exporter] = f"{type(error).__name__}: {str(error)[-300:]}"
                continue
            start = time.perf_counter()
            settings = {"dtype": "bf16"} if target == "cuda" else {"threads": 2}
            try:
                files[exporter] = knapper.compile(path, target=target, cache=False, **settings)
            except knapper.Error as error:
                row["refused"][exporter] = str(error)[:400]
                continue
            row["compile_s"][exporter] = time.perf_counter() - start
            if target == "cpu":
                row.setdefault("file", path.read_bytes())  # for the peers
    return files


def narrow_result(torch: Any, model: Any) -> Any:
    """The module with a result of bf16, as torch's own has: a compiled model's results keep their type."""

    class Narrow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, *values):
            return self.inner(*values).to(torch.bfloat16)

    return Narrow().eval()


def norm_error(got: Any, exact: Any) -> float:
    return ((got.double() - exact).norm() / exact.norm()).item()


def turns(calls: Calls, rounds: int, wait: Callable[[], Any]) -> dict[str, float]:
    """Median milliseconds of a call of each."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(2):  # the first brings its clocks and caches back
                wait()
                start = time.perf_counter()
                call()
                wait()
                last = time.perf_counter() - start
            times[name].append(last * 1e3)
    return {name: statistics.median(of) for name, of in times.items()}


def on_gpu(torch: Any, name: str, exporters: list[str], row: dict[str, Any]) -> tuple[Calls, Callable[[], Any]]:
    made = ARCHITECTURES[name]
    # Exported in float32 with weights that bf16 holds: torch's bf16 files mix types, and not all modules can be exported so.
    model = made.module(torch).to(torch.bfloat16).float()
    files = compiled_files(torch, name, narrow_result(torch, model), "cuda", exporters, row)
    given = [v.cuda() for v in made.draw(torch, SIZES[made.kind][0], 5)]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    calls: Calls = {}
    with torch.no_grad():
        model = model.cuda().to(torch.bfloat16)
        half = [v.to(torch.bfloat16) if v.is_floating_point() else v for v in given]
        if made.kind == "image":
            model = model.to(memory_format=torch.channels_last)
            half[0] = half[0].contiguous(memory_format=torch.channels_last)
        eager = model(*half)
        modes = {}
        outputs = {"eager": eager}
        for mode in MODES:
            call = torch.compile(model, mode=mode, dynamic=False)
            try:
                for _ in range(3):
                    out = call(*half)
            except Exception as error:  # noqa: BLE001: whatever a peer raises
                row["peers_without"][mode] = str(error)[:200]
                continue
            modes[mode], outputs[mode] = call, out.clone()
        exact = model.double()(*[v.double() if v.is_floating_point() else v for v in half])
        row["torch_errors"] = {who: norm_error(out, exact) for who, out in outputs.items()}
        model.to(torch.bfloat16)
    for mode, call in modes.items():
        calls[mode] = lambda call=call: call(*half)
    for exporter, module in files.items():
        # As the file names them: an input that nothing reads may be missing.
        held = dict(zip([n for n, _ in INPUTS[made.kind]], half))
        types = {"i64": torch.int64} | {name: getattr(torch, of) for name, of in DTYPES.items()}
        inputs = [held[info.name].contiguous().to(types[str(info.dtype)]) for info in module.inputs]
        result = torch.full_like(eager, float("nan"), dtype=types[str(module.outputs[0].dtype)],
                                 memory_format=torch.contiguous_format)  # fmt: skip
        module.run(inputs, [result])
        row["errors"][exporter] = norm_error(result, exact)
        row["launches"][exporter] = [
            (launch["schedule"].split("{")[0], launch["ns"]) for launch in module.profile(*inputs)["launches"]
        ]
        calls[exporter] = lambda module=module, inputs=inputs, result=result: module.run(inputs, [result])
    row["right"] = all(e <= ERROR * row["torch_errors"]["eager"] for e in row["errors"].values())
    for _ in range(3):
        for call in calls.values():
            with torch.no_grad():
                call()

    def wait() -> None:
        torch.cuda.synchronize()

    return calls, wait


def on_cpu(torch: Any, name: str, exporters: list[str], row: dict[str, Any]) -> tuple[Calls, Callable[[], Any]]:
    import numpy as np
    from peers import PEERS, Job

    made = ARCHITECTURES[name]
    torch.set_num_threads(2)
    model = made.module(torch)
    files = compiled_files(torch, name, model, "cpu", exporters, row)
    given = made.draw(torch, SIZES[made.kind][1], 5)
    with torch.no_grad():
        exact = model(*given).numpy()
    feed = {n: v.numpy() for (n, _), v in zip(INPUTS[made.kind], given)}
    calls: Calls = {}
    largest = max(float(np.abs(exact).max()), 1e-6)
    for exporter, module in files.items():
        inputs = [feed[info.name] for info in module.inputs]
        result = np.full(exact.shape, np.nan, exact.dtype)
        module.run(inputs, [result])
        row["errors"][exporter] = float(np.abs(result - exact).max()) / largest
        calls[exporter] = lambda module=module, inputs=inputs, result=result: module.run(inputs, [result])
    row["right"] = all(e <= SINGLE for e in row["errors"].values())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(row.pop("file", b""))
        for peer in ("ort", "openvino", "torch"):
            try:
                calls[peer] = PEERS[peer][0](Job(path, feed, ["out"], 2, lambda: model))
            except Exception as error:  # noqa: BLE001: whatever a peer raises
                row["peers_without"][peer] = str(error)[:200]
    return calls, lambda: None


@contextlib.contextmanager
def held(path: Path, how: int) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, how)
        yield


def one(options: argparse.Namespace) -> dict[str, Any]:
    """A row, in a process of its own; prepared beside others, timed alone."""
    import torch

    name = options.names[0]
    row: dict[str, Any] = {"name": name, "target": options.target, "torch": torch.__version__}
    row |= {key: {} for key in ("no_export", "refused", "compile_s", "errors", "launches", "peers_without")}
    exporters = [options.exporter] if options.exporter else list(EXPORTERS)
    with held(options.lock, fcntl.LOCK_SH):
        calls, wait = (on_gpu if options.target == "cuda" else on_cpu)(torch, name, exporters, row)
    with held(options.lock, fcntl.LOCK_EX), torch.no_grad():
        row["ms"] = turns(calls, options.rounds, wait)
    ours = [row["ms"][e] for e in EXPORTERS if e in row["ms"]]
    theirs = [time for who, time in row["ms"].items() if who not in EXPORTERS]
    row["ratio"] = min(theirs) / max(ours) if ours and theirs else None
    return row


def show(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"{row['name']:13s} FAILED {row['failed'][-300:]}"
    times = ", ".join(f"{who} {time:.3f}" for who, time in row["ms"].items())
    errors = ", ".join(f"{who} {error:.1e}" for who, error in row["errors"].items())
    if "torch_errors" in row:
        errors += " (" + ", ".join(f"{who} {error:.1e}" for who, error in row["torch_errors"].items()) + ")"
    notes = [f"{kind} {who}: {why[:110]}" for kind in ("no_export", "refused", "peers_without") for who, why in row[kind].items()]
    ratio = f"{row['ratio']:.2f}" if row["ratio"] else "-"
    return f"{row['name']:13s} {ratio:>5s}  {times}; {errors}{'' if row['right'] else '  WRONG'}  {'; '.join(notes)}"


def in_process(name: str, options: argparse.Namespace, lock: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, name, "--target", options.target, "--rounds", str(options.rounds), "--lock", lock]
    if options.exporter:
        command += ["--exporter", options.exporter]
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "2"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment)
    except subprocess.TimeoutExpired:
        return {"name": name, "failed": f"not done in {LIMIT_S} s"}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"name": name, "failed": done.stderr[-2000:]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--target", choices=BARS, default="cuda")
    parser.add_argument("--exporter", choices=EXPORTERS)
    parser.add_argument("--jobs", type=int, default=1, help="architectures that are prepared side by side")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    parser.add_argument("--lock", type=Path, help=argparse.SUPPRESS)  # makes this the process of one
    options = parser.parse_args()
    names = named_models(parser, options.names, ARCHITECTURES, ARCHITECTURES)
    if options.lock:
        warnings.filterwarnings("ignore")
        logging.disable(logging.ERROR)
        print(json.dumps(one(options)))
        return 0
    try:
        import onnx  # noqa: F401
        import torch
        import transformers  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing.name} is not installed")
        return 0
    if options.target == "cuda" and not torch.cuda.is_available():
        print("skipped: this machine has no NVIDIA GPU")
        return 0
    rows: list[dict[str, Any]] = []
    if options.json and options.json.exists():
        rows = [json.loads(line) for line in options.json.read_text().splitlines()]
        rows = [row for row in rows if row["name"] in names and "failed" not in row]
    left = [name for name in names if name not in {row["name"] for row in rows}]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        lock = Path(folder) / "timing"
        for row in pool.map(lambda name: in_process(name, options, lock), left):
            rows.append(row)
            print(show(row), flush=True)
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    ratios = [row["ratio"] for row in rows if row.get("ratio")]
    bad = [row["name"] for row in rows if not row.get("right")]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0
    least = min(ratios, default=0.0)
    print(f"{len(rows)} architectures, {len(bad)} not right; ratio to the best peer: geometric mean {mean:.2f}, least {least:.2f}")
    bars = BARS[options.target]
    return int(bool(bad) or (options.bars and (mean < bars[0] or least < bars[1])))


if __name__ == "__main__":
    raise SystemExit(main())
