#!/usr/bin/env python3
"""Writes the Python wheel: the package with the command `knapper`, its shared libraries, the documentation, the notices.

    packaging/wheel.py --library build/release/capi/libknapper.so --out dist

The library is loaded with ctypes, so the wheel serves every Python from 3.11;
it needs NumPy only. Entries carry a fixed date: the same inputs give the same
file.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from release import ROOT, check, examples, notices, pages, stripped, version

TAG = "py3-none-manylinux_2_34_x86_64"
EXTRAS = {
    "onnx": ("onnx>=1.16",),  # models built in Python
    "torch": ("torch>=2.4", "onnx>=1.16", "onnxscript"),  # modules, exported; torch.compile
    "jax": ("jax>=0.4.30",),  # programs of jax.export; JAX_PLATFORMS=knapper
    "bf16": ("ml_dtypes>=0.4",),  # NumPy's bfloat16
}
CLASSIFIERS = (
    "Development Status :: 4 - Beta",
    "Environment :: Console",
    "Environment :: GPU :: NVIDIA CUDA",
    "Intended Audience :: Developers",
    "Intended Audience :: Science/Research",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: C++",
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: 3 :: Only",
    "Programming Language :: Python :: 3.11",
    "Programming Language :: Python :: 3.12",
    "Programming Language :: Python :: 3.13",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Topic :: Software Development :: Compilers",
    "Typing :: Typed",
)
DATE = (2020, 1, 1, 0, 0, 0)
ENTRY_POINTS = """\
[console_scripts]
knapper = knapper.__main__:main

[torch_dynamo_backends]
knapper = knapper.torch:backend

[jax_plugins]
knapper = knapper.jax
"""


def metadata() -> str:
    return "\n".join(
        [
            "Metadata-Version: 2.4",
            "Name: knapper",
            f"Version: {version()}",
            "Summary: Compiles machine-learning models to one file of fused native kernels",
            "License-Expression: Apache-2.0 WITH LLVM-exception",
            *(f"License-File: {name}" for name, _ in licence_files()),
            "Requires-Python: >=3.11",
            "Requires-Dist: numpy>=1.26",
            *(f"Provides-Extra: {name}" for name in EXTRAS),
            *(f'Requires-Dist: {need} ; extra == "{name}"' for name, needs in EXTRAS.items() for need in needs),
            "Keywords: machine learning,compiler,inference,onnx,cuda",
            *(f"Classifier: {classifier}" for classifier in CLASSIFIERS),
            "Description-Content-Type: text/markdown",
            "",
            (ROOT / "README.md").read_text(),
            "",
            "The pages and programs that are named here lie in the package's folder `knapper/share`:",
            "`python -c \"import knapper, os; print(os.path.dirname(knapper.__file__) + '/share')\"`.",
            "",
        ]
    )


def licence_files() -> list[tuple[str, Path]]:
    return [(str(path.relative_to(ROOT)), path) for path in notices()]


def manual(library: Path) -> list[tuple[str, bytes]]:
    """The pages of the command, as the library itself writes them; none of libknapper_rt, which has no commands."""
    if library.name.startswith("libknapper_rt."):
        return []
    environment = os.environ | {"KNAPPER_LIBRARY": str(library), "PYTHONPATH": str(ROOT / "python")}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "knapper", "man", "-o", folder], check=True, env=environment)
        return [(path.name, path.read_bytes()) for path in sorted(Path(folder).iterdir())]


def build(library: Path, out: Path) -> Path:
    commands = manual(library)
    names = ("libknapper_numeric.so", "libknapper_pjrt.so", "libknapper_regex.so")
    apart = [stripped(library.parents[1] / "lib" / name, out) for name in names]
    library = stripped(library, out)
    check([library, *apart])
    name = f"knapper-{version()}"
    info = f"{name}.dist-info"
    files: list[tuple[str, bytes]] = []
    package = ROOT / "python" / "knapper"
    named = package.rglob("*.dist-info/*")  # knapper.ort under ONNX Runtime's name
    for path in sorted([*package.rglob("*.py"), *named, package / "py.typed"]):
        name_in_wheel = f"knapper/{path.relative_to(package)}"
        files.append((name_in_wheel, path.read_bytes()))
    files.append(("knapper/lib/libknapper.so", library.read_bytes()))
    files += [(f"knapper/lib/{file}", part.read_bytes()) for file, part in zip(names, apart)]
    for path in [*pages(), *examples(), *sorted((ROOT / "include" / "knapper").glob("*.h"))]:
        files.append((f"knapper/share/{path.relative_to(ROOT)}", path.read_bytes()))
    for page, text in commands:  # into share/man of the environment, where man(1) looks
        files.append((f"{name}.data/data/share/man/man1/{page}", text))
    for relative, path in licence_files():
        files.append((f"{info}/licenses/{relative}", path.read_bytes()))
    files.append((f"{info}/METADATA", metadata().encode()))
    files.append((f"{info}/entry_points.txt", ENTRY_POINTS.encode()))
    files.append(
        (
            f"{info}/WHEEL",
            f"Wheel-Version: 1.0\nGenerator: knapper\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode(),
        )
    )
    record = []
    for path, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
        record.append(f"{path},sha256={digest.rstrip(b'=').decode()},{len(data)}")
    record.append(f"{info}/RECORD,,")
    files.append((f"{info}/RECORD", ("\n".join(record) + "\n").encode()))

    target = out / f"{name}-{TAG}.whl"
    temporary = target.with_suffix(".tmp")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for path, data in files:
            entry = zipfile.ZipInfo(path, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            z.writestr(entry, data)
    temporary.rename(target)
    library.unlink()
    for path in apart:
        path.unlink()
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    wheel = build(arguments.library, arguments.out)
    print(f"{wheel} ({wheel.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
