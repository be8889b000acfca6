#!/usr/bin/env python3
"""GPT-2 of width 256 with 4 layers, trained on text of this repository: the loss of
each step, eager and compiled from the same weights, and steps a second.

    bench/torch_training.py --steps 50
    bench/torch_training.py --steps 50 --backends eager,inductor,knapper

The optimiser is AdamW, eager; forward and backward are compiled. The backends take
each step in turns, the speed is of the median step. Prints the largest
difference between the losses of a step; exit status 1 where one is above --limit.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--backends", default="eager,knapper")
    parser.add_argument("--limit", type=float, default=1e-2, help="of the difference between losses")
    options = parser.parse_args()
    import torch
    import transformers

    import knapper.torch

    torch.manual_seed(0)
    data = torch.tensor(list((ROOT / "CONTRIBUTING.md").read_bytes()))
    config = transformers.GPT2Config(
        n_embd=256, n_layer=4, n_head=4, vocab_size=256, n_positions=256, use_cache=False,
        resid_pdrop=options.dropout, embd_pdrop=options.dropout, attn_pdrop=options.dropout,
    )  # fmt: skip
    first = transformers.GPT2LMHeadModel(config)
    names = options.backends.split(",")
    runs = {}
    for name in names:
        model = copy.deepcopy(first).train()
        if name == "knapper":
            fallback = "allow" if options.dropout else "error"
            call = knapper.torch.compile(model, fallback=fallback)
        else:
            call = model if name == "eager" else torch.compile(model, backend=name)
        runs[name] = call, torch.optim.AdamW(model.parameters(), lr=3e-4)
    losses: dict[str, list[float]] = {name: [] for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(options.steps):  # in turns
        torch.manual_seed(number)
        at = torch.randint(0, len(data) - options.length, (options.batch,))
        tokens = torch.stack([data[i : i + options.length] for i in at])
        for name, (call, optimizer) in runs.items():
            torch.manual_seed(number)
            begin = time.perf_counter()
            optimizer.zero_grad()
            loss = call(input_ids=tokens, labels=tokens).loss
            loss.backward()
            optimizer.step()
            seconds[name].append(time.perf_counter() - begin)
            losses[name].append(loss.item())
    for name in names:
        told = losses[name]
        print(f"{name}: loss {told[0]:.4f} to {told[-1]:.4f}, {1 / statistics.median(seconds[name][2:]):.2f} steps/s", flush=True)
    others = [name for name in losses if name != "eager"]
    worst = max((abs(a - b) for name in others for a, b in zip(losses["eager"], losses[name])), default=0.0)
    print(f"largest difference of a loss from eager: {worst:.2e}, counters {knapper.torch.counters()}")
    return 1 if worst > options.limit and not options.dropout else 0


if __name__ == "__main__":
    sys.exit(main())
