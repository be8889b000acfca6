"""The tool, run in a folder of its own with its own cache."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tool_models import TOOL, affine, environment


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Calls the tool: stdout, or with `code` the text of that failure, before
    which stdout holds `output` or nothing."""
    if not TOOL.exists():
        pytest.skip(f"{TOOL} is not built")
    monkeypatch.chdir(tmp_path)
    clean = environment(tmp_path)

    def call(
        *arguments, code: int = 0, env: dict[str, str] | None = None, output: str = ""
    ) -> str:
        done = subprocess.run(
            [TOOL, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            env=clean | (env or {}),
        )
        assert done.returncode == code, done.stderr + done.stdout
        if code:
            assert output in done.stdout if output else done.stdout == ""
            return done.stderr
        assert done.stderr == ""  # silent, and no progress when piped
        return done.stdout

    return call


@pytest.fixture
def model(tmp_path) -> Path:
    return affine(tmp_path / "m.onnx")
