#!/usr/bin/env python3
"""A small transformer that learns to write text, compiled by one line.

    make demo-torch        or        .venv/bin/python examples/train/train.py

Trains the same weights on the same text by eager PyTorch, by Knapper and by
inductor, interleaved. Prints the loss and the time of a step and of a forward for
each, and where the report of the compilation lies. Ends with 1 when the losses
differ.
"""

from __future__ import annotations

import argparse
import copy
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import knapper.torch

TEXT = Path(__file__).resolve().parents[2] / "README.md"
LIMIT = 1e-2  # between losses: orders of float32 sums, grown over the steps


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(b, t, width))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Writer(nn.Module):
    """The next byte after each byte of [batch, length]."""

    def __init__(self, width: int = 128, layers: int = 3, heads: int = 4, length: int = 64) -> None:
        super().__init__()
        self.bytes, self.places = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Linear(width, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.bytes(x) + self.places(torch.arange(x.shape[1], device=x.device))))


class Training:
    def __init__(self, model: nn.Module, compiled: Callable[[nn.Module], Callable[..., torch.Tensor]]) -> None:
        self.model = copy.deepcopy(model)
        self.call = compiled(self.model)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.losses: list[float] = []
        self.steps: list[float] = []
        self.forwards: list[float] = []

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        begin = time.perf_counter()
        self.optimiser.zero_grad()
        loss = nn.functional.cross_entropy(self.call(x).flatten(0, 1), y.flatten())
        loss.backward()
        self.optimiser.step()
        self.steps.append(time.perf_counter() - begin)
        self.losses.append(float(loss.detach()))

    def forward(self, x: torch.Tensor) -> None:
        with torch.no_grad():
            begin = time.perf_counter()
            self.call(x)
            self.forwards.append(time.perf_counter() - begin)


def batches(count: int, batch: int, length: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    text = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
    made = []
    for _ in range(count):
        starts = torch.randint(0, len(text) - length - 1, (batch,)).tolist()
        rows = torch.stack([text[s : s + length + 1] for s in starts])
        made.append((rows[:, :-1].contiguous(), rows[:, 1:].contiguous()))
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("build/train"), help="folder of the report")
    parser.add_argument("--no-inductor", action="store_true", help="leave that peer out")
    options = parser.parse_args()

    torch.manual_seed(0)
    model = Writer()
    ways: dict[str, Callable[[nn.Module], Callable[..., torch.Tensor]]] = {
        "eager": lambda m: m,
        "knapper": lambda m: torch.compile(m, backend=knapper.torch.backend),  # the one line
    }
    compiler = os.environ.get("CXX", "g++")
    if not options.no_inductor and shutil.which(compiler):
        ways["inductor"] = torch.compile
    elif not options.no_inductor:
        print(f"inductor is left out: it needs a C++ compiler, and there is no {compiler}")
    runs = {name: Training(model, way) for name, way in ways.items()}
    for x, y in batches(options.steps, options.batch, 64):
        for run in runs.values():
            run.step(x, y)
            run.forward(x)

    options.out.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        knapper.torch.explain(model, x, path=options.out)
    print(f"{'':10}{'loss':>16}{'step':>12}{'forward':>12}")
    settled = min(5, options.steps - 1)
    for name, run in runs.items():
        step, forward = (statistics.median(times[settled:]) * 1e3 for times in (run.steps, run.forwards))
        print(f"{name:10}{run.losses[0]:8.3f}{run.losses[-1]:8.3f}{step:9.1f} ms{forward:9.1f} ms")
    pages = sorted(options.out.glob("*.html"))
    print(f"report: {', '.join(str(page) for page in pages)}")
    worst = max(abs(a - b) for a, b in zip(runs["eager"].losses, runs["knapper"].losses))
    print(f"largest difference of a loss from eager: {worst:.1e}")
    if not worst < LIMIT:
        print("WRONG: the losses differ", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
