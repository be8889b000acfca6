"""The shape of the source tree: unique names, arrows that point one way, the field's vocabulary."""

import collections
import importlib
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A folder may include from itself and from those before it.
ORDER = ("runtime", "ir", "graph", "tune", "codegen", "targets", "frontends", "compiler", "serving", "capi", "tools", "tests", "bench")
STAGES = ("codegen/math", "codegen/lower", "codegen/schedule")
# Where a kind of device, an instruction set or PTX may be named in a condition.
OWNERS = ("targets/", "runtime/drivers/", "tests/", "tools/knapper-translate/")
NAMED = re.compile(r"""(isa|kind|target|name\(\)) *[!=]= *(?:"(?:sm_|x86|cuda|cpu|ptx)|DeviceKind)|starts_with\("(?:sm_|cuda|x86|cpu)""")


def sources(*endings: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)  # fmt: skip
    return [f for f in listed.stdout.split("\n") if f.endswith(endings) and (ROOT / f).exists()]


def text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def is_test(file: str) -> bool:
    return file.endswith("_test.cpp") or file.startswith(("tests/", "bench/"))


def test_a_file_name_stands_once():
    places = collections.defaultdict(list)
    for file in sources(".cpp", ".h", ".td", ".def"):
        places[Path(file).name].append(file)
    twice = {name: files for name, files in places.items() if len(files) > 1}
    assert not twice


def test_a_class_name_stands_once():
    places = collections.defaultdict(set)
    for file in sources(".cpp", ".h"):
        if not is_test(file) and "/testing/" not in file:
            for name in re.findall(r"^(?:class|struct) ([A-Z]\w+)(?: final)? ?(?:\{|:[^:])", text(file), re.M):
                places[name].add(file)
    assert not {name: sorted(files) for name, files in places.items() if len(files) > 1}


def includes() -> list[tuple[str, str]]:
    return [(f, i) for f in sources(".cpp", ".h") for i in re.findall(r'^#include "([^"]+)"', text(f), re.M)]


@pytest.mark.parametrize("order", [ORDER, STAGES], ids=["folders", "codegen"])
def test_no_include_runs_back_up(order):
    def rank(path):
        return next((i for i, folder in enumerate(order) if path.startswith(folder + "/")), None)

    back = []
    for file, included in includes():
        mine, theirs = rank(file), rank(included)
        if mine is not None and theirs is not None and theirs > mine:
            back.append(f"{file} includes {included}")
    assert not back


def test_folders_include_each_other_in_no_circle():
    """Tests beside the code may use whatever they test it with."""
    uses = collections.defaultdict(set)
    for file, included in includes():
        mine, theirs = str(Path(file).parent), str(Path(included).parent)
        if not is_test(file) and mine != theirs and (ROOT / included).exists():
            uses[mine].add(theirs)
    done, open_now = set(), []

    def visit(folder):
        assert folder not in open_now, " -> ".join([*open_now[open_now.index(folder) :], folder])
        if folder not in done:
            open_now.append(folder)
            for other in sorted(uses[folder]):
                visit(other)
            done.add(open_now.pop())

    for folder in sorted(uses):
        visit(folder)


def test_only_targets_name_a_target_in_a_condition():
    named = []
    for file in sources(".cpp", ".h"):
        if not file.startswith(OWNERS) and not is_test(file) and file.startswith(("codegen/", "graph/", "ir/", "compiler/", "tune/", "frontends/")):
            named += [f"{file}:{n}: {line.strip()}" for n, line in enumerate(text(file).split("\n"), 1) if NAMED.search(line)]  # fmt: skip
    assert not named


def long_functions(file: str, most: int) -> list[str]:
    """Functions and methods at the outer two levels, as clang-format indents them."""
    found = []
    lines = text(file).split("\n")
    for indent in ("", "  "):
        begin = 0
        for n, line in enumerate(lines):
            if re.match(rf"{indent}[^\s#/}}]", line) and not line.startswith(f"{indent}  "):
                begin = n
            if line == f"{indent}}}" and n + 1 - begin > most:
                found.append(f"{file}:{begin + 1}: {n + 1 - begin} lines: {lines[begin].strip()}")
    return found


def test_kernels_of_gpus_are_short_functions():
    """A recipe reads like the algorithm: steps with names, no function of more than 120 lines."""
    folder = "codegen/lower/gpu/nvidia/"
    files = [f for f in sources(".cpp", ".h") if f.startswith(folder)]
    assert len(files) > 20
    assert not [found for file in files for found in long_functions(file, 120)]
    recipes = ("sm90/WgmmaMatmul", "sm90/ImplicitGemmLoad", "sm90/FlashAttention", "sm80/MmaSyncMatmul", "simt/SimtMatmul", "simt/SimtAttention", "common/GroupedTileScheduler")  # fmt: skip
    assert not {r: n for r in recipes if (n := text(f"{folder}{r}.cpp").count("\n")) > 200}


# Ops that are named where they are defined, decomposed, scheduled, read by a front end or matched by a rewrite of their own.
OWN_FILES = ("ir/tensor/", "ir/tile/", "codegen/lower/", "codegen/schedule/attention/", "frontends/", "serving/models/", "graph/simplify/FindAttention.cpp", "graph/simplify/RefineAttentionMask.cpp")  # fmt: skip


def test_few_files_name_an_op_among_others():
    """What fusion and costs need to know of an op stands in ir/tensor/Heroes.cpp."""
    naming = [f for f in sources(".cpp", ".h") if not f.startswith(OWN_FILES) and not is_test(f) and re.search(r"\bAttentionOp\b", text(f))]  # fmt: skip
    assert len(naming) <= 6, naming


def test_the_field_has_words_for_it():
    rows = [line for line in text("tests/structure/vocabulary.txt").split("\n") if line and line[0] != "#"]
    patterns = [re.split(r"\s{2,}", row, maxsplit=1) for row in rows]
    found = []
    for file in sources(".cpp", ".h", ".td", ".def", ".md", ".py", ".mlir"):
        if file.startswith("tests/structure/") or file in ("docs/glossary.md", "CHANGELOG.md"):
            continue
        content = text(file)
        for pattern, term in patterns:
            for match in re.finditer(pattern, content, re.I if pattern.islower() else 0):
                line = content.count("\n", 0, match.start()) + 1
                found.append(f"{file}:{line}: '{match[0]}', say {term}")
    assert not found, "\n".join(found)


def test_the_picture_of_the_layers_is_current(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "images"))
    architecture = importlib.import_module("architecture")
    source = text("docs/images/architecture.txt")
    assert text("docs/images/architecture.svg") == architecture.drawing(source), "run docs/images/architecture.py"
    rows = [line.removeprefix("row ") for line in source.split("\n") if line.startswith("row ")]
    folders = [box.split()[0] for row in rows for box in row.split("|")]
    assert len(folders) > 15
    assert [f for f in folders if not (ROOT / f).is_dir()] == []
