#!/usr/bin/env python3
"""Writes the relocatable release as a compressed archive.

    packaging/bundle.py --build build/release --out dist

bin/knapper, lib/libknapper.so, libknapper_rt.so, libknapper_numeric.so, libknapper_pjrt.so
and libknapper_regex.so, the header, the CMake package and pkg-config file, the Python package, the
documentation, the examples and the notices; works wherever it is unpacked. Not larger than
60 MB.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from release import ROOT, check, examples, notices, pages, version

LIMIT = 60_000_000


def is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def collect(build: Path, tree: Path) -> None:
    """Fills the tree: what CMake installs, the Python package, the notices."""
    subprocess.run(
        ["cmake", "--install", str(build), "--strip", "--prefix", str(tree)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (tree / "share" / "man").mkdir(parents=True)
    package = tree / "python" / "knapper"
    shutil.copytree(
        ROOT / "python" / "knapper",
        package,
        ignore=shutil.ignore_patterns("__pycache__", "lib"),
    )
    subprocess.run([tree / "bin" / "knapper", "man", "-o", tree / "share" / "man" / "man1"], check=True)
    share = tree / "share" / "doc" / "knapper"
    share.mkdir(parents=True)
    for path in [*pages(), *examples(), *notices()]:
        target = share / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def normalise(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = 1577836800
    return entry


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    name = f"knapper-{version()}-linux-x86_64"
    arguments.out.mkdir(parents=True, exist_ok=True)
    target = arguments.out / f"{name}.tar.xz"
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / name
        collect(arguments.build.resolve(), tree)
        regular = [p for p in tree.rglob("*") if p.is_file() and not p.is_symlink()]
        binaries = [p for p in regular if is_elf(p)]
        if not any(p.name == "knapper" for p in binaries):
            raise SystemExit("the build installs no bin/knapper")
        check(binaries)
        plain = Path(scratch) / "bundle.tar"
        with tarfile.open(plain, "w") as archive:
            archive.add(tree, name, filter=normalise)
        subprocess.run(["xz", "-T0", "-6", str(plain)], check=True)
        shutil.move(f"{plain}.xz", target)
    size = target.stat().st_size
    print(f"{target} ({size / 1e6:.1f} MB)")
    if size > LIMIT:
        raise SystemExit(f"larger than {LIMIT / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
