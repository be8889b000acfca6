#!/usr/bin/env python3
"""Whether the models of the bars are right on an NVIDIA GPU, in float32 and bf16.

    bench/gpu_models_right.py [NAME...]

Each model of tests/models is exported, compiled for the GPU twice, as it is and with dtype="bf16",
and run at three sizes from one artefact. float32 is compared with torch's float32 on the processor:
at most 2e-4 of the largest value. bf16 is compared with float64: its error (of the norm) must not
exceed 1.05 times that of torch's own bf16 module on the same GPU. Runs of the same sizes are repeated
until they are recordings, whose results must be the first run's, bit by bit. No step of a run may need
the host: neither program has an operator there, nor a copy to or from it. Without a GPU or torch it
says so and ends with code 0.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from named_models import named_models
from torch_here import torch_here

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

SINGLE, HALF = 2e-4, 1.05
NAMES = ["minilm", "bert-base", "gpt2", "llama", "vit", "resnet50", "mobilenetv2", "whisper-encoder"]


def repeated(module: Any, feed: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], bool]:
    """The outputs of a first run, and whether those of later runs are the same."""
    values = [feed[info.name] for info in module.inputs]
    outputs = module(*values)
    first = {info.name: np.array(outputs[info.name], copy=True) for info in module.outputs}
    for _ in range(2):
        outputs = module(*values)
        if any(not np.array_equal(np.asarray(outputs[n]), a, equal_nan=True) for n, a in first.items()):
            return first, False
    return first, True


def distance(got: np.ndarray, exact: np.ndarray) -> float:
    got = np.asarray(got, np.float64)
    error = float(np.linalg.norm(got - exact) / np.linalg.norm(exact))
    return error if error == error else float("inf")


def in_torch(torch: Any, module: Any, dtype: Any, model: Any, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    module = module.to("cuda", dtype)
    inputs = [torch.from_numpy(feed[name]).cuda() for name in model.inputs]
    inputs = [i.to(dtype) if i.is_floating_point() else i for i in inputs]
    with torch.no_grad():
        return [value.double().cpu().numpy() for value in module(*inputs)]


def check(torch: Any, knapper: Any, name: str, folder: Path) -> list[str]:
    import export
    import gpu_program

    model = export.definition(name)
    export.export(name, folder)
    path = folder / f"{name}.onnx"
    problems = []
    modules = []
    for dtype in (None, "bf16"):
        dump = folder / f"{name}.{dtype}"
        modules.append(knapper.compile(path, target="cuda:sm_90a", dtype=dtype, cache=False, dump_dir=str(dump)))
        if steps := gpu_program.host_steps(gpu_program.program(dump)):
            problems.append(f"{name}: {dtype or 'float32'}: {len(steps)} steps on the host, {steps[0]} the first")
    single, half = modules
    worst, ours, theirs = 0.0, 0.0, 0.0
    for index in range(len(model.sizes)):
        stored = np.load(folder / f"{name}.{index}.npz")
        feed = {key[3:]: stored[key] for key in stored if key.startswith("in.")}
        got, same = repeated(single, feed)
        got16, same16 = repeated(half, feed)
        if not (same and same16):
            problems.append(f"{name}: size {index}: a later run differs from the first")
        for output in model.outputs:
            want = stored[f"out.{output}"].astype(np.float64)
            error = np.abs(got[output] - want).max() / np.abs(want).max()
            worst = max(worst, float(error) if error == error else float("inf"))
        exact = in_torch(torch, model.module().eval(), torch.float64, model, feed)
        eager = in_torch(torch, model.module().eval(), torch.bfloat16, model, feed)
        for output, e, t in zip(model.outputs, exact, eager, strict=True):
            ours, theirs = max(ours, distance(got16[output], e)), max(theirs, distance(t, e))
    path.unlink()
    print(f"{name:16} f32 {worst:.1e}   bf16 {ours:.2e}, torch's {theirs:.2e}", flush=True)
    if worst > SINGLE:
        problems.append(f"{name}: float32 is {worst:.2e} off")
    if ours > HALF * theirs:
        problems.append(f"{name}: bf16 is {ours:.2e} off, torch's {theirs:.2e}")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    names = named_models(parser, arguments.names, NAMES, NAMES)
    if (torch := torch_here("transformers")) is None:
        return 0
    import knapper

    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            problems += check(torch, knapper, name, Path(folder))
    print("\n".join(problems) or "all are right")
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
