"""What the pages docs/first-*.md add to the tree compiles."""

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


@pytest.fixture
def build() -> Path:
    build = ROOT / "build" / "dev"
    if not (build / "compile_commands.json").exists():
        pytest.skip("the developer preset is not built")
    return build


def check_compiles(command: list[str], build: Path) -> None:
    done = subprocess.run([*command, "-fsyntax-only", "-Werror"], cwd=build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_page_makes_a_target(tmp_path, build):
    shutil.copytree(ROOT / "targets", tmp_path / "targets")
    options = tmp_path / "compiler/options/Options.def"
    options.parent.mkdir(parents=True)
    shutil.copy(ROOT / "compiler/options/Options.def", options)
    page = (ROOT / "docs" / "first-target.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) == 2
    subprocess.run(["sh", "-eu", "-c", "\n".join(blocks)], cwd=tmp_path, check=True)
    registry = (tmp_path / "targets" / "TargetRegistry.cpp").read_text()
    assert registry.count("mineTargetPlugin()") == 2
    assert "|mine|" in options.read_text()
    assert "'null'" not in (tmp_path / "targets/mine/MinePlugin.cpp").read_text()
    assert "mine null" in (tmp_path / "targets" / "CMakeLists.txt").read_text()
    for made, like in (("targets/mine/MinePlugin.cpp", "targets/null/NullPlugin.cpp"), ("targets/TargetRegistry.cpp",) * 2):
        command = command_of(ROOT / like, build)
        command = [str(tmp_path / made) if word == str(ROOT / like) else word for word in command]
        check_compiles(command, build)


def test_the_page_makes_a_schedule(tmp_path, build):
    core = "codegen/schedule/core"
    shutil.copytree(ROOT / core, tmp_path / core)
    page = (ROOT / "docs" / "first-schedule.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```cpp\n(.*?)^```", page, re.M | re.S)
    (shell,) = re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S)
    made = tmp_path / code.split()[1]
    made.parent.mkdir()
    made.write_text(code)
    subprocess.run(["sh", "-euc", shell], cwd=tmp_path, check=True)
    assert "RowTiles" in (tmp_path / core / "Schedules.def").read_text()
    like = ROOT / "codegen" / "schedule" / "pointwise" / "Pointwise.cpp"
    command = [str(made) if word == str(like) else word for word in command_of(like, build)]
    # The copies, with the new line of the table, are found before the tree.
    check_compiles([command[0], f"-I{tmp_path}", *command[1:]], build)


def test_the_page_makes_a_front_end(tmp_path, build):
    for file in ("frontends/FrontEndRegistry.cpp", "frontends/CMakeLists.txt", "compiler/options/Options.def"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    page = (ROOT / "docs" / "first-front-end.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```cpp\n(.*?)^```", page, re.M | re.S)
    (shell,) = re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S)
    made = tmp_path / code.split()[1]
    subprocess.run(["sh", "-euc", shell], cwd=tmp_path, check=True)
    made.write_text(code)
    assert (tmp_path / "frontends/FrontEndRegistry.cpp").read_text().count("linesFrontEnd()") == 2
    assert (tmp_path / "frontends/CMakeLists.txt").read_text().count("lines") == 2
    assert "|lines|" in (tmp_path / "compiler/options/Options.def").read_text()
    like = ROOT / "frontends" / "onnx" / "OnnxFrontEnd.cpp"
    command = [str(made) if word == str(like) else word for word in command_of(like, build)]
    check_compiles(command, build)
