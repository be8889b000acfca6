#!/usr/bin/env python3
"""Times models converted to bf16 beside OpenVINO and torch.compile in bf16.

    bench/bf16.py [NAME...] [--threads N] [--peers LIST] [--json FILE] [--bars]

NAME is a model of the bars, as it is or with its sizes (bert-base:8x128); MiniLM
and BERT-base at batch 1 and 8 if none is named. All run in this process, with
the same number of threads, interleaved: the float32 file compiled with
`dtype="bf16"`, the same file in OpenVINO with bf16 as its inference precision,
the module of the file with bf16 parameters in torch.compile, and the float32
file as we compile it otherwise. LIST is of openvino, torch; both if it is not
given. A model's error is the largest root mean square of an output's distance
from what the module gives in float64; ours may be no larger than that of the
least exact peer (by 5 %: roundings fall differently), else the command fails.
The last column is our error over that of the closest peer. --bars also fails it
when ours is slower than the fastest peer.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

import knapper  # noqa: E402
from comparison import distance  # noqa: E402
from peers import Job, OpenVino, TorchCompile  # noqa: E402
from side_by_side import medians  # noqa: E402
from verdict import finish  # noqa: E402

SLACK = 1.05
DEFAULT = ["minilm", "bert-base", "bert-base:8x128"]


class OpenVinoBf16(OpenVino):
    precision = "bf16"


class TorchBf16(TorchCompile):
    precision = "bfloat16"


PEERS = {"openvino": OpenVinoBf16, "torch": TorchBf16}


def float64(job: Job) -> dict[str, np.ndarray]:
    import torch

    inputs = [torch.from_numpy(array) for array in job.feed.values()]
    with torch.no_grad():
        values = job.torch().double()(*inputs)
    return {n: v.numpy() for n, v in zip(job.outputs, values, strict=True)}


def columns(values: dict[str, float], names: list[str], form: str) -> str:
    return "".join(f"{values[n]:>10{form}}" if n in values else f"{'-':>10}" for n in names)


def measure(job: Job, peers: list[str], rounds: int) -> dict:
    start = time.perf_counter()
    module = knapper.compile(job.path, threads=job.threads, dtype="bf16")
    compiled = time.perf_counter() - start
    single = knapper.compile(job.path, threads=job.threads)
    exact = float64(job)
    values = [job.feed[info.name] for info in module.inputs]
    singles = [job.feed[info.name] for info in single.inputs]

    def error(results) -> float:
        return max(distance(np.asarray(results[o], np.float64), exact[o]) for o in exact)

    errors = {"knapper": error(module(*values)), "float32": error(single(*singles))}
    calls, refused = {}, {}
    for name in peers:
        try:
            calls[name] = PEERS[name](job)
            errors[name] = error(calls[name].results())
        except Exception as reason:  # whatever another runtime raises
            refused[name] = " ".join(str(reason).split())[:200]
            calls.pop(name, None)
    mine, float32, *others = medians(
        [lambda: module(*values), lambda: single(*singles), *calls.values()],
        rounds=rounds,
    )
    return {
        "compile_s": compiled,
        "knapper_ms": mine * 1e3,
        "float32_ms": float32 * 1e3,
        "peers_ms": {name: taken * 1e3 for name, taken in zip(calls, others)},
        "errors": errors,
        "refused": refused,
        "ratio": min(others) / mine if others else None,
    }


def main() -> int:
    from definitions import MODELS
    from export import ensure

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME[:SIZES]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    arguments = parser.parse_args()
    peers = arguments.peers.split(",")
    if unknown := [name for name in peers if name not in PEERS]:
        parser.error(f"no peer {unknown[0]}; there are: {', '.join(PEERS)}")
    wanted = [name.partition(":") for name in arguments.names or DEFAULT]
    if unknown := [name for name, _, _ in wanted if name not in MODELS]:
        parser.error(f"no model {unknown[0]}; there are: {', '.join(MODELS)}")
    folder = ensure(sorted({name for name, _, _ in wanted}))
    heads = "".join(f"{name:>10}" for name in ["knapper", *peers])
    print(
        f"milliseconds, {arguments.threads} threads; errors against float64\n"
        f"{'model':<12}{'size':>8}{heads}{'ratio':>8}{'f32':>10} | {heads[1:]}{'of least':>10}",
        flush=True,
    )
    rows, failures = [], []
    for name, _, text in wanted:
        model = MODELS[name]
        numbers = [int(n) for n in text.split("x")] if text else model.bench.values()
        size = dict(zip(model.bench, numbers, strict=True))
        job = Job(
            folder / f"{name}.onnx",
            model.feed(np.random.default_rng(1), size),
            model.outputs,
            arguments.threads,
            model.module,
        )
        row = measure(job, peers, arguments.rounds)
        rows.append({"model": name, "size": size} | row)
        taken = {"knapper": row["knapper_ms"]} | row["peers_ms"]
        times = columns(taken, ["knapper", *peers], ".2f")
        errors = columns(row["errors"], ["knapper", *peers], ".1e")
        if row["peers_ms"]:  # how much further from float64 than the closest peer
            closest = min(row["errors"][peer] for peer in row["peers_ms"])
            errors += f"{row['errors']['knapper'] / closest:>9.2f}x"
        ratio = f"{row['ratio']:>7.2f}x" if row["ratio"] else f"{'-':>8}"
        label = "x".join(map(str, size.values()))
        print(f"{name:<12}{label:>8}{times}{ratio}{row['float32_ms']:>10.2f} |{errors}", flush=True)
        for peer, reason in row["refused"].items():
            print(f"{name} {label}: {peer}: {reason}")
        if not row["peers_ms"]:
            failures.append(f"{name} {label}: no peer takes it")
            continue
        allowed = SLACK * max(row["errors"][peer] for peer in row["peers_ms"])
        if not row["errors"]["knapper"] <= allowed:
            failures.append(f"{name} {label}: further from float64 than any peer")
        if arguments.bars and row["ratio"] < 1:
            failures.append(f"{name} {label}: slower than a peer")
    return finish(failures, arguments.json, rows)


if __name__ == "__main__":
    sys.exit(main())
