#!/usr/bin/env python3
"""GPT-2 of width 256 with 4 layers, trained on text of this repository: the loss of
each step, eager and compiled from the same weights, and steps a second.

    bench/torch_training.py --steps 300
    bench/torch_training.py --steps 50 --backends eager,inductor,knapper --fuse-optimizer
    bench/torch_training.py --steps 100 --dropout 0.1 --seeds 3

The optimiser is AdamW, eager or, with --fuse-optimizer, compiled by the backend as
the model is. The backends take each step interleaved on the same two threads, the speed
is of the median step behind the first five. Without dropout the largest difference
between the losses of a step decides: exit status 1 where one is above --limit. With
dropout the mean loss of the last quarter of the steps does, over all seeds: exit
status 1 where a backend's is further from eager's than two standard errors of
their differences and --limit. --out gets every loss and time as JSON.
"""

from __future__ import annotations

import argparse
import copy
import json
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
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fuse-optimizer", action="store_true")
    parser.add_argument("--backends", default="eager,knapper")
    parser.add_argument("--limit", type=float, default=1e-2, help="of the difference between losses")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    import torch

    import knapper.torch

    torch.set_num_threads(options.threads)
    names = options.backends.split(",")
    runs = []
    for seed in range(options.seeds):
        runs.append(train(options, names, seed))
        for name in names:
            told, seconds = runs[-1][name]["losses"], runs[-1][name]["seconds"]
            speed = 1 / statistics.median(seconds[5:] or seconds)
            print(f"seed {seed} {name}: loss {told[0]:.4f} to {told[-1]:.4f}, {speed:.2f} steps/s", flush=True)
    if options.out:
        options.out.write_text(json.dumps({"options": {k: str(v) for k, v in vars(options).items()}, "runs": runs}))
    print(f"counters {knapper.torch.counters()}")
    return judge(options, names, runs)


def judge(options: argparse.Namespace, names: list[str], runs: list[dict]) -> int:
    """0 where the losses are eager's."""
    failed = 0
    for name in names:
        if name == "eager" or "eager" not in names:
            continue
        if not options.dropout:
            pairs = [zip(run["eager"]["losses"], run[name]["losses"]) for run in runs]
            worst = max(abs(a - b) for pair in pairs for a, b in pair)
            print(f"{name}: largest difference of a loss from eager {worst:.2e}")
            failed |= worst > options.limit
            continue
        last = max(1, options.steps // 4)
        differences = [
            statistics.fmean(run[name]["losses"][-last:]) - statistics.fmean(run["eager"]["losses"][-last:])
            for run in runs
        ]
        mean = statistics.fmean(differences)
        noise = statistics.stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else 0.0
        print(f"{name}: mean loss of the last {last} steps {mean:+.2e} from eager's, standard error {noise:.1e}")
        failed |= abs(mean) > max(2 * noise, options.limit)
    return int(failed)


def train(options: argparse.Namespace, names: list[str], seed: int) -> dict[str, dict[str, list[float]]]:
    import torch
    import transformers

    import knapper.torch

    torch._dynamo.reset()
    torch.manual_seed(seed)
    data = torch.tensor(list((ROOT / "CONTRIBUTING.md").read_bytes()))
    config = transformers.GPT2Config(
        n_embd=256, n_layer=4, n_head=4, vocab_size=256, n_positions=256, use_cache=False,
        resid_pdrop=options.dropout, embd_pdrop=options.dropout, attn_pdrop=options.dropout,
    )  # fmt: skip
    first = transformers.GPT2LMHeadModel(config)
    calls = {}
    for name in names:
        model = copy.deepcopy(first).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
        step = optimizer.step
        if name == "knapper":
            call = knapper.torch.compile(model, fallback="error")
            if options.fuse_optimizer:
                step = knapper.torch.compile(step, fallback="error")
        elif name == "eager":
            call = model
        else:
            call = torch.compile(model, backend=name)
            if options.fuse_optimizer:
                step = torch.compile(step, backend=name)
        calls[name] = call, optimizer, step
    made: dict[str, dict[str, list[float]]] = {name: {"losses": [], "seconds": []} for name in names}
    for number in range(options.steps):  # interleaved
        torch.manual_seed(seed * 100_000 + number)
        at = torch.randint(0, len(data) - options.length, (options.batch,))
        tokens = torch.stack([data[i : i + options.length] for i in at])
        for name, (call, optimizer, step) in calls.items():
            torch.manual_seed(number)
            begin = time.perf_counter()
            optimizer.zero_grad()
            loss = call(input_ids=tokens, labels=tokens).loss
            loss.backward()
            step()
            made[name]["seconds"].append(time.perf_counter() - begin)
            made[name]["losses"].append(loss.item())
    return made


if __name__ == "__main__":
    sys.exit(main())
