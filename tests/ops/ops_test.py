"""The op cases: the reference against NumPy, compiled code against the reference."""

import os
import subprocess
from pathlib import Path

import cases
import check_numpy
import pytest

BUILD = Path(os.environ.get("KNAPPER_BUILD", Path(__file__).parents[2] / "build" / "dev"))


@pytest.fixture(scope="session")
def case_list(tmp_path_factory):
    path = tmp_path_factory.mktemp("ops") / "cases.json"
    cases.write(path)
    return path


def run(case_list, *arguments):
    runner = BUILD / "tests" / "ops" / "op_cases"
    if not runner.exists():
        pytest.skip(f"{runner} is not built")
    return subprocess.run([runner, case_list, *map(str, arguments)], capture_output=True, text=True)


def test_reference_equals_numpy(case_list, tmp_path, capsys):
    done = run(case_list, "--dump", tmp_path)
    assert done.returncode == 0, done.stderr
    status = check_numpy.main(tmp_path)
    assert status == 0, capsys.readouterr().out


def supported(isa):
    """Whether this machine runs the instruction set."""
    flags = Path("/proc/cpuinfo").read_text()
    return {"x86-64-v3": "avx2", "x86-64-v4": "avx512vl"}[isa] in flags


@pytest.mark.parametrize("isa", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize("part", range(4))
def test_compiled_equals_reference(case_list, isa, part):
    """Right, or refused in words: what is refused is in the support matrix."""
    if not supported(isa):
        pytest.skip(f"this machine has no {isa}")
    done = run(case_list, "--isa", isa, "--part", part, "--parts", 4)
    assert done.returncode == 0, done.stderr[-6000:]
