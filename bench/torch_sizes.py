#!/usr/bin/env python3
"""What changing sizes cost under torch.compile(backend="knapper"), on the CPU.

    bench/torch_sizes.py sizes       # ten batch sizes and ten lengths in random order
    bench/torch_sizes.py calls       # 1,000 calls with new sizes: memory
    bench/torch_sizes.py compiles    # 200 compiles and resets: memory
    bench/torch_sizes.py compiles --side eager  # the same by Dynamo alone, as with sizes
    bench/torch_sizes.py generation  # a Llama of 12 layers with a cache written in place

sizes: small BERT, GPT-2 and ResNet, 1 among the sizes, every result against eager;
at most 2 compiles besides those of calls with a size of 1. calls, compiles: resident
memory behind the first tenth and the most after it, within 2 %. generation: a prompt
of 100 tokens and 64 more, eager, inductor and Knapper interleaved: the same tokens, at
most 3 compiles, no output that is copied to a cache, and the time of 64 tokens.
Each prints rows of JSON; exit status 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
import knapper.torch  # noqa: E402
from knapper.torch.program import Program  # noqa: E402

BATCHES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)
LENGTHS = (1, 5, 8, 13, 16, 21, 32, 40, 57, 64)
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 200}


def bert() -> tuple[Any, Callable[[int, int], dict[str, Any]]]:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**SMALL)), lambda n, m: {"input_ids": torch.randint(3, 200, (n, m))}


def gpt2() -> tuple[Any, Callable[[int, int], dict[str, Any]]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=200, use_cache=False)
    return GPT2LMHeadModel(config), lambda n, m: {"input_ids": torch.randint(3, 200, (n, m))}


def resnet() -> tuple[Any, Callable[[int, int], dict[str, Any]]]:
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1])
    return ResNetModel(config), lambda n, m: {"pixel_values": torch.randn(n, 3, 32, 32)}


def graphs(side: str) -> int:
    """Compiled since the last reset."""
    if side == "knapper":
        return int(knapper.torch.counters()["graphs"])
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def sizes(side: str) -> bool:
    fine = True
    for name, build in {"bert": bert, "gpt2": gpt2, "resnet": resnet}.items():
        torch._dynamo.reset()
        knapper.torch.reset_counters()
        torch.manual_seed(0)
        model, inputs = build()
        model = model.eval()
        if side == "knapper":
            made = knapper.torch.compile(model, fallback="error", cache=False)
        else:
            made = torch.compile(model, backend=side)
        drawn = random.Random(name)
        batches, lengths = list(BATCHES), list(LENGTHS)
        drawn.shuffle(batches), drawn.shuffle(lengths)
        compiles, of_one, wrong = [], 0, []
        with torch.no_grad():
            for size in zip(batches, lengths if name != "resnet" else [0] * 10):
                before = graphs(side)
                given = inputs(*size)
                got, wanted = made(**given)[0], model(**given)[0]
                if not torch.allclose(got, wanted, rtol=1e-4, atol=1e-4):
                    wrong.append(size)
                new = graphs(side) - before
                if 1 in size:
                    of_one += new
                elif new:
                    compiles.append(size)
        row = {"row": f"{name} {side}", "compiles": len(compiles), "at": compiles, "of size 1": of_one, "wrong": wrong}
        print(json.dumps(row), flush=True)
        fine &= len(compiles) <= 2 and not wrong
    return fine


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def flat(name: str, count: int, step: Callable[[int], None]) -> bool:
    """Prints the memory behind each tenth of the steps."""
    first, most = 0, 0
    marks = []
    for number in range(count):
        step(number)
        if (number + 1) % (count // 10) == 0:
            now = resident()
            first = first or now
            most = max(most, now)
            marks.append(now >> 20)
    grown = most / first - 1
    row = {"row": name, "MiB each tenth": marks, "grown %": round(grown * 100, 2)}
    row["KiB a step"] = round((most - first) / 1024 / (count - count // 10), 1)
    print(json.dumps(row), flush=True)
    return grown <= 0.02


def layers() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128), torch.nn.Linear(128, 64))


def calls() -> bool:
    net = layers()
    made = knapper.torch.compile(net, dynamic=True, fallback="error", cache=False)

    def step(number: int) -> None:
        # 1,000 sizes, each once, the largest among the first tenth.
        rows = 2 + number * 617 % 1000 if number else 1001
        made(torch.randn(rows, 64)).square().mean().backward()

    return flat("calls", 1000, step) and knapper.torch.counters()["graphs"] <= 4


def compiles(side: str) -> bool:
    """Dynamo keeps some memory of each compile, whatever the backend."""

    def step(number: int) -> None:
        torch._dynamo.reset()
        if side == "knapper":
            made = knapper.torch.compile(layers(), fallback="error", cache=False)
        else:
            made = torch.compile(layers(), backend=side)
        with torch.no_grad():
            made(torch.randn(2 + number % 7, 64))

    return flat(f"compiles {side}", 200, step)


def generation(options: argparse.Namespace) -> bool:
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=768, intermediate_size=2048, num_hidden_layers=options.layers, num_attention_heads=12,
        num_key_value_heads=12, vocab_size=8192, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    prompt = torch.randint(3, 8192, (1, 100))
    programs: list[Program] = []
    build = Program.__init__

    def kept(self: Program, *arguments: Any) -> None:
        build(self, *arguments)
        programs.append(self)

    Program.__init__ = kept  # type: ignore[method-assign]

    def text(forward: Any) -> tuple[list[int], float]:
        """64 tokens behind the prompt, and the seconds of these."""
        cache = StaticCache(config=config, max_cache_len=192)
        begin, tokens = 0.0, []
        given, start = prompt, 0
        for number in range(65):
            positions = torch.arange(start, start + given.shape[1])
            logits = forward(
                input_ids=given, past_key_values=cache, cache_position=positions, position_ids=positions[None],
                use_cache=True, logits_to_keep=1,
            ).logits  # fmt: skip
            start += given.shape[1]
            given = logits[:, -1:].argmax(-1)
            tokens.append(int(given))
            if not number:
                begin = time.perf_counter()
        return tokens, time.perf_counter() - begin

    sides = {"eager": model}
    for name in options.sides.split(","):
        if name == "inductor":
            sides[name] = torch.compile(model)
        if name == "knapper":
            sides[name] = knapper.torch.compile(model, fallback="error")
    row: dict[str, Any] = {"row": "generation", "layers": options.layers}
    taken: dict[str, list[float]] = {name: [] for name in sides}
    told = {}
    with torch.no_grad():
        for turn in range(options.rounds + 1):
            for name, forward in sides.items():
                time.sleep(0.3)
                told[name], seconds = text(forward)
                if turn:
                    taken[name].append(seconds)
    counted = knapper.torch.counters()
    row |= {f"{name} ms a token": round(statistics.median(t) / 64 * 1e3, 3) for name, t in taken.items()}
    row["same tokens"] = all(tokens == told["eager"] for tokens in told.values())
    row["compiles"], row["breaks"] = counted["graphs"], counted["graph_breaks"]
    # Beside the caches there are counts of tokens, 0-d.
    row["copied to caches"] = [sum(len(p.description.outputs[i].order) > 1 for i, _ in p._written) for p in programs]
    row["in place"] = [len(p._in_place) for p in programs]
    row["inputs copied"] = [p.copied for p in programs]
    fine = row["same tokens"] and counted["graphs"] <= 3 and not any(row["copied to caches"])
    if "inductor" in sides:
        row["inductor to knapper"] = round(row["inductor ms a token"] / row["knapper ms a token"], 3)
        fine &= row["inductor to knapper"] >= 1.0
    print(json.dumps(row), flush=True)
    return bool(fine)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("sizes", "calls", "compiles", "generation"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=12, help="of the Llama")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sides", default="inductor,knapper", help="of generation, beside eager")
    parser.add_argument("--side", default="knapper", help="of sizes and compiles: a backend, eager is Dynamo alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    if options.what == "generation":
        return int(not generation(options))
    if options.what == "calls":
        return int(not calls())
    return int(not {"sizes": sizes, "compiles": compiles}[options.what](options.side))


if __name__ == "__main__":
    sys.exit(main())
