"""What the bundle and the wheel share: version, files, checks of binaries."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The newest C library whose symbols a shipped binary may need.
GLIBC = (2, 34)
# Libraries of the system that it may need.
SYSTEM = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}


def version() -> str:
    text = (ROOT / "include" / "knapper" / "knapper.h").read_text()
    parts = (
        re.search(rf"KNAPPER_VERSION_{part} (\d+)", text)
        for part in ("MAJOR", "MINOR", "PATCH")
    )
    return ".".join(found[1] for found in parts if found)


def pages() -> list[Path]:
    """README, its neighbours and the documentation: what ships names nothing that does not."""
    top = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    inside = [p for p in sorted((ROOT / "docs").rglob("*")) if p.suffix in (".md", ".png", ".svg")]
    return top + inside


def examples() -> list[Path]:
    """The programs that the pages name; their tests stay here."""
    return [
        path
        for folder in ("c", "custom_operator")
        for path in sorted((ROOT / "examples" / folder).iterdir())
        if path.suffix in (".c", ".cpp", ".py") and not path.name.endswith("_test.py")
    ]


def notices() -> list[Path]:
    """Licence, notices and the licence texts of what is linked in."""
    return [
        ROOT / "LICENSE",
        ROOT / "THIRD_PARTY_NOTICES",
        *sorted((ROOT / "licenses").iterdir()),
    ]


def _objdump(flag: str, binary: Path) -> str:
    return subprocess.run(
        ["objdump", flag, str(binary)], check=True, capture_output=True, text=True
    ).stdout


def complaints(binary: Path) -> list[str]:
    """Why a binary cannot be shipped; empty when it can.

    It may export only the C API (the plugin: its one function), need only the C library, and of that only what
    glibc 2.34 has.
    """
    found = []
    for line in _objdump("-T", binary).splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        name = fields[-1]
        if wanted := re.search(r"GLIBC_(\d+)\.(\d+)", line):
            if (int(wanted[1]), int(wanted[2])) > GLIBC:
                found.append(f"{binary.name} needs {name} of {wanted[0]}")
        exported = "*UND*" not in line and re.match(r"[0-9a-f]{16} [gwu]", line)
        plugin = name == "GetPjrtApi" and binary.name.removeprefix(".").startswith("libknapper_pjrt.so")
        if exported and not plugin and not name.startswith("knapper_"):
            found.append(f"{binary.name} exports {name}")
    for needed in re.findall(r"NEEDED +(\S+)", _objdump("-p", binary)):
        if needed not in SYSTEM and not needed.startswith("libknapper"):
            found.append(f"{binary.name} needs {needed}")
    if "no symbols" not in _objdump("-t", binary):
        found.append(f"{binary.name} is not stripped")
    return found


def stripped(binary: Path, folder: Path) -> Path:
    """A copy of a binary without symbols that only a debugger reads."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f".{binary.name}.stripped"
    subprocess.run(["strip", "-o", str(target), str(binary)], check=True)
    return target


def check(binaries: list[Path]) -> None:
    """Stops the packaging when a binary cannot be shipped."""
    found = [text for binary in binaries for text in complaints(binary)]
    if found:
        raise SystemExit("\n".join(found))
