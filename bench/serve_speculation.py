#!/usr/bin/env python3
"""What proposed tokens bring: requests with and without them on one engine, interleaved.

    bench/serve_speculation.py FOLDER [--draft FOLDER] [--tokens N] [--rounds N] [--dtype D] [--threads N] [--json FILE] [--bars]

FOLDER: a trained model, best. Text that is copied: passages of this repository, twice and begun again, greedy. Text
that is not: drawn tokens, and answers drawn at temperature 1. Both must be the same tokens with and without. A request
of each turn is timed from its first token to its last; medians of --rounds, and the ratio. --bars fails the command
below 1.5 for copying and 0.98 for the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("KNAPPER_BUILD", ROOT / "build" / "dev"))
BARS = {"copied": 1.5, "drawn": 0.98}


def prompts(folder: Path, count: int) -> dict[str, list[dict]]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    words = (ROOT / "docs" / "serve.md").read_text().split()
    draw = random.Random(0)
    copied, drawn = [], []
    for i in range(count):
        begin = draw.randrange(len(words) - 120)
        passage = " ".join(words[begin : begin + 120])
        ids = tokenizer.encode(f"{passage}\n\n{passage}\n\n{' '.join(words[begin : begin + 12])}", add_special_tokens=False).ids
        copied.append(dict(prompt=ids, temperature=0.0))
        drawn.append(dict(prompt=[draw.randrange(100, 1000 if tokenizer.get_vocab_size() < 20000 else 20000) for _ in range(100)], temperature=1.0, seed=i))
    return {"copied": copied, "drawn": drawn}


def speed(answer: dict) -> float:
    times = answer["times"]
    return (len(times) - 1) / (times[-1] - times[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draft")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json")
    parser.add_argument("--bars", action="store_true")
    arguments = parser.parse_args()
    options = dict(threads=arguments.threads, dtype=arguments.dtype, kv_memory=1 << 28, prefix_cache=False)
    options |= dict(speculation="draft", draft=arguments.draft) if arguments.draft else dict(speculation="ngram")
    rows, failed = {}, False
    for name, requests in prompts(arguments.folder, arguments.rounds).items():
        groups = [
            [request | dict(max_tokens=arguments.tokens, ignore_eos=True, speculate=speculate)]
            for request in [requests[0], *requests]  # the first turn is not counted
            for speculate in (False, True)
        ]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"options": options, "groups": groups}, file)
            file.flush()
            done = subprocess.run([BUILD / "tests" / "serving" / "engine_requests", arguments.folder, file.name], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        result = json.loads(done.stdout)
        answers = [group[0] for group in result["groups"]][2:]
        without, with_ = answers[::2], answers[1::2]
        if [a["tokens"] for a in without] != [a["tokens"] for a in with_]:
            sys.exit(f"{name}: other tokens with proposals than without")
        ratio = statistics.median(speed(b) / speed(a) for a, b in zip(without, with_, strict=True))
        counts = result["statistics"]
        rows[name] = dict(without=statistics.median(map(speed, without)), with_=statistics.median(map(speed, with_)), ratio=ratio, verified=counts["verified"], accepted=counts["accepted"])
        print(f"{name:8} {rows[name]['without']:7.1f} tok/s without, {rows[name]['with_']:7.1f} with: {ratio:.3f} ({counts['accepted']} of {counts['verified']} proposed tokens were right)", flush=True)
        failed |= ratio < BARS[name]
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows))
    return int(arguments.bars and failed)


if __name__ == "__main__":
    sys.exit(main())
