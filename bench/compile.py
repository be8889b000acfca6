#!/usr/bin/env python3
"""Times compilation: fresh processes, with an empty cache and with a full one.

    bench/compile.py [NAME...] [--build DIR] [--repeat N] [--json FILE] [--bars]

Of `knapper compile -o`, as medians: wall and processor time and peak memory
from an empty cache; what a variant (kernel x instruction set x guard) takes of
processor time; weights, packed and hashed, and what is kept in the cache apart;
then the same command again, which finds the artefact in the cache.

--bars fails the command when one of these does not hold:
  wall time at most 4 s, bert-48 aside
  a variant at most 30 ms of processor time
  peak memory at most twice the weights and 300 MB
  through the cache at most 50 ms, hashing and copying of weights aside
  bert-base, gpt2 and resnet50 through the cache, hashing aside, at most 0.3 s
  bert-48 at most 1.5 times bert-base, the handling of weights aside
  bert-base and resnet50 for a batch of 4096 at most 1.2 times of 8, likewise
Without NAME it takes bert-base, gpt2 and resnet50, with --bars every model.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "models")]

from named_models import named_models  # noqa: E402
from verdict import finish  # noqa: E402

TIMED = ["bert-base", "gpt2", "resnet50"]  # what comes first
SHALLOW, DEEP = "bert-base", "bert-48"
FIXED, SMALL, LARGE = ["bert-base", "resnet50"], "batch=8", "batch=4096"
SECONDS_BAR, VARIANT_BAR, CACHED_BAR, WARM_BAR = 4.0, 30e-3, 0.3, 50e-3
DEPTH_BAR, SIZE_BAR = 1.5, 1.2


def run(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """A process that prints statistics of the compile: its seconds and bytes."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = os.posix_spawn(
            command[0],
            command,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, output.fileno(), 1)],
        )
        _, status, usage = os.wait4(process, 0)
        wall = time.perf_counter() - start
        if status != 0:
            raise SystemExit(f"failed: {' '.join(command)}")
        output.seek(0)
        stats = json.load(output)
    phases = {phase["name"]: phase["seconds"] for phase in stats["phases"]}
    aside = stats["pack_seconds"] + phases.get("hash", 0) + phases.get("keep", 0)
    return {
        "wall_s": wall,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
        "variants": stats["variants"],
        "variant_cpu_s": stats["variant_cpu_seconds"] / max(1, stats["variants"]),
        "hash_s": phases.get("hash", 0),
        "pack_s": stats["pack_seconds"],
        "keep_s": phases.get("keep", 0),
        "copy_s": phases.get("copy", 0),
        "rest_s": sum(phases.values()) - aside,
        "from_cache": stats["from_cache"],
    }


def read_through(path: Path) -> None:
    """Puts a file into the page cache. By blocks, for the peak memory of a child
    is at least that of its parent."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def measure(tool: Path, model: Path, repeat: int) -> dict[str, float]:
    """Medians over `repeat` compiles, each followed by one through its cache."""
    read_through(model)
    cold, cached = [], []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as scratch:
            environment = {
                k: v for k, v in os.environ.items() if not k.startswith("KNAPPER_")
            } | {"XDG_CACHE_HOME": scratch}
            for taken in (cold, cached):
                output = os.path.join(scratch, f"{len(cold) + len(cached)}.knap")
                taken.append(
                    run(
                        [str(tool), "compile", str(model), "-o", output, "--json"],
                        environment,
                    )
                )
                size = os.path.getsize(output)
                os.remove(output)
    if any(r["from_cache"] for r in cold) or not all(r["from_cache"] for r in cached):
        raise SystemExit(f"{model}: the cache was not used as expected")
    row = {k: statistics.median(r[k] for r in cold) for k in cold[0]}
    del row["from_cache"]
    row["cached_s"] = statistics.median(r["wall_s"] - r["hash_s"] for r in cached)
    row["warm_s"] = statistics.median(
        r["wall_s"] - r["hash_s"] - r["copy_s"] for r in cached
    )
    return row | {"weights_bytes": model.stat().st_size, "artefact_bytes": size}


def size_ratio(tool: Path, model: Path, repeat: int) -> float:
    """What LARGE takes of SMALL's time, the handling of weights aside."""
    taken: dict[str, list[float]] = {SMALL: [], LARGE: []}
    with tempfile.TemporaryDirectory() as scratch:
        output = os.path.join(scratch, "fixed.knap")
        for _ in range(max(5, repeat)):
            for size, seconds in taken.items():
                options = ["--no-cache", "--json", "--dim", size, "-o", output]
                command = [str(tool), "compile", str(model), *options]
                seconds.append(run(command, dict(os.environ))["rest_s"])
    return statistics.median(taken[LARGE]) / statistics.median(taken[SMALL])


def missed(rows: dict[str, dict[str, float]]) -> list[str]:
    """A line for each bar that does not hold."""
    lines = []
    for name, row in rows.items():
        if name != DEEP and row["wall_s"] > SECONDS_BAR:
            lines.append(f"{name}: {row['wall_s']:.1f} s, the bar is {SECONDS_BAR} s")
        if row["variant_cpu_s"] > VARIANT_BAR:
            lines.append(
                f"{name}: {row['variant_cpu_s'] * 1e3:.1f} ms of CPU a variant, "
                f"the bar is {VARIANT_BAR * 1e3:.0f} ms"
            )
        if row["peak_bytes"] > 2 * row["weights_bytes"] + 300e6:
            lines.append(f"{name}: peak of {row['peak_bytes'] / 1e6:.0f} MB")
        if name in TIMED and row["cached_s"] > CACHED_BAR:
            lines.append(
                f"{name}: {row['cached_s']:.2f} s through the cache, "
                f"the bar is {CACHED_BAR} s"
            )
        if row["warm_s"] > WARM_BAR:
            lines.append(
                f"{name}: {row['warm_s'] * 1e3:.0f} ms through the cache without "
                f"weights, the bar is {WARM_BAR * 1e3:.0f} ms"
            )
    if SHALLOW in rows and DEEP in rows:
        ratio = rows[DEEP]["rest_s"] / rows[SHALLOW]["rest_s"]
        print(f"{DEEP} takes {ratio:.2f} x {SHALLOW}, the handling of weights aside")
        if ratio > DEPTH_BAR:
            lines.append(f"{DEEP}: {ratio:.2f} x {SHALLOW}, the bar is {DEPTH_BAR} x")
    return lines


def main() -> int:
    from export import MORE, NAMES, WIDE, folder

    known = NAMES + WIDE + MORE
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    arguments = parser.parse_args()
    names = named_models(parser, arguments.names, known if arguments.bars else TIMED, known)
    tool = arguments.build / "bin" / "knapper"
    if not tool.exists():
        parser.error(f"{tool} is missing: build it first")
    # In a process of its own: the peak memory of a child is at least that of its
    # parent, and an export takes several GB.
    subprocess.run([sys.executable, ROOT / "tests" / "models" / "export.py", *names], check=True)

    rows = {}
    print(
        f"{'model':<16}{'wall s':>7}{'cpu s':>7}{'ms/variant':>11}{'hash s':>7}"
        f"{'pack s':>7}{'keep s':>7}{'rest s':>7}{'cached s':>9}{'warm ms':>8}{'peak MB':>8}"
        f"{'weights':>8}"
    )
    for name in names:
        row = measure(tool, folder() / f"{name}.onnx", arguments.repeat)
        rows[name] = row
        print(
            f"{name:<16}{row['wall_s']:>7.2f}{row['cpu_s']:>7.2f}"
            f"{row['variant_cpu_s'] * 1e3:>11.1f}{row['hash_s']:>7.2f}"
            f"{row['pack_s']:>7.2f}{row['keep_s']:>7.2f}{row['rest_s']:>7.2f}"
            f"{row['cached_s']:>9.2f}{row['warm_s'] * 1e3:>8.0f}{row['peak_bytes'] / 1e6:>8.0f}"
            f"{row['weights_bytes'] / 1e6:>8.0f}",
            flush=True,
        )
    failures = missed(rows)
    for name in [n for n in FIXED if arguments.bars and n in rows]:
        ratio = size_ratio(tool, folder() / f"{name}.onnx", arguments.repeat)
        print(f"{name} for {LARGE} takes {ratio:.2f} x {SMALL}, weights aside")
        if ratio > SIZE_BAR:
            failures.append(f"{name}: {ratio:.2f} x {SMALL}, the bar is {SIZE_BAR} x")
    kept = [{"model": name} | row for name, row in rows.items()]
    return finish(failures if arguments.bars else [], arguments.json, {"compile": kept})


if __name__ == "__main__":
    sys.exit(main())
