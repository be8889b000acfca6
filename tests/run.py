#!/usr/bin/env python3
"""Runs every suite and closes with one line: `N passed, N failed`.

    tests/run.py [--build build/dev] [--suite ctest|lit|pytest]... [--jobs N] [--slow]

The suites are CTest (C++ unit tests), lit (IR tests and the command line) and
pytest (Python package, models, demo). Each writes a JUnit file into
BUILD/test-results; the counts are read from there. A suite that ends badly
without a failed test counts as one failure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUITES = ("ctest", "lit", "pytest")
LIT = "/usr/bin/lit-22"


def command(suite: str, build: Path, report: Path, jobs: int, slow: bool) -> list[str] | None:
    """The command line of a suite, or None where the build has none."""
    if suite == "ctest":
        return [
            "ctest", "--test-dir", str(build), "-j", str(jobs),
            "--output-on-failure", "--timeout", "600", "--no-tests=ignore",
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
        "-c", str(ROOT / "tests" / "pytest.ini"), "--rootdir", str(ROOT),
        str(ROOT / "tests"), str(ROOT / "python"), str(ROOT / "examples"),
    ]  # fmt: skip


def count(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped test cases of a JUnit file."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    parser.add_argument("--suite", action="append", choices=SUITES)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--slow", action="store_true", help="also what takes half an hour")
    arguments = parser.parse_args()

    build = arguments.build.resolve()
    results = build / "test-results"
    results.mkdir(parents=True, exist_ok=True)
    # Tests compile; those of the cache have one of their own.
    environment = os.environ | {"KNAPPER_BUILD": str(build), "KNAPPER_CACHE": "off"}
    total_passed = total_failed = total_skipped = 0
    lines = []
    for suite in arguments.suite or SUITES:
        report = results / f"{suite}.xml"
        report.unlink(missing_ok=True)
        line = command(suite, build, report, arguments.jobs, arguments.slow)
        if line is None:
            lines.append(f"{suite}: not part of this build")
            continue
        print(f"== {suite}", flush=True)
        start = time.monotonic()
        status = subprocess.run(line, cwd=ROOT, env=environment).returncode
        passed = failed = skipped = 0
        if report.exists():
            passed, failed, skipped = count(report)
        if status != 0 and failed == 0:
            failed = 1
            lines.append(f"{suite}: ended with status {status}")
        seconds = time.monotonic() - start
        lines.append(
            f"{suite}: {passed} passed, {failed} failed, {skipped} skipped "
            f"in {seconds:.0f} s"
        )
        total_passed += passed
        total_failed += failed
        total_skipped += skipped
    print("\n" + "\n".join(lines))
    print(f"{total_skipped} skipped")
    print(f"{total_passed} passed, {total_failed} failed")
    return 1 if total_failed else 0


if __name__ == "__main__":
    sys.exit(main())
