"""docs/first-target.md: its commands make a target that compiles."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def command_of(file: Path, build: Path) -> list[str]:
    """How the build compiles the file, without its output."""
    commands = json.loads((build / "compile_commands.json").read_text())
    entry = next(e for e in commands if e["file"] == str(file))
    words = shlex.split(entry["command"])
    while words[0] != "clang++-22" and not words[0].endswith("/clang++-22"):
        words.pop(0)
    output = words.index("-o")
    return [word for word in words[:output] + words[output + 2 :] if word != "-c"]


def test_the_page_makes_a_target(tmp_path):
    build = ROOT / "build" / "dev"
    if not (build / "compile_commands.json").exists():
        pytest.skip("the developer preset is not built")
    shutil.copytree(ROOT / "targets", tmp_path / "targets")
    page = (ROOT / "docs" / "first-target.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) == 2
    subprocess.run(["sh", "-eu", "-c", "\n".join(blocks)], cwd=tmp_path, check=True)
    registry = (tmp_path / "targets" / "TargetRegistry.cpp").read_text()
    assert registry.count("mineTargetPlugin()") == 2
    assert "mine null" in (tmp_path / "targets" / "CMakeLists.txt").read_text()
    for made, like in (("targets/mine/MinePlugin.cpp", "targets/null/NullPlugin.cpp"), ("targets/TargetRegistry.cpp",) * 2):
        command = command_of(ROOT / like, build)
        command = [str(tmp_path / made) if word == str(ROOT / like) else word for word in command]
        done = subprocess.run([*command, "-fsyntax-only", "-Werror"], cwd=build, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
