"""What type checkers say of the package: calls as users write them are clean,
mistakes are found, and the annotations are those of the running package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "python"
WRONG = {
    number
    for number, line in enumerate((HERE / "mistakes.py").read_text().splitlines(), 1)
    if line.endswith("# wrong")
}
PUBLIC = "arguments", "compiler", "errors", "module", "options", "quantization", "results"


def call(*command: str, code: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        env=os.environ | {"MYPYPATH": str(PACKAGE), "PYTHONPATH": str(PACKAGE)},
        cwd=HERE,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_mypy(tmp_path):
    pytest.importorskip("mypy")
    options = ["--strict", "--follow-imports", "silent", "--cache-dir", str(tmp_path)]
    said = call("mypy", *options, "typed_calls.py", "mistakes.py", code=1)
    found = re.findall(r"^(\S+):(\d+): error", said, re.M)
    assert {name for name, _ in found} == {"mistakes.py"}, said
    assert {int(line) for _, line in found} == WRONG, said


def test_pyright():
    pytest.importorskip("basedpyright")
    python = ["--pythonpath", sys.executable]
    said = call("basedpyright", "-p", str(HERE), *python, "--outputjson", code=1)
    found = json.loads(said)["generalDiagnostics"]
    assert {Path(each["file"]).name for each in found} == {"mistakes.py"}, found
    assert {each["range"]["start"]["line"] + 1 for each in found} == WRONG, found


def test_annotations_are_the_package_s():
    pytest.importorskip("mypy")
    call("mypy.stubtest", "--concise", *(f"knapper.{name}" for name in PUBLIC), code=0)
