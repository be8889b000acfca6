#!/usr/bin/env python3
"""The memory of a compiled call: Knapper beside inductor and eager, on the CPU.

    bench/torch_memory.py                         # forward and a training step
    bench/torch_memory.py --only gpt2,resnet50 --sides inductor,knapper

Random weights, float32. Each side of each row is a process of its own. Behind three
calls, which compile, the peak of resident memory is set back (/proc/self/clear_refs)
and read behind two more: "grown" is what lies above the memory before these calls,
"held" the memory between calls above that of the model and torch before compiling,
"peak" both. Of "held", "files" are pages of libraries that are as they lie on disk: code, which
processes share and the system takes back; "relocated" are pages of libraries that
loading has written to; the rest is the process's own. A training step is forward, backward and a plain update of the weights in
place. Exit status 1 where one of Knapper's grown and peak memory is above that of
inductor, or a side gives none.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]
import torch_speed as models  # noqa: E402



def bert() -> tuple[Any, Any]:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(num_hidden_layers=3)), models.text(4, 128, 30522)


def gpt2() -> tuple[Any, Any]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=3, vocab_size=8192, use_cache=False)
    return GPT2LMHeadModel(config), models.text(2, 256, 8192)


# Row -> what builds its model and inputs.
ROWS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "gpt2 3 layers 2x256": gpt2,
    "bert 3 layers 4x128": bert,
    "resnet50 4": lambda: models.resnet(4),
}


def status(field: str) -> int:
    """Bytes, of /proc/self/status."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    assert found is not None
    return int(found[1]) * 1024


def settled() -> int:
    """Resident memory without what the allocator keeps of freed blocks."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return status("VmRSS")


def of_libraries() -> tuple[int, int]:
    """Resident bytes of mapped files: as on disk, and written to."""
    text = Path("/proc/self/smaps").read_text()
    clean = written = 0
    for block in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", text, flags=re.M)[1:]:
        mapped = block.splitlines()[0].split(maxsplit=5)
        if len(mapped) < 6 or not mapped[5].startswith("/"):
            continue
        sizes = {field: int(size) * 1024 for field, size in re.findall(r"^(\w+):\s+(\d+) kB", block, re.M)}
        written += sizes["Anonymous"]
        clean += sizes["Rss"] - sizes["Anonymous"]
    return clean, written


def run(name: str, side: str, train: bool) -> dict[str, Any]:
    torch.manual_seed(0)
    model, inputs_of = ROWS[name]()
    inputs = inputs_of()
    model.train(train)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    parameters = list(model.parameters())
    # What torch loads with its compiler counts for no side.
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    function = models.SIDES[side](model)

    def call() -> None:
        if not train:
            with torch.inference_mode():
                function(**inputs)
            return
        models.first_tensor(function(**inputs)).square().mean().backward()
        with torch.no_grad():
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-1e-9)
                    parameter.grad = None

    before, libraries = settled(), of_libraries()
    for _ in range(3):
        call()
    held = settled()
    clean, written = (now - then for now, then in zip(of_libraries(), libraries))
    Path("/proc/self/clear_refs").write_text("5")
    for _ in range(2):
        call()
    peak = status("VmHWM")
    sizes = {
        "held": held - before, "files": clean, "relocated": written,
        "grown": peak - held, "peak": peak - before,
    }  # fmt: skip
    return {f"{what} MiB": size >> 20 for what, size in sizes.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="first words of rows, by commas")
    parser.add_argument("--sides", default="eager,inductor,knapper")
    parser.add_argument("--kinds", default="forward,step")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="rows as JSON, a line each")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    if options.child:
        name, side, kind = options.child
        print("\nROW " + json.dumps(run(name, side, kind == "step")))
        return 0
    failed = False
    for kind in options.kinds.split(","):
        for name in ROWS:
            if options.only and name.split()[0] not in options.only.split(","):
                continue
            row: dict[str, Any] = {"row": name, "kind": kind}
            for side in options.sides.split(","):
                command = [sys.executable, __file__, "--threads", str(options.threads), "--child", name, side, kind]
                done = subprocess.run(command, capture_output=True, text=True)
                told = [line[4:] for line in done.stdout.splitlines() if line.startswith("ROW ")]
                row[side] = json.loads(told[0]) if told else done.stderr[-300:]
            measured = [row[s] for s in ("inductor", "knapper") if isinstance(row.get(s), dict)]
            failed |= not all(isinstance(row[side], dict) for side in options.sides.split(","))
            for what in ("grown", "peak") if len(measured) == 2 else ():
                theirs, ours = (side[f"{what} MiB"] for side in measured)
                row[f"{what} to inductor"] = round(ours / max(theirs, 1), 3)
                failed |= ours > theirs
            print(json.dumps(row), flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
