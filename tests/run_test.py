"""What tests/run.py counts."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("knapper_tests_run", Path(__file__).with_name("run.py"))
run = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = run  # for its dataclass
spec.loader.exec_module(run)

GOOGLE = """[==========] 9 tests from 2 test suites ran.
[  PASSED  ] 6 tests.
[  SKIPPED ] 3 tests, listed below:
[  SKIPPED ] Memory.Wide
"""


@pytest.mark.parametrize(
    "case, counts",
    [
        ("", (1, 0, 0)),
        ("<failure/>", (0, 1, 0)),
        ("<error/>", (0, 1, 0)),
        ('<skipped message="this machine has no NVIDIA GPU"/>', (0, 0, 1)),
        ('<skipped message="/b/onnx-evaluate is not built"/>', (0, 1, 0)),
        ("<skipped>skipped: /b/knapper is not built</skipped>", (0, 1, 0)),
        (f"<system-out>{GOOGLE}</system-out>", (1, 0, 3)),
    ],
)
def test_counts(tmp_path, case, counts):
    report = tmp_path / "report.xml"
    report.write_text(f'<testsuite><testcase classname="a" name="b">{case}</testcase></testsuite>')
    assert run.count(report) == counts


def test_an_empty_suite_fails(tmp_path):
    line = run.command("ctest", tmp_path, tmp_path / "ctest.xml", 1, False, False)
    assert "--no-tests=error" in line
    assert run.command("lit", tmp_path, tmp_path / "lit.xml", 1, False, False) is None


def test_suites_run_side_by_side(tmp_path, capfd):
    """Each waits until the other has begun; what they print comes in order."""
    code = (
        "import pathlib, sys, time\n"
        "mine, other = map(pathlib.Path, sys.argv[1:])\n"
        "mine.touch()\n"
        "end = time.monotonic() + 120\n"
        "while not other.exists() and time.monotonic() < end: time.sleep(0.01)\n"
        "print(mine.name, flush=True)\n"
        "sys.exit(0 if other.exists() else 3)\n"
    )
    a, b = tmp_path / "a", tmp_path / "b"
    runs = [run.Run(p.name, tmp_path / "no.xml", [sys.executable, "-c", code, str(p), str(q)], {}) for p, q in ((a, b), (b, a))]
    for each in runs:
        each.start(side_by_side=True)
    assert [each.end() for each in runs] == [0, 0]
    assert capfd.readouterr().out.split() == ["a", "b"]


def test_a_worker_that_dies_is_a_failure_and_no_hang(tmp_path):
    for file, body in {"killer": "os.abort() if i == 3 else None", "other": "pass", "third": "pass"}.items():
        (tmp_path / f"{file}_test.py").write_text(
            f"import os\n\nimport pytest\n\n\n@pytest.mark.parametrize('i', range(6))\ndef test(i):\n    {body}\n"
        )
    (tmp_path / "conftest.py").write_text((run.ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = *_test.py\naddopts = -p no:cacheprovider\n")
    line = run.command("pytest", tmp_path, tmp_path / "pytest.xml", 2, False, False)
    workers = line[line.index("-n") : line.index("--durations")]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *workers, "--junitxml", tmp_path / "pytest.xml", tmp_path],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "1 failed, 17 passed" in ended.stdout, ended.stdout + ended.stderr
    assert run.count(tmp_path / "pytest.xml") == (17, 1, 0)
