"""A page of docs/ as a program: its fenced blocks, in order.

    .venv/bin/python tests/docs/page.py docs/export.md      # runs it in the current folder

`sh` blocks run in one shell after another, which hand on their variables and
folder; `python` blocks share their names. A block of another language is a file,
which its first line names in a comment: `// run.cpp`. A `text` block says what
the block before it prints: each of its lines must be there, `...` stands for
anything. An HTML comment before a block changes that:

    <!-- not run: needs a GPU -->      it is only checked for its syntax
    <!-- fails -->                     it must fail, and a `text` block says how
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

FILES = {"c", "cpp", "cmake", "dockerfile", "ini", "json"}
RUNS = {"sh", "python"}
REASONS = ("a GPU", "docker", "the network")
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run: needs [^>]*|fails) -->\n+)?"
    r"^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_NAME = re.compile(r"^(?://|#|/\*) ([\w./-]+)")


class Wrong(Exception):
    """A block that does not do what the page says."""


@dataclasses.dataclass
class Block:
    """A fenced block: language, code, the comment before it, its line."""

    language: str
    code: str
    mark: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The page's blocks in order. Raises Wrong for those that nothing could check."""
    text = page.read_text()
    found = [
        Block(m["language"], m["code"], m["mark"] or "", text[: m.start("code")].count("\n") + 1)
        for m in _BLOCK.finditer(text)
    ]
    if 2 * len(found) != len(re.findall(r"^ *```", text, re.MULTILINE)):
        raise Wrong(f"{page}: a fence is not closed, or indented")
    for block, after in zip(found, [*found[1:], None]):
        where = f"{page}:{block.line}"
        if block.language not in RUNS | FILES | {"text"}:
            raise Wrong(f"{where}: a block of {block.language!r}")
        if block.mark == "fails" and (not after or after.language != "text"):
            raise Wrong(f"{where}: no text says how it fails")
        if block.mark.startswith("not run"):
            if block.mark.removeprefix("not run: needs ") not in REASONS:
                raise Wrong(f"{where}: {block.mark!r} is none of {REASONS}")
            if after and after.language == "text":
                raise Wrong(f"{where}: what it prints is not checked")
        if block.language in FILES and not _NAME.match(block.code):
            raise Wrong(f"{where}: the first line names no file")
    return found


def check_syntax(block: Block) -> None:
    """Of a block that is not run."""
    if block.language == "python":
        compile(block.code, "block", "exec")
    elif block.language == "sh":
        subprocess.run(["bash", "-n", "-c", block.code], check=True)


def run_shell(code: str) -> tuple[bool, str]:
    """Whether it succeeded, and what it printed; its variables and folder become ours."""
    with tempfile.TemporaryDirectory() as scratch:
        after = f"{scratch}/env"
        script = f"set -aeuo pipefail\n{code}\nenv -0 >{after}\npwd >{scratch}/pwd\n"
        done = subprocess.run(
            ["bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        if done.returncode == 0:
            with open(after) as file:
                pairs = [v.split("=", 1) for v in file.read().split("\0") if "=" in v]
            os.environ.update({k: v for k, v in pairs if k not in ("_", "SHLVL")})
            os.chdir(Path(f"{scratch}/pwd").read_text().rstrip("\n"))
    return done.returncode == 0, done.stdout


def run_python(code: str, names: dict[str, object], where: str) -> tuple[bool, str]:
    """Whether it succeeded, and what it printed, a traceback too."""
    printed = io.StringIO()
    good = True
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(compile(code, where, "exec"), names)
        except Exception:
            good = False
            traceback.print_exc()
    return good, printed.getvalue()


def missing(wanted: str, printed: str) -> str | None:
    """The first line of `wanted` that was not printed."""
    for line in filter(None, map(str.strip, wanted.splitlines())):
        pattern = ".*".join(map(re.escape, line.split("...")))
        if not re.search(pattern, printed):
            return line
    return None


def run(page: Path) -> None:
    """Runs the page in the current folder. Raises Wrong with the line."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    for block in blocks(page):
        where = f"{page}:{block.line}"
        if block.mark.startswith("not run"):
            check_syntax(block)
        elif block.language in FILES:
            name = _NAME.match(block.code)
            assert name
            Path(name[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(name[1]).write_text(block.code)
        elif block.language == "text":
            line = missing(block.code, printed)
            if line is not None:
                raise Wrong(f"{where}: {line!r} is not in what was printed:\n{printed}")
        else:
            good, printed = (
                run_shell(block.code)
                if block.language == "sh"
                else run_python(block.code, names, where)
            )
            if good == (block.mark == "fails"):
                raise Wrong(f"{where}: {'succeeds' if good else 'fails'}:\n{printed}")


if __name__ == "__main__":
    try:
        run(Path(sys.argv[1]).resolve())
    except Wrong as wrong:
        sys.exit(str(wrong))
