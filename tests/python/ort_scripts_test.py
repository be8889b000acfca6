"""Programs as people write them for onnxruntime, run under it and, unchanged, under
Knapper by `python -m knapper.ort`: equal results."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import knapper
import script_models

SCRIPTS = sorted((Path(__file__).parent / "ort_scripts").glob("*.py"))
# What the message of a script that is refused says.
REFUSED = {"sequence_outputs": "pieces"}
pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    script_models.write(folder)
    return folder


def missing(script: Path) -> list[str]:
    """Packages that the script imports and that are not installed."""
    imported = re.findall(r"^(?:import|from) (\w+)", script.read_text(), re.M)
    return [name for name in imported if importlib.util.find_spec(name) is None]


def start(folder: Path, *command: str) -> subprocess.Popen[str]:
    folder.mkdir()
    package = str(Path(knapper.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, *command, str(folder / "out.npz")],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": package},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script, models, tmp_path):
    if missing(script):
        pytest.skip(f"not installed: {', '.join(missing(script))}")
    command = str(script), str(models)
    theirs = start(tmp_path / "theirs", *command)
    ours = start(tmp_path / "ours", "-m", "knapper.ort", *command)
    said = [process.communicate(timeout=120)[0] for process in (theirs, ours)]
    assert theirs.returncode == 0, said[0]
    if script.stem in REFUSED:
        assert ours.returncode == 1
        assert re.search(r"^knapper\S*NotImplemented: .*" + REFUSED[script.stem], said[1], re.M), said[1]
        return
    assert ours.returncode == 0, said[1]
    expected, found = (
        np.load(tmp_path / side / "out.npz") for side in ("theirs", "ours")
    )
    assert list(expected) == list(found)
    for name in expected:
        same(name, expected[name], found[name])


def same(name: str, expected: np.ndarray, found: np.ndarray) -> None:
    assert expected.shape == found.shape, name
    if expected.dtype.kind == "f":
        assert expected.dtype == found.dtype, name
        largest = np.abs(expected).max(initial=0)
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5 * largest, err_msg=name)
    elif name.endswith("_steps"):
        # ONNX Runtime's fused kernels round the bias to an integer, so that a value
        # between two steps may fall on either; ours are those of float64.
        assert np.abs(found - expected).max() <= 1, name
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)
