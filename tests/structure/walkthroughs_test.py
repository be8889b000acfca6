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


@pytest.mark.parametrize("page", ["first-front-end", "first-schedule", "first-target"])
def test_commands_name_what_there_is(page, build):
    """The targets of ninja; and the files, but for those that the page makes."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    commands = [line.strip() for line in text.split("\n") if line.startswith("    ")]
    made = set(re.findall(r"^// (\S+)$", text, re.M))
    checked = 0
    for command in commands:
        words = command.split()
        if words[:3] == ["ninja", "-C", "build/dev"]:
            query = subprocess.run([*words[:3], "-t", "query", *words[3:]], cwd=ROOT, capture_output=True, text=True)
            assert query.returncode == 0, query.stderr
            checked += 1
        for path in re.findall(r"(?<![\w./-])(?:bench|codegen|docs|tests)/[\w./-]+", command):
            assert path in made or (ROOT / path).exists(), path
    assert checked


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


def test_the_lit_test_of_the_page_is_a_program(tmp_path, build):
    """Its commands run; what they print is the new schedule's."""
    page = (ROOT / "docs" / "first-schedule.md").read_text(encoding="utf-8")
    (test,) = re.findall(r"^```mlir\n(.*?)^```", page, re.M | re.S)
    assert "kind = \"row_tiles\"" in test
    file = tmp_path / "row-tiles.mlir"
    file.write_text(test)
    commands = re.findall(r"RUN: knapper (.*) %s (.*) \| FileCheck", test)
    assert len(commands) == 2
    for before, after in commands:
        done = subprocess.run([build / "bin" / "knapper", *before.split(), file, *after.split()], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "@main" in done.stdout and "pointwise" in done.stdout


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
