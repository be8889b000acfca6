#!/usr/bin/env python3
"""Times about forty architectures, exported by both of torch's exporters, beside the peers of their machine.

    bench/architectures.py [NAME...] [--target cuda|cpu] [--exporter NAME] [--peers LIST] [--jobs N] [--rounds R] [--json FILE]
                           [--keep FOLDER] [--prepare] [--table] [--bars]

The modules are those of bench/architecture_modules.py with seeded random weights. Each is exported with dynamic sizes by the
TorchScript exporter and by torch.export's, compiled once a file, and run on random inputs at one size. On a GPU it computes in
bf16, beside torch.compile in its default mode and in reduce-overhead; on a CPU in float32 on two threads, beside the --peers:
ONNX Runtime and OpenVINO, which get the first file's bytes, and torch.compile. A time is that of one call to the end of the
device's work, a median; the ratio is that of the best peer to the slower of our files.

On a GPU all take turns call by call. On a CPU each has its turn for a burst of calls (bench/side_by_side.py), after a pause in
which whatever ran before falls asleep: the threads of the peers go on spinning behind a call for milliseconds (ONNX Runtime's
pool, torch's OpenMP; ours for 0.2), so that call by call each would share its two cores with its predecessor's threads, and who
follows whom would decide. Inputs and outputs are bound on all sides, and all lie in one process with the same arrays.

An architecture has a process of its own. Those that are being prepared run side by side (--jobs); what is timed runs alone.
--keep holds exported files, our cache and torch.compile's, so that a second run begins to time at once (gigabytes; to be emptied
when torch or a module changes); --prepare only fills it. --json keeps a line a finished one and is read at the start: a run that
was cut goes on; --table prints the lines as Markdown beside what they were measured with. The command fails where a file is
refused or an output wrong: on a GPU an error of the norm against float64 above 1.2 times that of eager torch, on a CPU a
difference to the module of more than 2e-4 of the largest element. --bars fails it also where the geometric mean of the ratios is below 1.3 (GPU) or 1.2
(CPU), or one below 1.0 (0.9). Without a GPU, or a package, it says so and ends with code 0.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.metadata
import inspect
import io
import json
import logging
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
from ratios import geometric_mean  # noqa: E402
from side_by_side import medians  # noqa: E402
from torch_here import torch_here  # noqa: E402

EXPORTERS = ("torchscript", "dynamo")
MODES = ("default", "reduce-overhead")
CPU_PEERS = ("ort", "openvino", "torch")
ROUNDS = {"cuda": 15, "cpu": 3}
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


def compiled_files(torch: Any, name: str, model: Any, options: argparse.Namespace, row: dict[str, Any]) -> dict[str, Any]:
    """Our modules by exporter; what cannot be exported or is refused stands in the row."""
    import knapper

    files = {}
    exporters = [options.exporter] if options.exporter else list(EXPORTERS)
    for exporter in exporters:
        path = options.folder / f"{name}-{exporter}-{options.target}.onnx"
        if not path.exists():
            part = path.with_suffix(".part")
            try:
                export(torch, name, model, exporter, part)
            except Exception as error:  # noqa: BLE001: any, of an exporter
                row["no_export"][exporter] = f"{type(error).__name__}: {str(error)[-300:]}"
                continue
            part.rename(path)
        start = time.perf_counter()
        settings = {"dtype": "bf16"} if options.target == "cuda" else {"threads": 2}
        try:
            files[exporter] = knapper.compile(path, target=options.target, cache=options.keep is not None, **settings)
        except knapper.Error as error:
            row["refused"][exporter] = str(error)[:400]
            continue
        if not options.keep:
            row["compile_s"][exporter] = time.perf_counter() - start
        row.setdefault("file", str(path))  # for the peers
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


def is_right(row: dict[str, Any], limit: float) -> bool:
    """Whether all files that an exporter wrote compile and compute within the limit, and there is one."""
    return bool(row["errors"]) and not row["refused"] and all(error <= limit for error in row["errors"].values())


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


def on_gpu(torch: Any, name: str, options: argparse.Namespace, row: dict[str, Any]) -> Calls:
    made = ARCHITECTURES[name]
    # Exported in float32 with weights that bf16 holds: torch's bf16 files mix types, and not all modules can be exported so.
    model = made.module(torch).to(torch.bfloat16).float()
    files = compiled_files(torch, name, narrow_result(torch, model), options, row)
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
    row["right"] = is_right(row, ERROR * row["torch_errors"]["eager"])
    for _ in range(3):
        for call in calls.values():
            with torch.no_grad():
                call()
    return calls


def on_cpu(torch: Any, name: str, options: argparse.Namespace, row: dict[str, Any]) -> Calls:
    import numpy as np
    from peers import PEERS, Job

    made = ARCHITECTURES[name]
    torch.set_num_threads(2)
    model = made.module(torch)
    files = compiled_files(torch, name, model, options, row)
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
    row["right"] = is_right(row, SINGLE)
    job = Job(Path(row.get("file", "")), feed, ["out"], 2, lambda: model)
    for peer in options.peers:
        try:
            calls[peer] = PEERS[peer][0](job)
        except Exception as error:  # noqa: BLE001: whatever a peer raises
            row["peers_without"][peer] = str(error)[:200]
    return calls


@contextlib.contextmanager
def held(path: Path, how: int) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, how)
        yield


def versions(options: argparse.Namespace) -> dict[str, str]:
    packages = ["torch", "transformers"] + (["onnxruntime", "openvino"] if options.target == "cpu" else [])
    found = {}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def machine(torch: Any, options: argparse.Namespace) -> str:
    if options.target == "cuda":
        return torch.cuda.get_device_name()
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    wide = "AVX-512" if any("avx512f" in line for line in lines) else "AVX2"
    return f"{names[0] if names else 'a processor'}, {os.cpu_count()} cores, {wide}"


def one(options: argparse.Namespace) -> dict[str, Any]:
    """A row, in a process of its own; prepared beside others, timed alone."""
    import torch

    name = options.names[0]
    row: dict[str, Any] = {"name": name, "target": options.target, "ms": {}}
    row |= {"versions": versions(options), "machine": machine(torch, options), "date": time.strftime("%Y-%m-%d")}
    row |= {key: {} for key in ("no_export", "refused", "compile_s", "errors", "launches", "peers_without")}
    with held(options.lock, fcntl.LOCK_SH):
        calls = (on_gpu if options.target == "cuda" else on_cpu)(torch, name, options, row)
    row.pop("file", None)
    if not options.prepare:
        with held(options.lock, fcntl.LOCK_EX), torch.no_grad():
            if options.target == "cuda":
                row["ms"] = turns(calls, options.rounds, torch.cuda.synchronize)
            else:
                taken = medians(list(calls.values()), rounds=options.rounds)
                row["ms"] = {who: seconds * 1e3 for who, seconds in zip(calls, taken, strict=True)}
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


def table(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """The rows as Markdown, by falling ratio."""
    peers = MODES if options.target == "cuda" else CPU_PEERS
    sides = [*EXPORTERS, *peers]
    made = {", ".join([row["machine"], row["date"], *(f"{of} {n}" for of, n in row["versions"].items())]) for row in rows}
    lines = [f"`bench/architectures.py --target {options.target}`, {'; '.join(sorted(made))}; milliseconds.", ""]
    lines += [f"| architecture | {' | '.join(sides)} | ratio | error |", "|---" * (len(sides) + 3) + "|"]
    for row in sorted(rows, key=lambda row: -(row["ratio"] or 0)):
        times = " | ".join(f"{row['ms'][side]:.2f}" if side in row["ms"] else "-" for side in sides)
        error = f"{max(row['errors'].values()):.1e}" if row["errors"] else "-"
        lines.append(f"| {row['name']} | {times} | {row['ratio'] or 0:.2f} | {error} |")
    return "\n".join(lines)


def in_process(name: str, options: argparse.Namespace, lock: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, name, "--target", options.target, "--rounds", str(options.rounds), "--lock", lock]
    command += ["--peers", ",".join(options.peers)]
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "2"}
    if options.exporter:
        command += ["--exporter", options.exporter]
    if options.prepare:
        command += ["--prepare"]
    if options.keep:
        command += ["--keep", options.keep]
        kept = options.keep.absolute()
        environment |= {"KNAPPER_CACHE_DIR": str(kept / "knapper"), "TORCHINDUCTOR_CACHE_DIR": str(kept / "inductor")}
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
    parser.add_argument("--rounds", type=int, help="turns of each; 15 calls on a GPU, 3 bursts on a CPU")
    parser.add_argument("--peers", default=",".join(CPU_PEERS), help="on a CPU, of ort, openvino, torch")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where files stay for another run")
    parser.add_argument("--prepare", action="store_true", help="time nothing: fill what --keep names")
    parser.add_argument("--table", action="store_true", help="print Markdown at the end")
    parser.add_argument("--bars", action="store_true")
    parser.add_argument("--lock", type=Path, help=argparse.SUPPRESS)  # makes this the process of one
    options = parser.parse_args()
    names = named_models(parser, options.names, ARCHITECTURES, ARCHITECTURES)
    options.rounds = options.rounds or ROUNDS[options.target]
    options.peers = options.peers.split(",")
    if set(options.peers) - set(CPU_PEERS):
        parser.error(f"--peers: of {', '.join(CPU_PEERS)}")
    if options.prepare and not options.keep:
        parser.error("--prepare needs --keep FOLDER")
    if options.lock:
        warnings.filterwarnings("ignore")
        logging.disable(logging.ERROR)
        with contextlib.ExitStack() as stack:
            options.folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            print(json.dumps(one(options)))
        return 0
    if (torch := torch_here("onnx", "transformers", gpu=options.target == "cuda")) is None:
        return 0
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
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
    mean = geometric_mean(ratios)
    least = min(ratios, default=0.0)
    if options.table:
        print(table([row for row in rows if "failed" not in row], options))
    print(f"{len(rows)} architectures, {len(bad)} not right; ratio to the best peer: geometric mean {mean:.2f}, least {least:.2f}")
    bars = BARS[options.target]
    return int(bool(bad) or (options.bars and (mean < bars[0] or least < bars[1])))


if __name__ == "__main__":
    raise SystemExit(main())
