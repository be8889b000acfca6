#!/usr/bin/env python3
"""Writes the models of the bars as ONNX files with reference outputs.

    tests/models/export.py [--set bars|wide|decode] [NAME...]

Without a NAME all of the set (bars) but bert-48. For each model the folder $KNAPPER_MODELS (default build/models) gets
NAME.onnx and, for each of its sizes, NAME.0.npz, NAME.1.npz, NAME.2.npz with
arrays `in.<input>` and `out.<output>` computed by torch. What is already there
and was written by the same scripts and packages is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import sys
import time
import warnings
from pathlib import Path

# Known without importing torch; the definitions are checked against it.
NAMES = (
    "minilm",
    "minilm-real",
    "bert-base",
    "gpt2",
    "llama",
    "vit",
    "resnet50",
    "mobilenetv2",
    "whisper-encoder",
)
# Architectures unlike these (wide.py): --set wide.
WIDE = (
    "unet",
    "detector",
    "lstm",
    "speech",
    "swin",
    "convnext",
    "experts",
    "state-space",
)
# One token after many, keys and values in and out (decode_step.py): --set decode.
DECODE = ("llama-decode",)
# Made on request only.
MORE = ("bert-48",)
SETS = {"bars": NAMES, "wide": WIDE, "decode": DECODE}
SOURCES = {"wide.py": WIDE, "decode_step.py": DECODE}

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))


def folder() -> Path:
    return Path(os.environ.get("KNAPPER_MODELS", ROOT / "build" / "models"))


def stamp(name: str) -> str:
    """What the files of a model depend on, as one line."""
    from importlib.metadata import version

    source = next((file for file, names in SOURCES.items() if name in names), "definitions.py")
    text = (HERE / source).read_bytes()
    packages = " ".join(
        f"{p}={version(p)}"
        for p in ("torch", "transformers", "onnx", "onnxscript")
    )
    return f"{name} {hashlib.sha256(text).hexdigest()[:16]} {packages}"


def definition(name: str):
    """The `Model` of a name; KeyError for an unknown one."""
    import decode_step
    import definitions
    import wide

    assert {*NAMES, *MORE} == set(definitions.MODELS), "export.py names the definitions"
    assert set(WIDE) == set(wide.WIDE), "export.py names the definitions"
    assert set(DECODE) == set(decode_step.DECODE), "export.py names the definitions"
    return (definitions.MODELS | wide.WIDE | decode_step.DECODE)[name]


def export(name: str, target: Path) -> None:
    import numpy as np
    import torch

    model = definition(name)
    module = model.module().eval()
    generator = np.random.default_rng(17)

    # The example's dims differ from each other and from one: an exporter must
    # not take them for constants.
    example = model.feed(generator, {"batch": 2, "sequence": 24, "past": 24})
    arguments = tuple(torch.from_numpy(example[n]) for n in model.inputs)
    path = target / f"{name}.onnx"
    temporary = target / f"{name}.tmp.onnx"
    if model.exporter == "dynamo":
        symbols = {
            s: torch.export.Dim(s, min=1, max=512 if s == "sequence" else 2048)
            for axes in model.inputs.values()
            for s in axes.values()
            if s.isidentifier()
        }
        # Sizes that follow another: "past + 1".
        for axes in model.inputs.values():
            for s in axes.values():
                if s not in symbols:
                    symbol, _, more = s.partition(" + ")
                    symbols[s] = symbols[symbol] + int(more)
        shapes = tuple(
            {axis: symbols[s] for axis, s in axes.items()}
            for axes in model.inputs.values()
        )
        torch.onnx.export(
            module,
            arguments,
            str(temporary),
            dynamo=True,
            input_names=list(model.inputs),
            output_names=model.outputs,
            dynamic_shapes=(shapes,),
            external_data=False,
            verbose=False,
        )
    else:
        torch.onnx.export(
            module,
            arguments,
            str(temporary),
            dynamo=False,
            input_names=list(model.inputs),
            output_names=model.outputs,
            dynamic_axes={
                **model.inputs,
                **{o: {0: "batch"} for o in model.outputs},
            },
            opset_version=17,
        )
    for index, size in enumerate(model.sizes):
        feed = model.feed(np.random.default_rng(100 + index), size)
        with torch.no_grad():
            results = module(*(torch.from_numpy(feed[n]) for n in model.inputs))
        arrays = {f"in.{n}": a for n, a in feed.items()}
        for output, value in zip(model.outputs, results, strict=True):
            spread = float(value.std())
            if not 1e-2 < spread < 1e3:
                raise SystemExit(
                    f"{name}: output {output} has standard deviation {spread}: "
                    "a test against it would prove nothing"
                )
            arrays[f"out.{output}"] = value.numpy()
        np.savez(target / f"{name}.{index}.npz", **arrays)
    temporary.rename(path)


def ensure(names: list[str]) -> Path:
    """Makes what is missing or out of date; returns the folder."""
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        mark = target / f"{name}.stamp"
        wanted = stamp(name)
        if mark.exists() and mark.read_text() == wanted:
            continue
        start = time.monotonic()
        export(name, target)
        mark.write_text(wanted)
        size = (target / f"{name}.onnx").stat().st_size / 1e6
        print(
            f"{name}: {size:.0f} MB, {time.monotonic() - start:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=[])
    parser.add_argument("--set", choices=SETS, default="bars")
    arguments = parser.parse_args()
    names = arguments.names or list(SETS[arguments.set])
    known = NAMES + WIDE + DECODE + MORE
    unknown = [n for n in names if n not in known]
    if unknown:
        parser.error(f"no model {unknown[0]}; there are: {', '.join(known)}")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    ensure(names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
