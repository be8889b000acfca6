"""tools/knapper-replay: equal trees have equal records, and a kernel that differs is found."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KNAPPER_BUILD", ROOT / "build" / "dev"))
REPLAY = ROOT / "tools" / "knapper-replay" / "replay.py"
ISAS = ("x86-64-v3", "x86-64-v4-amx", "sm_80", "sm_90a")


def replay(*arguments):
    return subprocess.run([sys.executable, REPLAY, *map(str, arguments)], capture_output=True, text=True)


def made(file):
    isas = [word for isa in ISAS for word in ("--isa", isa)]
    done = replay("record", file, "--build", BUILD, "--sample", "1:60", *isas)
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return made(tmp_path_factory.mktemp("replay") / "first.json")


def test_a_compile_is_repeatable(first, tmp_path):
    done = replay("compare", first, made(tmp_path / "second.json"))
    assert done.returncode == 0, done.stdout
    assert "0 different, 0 only renamed" in done.stdout
    artefacts = json.loads(first.read_text())
    assert {name.split(":")[0] for name in artefacts} == set(ISAS)
    kernels = [row for rows in artefacts.values() for row in rows]
    assert len(kernels) > 100 and {row[0] for row in kernels} == set(ISAS)


@pytest.mark.parametrize("change, words", [
    (lambda rows: rows[0].__setitem__(3, "other"), "0 different, 1 only renamed"),
    (lambda rows: rows[0].__setitem__(1, "0" * 16), "1 different, 0 only renamed"),
    (lambda rows: rows.append(["sm_90a", "1" * 16, 7, "more"]), "1 different, 0 only renamed"),
])  # fmt: skip
def test_what_differs_is_said(first, tmp_path, change, words):
    artefacts = json.loads(first.read_text())
    change(next(iter(artefacts.values())))
    other = tmp_path / "other.json"
    other.write_text(json.dumps(artefacts))
    done = replay("compare", first, other)
    assert words in done.stdout
    assert done.returncode == words.startswith("1 different")


def test_artefacts_that_come_or_go(first, tmp_path):
    artefacts = json.loads(first.read_text())
    name = sorted(artefacts)[0]
    del artefacts[name]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(artefacts))
    done = replay("compare", first, other)
    assert done.returncode == 1 and f"{name}: only before" in done.stdout


def test_another_choice_of_schedule_is_another_kernel(tmp_path):
    """The hashes are of code: the same op at another instruction set differs."""
    done = replay("record", tmp_path / "a.json", "--build", BUILD, "--sample", "1:40", "--isa", "x86-64-v3",
                  "--isa", "x86-64-v4")  # fmt: skip
    assert done.returncode == 0, done.stderr
    artefacts = json.loads((tmp_path / "a.json").read_text())
    old = {n.split(": ")[1]: {row[1] for row in rows} for n, rows in artefacts.items() if n.startswith("x86-64-v3:")}
    new = {n.split(": ")[1]: {row[1] for row in rows} for n, rows in artefacts.items() if n.startswith("x86-64-v4:")}
    assert any(old[name] != new[name] for name in old)
