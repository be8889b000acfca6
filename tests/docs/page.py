"""A page of docs/ as a program: its fenced blocks, in order.

    .venv/bin/python tests/docs/page.py docs/export.md      # runs it in the current folder

`sh` blocks run in one shell after another, which hand on their variables and
folder; `python` blocks share their names. A block of another language is a file,
which its first line names in a comment: `// run.cpp`. A `text` block says what
the block before it prints: each of its lines must be there, `...` stands for
anything. An HTML comment before a block changes that:

    <!-- not run: needs a GPU -->      it is only checked for its syntax
    <!-- fails -->                     it must fail, and a `text` block says how
    <!-- in the background -->         it runs until the page ends, a `text` block says when it is ready

A page with such a block serves at port 8000, for which a free one is taken.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

FILES = {"c", "cpp", "cmake", "dockerfile", "ini", "json"}
RUNS = {"sh", "python"}
REASONS = ("a GPU", "docker", "the network")
BACKGROUND = "in the background"
PORT = "8000"
SECONDS = 120  # until what runs in the background is ready
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run: needs [^>]*|fails|in the background) -->\n+)?"
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
        if block.mark == BACKGROUND and (block.language != "sh" or not after or after.language != "text"):
            raise Wrong(f"{where}: no text says when it is ready")
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


class Background:
    """Shell commands that run beside the page's other blocks."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        self.folder = tempfile.TemporaryDirectory()

    def __enter__(self) -> Background:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=SECONDS)
        self.folder.cleanup()

    def start(self, code: str, ready: str) -> tuple[bool, str]:
        """Whether it goes on and has said all of `ready`, and what it has said."""
        path = Path(self.folder.name) / str(len(self.processes))
        with path.open("w") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"set -eu\n{code}"],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self.processes.append(process)
        end = time.monotonic() + SECONDS
        while process.poll() is None and missing(ready, path.read_text()) and time.monotonic() < end:
            time.sleep(0.05)
        return process.poll() is None, path.read_text()


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def run(page: Path) -> None:
    """Runs the page in the current folder. Raises Wrong with the line."""
    found = blocks(page)
    if any(block.mark == BACKGROUND for block in found):
        port = free_port()
        found = [dataclasses.replace(block, code=re.sub(rf"\b{PORT}\b", port, block.code)) for block in found]
    with Background() as background:
        run_blocks(page, found, background)


def run_blocks(page: Path, found: list[Block], background: Background) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    for block, after in zip(found, [*found[1:], None]):
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
            if block.mark == BACKGROUND:
                assert after
                good, printed = background.start(block.code, after.code)
            elif block.language == "sh":
                good, printed = run_shell(block.code)
            else:
                good, printed = run_python(block.code, names, where)
            if good == (block.mark == "fails"):
                raise Wrong(f"{where}: {'succeeds' if good else 'fails'}:\n{printed}")


if __name__ == "__main__":
    try:
        run(Path(sys.argv[1]).resolve())
    except Wrong as wrong:
        sys.exit(str(wrong))
