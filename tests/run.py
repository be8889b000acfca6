#!/usr/bin/env python3
"""Runs every suite and closes with one line: `N passed, N failed`.

    tests/run.py [--build build/dev] [--suite ctest|lit|pytest]... [--jobs N] [--slow]
    tests/run.py --quick
    tests/run.py --sanitize

The suites are CTest (C++ unit tests), lit (IR tests and the command line) and
pytest (Python package, models, demo). Each writes a JUnit file into
BUILD/test-results; the counts are read from there. A suite that ends badly
without a failed test counts as one failure.

`--quick` is what to run before a commit, 90 s at most: all of lit, and of pytest
the structure, the commands and one in forty of the op cases, drawn by the commit.
The two suites run side by side: each has stretches that keep one core busy.

Two more are built first, from the presets of their names: `asan` (address and
undefined-behaviour sanitizers: the fuzzers and the runtime's tests) and `tsan`
(thread sanitizer: the runtime's tests). `--sanitize` runs these two with all
5,000 cases of each fuzzer, `--slow` a short form of them after the others.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
SUITES = ("ctest", "lit", "pytest")
LIT = "/usr/bin/lit-22"


@dataclass
class Sanitized:
    """A preset, what of it is built and run, and how."""

    targets: tuple[str, ...]
    tests: str
    environment: dict[str, str]


SANITIZED = {
    "asan": Sanitized(
        ("knapper_runtime_tests", "CApi_test", "onnx-fuzz"),
        "^(runtime/|capi/CApi_test|onnx_fuzz/)",
        {
            # LLVM's libraries are not instrumented: a container that they fill
            # and we read looks overflown.
            "ASAN_OPTIONS": "detect_container_overflow=0",
            "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        },
    ),
    "tsan": Sanitized(
        ("knapper_runtime_tests", "CApi_test"),
        "^(runtime/|capi/CApi_test)",
        {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"},
    ),
}
FUZZ_CASES = {True: 5000, False: 500}  # of a fuzzer: the bar, the short form
# With --slow: all where a sample is tested else; how many random graphs, for how long at most.
SLOW_TESTS = {"KNAPPER_WHOLE": "1", "KNAPPER_GRAPH_CASES": "20000", "KNAPPER_GRAPH_SECONDS": "3600"}


PYTEST = ("tests", "python", "examples")
# With --quick: the tests of QUICK, of the op cases a sample.
QUICK_TESTS = {"KNAPPER_QUICK": "1"}
QUICK = (
    "tests/run_test.py",
    "tests/structure/structure_test.py",
    "tests/cli/commands_test.py",
    "tests/ops/ops_test.py::test_compiled_equals_reference",
)


def build_sanitized(suite: str, jobs: int) -> Path:
    subprocess.run(["cmake", "--preset", suite], cwd=ROOT, check=True)
    subprocess.run(
        ["cmake", "--build", "--preset", suite, "-j", str(jobs), "--target",
         *SANITIZED[suite].targets],
        cwd=ROOT, check=True,
    )  # fmt: skip
    return ROOT / "build" / suite


def command(
    suite: str, build: Path, report: Path, jobs: int, slow: bool, whole: bool,
    quick: bool = False,
) -> list[str] | None:
    """The command line of a suite, or None where the build has none."""
    if suite in SANITIZED:
        return [
            "ctest", "--test-dir", str(build), "-j", str(jobs),
            "--output-on-failure", "--timeout", "7200",
            "-R", SANITIZED[suite].tests,
            # All cases or the short form, not both.
            "-E", "onnx_fuzz/run$" if whole else "onnx_fuzz/(run_all|import)",
            "--output-junit", str(report),
        ]  # fmt: skip
    if suite == "ctest":
        return [
            "ctest", "--test-dir", str(build), "-j", str(jobs),
            "--output-on-failure", "--timeout", "600", "--no-tests=error",
            # GoogleTest names at the end what it skipped.
            "--test-output-size-passed", "20000", "--test-output-truncation", "head",
            "-E", "^lit$",  # a suite of its own
            *([] if slow else ["-LE", "slow"]),
            "--output-junit", str(report),
        ]  # fmt: skip
    if suite == "lit":
        site = build / "tests" / "lit"
        if not (site / "lit.site.cfg.py").exists():
            return None
        return [
            # With this interpreter, which has what --timeout needs.
            sys.executable, LIT, "-j", str(jobs), "-sv", "--timeout", "300",
            "--xunit-xml-output", str(report), str(site),
        ]  # fmt: skip
    return [
        sys.executable, "-m", "pytest", "-q", "-ra", "--junitxml", str(report),
        # Files side by side, in the order of tests/conftest.py, the tests of one in order.
        "-n", str(jobs), "--dist", "loadfile", "--no-loadscope-reorder", "--durations", "25",
        # A test that hangs ends its worker, which prints where its threads stand.
        "--timeout", "7200" if slow else "900", "--timeout-method", "thread",
        "-c", str(ROOT / "tests" / "pytest.ini"), "--rootdir", str(ROOT),
        *(str(ROOT / part) for part in (QUICK if quick else PYTEST)),
    ]  # fmt: skip


def count(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped test cases of a JUnit file. A program of GoogleTest
    is one that passes, and what it skips counts beside it. What is skipped because
    it was not built has failed: the suites build what they test."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(report).iter("testcase"):
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif skip is not None and "is not built" in f"{skip.get('message')}{skip.text}":
            print(f"{case.get('classname')}.{case.get('name')}: {skip.get('message')}")
            failed += 1
        elif skip is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
            output = case.findtext("system-out") or ""
            if own := re.search(r"^\[  SKIPPED \] (\d+) tests?, listed below", output, re.M):
                skipped += int(own[1])
    return passed, failed, skipped


class Run:
    """A suite's process; beside others it writes to a file, which is printed when it ends."""

    def __init__(self, suite: str, report: Path, line: list[str], variables: dict[str, str]) -> None:
        self.suite, self.report = suite, report
        self._line, self._variables = line, variables
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._start = self.seconds = 0.0

    def start(self, side_by_side: bool = False) -> None:
        """Does nothing where it was started."""
        if self._process is None:
            self._output = tempfile.TemporaryFile() if side_by_side else None
            self._start = time.monotonic()
            self._process = subprocess.Popen(
                self._line, cwd=ROOT, env=self._variables, stdout=self._output,
                stderr=subprocess.STDOUT if side_by_side else None,
            )  # fmt: skip

    def end(self) -> int:
        """Waits for it: its exit status."""
        assert self._process
        status = self._process.wait()
        self.seconds = time.monotonic() - self._start
        if self._output:
            self._output.seek(0)
            print(self._output.read().decode(errors="replace"), flush=True)
        return status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    parser.add_argument("--suite", action="append", choices=(*SUITES, *SANITIZED))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="what to run before a commit")
    parser.add_argument("--slow", action="store_true", help="also what takes an hour")
    parser.add_argument(
        "--sanitize", action="store_true",
        help="the suites asan and tsan, with all cases of the fuzzers",
    )  # fmt: skip
    arguments = parser.parse_args()

    build = arguments.build.resolve()
    results = build / "test-results"
    results.mkdir(parents=True, exist_ok=True)
    # The checkout may hold another library, an older one. Tests compile; those
    # of the cache have one of their own.
    environment = os.environ | {
        # Threads of NumPy's matmuls spin where cores are fewer than workers: references took thrice as long.
        "OPENBLAS_NUM_THREADS": "1",
        "KNAPPER_BUILD": str(build),
        "KNAPPER_LIBRARY": str(build / "capi" / "libknapper.so"),
        "KNAPPER_CACHE": "off",
    }
    if arguments.slow:
        environment |= SLOW_TESTS
    if arguments.quick:
        environment |= QUICK_TESTS
    total_passed = total_failed = total_skipped = 0
    lines: list[str] = []
    runs: list[Run] = []

    def finish(run: Run) -> None:
        nonlocal total_passed, total_failed, total_skipped
        print(f"== {run.suite}", flush=True)
        run.start()
        status = run.end()
        passed = failed = skipped = 0
        if run.report.exists():
            passed, failed, skipped = count(run.report)
        if status != 0 and failed == 0:
            failed = 1
            lines.append(f"{run.suite}: ended with status {status}")
        lines.append(
            f"{run.suite}: {passed} passed, {failed} failed, {skipped} skipped "
            f"in {run.seconds:.0f} s"
        )
        total_passed += passed
        total_failed += failed
        total_skipped += skipped

    sanitized = tuple(SANITIZED) if arguments.sanitize or arguments.slow else ()
    usual = () if arguments.sanitize else ("lit", "pytest") if arguments.quick else SUITES
    for suite in arguments.suite or (*usual, *sanitized):
        report = results / f"{suite}.xml"
        report.unlink(missing_ok=True)
        folder, variables = build, environment
        if suite in SANITIZED:
            folder = build_sanitized(suite, arguments.jobs)
            variables = environment | SANITIZED[suite].environment
            cases = FUZZ_CASES[arguments.sanitize and suite == "asan"]
            variables["KNAPPER_FUZZ_CASES"] = str(cases)
        line = command(
            suite, folder, report, arguments.jobs, arguments.slow, arguments.sanitize,
            arguments.quick,
        )  # fmt: skip
        if line is None:
            lines.append(f"{suite}: is not part of this build, 1 failed")
            total_failed += 1
            continue
        run = Run(suite, report, line, variables)
        if arguments.quick:  # all at once
            run.start(side_by_side=True)
            runs.append(run)
        else:
            finish(run)
    for run in runs:
        finish(run)
    print("\n" + "\n".join(lines))
    print(f"{total_skipped} skipped")
    print(f"{total_passed} passed, {total_failed} failed")
    return 1 if total_failed else 0


if __name__ == "__main__":
    sys.exit(main())
