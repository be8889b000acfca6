#!/usr/bin/env python3
"""Shows that a change of the compiler changes no kernel, or which.

    replay.py record FILE [--build build/dev] [--isa ISA]... [--sample SEED:COUNT] [--models FOLDER]
    replay.py compare BEFORE AFTER

`record` compiles every op case for every instruction set, and the ONNX models of
a folder for all of them, and writes a hash of each kernel's machine code or PTX.
It runs nothing: no GPU is needed. About a minute of one core for each
instruction set; COUNT cases drawn by SEED take their share of that.

`compare` prints the kernels whose code differs, and exits with 1 if there are any.
A kernel that only has another name is counted, not printed: renames are free.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CPUS = ("x86-64-v3", "x86-64-v4", "x86-64-v4-vnni", "x86-64-v4-bf16", "x86-64-v4-amx")
GPUS = ("sm_80", "sm_86", "sm_89", "sm_90a")
ISAS = CPUS + GPUS
FILES_A_CALL = 500  # of knapper-replay: command lines have a limit

# Of an artefact: (instruction set, hash, bytes of code, kernel's name) of each kernel.
Kernels = list[tuple[str, str, int, str]]


def kernels_of(build: Path, folder: Path) -> dict[str, Kernels]:
    """The kernels of every artefact of the folder, by the artefact's name."""
    files = sorted(folder.glob("*.knap"))
    found: dict[str, Kernels] = {file.stem: [] for file in files}
    for begin in range(0, len(files), FILES_A_CALL):
        command = [build / "tools" / "knapper-replay" / "knapper-replay", *files[begin : begin + FILES_A_CALL]]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            file, isa, digest, size, name = line.split("\t")
            found[file].append((isa, digest, int(size), name))
    return found


def op_cases(build: Path, isa: str, sample: str | None) -> dict[str, Kernels]:
    """Cases that are refused have no artefact: that one appears or goes is a difference."""
    sys.path.insert(0, str(ROOT / "tests" / "ops"))
    import cases

    with tempfile.TemporaryDirectory() as scratch:
        listed, folder = Path(scratch) / "cases.json", Path(scratch) / "files"
        cases.write(listed)
        folder.mkdir()
        command = [build / "tests" / "ops" / "op_cases", listed, "--isa", isa, "--write", folder]
        done = subprocess.run(
            command + (["--sample", sample] if sample else []), capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"op cases for {isa}: {done.stderr[-3000:]}")
        return {f"{isa}: {name}": rows for name, rows in kernels_of(build, folder).items()}


def compiled_models(build: Path, models: Path) -> dict[str, Kernels]:
    """Every ISA of CPUs in one file, each GPU in one of its own."""
    targets = ["cpu"] + [f"cuda:{isa}" for isa in GPUS]
    with tempfile.TemporaryDirectory() as scratch:
        for model in sorted(models.glob("*.onnx")):
            for target in targets:
                out = Path(scratch) / f"{model.stem} {target.replace(':', ' ')}.knap"
                command = [build / "bin" / "knapper", "compile", model, "--target", target, "--cache=false", "-o", out]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    raise SystemExit(f"{model} for {target}: {done.stderr[-3000:]}")
        return kernels_of(build, Path(scratch))


def record(arguments: argparse.Namespace) -> int:
    build = arguments.build.resolve()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(pool.map(lambda isa: op_cases(build, isa, arguments.sample), arguments.isa or ISAS))
    if arguments.models:
        parts.append(compiled_models(build, arguments.models))
    artefacts = {name: rows for part in parts for name, rows in part.items()}
    arguments.file.write_text(json.dumps(artefacts, indent=0))
    print(f"{sum(map(len, artefacts.values())):,} kernels of {len(artefacts):,} artefacts: {arguments.file}")
    return 0


def compare(arguments: argparse.Namespace) -> int:
    before, after = (json.loads(file.read_text()) for file in (arguments.before, arguments.after))
    kernels = renamed = different = 0
    for artefact in sorted(before.keys() | after.keys()):
        if artefact not in before or artefact not in after:
            print(f"{artefact}: only {'before' if artefact in before else 'after'}")
            different += 1
            continue
        old, new = before[artefact], after[artefact]
        kernels += len(new)
        names = {(isa, digest, name) for isa, digest, _, name in new}
        renamed += sum((isa, digest, name) not in names for isa, digest, _, name in old)
        left, right = (sorted((isa, digest, size) for isa, digest, size, _ in rows) for rows in (old, new))
        if left == right:
            continue
        # What stands on both sides goes; the rest differs.
        for row in list(left):
            if row in right:
                left.remove(row), right.remove(row)
        different += max(len(left), len(right))
        renamed -= len(left)
        for mark, rows, side in (("-", left, old), ("+", right, new)):
            for isa, digest, size in rows:
                name = next(n for i, d, _, n in side if (i, d) == (isa, digest))
                print(f"{mark} {artefact}: {isa} {name}, {size:,} bytes")
    print(f"{kernels:,} kernels, {different:,} different, {renamed:,} only renamed")
    return 1 if different else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    made = commands.add_parser("record", help="compile, and write a hash of each kernel")
    made.add_argument("file", type=Path)
    made.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    made.add_argument("--isa", action="append", choices=ISAS, help="of the op cases; default: all")
    made.add_argument("--sample", metavar="SEED:COUNT", help="of the op cases; default: all")
    made.add_argument("--models", type=Path, help="a folder of ONNX models; default: none")
    made.set_defaults(run=record)
    compared = commands.add_parser("compare", help="which kernels differ")
    compared.add_argument("before", type=Path)
    compared.add_argument("after", type=Path)
    compared.set_defaults(run=compare)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
