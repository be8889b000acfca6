"""One file for CPUs and GPUs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import knapper
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BOTH = "cpu,cuda:sm_90a"


@pytest.fixture
def file(tool, model):
    tool("compile", model, "-o", "both.knap", "--target", BOTH)
    return "both.knap"


def devices(tool):
    return {device["device"] for device in json.loads(tool("devices", "--json"))}


def test_each_device_has_its_program(tool, model, file):
    about = json.loads(tool("explain", file, "--json", "--device", "cpu"))
    assert {t["device"] for t in about["targets"]} == {"cpu", "cuda"}
    assert about["device"] == "cpu" and about["report"]["target"] == "cpu"
    for kernel in about["kernels"]:
        assert set(kernel["targets"]) <= {"x86-64-v4", "x86-64-v3"}
    # The CPU's half is the file for CPUs.
    tool("compile", model, "-o", "one.knap", "--target", "cpu")
    alone = json.loads(tool("explain", "one.knap", "--json"))
    assert alone["launches"] == about["launches"]
    stats = json.loads(
        tool("compile", model, "-o", "m.knap", "--target", BOTH, "--json", "--no-cache")
    )
    assert stats["kernels"] == 2 * alone["report"]["compile"]["kernels"]
    names = [phase["name"] for phase in stats["phases"]]
    assert names.count("pack") == 1 and "emit (cpu)" in names and "emit (cuda:sm_90a)" in names


def test_it_runs_on_what_is_there(tool, file):
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.save("x.npy", x)
    for arguments in ((), ("--device", "cpu")):
        tool("run", file, "-i", "x.npy", "-o", "y.npy", *arguments)
        np.testing.assert_allclose(np.load("y.npy"), np.maximum(x * 2 + 1, 0), rtol=1e-6)
    if "cuda" not in devices(tool):
        message = tool("run", file, "-i", "x.npy", "--device", "cuda", code=2)
        assert "no NVIDIA GPU is here" in message
        message = tool("run", file, "-i", "x.npy", env={"KNAPPER_DEVICE": "cuda"}, code=2)
        assert "no NVIDIA GPU is here" in message


def test_python_chooses_too(file, model):
    x = np.ones((2, 4), np.float32)
    module = knapper.load(file, device="cpu")
    np.testing.assert_allclose(module(x)[0], 3)
    compiled = knapper.compile(str(model), target=BOTH, device="cpu")
    np.testing.assert_array_equal(compiled(x)[0], module(x)[0])
    with pytest.raises(knapper.UserError, match="no kind of device"):
        knapper.load(file, device="tpu")


def test_what_is_not_there_is_refused(tool, model):
    tool("compile", model, "-o", "one.knap", "--target", "cpu")
    assert "no code for device 'cuda'" in tool("explain", "one.knap", "--device", "cuda", code=1)
    assert "no kind of device" in tool("explain", "one.knap", "--device", "tpu", code=1)
    for target in ("cuda,cpu", "cpu,", "cpu,cpu", ",", "cpu,cuda:sm_1"):
        assert "option target" in tool("compile", model, "--target", target, code=1)
    for option in ("--stop-after=fuse", "--dump-dir=d", "--print-after=all"):
        message = tool("compile", model, "--target", BOTH, option, code=1)
        assert "one target at a time" in message


def test_instruction_sets_are_those_of_the_cpu(tool, model):
    stats = json.loads(
        tool("compile", model, "-o", "m.knap", "--target", BOTH, "--isa", "x86-64-v3", "--json")
    )
    about = json.loads(tool("explain", "m.knap", "--json", "--device", "cpu"))
    assert [t["isa"] for t in about["targets"]] == ["x86-64-v3", "sm_90a"]
    assert stats["artefact_bytes"] > 0


def test_python_compiles_for_a_device_that_is_not_here(tool, model, tmp_path):
    if "cuda" in devices(tool):
        pytest.skip("this machine has an NVIDIA GPU")
    path = tmp_path / "gpu.knap"
    module = knapper.compile(model, target="cuda:sm_90a", output=path)
    assert module.device == "cuda" and "sm_90a" in module.explain()
    again = tmp_path / "again.knap"
    module.save(again)
    assert again.read_bytes() == path.read_bytes()
    x = np.ones((2, 4), np.float32)
    for use in (lambda: module(x), lambda: module.bind([x])(), lambda: module.profile(x)):
        with pytest.raises(knapper.DeviceError, match="no NVIDIA GPU is here"):
            use()
    # Told so, a file loads to be described.
    loaded = knapper.load(path, describe=True)
    assert loaded.device == "cuda" and "sm_90a" in loaded.explain()
    with pytest.raises(knapper.DeviceError, match="no NVIDIA GPU is here"):
        loaded(x)
    about = json.loads(tool("explain", path, "--json"))
    assert [t["isa"] for t in about["targets"]] == ["sm_90a"]
    assert "no NVIDIA GPU is here" in tool("explain", path, "--profile", "--dim", "auto", code=2)
    # Who asks for the device, or loads, means to run.
    for load in (lambda: knapper.load(path), lambda: knapper.compile(model, target="cuda", device="cuda")):
        with pytest.raises(knapper.DeviceError, match="no NVIDIA GPU is here"):
            load()


def test_the_target_to_copy_compiles_and_is_refused_by_devices(tool):
    """The commands of docs/first-target.md, before there is a copy."""
    page = (ROOT / "docs" / "first-target.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^    printf '(.*)' > model.mlir$", page, re.M)
    Path("model.mlir").write_text(text.replace("%%", "%").replace("\\n", "\n"))
    (refusal,) = re.findall(r"`knapper run` refuses it until there is a driver: `(.*?)`", page)
    assert "tile.func" in tool("compile", "model.mlir", "--target", "null", "--stop-after", "tile")
    assert "1 launches, 1 kernels" in tool("compile", "model.mlir", "--target", "null", "-o", "model.knap")
    np.save("x.npy", np.ones((4, 8), np.float32))
    assert refusal in tool("run", "model.knap", "-i", "x.npy", code=1)
    assert "'null:fast' is no value for it" in tool("compile", "model.mlir", "--target", "null:fast", code=1)
