#!/usr/bin/env python3
"""Runs what is shipped where nothing else is.

    packaging/verify.py [--bundle FILE.tar.xz] [--wheel FILE.whl] --model FILE.onnx

Bundle: unpacked; its `knapper` compiles the model with an empty search path and
then runs the artefact in a root file system that holds the C library, the
program and the artefact, and nothing else (needs chroot: root, or user
namespaces). Wheel: installed with NumPy alone into a fresh environment, where it
compiles and runs the model.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBC = ("libc.so.6", "libm.so.6")
LOADER = Path("/lib64/ld-linux-x86-64.so.2")

WHEEL_PROGRAM = """
import sys, numpy, knapper
print(knapper.__file__, knapper.version())
m = knapper.compile(sys.argv[1], threads=2)
m.save(sys.argv[2])
m = knapper.load(sys.argv[2])
sizes = {"i64": numpy.int64, "f32": numpy.float32}
y = m(*(numpy.ones([d if isinstance(d, int) else 2 for d in i.shape], sizes[i.dtype])
        for i in m.inputs))
assert all(numpy.isfinite(a).all() for a in y)
print(y, [a.shape for a in y])
"""


def bare_root(root: Path, program: Path, artefact: Path) -> None:
    """The C library, the program, the artefact."""
    libraries = root / "lib" / "x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (root / "lib64").mkdir()
    shutil.copy(LOADER, root / "lib64")
    for name in LIBC:
        shutil.copy(Path("/lib/x86_64-linux-gnu") / name, libraries)
    shutil.copy(program, root / "knapper")
    shutil.copy(artefact, root / "model.knap")


def verify_bundle(bundle: Path, model: Path, sizes: list[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with tarfile.open(bundle) as archive:
            archive.extractall(folder, filter="tar")
        (tree,) = folder.iterdir()
        program = tree / "bin" / "knapper"
        artefact = folder / "model.knap"
        subprocess.run(
            [program, "compile", model.resolve(), "-o", artefact],
            check=True,
            env={"PATH": "/nowhere", "HOME": scratch},
        )
        root = folder / "root"
        root.mkdir()
        bare_root(root, program.resolve(), artefact)
        # Without rights a user namespace gives them.
        tools = ["chroot"] if os.geteuid() == 0 else ["unshare", "-r", "chroot"]
        places = os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin"
        enter = [shutil.which(t, path=places) or t for t in tools if t != "-r"]
        if "-r" in tools:
            enter.insert(1, "-r")
        for arguments in (["version"], ["run", "/model.knap", *sizes]):
            subprocess.run([*enter, root, "/knapper", *arguments], check=True, env={})
    print(f"{bundle.name}: compiles without tools, runs in a bare root")


def verify_wheel(wheel: Path, model: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "venv"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        python = environment / "bin" / "python"
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            + [str(wheel.resolve())],
            check=True,
        )
        subprocess.run(
            [python, "-c", WHEEL_PROGRAM, model.resolve(), f"{scratch}/m.knap"],
            check=True,
            cwd=scratch,
            env={"PATH": "/nowhere", "HOME": scratch},
        )
        if not (environment / "share" / "man" / "man1" / "knapper-compile.1").exists():
            raise SystemExit(f"{wheel.name} has no manual pages")
        command = environment / "bin" / "knapper"
        subprocess.run([command, "--version"], check=True, env={"PATH": "/nowhere", "HOME": scratch})
    print(f"{wheel.name}: works with NumPy alone")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    model = arguments.model
    if model is None:
        sys.path.insert(0, str(ROOT / "examples" / "embed"))
        from minilm import write

        model = write(ROOT / "build" / "demo" / "all-MiniLM-L6-v2.onnx")
        arguments.dim = arguments.dim or ["batch=2", "sequence=16"]
    sizes = [word for dim in arguments.dim for word in ("--dim", dim)]
    if arguments.bundle:
        verify_bundle(arguments.bundle, model, sizes)
    if arguments.wheel:
        verify_wheel(arguments.wheel, model)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
