"""A table of models at given sizes beside other runtimes.

Each row is compiled, compared with every peer's outputs and timed interleaved
with them; a row whose outputs differ from a peer's is a failure. What a peer does
not take is printed and leaves the row to the others.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import knapper
from peers import PEERS, Job, chosen
from ratios import geometric_mean
from side_by_side import medians
from verdict import finish

SHORT_MS = 2  # of a row: below it the best peer's own overhead counts
# Largest error over the largest value of an output.
LIMIT = 2e-4


@dataclasses.dataclass(frozen=True)
class Row:
    """`smallest`: the least value that errors are taken relative to."""

    name: str
    size: str
    job: Job
    smallest: float = 0.0


@dataclasses.dataclass(frozen=True)
class Bars:
    """What `--bars` asks of the ratios to the best peer of each row."""

    mean: float
    each: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", default="ort", help=",".join(PEERS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")


def difference(got: np.ndarray, wanted: np.ndarray, smallest: float) -> float:
    """Largest error over the largest value; infinite when shapes differ or a
    value of either is not finite."""
    if got.shape != wanted.shape or not (np.isfinite(got).all() and np.isfinite(wanted).all()):
        return math.inf
    if not got.size:
        return 0.0
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    largest = max(float(np.abs(wanted).max()), smallest)
    error = float(np.abs(got - wanted).max())
    return error / largest if error else 0.0


def distance(got: np.ndarray, exact: np.ndarray) -> float:
    """Root mean square of the error over that of the values."""
    if got.shape != exact.shape or not np.isfinite(got).all():
        return math.inf
    return float(np.sqrt(np.mean((got - exact) ** 2) / np.mean(exact**2)))


def bound(module, values: list[np.ndarray]):
    """The module as a call without arguments that gives its outputs, inputs and
    outputs bound as the peers' are where sizes of outputs allow it."""
    try:
        return module.bind(values)
    except knapper.UserError:  # sizes that data decides
        return lambda: module(*values)


def measure(row: Row, module, peers: dict[str, type], rounds: int) -> dict:
    job = row.job
    call = bound(module, [job.feed[info.name] for info in module.inputs])
    result = call()
    mine = {info.name: result[i] for i, info in enumerate(module.outputs)}
    calls, errors, refused = {}, {}, {}
    for name, make in peers.items():
        try:
            calls[name] = make(job)
            others = calls[name].results()
        except Exception as error:  # whatever another runtime raises
            refused[name] = " ".join(str(error).split())[:200]
            calls.pop(name, None)
            continue
        errors[name] = max(
            difference(mine[output], others[output], row.smallest)
            for output in job.outputs
        )
    del result, mine
    own, *taken = medians([call, *calls.values()], rounds=rounds)
    times = dict(zip(calls, taken))
    return {
        "model": row.name,
        "size": row.size,
        "threads": job.threads,
        "knapper_ms": own * 1e3,
        "peers_ms": {name: time * 1e3 for name, time in times.items()},
        "refused": refused,
        "errors": errors,
        "error": max(errors.values(), default=math.inf),
        "ratio": min(times.values()) / own if times else None,
    }


def compare(rows: Iterable[Row], arguments: argparse.Namespace, bars: Bars) -> int:
    """Prints the table; the exit status."""
    peers = chosen(arguments.peers)
    heads = "".join(f"{name:>10}" for name in peers)
    print(
        f"milliseconds, {arguments.threads} threads; ratio to the best peer\n"
        f"{'model':<17}{'size':>12}{'knapper':>10}{heads}{'ratio':>8}{'error':>10}",
        flush=True,
    )
    done, failures, notes = [], [], []
    modules: dict[Path, knapper.Module] = {}
    for row in rows:
        path, label = row.job.path, f"{row.name} {row.size}"
        try:
            if path not in modules:
                # One model at a time: weights of several may not fit.
                modules.clear()
                modules = {path: knapper.compile(path, threads=arguments.threads)}
            figures = measure(row, modules[path], peers, arguments.rounds)
        except knapper.Error as error:
            failures.append(f"{label}: {error}")
            print(f"{row.name:<17}{row.size:>12}  failed", flush=True)
            continue
        done.append(figures)
        notes += [f"{label}: {n}: {why}" for n, why in figures["refused"].items()]
        times = "".join(
            f"{figures['peers_ms'][n]:>10.2f}" if n in figures["peers_ms"] else f"{'-':>10}"
            for n in peers
        )
        ratio = f"{figures['ratio']:>7.2f}x" if figures["ratio"] else f"{'-':>8}"
        print(
            f"{row.name:<17}{row.size:>12}{figures['knapper_ms']:>10.2f}{times}"
            f"{ratio}{figures['error']:>10.1e}",
            flush=True,
        )
        if not figures["errors"]:
            failures.append(f"{label}: no peer takes it")
        for name, error in figures["errors"].items():
            if not error <= LIMIT:
                failures.append(f"{label}: outputs differ from {name}'s by {error:.1e}")
    summary: dict[str, object] = {"models": done}
    ratios = [figures["ratio"] for figures in done if figures["ratio"]]
    if ratios:
        mean = geometric_mean(ratios)
        summary |= {"geometric_mean": mean, "least": min(ratios)}
        print(f"geometric mean {mean:.2f}x, least {min(ratios):.2f}x")
        long = [f["ratio"] for f in done if f["ratio"] and min(f["peers_ms"].values()) >= SHORT_MS]
        if 0 < len(long) < len(ratios):
            summary |= {"long_rows": len(long), "long_geometric_mean": geometric_mean(long)}
            print(f"of the {len(long)} rows of {SHORT_MS} ms and more {geometric_mean(long):.2f}x")
        if arguments.bars and (mean < bars.mean or min(ratios) < bars.each):
            failures.append(f"the bars are {bars.mean}x and {bars.each}x")
    for note in notes:
        print(note)
    return finish(failures, arguments.json, summary)
