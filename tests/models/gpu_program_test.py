"""The models of the bars run on a GPU from the first kernel to the last: no operator on the host, no copy to or from
it inside a run, symbolic sizes or not. Needs no GPU: the compiled program says it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from export import NAMES, ensure, folder
from gpu_program import host_steps, program

BUILD = Path(os.environ.get("KNAPPER_BUILD", Path(__file__).parents[2] / "build" / "dev"))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_no_step_on_the_host(name, dtype, tmp_path):
    ensure([name])
    dump = tmp_path / "steps"
    command = [BUILD / "bin" / "knapper", "compile", folder() / f"{name}.onnx", "--target", "cuda:sm_90a",
               "-o", tmp_path / "model.knap", f"--dump-dir={dump}"]
    if dtype != "f32":
        command.append(f"--dtype={dtype}")
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                          env=os.environ | {"KNAPPER_CACHE": "off"})
    assert done.returncode == 0, done.stderr
    compiled = program(dump)
    assert any(r["instructions"] for r in compiled["regions"])
    assert host_steps(compiled) == []


def test_a_condition_is_a_step_on_the_host():
    boxes = [{"instruction_type": "Launch"}, {"instruction_type": "If"}]
    assert host_steps({"regions": [{"instructions": boxes}]}) == ["If"]
