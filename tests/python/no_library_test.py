"""The package without its library: what a broken installation is told."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "knapper"
PROGRAM = """
import knapper
try:
    knapper.load("model.knap")
except FileNotFoundError as error:
    print(error)
"""


def test_a_missing_library_is_named_with_what_to_do(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "knapper", ignore=shutil.ignore_patterns("__pycache__", "lib"))
    environment = {k: v for k, v in os.environ.items() if k != "KNAPPER_LIBRARY"}
    environment["PYTHONPATH"] = str(tmp_path)
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    for part in ("libknapper.so", str(tmp_path), "docs/install.md", "KNAPPER_LIBRARY"):
        assert part in run.stdout


def test_a_variable_that_names_nothing_is_what_is_told(tmp_path):
    environment = os.environ | {"KNAPPER_LIBRARY": str(tmp_path / "gone.so"), "PYTHONPATH": str(PACKAGE.parent)}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    for part in ("KNAPPER_LIBRARY names ", str(tmp_path / "gone.so"), "does not exist", "unset it"):
        assert part in run.stdout
    assert "looked for" not in run.stdout
