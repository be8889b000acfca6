"""A campaign of damaged tensor IR: the programs of the op cases, with words left out, repeated, moved and changed for odd ones, compiled and run.

    python tests/adversarial/damaged_programs.py [--first SEED] [--count N] [--seconds S] [--only SEED]

A batch is a process of its own: a crash or a hang (60 s) is counted, its seed printed, and the rest goes on. An InternalError counts as well.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import knapper

ROOT = Path(__file__).resolve().parents[2]
WORDS = re.compile(r"\s+|[\w.]+|->|.", re.S)
ODD = ["-1", "0", "1", "2", "9223372036854775807", "-9223372036854775808", "18446744073709551616", "4294967296", "?", "()", "(", ")", "[", "]", "[]", "<", ">", "{", "}", '"', "%x", "%r", "@main",
       "dense<0>", "none", "1.5", "1e400", "0x7FC0", "ts.neg", "ts.dot", "ts.reshape", "index", "i1", "i4", "i64", "f8E4M3FN", "f64", "bf16", "complex<f32>", "tensor<0xf32>", "tensor<f32>", "tensor<?xf32>", "*", "+",
       "tensor<4x5xf32>", 'tensor<?x?xf32, #ts.dims<"a", "b">>', "#ts.dim<-1>", '#ts.dim<"a" * 4611686018427387904>', "true", "unit"]  # fmt: skip
TYPES = ["f32", "f64", "f16", "bf16", "f8E4M3FN", "f8E5M2", "i1", "i4", "ui4", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64", "index", "complex<f32>"]
OPS = ["ts.neg", "ts.abs", "ts.not", "ts.exp", "ts.add", "ts.sub", "ts.div", "ts.pow", "ts.min", "ts.rem", "ts.and", "ts.shift_left", "ts.reduce", "ts.dot", "ts.sort", "ts.gather", "ts.scan", "ts.reshape", "ts.transpose", "ts.clamp", "ts.select"]
LONGEST = 60


def sources() -> list[str]:
    sys.path.insert(0, str(ROOT / "tests" / "ops"))
    import cases

    return [case["mlir"] for case in cases.CASES]


def replace_everywhere(words: list[str], draw) -> None:
    """A type, a size or an op changed for another wherever it stands."""
    found = {w for w in words if w.startswith("ts.") and w not in ("ts.dims", "ts.dim")} | {w for w in words if re.fullmatch(r"\d+", w)}
    found |= {f"x{t}" for t in TYPES for w in words if w.endswith(f"x{t}")}
    if not found:
        return
    old = draw.choice(sorted(found))
    if old.startswith("ts."):
        new = draw.choice(OPS)
    else:
        new = f"x{draw.choice(TYPES)}" if old.startswith("x") else str(draw.choice((0, 1, 2, 3, 5, 8, 17, 64, 1 << 31, 1 << 62)))
    for i, word in enumerate(words):
        if word == old:
            words[i] = new
        elif old.startswith("x") and word.endswith(old):
            words[i] = word.removesuffix(old) + new


def damaged(programs: list[str], seed: int) -> str:
    draw = random.Random(f"program {seed}")
    words = WORDS.findall(draw.choice(programs))
    if draw.random() < 0.6:  # still a program, most often
        replace_everywhere(words, draw)
        if draw.random() < 0.5:
            return "".join(words)
    other = WORDS.findall(draw.choice(programs))
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        at = draw.randrange(len(words))
        # What it says, not how it is spaced.
        while words[at].isspace() and draw.random() < 0.9:
            at = draw.randrange(len(words))
        number = re.fullmatch(r"\d+", words[at]) is not None
        kind = draw.randrange(8)
        if number and kind < 4:
            words[at] = str(int(words[at]) + draw.choice((-2, -1, 1, 2, 7))) if kind < 3 else draw.choice(ODD[:8])
        else:
            words[at] = draw.choice(("", words[at] * 2, draw.choice(words), draw.choice(other), draw.choice(ODD), draw.choice(ODD), words[at] + " " + draw.choice(words)))
    return "".join(words)


def arrays(module, draw) -> list | None:
    """Small inputs, or none where a size is fixed and large."""
    made, sizes = [], {}
    for info in module.inputs:
        shape = [dim if isinstance(dim, int) else sizes.setdefault(str(dim), draw.choice((0, 1, 2, 3, 5))) for dim in info.shape]
        if np.prod(shape, dtype=float) > 1e6:
            return None
        kind = np.dtype(info.dtype) if not isinstance(info.dtype, str) else np.dtype(info.dtype)
        made.append(np.random.default_rng(1).integers(0, 2, shape).astype(kind))
    return made


def outcome(program: str, seed: int) -> str:
    """How it ended: refused, compiled, ran; what may not be begins with "!"."""
    draw = random.Random(seed)
    try:
        module = knapper.compile(program.encode(), model_format="mlir", cache=False, threads=1)
    except knapper.InternalError as error:
        return f"! {error}"
    except knapper.Error:
        return "refused"
    try:
        inputs = arrays(module, draw)
        if inputs is not None:
            module(*inputs)
            return "ran"
    except knapper.InternalError as error:
        return f"! in the run: {error}"
    except (knapper.Error, TypeError, ValueError):
        pass
    return "compiled"


def work(first: int, count: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    programs = sources()
    for seed in range(first, first + count):
        print("case", seed, flush=True)
        signal.alarm(LONGEST)
        print("ended", outcome(damaged(programs, seed), seed).replace("\n", " | "), flush=True)
        signal.alarm(0)


def batch(first: int, count: int) -> tuple[int, list[str], dict[str, int]]:
    """How many ran, what was wrong, and how the others ended."""
    command = [sys.executable, __file__, "--work", str(first), str(count)]
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT / "python")}, check=False)
    lines, problems, ends, last = run.stdout.splitlines(), [], {}, first - 1
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "case":
            last = int(rest)
        elif word == "ended" and rest.startswith("!"):
            problems.append(f"seed {last}: {rest[2:]}")
        elif word == "ended":
            ends[rest] = ends.get(rest, 0) + 1
    if run.returncode:
        problems.append(f"seed {last} ended with {run.returncode}: {run.stderr[-1500:]}")
    return last + 1 - first, problems, ends


def campaign(first: int, count: int, seconds: float, size: int = 200) -> tuple[int, list[str], dict[str, int]]:
    problems, ends, at, start = [], {}, first, time.monotonic()
    while at < first + count and time.monotonic() - start < seconds:
        done, wrong, kinds = batch(at, min(size, first + count - at))
        if done == 0:
            return 0, [*problems, *wrong, "nothing ran"], ends
        at += done
        for problem in wrong:
            print(problem, flush=True)
        problems += wrong
        for kind, number in kinds.items():
            ends[kind] = ends.get(kind, 0) + number
    return at - first, problems, ends


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--only", type=int)
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(*arguments.work)
        return 0
    if arguments.only is not None:
        program = damaged(sources(), arguments.only)
        print(program, flush=True)
        print(outcome(program, arguments.only))
        return 0
    ran, problems, ends = campaign(arguments.first, arguments.count, arguments.seconds)
    print(f"{ran} damaged programs: {ends}, {len(problems)} defects")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
