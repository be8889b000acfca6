#!/usr/bin/env python3
"""Assembles every kernel of artefacts for NVIDIA GPUs, if the assembler is at hand.

    ptx.py FOLDER [--arch sm_90a]     exits with 1 when a kernel is refused, spills or has a warning
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# For these processors ("": any). The first takes many registers in double precision, by what it computes. Of the others
# one kernel each spills 4 bytes because the assembler keeps to 32 and 40 registers, for more threads on an SM: it takes
# 60 and 48 and spills none where it is told of one CTA an SM (.minnctapersm 1).
MAY_SPILL = {("pow f32 positive", ""), ("dft f32 3x1994", ""), ("dft f32 2x800 to_real", "")}

MOST_SHARED = 48 * 1024
KERNELS_A_CALL = 100  # of the assembler, whose time and memory grow faster than its input


def kernels(folder: Path) -> dict[str, tuple[str, str]]:
    """The text of each kernel and the first file that has it, by name."""
    found: dict[str, tuple[str, str]] = {"": ("", "")}
    for path in sorted(folder.glob("*.knap")):
        data = path.read_bytes()
        begin = data.find(b".version")
        if begin < 0:
            continue
        text = data[begin : data.index(b"\0", begin)].decode()
        body = text.index("\n", text.index(".address_size")) + 1
        found.setdefault("", ("", ""))
        found[""] = (max(found[""][0], text[:body]), "")  # of the newest version
        # What a launch gives of shared memory is declared outside.
        shared = dict(
            (m[1], m[0]) for m in re.finditer(r"^\.extern \.shared .* (\w+)\[\];\n", text, re.M)
        )
        for match in re.finditer(r"\.visible \.entry (\w+)\(.*?^}\n", text, re.M | re.S):
            outside = shared.get(match[1] + "_shared", "")
            found.setdefault(match[1], (outside + match[0], path.stem))
    return found


WAIT = re.compile(r"bar(rier)?\.(cta\.|cluster\.)?(sync|arrive|wait)\b")


def uneven(text: str) -> str:
    """What is wrong with where a kernel that combines tiles of a cluster waits: the blocks have to do it equally often on
    every way through it, and to the end."""
    lines = [line.strip() for line in text[text.index("{") :].splitlines()[1:]]
    lines = [line for line in lines if line and not line.startswith("//")]
    ends = [i for i, line in enumerate(lines) if re.search(r"\b(ret|exit|trap);", line)]
    if len(ends) != 1 or not lines[ends[0] - 1].startswith("barrier.cluster.wait"):
        return "ends while others may read what is its own"
    at = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
    waits, work, seen = {0: 0}, [0], {0}
    while work:
        i = work.pop()
        target = re.search(r"\bbra(\.uni)?\s+([$\w]+)", lines[i])
        after = [at[target[2]]] if target else []
        if i != ends[0] and (not target or lines[i].startswith("@")):
            after.append(i + 1)
        number = waits[i] + bool(WAIT.match(lines[i]))
        for j in after:
            if waits.setdefault(j, number) != number:
                return f"waits unlike often: {lines[j]}"
            work += [j] if j not in seen else []
            seen.add(j)
    return ""


def assemble(text: str, arch: str) -> tuple[str, int]:
    """What the assembler says, and its status."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "kernels.ptx"
        source.write_text(text)
        command = ["ptxas", f"-arch={arch}", "-v", source, "-o", Path(scratch) / "kernels.cubin"]
        done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout + done.stderr, done.returncode


def check(folder: Path, arch: str = "sm_90a", share: float = 1, seed: str = "") -> list[str]:
    """What is wrong, in words. share: of the kernels, drawn by the seed."""
    found = kernels(folder)
    head = found.pop("")[0]
    if not found:
        return [f"{folder}: no artefact there holds a kernel"]
    names = random.Random(seed).sample(sorted(found), math.ceil(share * len(found)))
    found = {name: found[name] for name in names}
    pieces = [names[i : i + KERNELS_A_CALL] for i in range(0, len(names), KERNELS_A_CALL)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        logs = list(pool.map(lambda piece: assemble(head + "\n".join(found[n][0] for n in piece), arch), pieces))
    log, refused = "".join(text for text, _ in logs), any(status for _, status in logs)
    problems = [line for line in log.splitlines() if re.search(r"warning|C75\d\d|error|fatal", line)]
    sizes = re.findall(r"Function properties for (\w+)\n\s+\d+ bytes stack frame, (\d+) bytes spill", log)
    assert refused or len(sizes) == len(found)
    for name, (text, where) in found.items():
        if name + "_tiles" in text and (problem := uneven(text)):
            problems.append(f"{where}: {name} {problem}")
    # A launch gets no more of what kernels declare themselves.
    for name, used in re.findall(r"Compiling entry function '(\w+)'(?:.*\n){3}.* (\d+) bytes smem", log):
        if int(used) > MOST_SHARED:
            problems.append(f"{found[name][1]}: {name} has {used} bytes of shared memory")
    for name, spilled in sizes:
        where = found[name][1]
        if int(spilled) and not {(where, ""), (where, arch)} & MAY_SPILL:
            problems.append(f"{where}: {name} spills {spilled} bytes")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", default="sm_90a")
    arguments = parser.parse_args()
    problems = check(arguments.folder, arguments.arch)
    print("\n".join(problems) or "every kernel assembles, none spills")
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
