"""A processor below x86-64-v3, emulated: compiling works, running is refused."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from tool_models import TOOL, environment

QEMU = shutil.which("qemu-x86_64")


@pytest.mark.skipif(QEMU is None, reason="qemu-x86_64 (qemu-user) is not installed")
def test_below_v3(tool, model, tmp_path):
    def emulated(*arguments):
        return subprocess.run(
            [QEMU, "-cpu", "Nehalem", TOOL, *arguments],
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=300,
        )

    assert emulated("compile", model, "-o", "m.knap").returncode == 0
    done = emulated("run", "m.knap", "--dim", "n=2")
    assert done.returncode == 1
    assert "this processor is below x86-64-v3" in done.stderr
    assert "y: f32 [2, 4]" in tool("run", "m.knap", "--dim", "n=2")
