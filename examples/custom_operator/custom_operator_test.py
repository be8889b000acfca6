"""The example does what docs/custom-operators.md says: in C from the program and from
Python, and in Python alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import knapper
from swish_model import model
import swish as python_operators

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOL = ROOT / "build" / "dev" / "bin" / "knapper"
X = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)


def wanted(x: np.ndarray) -> np.ndarray:
    y = 2 * x / (1 + np.exp(-1.5 * x))
    return y[y > 1]


@pytest.fixture(scope="module")
def shared_object(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("operators") / "liboperators.so"
    subprocess.run(
        ["cc", "-Wall", "-Werror", "-shared", "-fPIC", "-O2", f"-I{ROOT}/include",
         HERE / "operators.c", "-o", out, "-lm"],
        check=True,
    )  # fmt: skip
    return out


@pytest.fixture
def unregistered():
    yield
    for name in ("Swish", "Above"):
        try:
            knapper.unregister_operator("my.domain", name)
        except knapper.UserError:
            pass


def check(module: knapper.Module) -> None:
    for x in (X, X[:1], np.zeros((0, 3), np.float32)):
        np.testing.assert_allclose(module(x)["y"], wanted(x), rtol=1e-5)


def test_in_python(unregistered):
    python_operators.register()
    module = knapper.compile(model())
    check(module)
    assert [o["name"] for o in module.describe()["operators"]] == ["Swish", "Above"]


def test_in_c_from_python(shared_object, unregistered, tmp_path):
    knapper.load_operators(shared_object)
    check(knapper.compile(model(), output=tmp_path / "m.knap"))
    check(knapper.load(tmp_path / "m.knap"))
    knapper.unregister_operator("my.domain", "Above")
    with pytest.raises(knapper.UserError, match="my.domain.Above is not registered"):
        knapper.load(tmp_path / "m.knap")


def test_the_script_runs():
    done = subprocess.run(
        [sys.executable, HERE / "swish.py"], capture_output=True, text=True,
        env={"PYTHONPATH": f"{ROOT}/python:{HERE}", "PATH": "/usr/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    values = [float(v) for v in done.stdout.strip(" []\n").split()]
    np.testing.assert_allclose(values, wanted(X), rtol=1e-5)


def tool(*arguments: object, code: int = 0) -> str:
    done = subprocess.run(
        [TOOL, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_in_c_from_the_program(shared_object, tmp_path):
    path, compiled = tmp_path / "m.onnx", tmp_path / "m.knap"
    onnx.save(model(), path)
    said = tool("inspect", path, code=1)
    assert "Swish (my.domain opset 1)  NOT SUPPORTED" in said
    assert "a custom operator that is not registered" in said
    said = tool("inspect", path, "--operators", shared_object)
    assert "Swish (my.domain opset 1)  registered" in said
    assert "every operator is known" in said
    said = tool("compile", path, "-o", compiled, code=1)
    assert "Above (my.domain opset 1): a custom operator that is not registered" in said
    assert "Swish (my.domain opset 1)" in said and "--operators FILE.so" in said
    operators = ("--operators", shared_object)
    tool("compile", path, "-o", compiled, *operators)
    np.save(tmp_path / "x.npy", X)
    said = tool("run", compiled, "-i", tmp_path / "x.npy", code=1)
    assert "operator my.domain.Swish is not registered" in said
    tool("run", compiled, *operators, "-i", tmp_path / "x.npy",
         "-o", tmp_path / "y.npy")  # fmt: skip
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted(X), rtol=1e-5)
    assert "agree" in tool("run", "--verify", path, *operators, "--dim", "rows=4")
    trace = tmp_path / "trace.json"
    tool("profile", compiled, *operators, "--dim", "rows=4", "-o", trace)
    assert "my.domain.Swish" in trace.read_text()
    said = tool("run", compiled, "--operators", "no.so", code=1)
    assert "no.so: cannot be loaded" in said
