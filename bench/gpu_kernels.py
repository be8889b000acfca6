#!/usr/bin/env python3
"""Times memory-bound kernels on an NVIDIA GPU against a copy of the same bytes and against PyTorch.

    bench/gpu_kernels.py [--filter TEXT] [--json FILE] [--bars]
    bench/gpu_kernels.py --compile-to FOLDER      on a machine without a GPU
    bench/gpu_kernels.py --compiled FOLDER        runs those

Every case runs on random data, in memory that PyTorch allocated (no copies). The figures are medians of rounds in which
Knapper, PyTorch and torch.compile take turns, each between two events of the device, before its first kernel and after
its last; "of copy" is the time of a
device-to-device copy that reads and writes as many bytes together, measured in the same rounds. Outputs are compared with
float64 first, and one that differs fails the command. --bars fails it also below the bar of a case. Without a GPU, or
without PyTorch, it says so and ends with code 0.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from torch_here import torch_here

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python")]


@dataclass
class Case:
    """A tensor program and the same thing in PyTorch."""

    name: str
    program: str
    inputs: list[tuple[str, tuple[int, ...]]]  # dtype and shape
    torch: Callable[..., Any]
    bar: float  # share of the copy's speed
    versus_compile: float = 0.0  # least ratio to torch.compile
    ramp: int = 0  # rows of the table that i64 inputs index
    tolerance: float = 5e-3  # norm of the error over the norm (rounding to bf16 gives 1e-3); 0: equal
    indices: bool = False  # a second result says where along dim 1 the first is taken from; torch returns the first

    @property
    def file(self) -> str:
        return "".join(c if c.isalnum() else "_" for c in self.name) + ".knap"


def mlir(kind: str, *dims: Any) -> str:
    """A tensor type; a dim that is text is a symbol."""
    shape = "x".join("?" if isinstance(d, str) else str(d) for d in dims)
    names = ", ".join(f'"{d}"' if isinstance(d, str) else str(d) for d in dims)
    symbolic = any(isinstance(d, str) for d in dims)
    return f"tensor<{shape}{'x' if dims else ''}{kind}{f', #ts.dims<{names}>' if symbolic else ''}>"


def pointwise(rows: int, columns: int, **more: Any) -> Case:
    t = mlir("f32", rows, columns)
    s = mlir("f32")
    program = f"""func.func @main(%x: {t}) -> {t} {{
  %zero = ts.constant dense<0.0> : {s}
  %half = ts.constant dense<0.5> : {s}
  %one = ts.constant dense<1.0> : {s}
  %z = ts.broadcast %zero [] : {s} to {t}
  %h = ts.broadcast %half [] : {s} to {t}
  %o = ts.broadcast %one [] : {s} to {t}
  %r = ts.max %x, %z : {t}
  %m = ts.mul %r, %h : {t}
  %y = ts.add %m, %o : {t}
  return %y : {t}
}}"""
    return Case(
        f"relu(x)*0.5+1 f32 {rows}x{columns}",
        program,
        [("f32", (rows, columns))],
        lambda x: x.relu() * 0.5 + 1,
        tolerance=1e-6,
        **more,
    )


def softmax(rows: int, columns: int, bar: float, symbolic: bool = False) -> Case:
    t = mlir("bf16", "rows" if symbolic else rows, columns)
    program = f"""func.func @main(%x: {t}) -> {t} {{
  %y = ts.softmax %x dim 1 : {t}
  return %y : {t}
}}"""
    return Case(
        f"softmax bf16 {rows}x{columns}{' rows symbolic' if symbolic else ''}",
        program,
        [("bf16", (rows, columns))],
        lambda x: x.softmax(-1),
        bar,
    )


def norm(kind: str, rows: int, columns: int, bar: float) -> Case:
    t, w = mlir("bf16", rows, columns), mlir("bf16", columns)
    layer = kind == "layer norm"
    bias = f", %b: {w}" if layer else ""
    program = f"""func.func @main(%x: {t}, %g: {w}{bias}) -> {t} {{
  %y = ts.layer_norm %x{{OPERANDS}} : {t}
  return %y : {t}
}}"""
    operands = (
        f" scale %g : {w} bias %b : {w} dim 1 epsilon 1.0e-5"
        if layer
        else f" scale %g : {w} dim 1 epsilon 1.0e-5 {{rms = true}}"
    )
    weights = [("bf16", (columns,))] * (2 if layer else 1)

    def torch_norm(x: Any, g: Any, b: Any = None) -> Any:
        import torch.nn.functional as F

        if layer:
            return F.layer_norm(x, (columns,), g, b, 1e-5)
        return F.rms_norm(x, (columns,), g, 1e-5)

    return Case(
        f"{kind} bf16 {rows}x{columns}",
        program.replace("{OPERANDS}", operands),
        [("bf16", (rows, columns)), *weights],
        torch_norm,
        bar,
    )


def total(what: str, dims: list[int], n: int, bar: float) -> Case:
    t = mlir("f32", n, n)
    r = mlir("f32", *[n for d in range(2) if d not in dims])
    program = f"""func.func @main(%x: {t}) -> {r} {{
  %y = ts.reduce add %x {dims} : {t}
  return %y : {r}
}}"""
    return Case(
        f"sum of {what} f32 {n}x{n}",
        program,
        [("f32", (n, n))],
        lambda x: x.sum(dims),
        bar,
        tolerance=1e-5,
    )


def transpose(kind: str, n: int, bar: float) -> Case:
    t = mlir(kind, n, n)
    program = f"""func.func @main(%x: {t}) -> {t} {{
  %y = ts.transpose %x [1, 0] : {t}
  return %y : {t}
}}"""
    return Case(
        f"transpose {kind} {n}x{n}",
        program,
        [(kind, (n, n))],
        lambda x: x.t().contiguous(),
        bar,
        tolerance=0,
    )


def embedding(rows: int, table: int, columns: int, bar: float) -> Case:
    t, i, r = mlir("bf16", table, columns), mlir("i64", rows), mlir("bf16", rows, columns)
    program = f"""func.func @main(%t: {t}, %i: {i}) -> {r} {{
  %y = ts.gather %t, %i dim 0 : {t}, {i}
  return %y : {r}
}}"""
    return Case(
        f"embedding bf16 {rows} of {table}x{columns}",
        program,
        [("bf16", (table, columns)), ("i64", (rows,))],
        lambda t, i: t[i],
        bar,
        ramp=table,
        tolerance=0,
    )


def running_sum(dims: tuple[int, ...], bar: float) -> Case:
    t = mlir("bf16", *dims)
    program = f"""func.func @main(%x: {t}) -> {t} {{
  %y = ts.scan add %x dim 1 : {t}
  return %y : {t}
}}"""
    return Case(
        f"running sum bf16 {'x'.join(map(str, dims))}",
        program,
        [("bf16", dims)],
        lambda x: x.cumsum(1),
        bar,
    )


def top_k(rows: int, columns: int, k: int, bar: float) -> Case:
    t, v, i = mlir("bf16", rows, columns), mlir("bf16", rows, k), mlir("i64", rows, k)
    program = f"""func.func @main(%x: {t}) -> ({v}, {i}) {{
  %v, %i = ts.topk %x k <{k}> dim 1 : {t}
  return %v, %i : {v}, {i}
}}"""
    return Case(
        f"top {k} bf16 {rows}x{columns}",
        program,
        [("bf16", (rows, columns))],
        lambda x: x.topk(k, dim=1)[0],
        bar,
        tolerance=0,
        indices=True,
    )


def cases() -> list[Case]:
    return [
        pointwise(4096, 4096, bar=0.0, versus_compile=1.0),
        pointwise(32768, 16384, bar=0.99, versus_compile=1.0),
        softmax(32768, 8192, 0.97),
        softmax(524288, 512, 0.97),
        softmax(131072, 2048, 0.97),
        softmax(8192, 32768, 0.97),
        softmax(65536, 4099, 0.97),
        softmax(32768, 8192, 0.97, symbolic=True),
        norm("layer norm", 65536, 4096, 0.97),
        norm("rms norm", 65536, 4096, 0.97),
        total("rows", [1], 16384, 1.0),
        total("columns", [0], 16384, 1.0),
        total("all", [0, 1], 16384, 1.0),
        transpose("f32", 16384, 0.95),
        transpose("bf16", 16384, 0.95),
        embedding(65536, 131072, 4096, 0.95),
        running_sum((4096, 16384), 0.0),
        running_sum((8, 1048576), 0.0),
        running_sum((100000, 64), 0.0),
        running_sum((124, 38, 4, 1535), 0.0),
        top_k(64, 128256, 50, 0.0),
        top_k(512, 16384, 50, 0.0),
        top_k(2048, 4096, 5, 0.0),
        top_k(8, 1048576, 256, 0.0),
    ]


# The device waits while the host hands it the work: what is timed is the work alone.
WAIT_CYCLES = 400_000


def compile_case(knapper: Any, case: Case) -> Any:
    return knapper.compile(case.program.encode(), target="cuda:sm_90a", model_format="mlir")


class Timer:
    """Milliseconds of device work by events, for whoever runs on torch's stream."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.start = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)

    def __call__(self, work: Callable[[], Any]) -> float:
        self.torch.cuda._sleep(WAIT_CYCLES)
        self.start.record()
        work()
        self.end.record()
        self.end.synchronize()
        return self.start.elapsed_time(self.end)


def span(events: list[dict[str, int]]) -> float:
    """Milliseconds of the device from the first kernel's start to the last one's end, gaps included."""
    return max(event["start_ns"] + event["ns"] for event in events) / 1e6


def wrong(torch: Any, case: Case, got: Any, inputs: list[Any]) -> str:
    """What differs from float64, computed in slices of rows where rows are apart; "" if nothing."""
    if case.tolerance == 0:
        return "" if torch.equal(got, case.torch(*inputs)) else "differs"
    by_rows = got.dim() == 2
    step = 4096 if by_rows else inputs[0].shape[0]
    worst = 0.0
    for begin in range(0, inputs[0].shape[0], step):
        part = inputs[0][begin : begin + step]
        want = case.torch(part.double(), *[w.double() for w in inputs[1:]])
        have = got[begin : begin + step] if by_rows else got
        scale = want.norm().item() or 1.0
        error = (have.double() - want).norm().item() / scale
        worst = max(worst, error if error == error else float("inf"))
    return "" if worst <= case.tolerance else f"relative error {worst:.3g}"


def measure(torch: Any, knapper: Any, case: Case, module: Any, rounds: int) -> dict[str, Any]:
    types = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64}
    inputs = []
    for kind, shape in case.inputs:
        if kind == "i64":
            inputs.append(torch.randint(0, case.ramp, shape, device="cuda"))
        else:
            inputs.append(torch.randn(shape, device="cuda", dtype=types[kind]))
    like = case.torch(*inputs)
    # Random addresses must not let one output be mistaken for another's.
    out = torch.full_like(like, float("nan") if like.is_floating_point() else 7)
    places = torch.full_like(like, -1, dtype=torch.int64) if case.indices else None
    module.run(inputs, [out] if places is None else [out, places])
    row: dict[str, Any] = {"case": case.name, "wrong": wrong(torch, case, out, inputs)}
    if places is not None and not torch.equal(inputs[0].gather(1, places), out):
        row["wrong"] += " indices lead elsewhere"
    # What must move: each input once (of a table only the rows taken), the output once.
    moved = sum(t.numel() * t.element_size() for t in [*inputs, out, places] if t is not None)
    if case.ramp:
        moved -= inputs[0].numel() * inputs[0].element_size() - out.numel() * out.element_size()
    source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    compiled = torch.compile(case.torch)
    timer = Timer(torch)

    contenders = {
        "copy_ms": lambda: timer(lambda: target.copy_(source)),
        "knapper_ms": lambda: span(module.profile(*inputs)["events"]),
        "eager_ms": lambda: timer(lambda: case.torch(*inputs)),
        "compile_ms": lambda: timer(lambda: compiled(*inputs)),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for count in range(rounds + 3):
        for name, contender in contenders.items():
            time = contender()
            if count >= 3:
                times[name].append(time)
    for name, list_of in times.items():
        row[name] = statistics.median(list_of)
    row["of_copy"] = row["copy_ms"] / row["knapper_ms"]
    row["copy_gbps"] = moved / 2 * 2 / row["copy_ms"] / 1e6
    row["versus_eager"] = row["eager_ms"] / row["knapper_ms"]
    row["versus_compile"] = row["compile_ms"] / row["knapper_ms"]
    row["below_bar"] = row["of_copy"] < case.bar or row["versus_compile"] < case.versus_compile
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--filter", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--bars", action="store_true")
    parser.add_argument("--compile-to", type=Path, metavar="FOLDER")
    parser.add_argument("--compiled", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    chosen = [case for case in cases() if arguments.filter in case.name]
    if arguments.compile_to:
        arguments.compile_to.mkdir(parents=True, exist_ok=True)
        for case in chosen:
            source = arguments.compile_to / (case.file + ".mlir")
            source.write_text(case.program)
            command = [ROOT / "build" / "release" / "bin" / "knapper", "compile", source]
            command += ["-o", arguments.compile_to / case.file, "--target", "cuda:sm_90a"]
            subprocess.run(command, check=True)
            source.unlink()
        return 0
    if (torch := torch_here()) is None:
        return 0
    import knapper

    rows = []
    print(f"{'case':42} {'us':>9} {'of copy':>8} {'x eager':>8} {'x compile':>9}   copy GB/s")
    for case in chosen:
        if arguments.compiled:
            module = knapper.load(arguments.compiled / case.file)
        else:
            module = compile_case(knapper, case)
        row = measure(torch, knapper, case, module, arguments.rounds)
        torch.cuda.empty_cache()
        rows.append(row)
        print(
            f"{case.name:42} {row['knapper_ms'] * 1e3:9.1f} {row['of_copy'] * 100:7.1f}% {row['versus_eager']:8.2f} "
            f"{row['versus_compile']:9.2f}   {row['copy_gbps']:7.0f}"
            f"{'   WRONG: ' + row['wrong'] if row['wrong'] else ''}{'   below its bar' if row['below_bar'] else ''}",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    failed = any(row["wrong"] for row in rows)
    return int(failed or (arguments.bars and any(row["below_bar"] for row in rows)))


if __name__ == "__main__":
    raise SystemExit(main())
