#!/usr/bin/env python3
"""Times whole models on an NVIDIA GPU against torch.compile.

    bench/gpu_models.py [NAME...] [--dtype bf16|f32] [--layers N] [--rounds R] [--no-mask] [--json FILE] [--bars]
                        [--compile-only FOLDER | --compiled FOLDER]

NAME: gpt2 (8 x 1024), bert (32 x 128), resnet50 or mobilenetv2 (32 images); without
one, all four. The modules are those of transformers with seeded random
weights, converted to bf16 unless --dtype says otherwise, exported to ONNX by
torch with symbolic sizes and compiled from that file; torch runs the same
module. Those of images are exported in f32 (torch's bf16 files of them mix types)
and converted to bf16 by the compiler; torch runs them in its channels_last format. --no-mask leaves the attention
mask away, which neither side then reads. --compile-only needs no GPU; what it
leaves is measured elsewhere by --compiled.

Inputs and outputs lie in memory that torch allocated. A time is that of one run
from the call to the end of the device's work, the median of rounds in which all
take turns; errors are against the same module in float64, relative to the norm.
A model fails when its error exceeds 1.05 times that of torch's eager module (1e-4
always passes: float32), and
with --bars when it is slower than 1/0.95 of the fastest of torch.compile's default,
reduce-overhead and max-autotune. Each of them is measured beside ours, in rounds of
their own; the ratio is the least of those three, each of medians of the same rounds. Without a GPU, torch or transformers it says so and ends with
code 0.
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
from typing import Any

from named_models import named_models
from torch_here import torch_here

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

BAR = 0.95
ERROR = 1.05
SMALL_ERROR = 1e-4  # passes for float32
SIZES = {"gpt2": (8, 1024), "bert": (32, 128), "resnet50": (32,), "mobilenetv2": (32,)}
IMAGES = {"resnet50", "mobilenetv2"}
DTYPES = {"bf16": "bfloat16", "f32": "float32"}
DEFAULT = list(SIZES)
MODES = ("default", "reduce-overhead", "max-autotune")
TOP = 12  # kernels shown
PROGRAM = next(
    (p for p in (ROOT / "bin/knapper", ROOT / "build/release/bin/knapper", ROOT / "build/dev/bin/knapper") if p.exists()),
    "knapper",
)


def module(name: str, layers: int, mask: bool) -> Any:
    import transformers
    import definitions
    from definitions import Named, draw_weights

    if name in IMAGES:
        return getattr(definitions, name)()
    inputs = ["input_ids", "attention_mask"] if mask else ["input_ids"]
    if name == "gpt2":
        config = transformers.GPT2Config(use_cache=False, n_layer=layers)
        inner = draw_weights(transformers.GPT2LMHeadModel(config).eval(), 3)
        return Named(inner, inputs, ["logits"], use_cache=False)
    config = transformers.BertConfig(num_hidden_layers=layers)
    inner = draw_weights(transformers.BertModel(config).eval(), 2)
    return Named(inner, inputs, ["last_hidden_state", "pooler_output"])


def draw(torch: Any, name: str, dtype: Any, options: Any) -> list[Any]:
    """The inputs."""
    generator = torch.Generator(device="cuda").manual_seed(1)
    if name in IMAGES:
        image = torch.randn(*SIZES[name], 3, 224, 224, device="cuda", generator=generator)
        return [image.to(dtype)]
    ids = torch.randint(
        1, 30000, SIZES[name], device="cuda", generator=generator
    )
    return [ids] if options.no_mask else [ids, torch.ones_like(ids)]


def export(torch: Any, name: str, model: Any, dtype: Any, path: Path) -> str | None:
    """Turns the module into `dtype` and writes it; what the compiler is to turn it into."""
    converted = None
    if name in IMAGES and dtype != torch.float32:
        converted = next(n for n, t in DTYPES.items() if getattr(torch, t) == dtype)
    else:
        model.to(dtype)
    symbols = {0: torch.export.Dim("batch", min=1, max=2048)}
    if name in IMAGES:
        examples = [torch.randn(2, 3, 224, 224)]
    else:
        # A tensor an input: the exporter takes equal ones for one.
        examples = [torch.full((2, 24), 1 + i) for i in range(len(model.names))]
        limit = 512 if name == "bert" else 1024
        symbols[1] = torch.export.Dim("sequence", min=1, max=limit)
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
    return converted


def error(got: Any, exact: Any) -> float:
    return ((got.double() - exact).norm() / exact.norm()).item()


def run(torch: Any, name: str, options: Any, folder: Path) -> dict[str, Any]:
    import knapper

    dtype = getattr(torch, DTYPES[options.dtype])
    model = module(name, options.layers, not options.no_mask)
    made = folder / f"{name}.{options.dtype}.knap"
    compile_s = 0.0
    if options.compiled:
        compiled = knapper.load(str(made))
    else:
        path = folder / f"{name}.onnx"
        converted = export(torch, name, model, dtype, path)
        start = time.perf_counter()
        compiled = knapper.compile(path, target="cuda:sm_90a", dtype=converted, output=made, cache=False)
        compile_s = time.perf_counter() - start
    model = model.cuda()
    if name not in IMAGES:
        model = model.to(dtype)  # what was exported
    given = draw(torch, name, dtype, options)  # to torch
    inputs = given
    if name in IMAGES:
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        model = model.to(memory_format=torch.channels_last)
        given = [i.contiguous(memory_format=torch.channels_last) for i in given]
        inputs = [i.to(getattr(torch, DTYPES[info.dtype])) for i, info in zip(inputs, compiled.inputs)]
    with torch.no_grad():
        exact = model.double()(*[i.double() if i.is_floating_point() else i for i in given])
        model.to(dtype)
        eager = model(*given)
        outs = [
            torch.full_like(e, float("nan"), dtype=getattr(torch, DTYPES[info.dtype]))
            for e, info in zip(eager, compiled.outputs)
        ]
        compiled.run(inputs, outs)
        ours = [error(o, e) for o, e in zip(outs, exact)]
        theirs = [error(o, e) for o, e in zip(eager, exact)]
        del exact, eager
        torch.cuda.empty_cache()
        calls = {"knapper": lambda: compiled.run(inputs, outs)}
        calls["eager"] = lambda: model(*given)
        beside: dict[str, dict[str, float]] = {}  # by mode
        for mode in MODES:
            torch._dynamo.reset()
            call = torch.compile(model, mode=mode, dynamic=False)
            for _ in range(3):
                call(*given)
            torch.cuda.synchronize()
            # Each mode is measured beside ours: dynamo's state is one a process.
            for _ in range(3):
                calls["knapper"]()
            calls[mode] = call
            beside[mode] = rounds(torch, calls, given, mode, options.rounds)
        del calls
    ratios = {mode: times[mode] / times["knapper"] for mode, times in beside.items()}
    best = min(ratios, key=ratios.__getitem__)
    result = {
        # Of the rounds that the ratio is of.
        "knapper_ms": beside[best]["knapper"],
        "eager_ms": beside[best]["eager"],
        "modes_ms": {mode: times[mode] for mode, times in beside.items()},
        "ratios": ratios,
        "ratio": ratios[best],
        "compile_s": compile_s,
        "errors": ours,
        "torch_errors": theirs,
    }
    launches = compiled.profile(*inputs)["launches"]
    result["kernels_ms"] = sum(launch["ns"] for launch in launches) / 1e6
    result["launches"] = launches
    result["right"] = all(
        o <= max(ERROR * t, SMALL_ERROR if options.dtype == "f32" else 0) for o, t in zip(ours, theirs)
    )
    return result


def rounds(
    torch: Any, calls: dict[str, Any], inputs: list[Any], mode: str, count: int
) -> dict[str, float]:
    """Median milliseconds of ours, of eager and of one mode, interleaved."""
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
        + ", ".join(f"{mode} {time:.3f} (x{row['ratios'][mode]:.3f})" for mode, time in row["modes_ms"].items())
        + f": x{row['ratio']:.3f}; compiled in {row['compile_s']:.2f} s; errors "
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
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--compile-only", type=Path, metavar="FOLDER")
    parser.add_argument("--compiled", type=Path, metavar="FOLDER")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--no-mask", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    options = parser.parse_args()
    names = named_models(parser, options.names, DEFAULT, SIZES)
    if (torch := torch_here("transformers", gpu=not options.compile_only)) is None:
        return 0
    if options.compile_only:
        options.compile_only.mkdir(parents=True, exist_ok=True)
        dtype = getattr(torch, DTYPES[options.dtype])
        for name in names:
            model = module(name, options.layers, not options.no_mask)
            path = options.compile_only / f"{name}.onnx"
            converted = export(torch, name, model, dtype, path)
            made = path.with_suffix(f".{options.dtype}.knap")
            command = [PROGRAM, "compile", path, "--target", "cuda:sm_90a", "-o", made]
            if converted:
                command.append(f"--dtype={converted}")
            subprocess.run(command, check=True, env=os.environ | {"KNAPPER_CACHE": "off"})
            path.unlink()
        return 0
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            rows[name] = run(torch, name, options, options.compiled or Path(folder))
            show(name, rows[name])
            torch.cuda.empty_cache()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    bad = [n for n, r in rows.items() if not r["right"]]
    slow = [n for n, r in rows.items() if options.bars and r["ratio"] < BAR]
    return int(bool(bad or slow))


if __name__ == "__main__":
    raise SystemExit(main())
