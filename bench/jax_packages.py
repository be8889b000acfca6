"""Test folders of packages above JAX, on `knapper` beside JAX's own CPU: which tests pass on one alone.

    python -m venv packages && packages/bin/pip install jax==0.10.2 optax flax numpyro equinox chex distrax pytest absl-py scikit-learn
    pip download --no-deps --no-binary :all: optax flax numpyro chex distrax      # unpack them
    KNAPPER_LIBRARY=.../libknapper.so packages/bin/python bench/jax_packages.py optax-0.2.8 [--every N] [--match TEXT]

A process a file and platform, which may end as it likes: a process that a signal ends is reported with its file.
`--every N` takes every Nth test of a file. A line a file, then the tests that pass on JAX's CPU alone, with the
last line of what went wrong, then a line a package.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure(config: object) -> None:
    """As a plugin of pytest's in the processes that run tests."""
    if os.environ["JAX_PLATFORMS"] != "cpu":
        import knapper.jax

        knapper.jax.install(device="cpu")


def pytest_collection_modifyitems(items: list) -> None:
    items[:] = items[:: int(os.environ.get("KNAPPER_TEST_EVERY", "1"))]


def outcomes(file: Path, root: Path, platform: str, arguments: argparse.Namespace) -> tuple[dict[str, str], str]:
    """Of each test "" where it passed, else the last line of its error or "skipped"; how the process ended."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        environment = {
            **os.environ, "JAX_PLATFORMS": platform, "KNAPPER_TEST_EVERY": str(arguments.every),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "bench"), str(ROOT / "python"), str(root)]),
        }  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-q", "-p", "jax_packages", "-p", "no:cacheprovider", f"--junit-xml={report}", str(file)]
        try:
            done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=arguments.timeout, check=False)
        except subprocess.TimeoutExpired:
            return {}, f"took more than {arguments.timeout} s"
        if done.returncode < 0:
            return {}, f"ended by signal {-done.returncode}"
        if not report.exists():
            return {}, (done.stdout + done.stderr).strip().splitlines()[-1]
        found = {}
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            problem = next((each for each in case if each.tag in ("failure", "error")), None)
            skipped = any(each.tag == "skipped" for each in case)
            text = "" if problem is None else (problem.get("message") or problem.text or "failed").strip()
            lines = [line for line in text.splitlines() if line.strip()]
            found[f"{case.get('classname')}.{case.get('name')}"] = "skipped" if skipped else " / ".join(lines[:2])[:240]
        return found, ""


def test_files(root: Path) -> list[Path]:
    files = [*root.rglob("*_test.py"), *root.rglob("test_*.py")]
    return sorted(file for file in set(files) if "build" not in file.parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("roots", nargs="+", type=Path, help="unpacked source distributions")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--match", default="", help="in the path of a file")
    parser.add_argument("--timeout", type=int, default=900, help="seconds a file and platform")
    arguments = parser.parse_args()
    worst = 1.0
    for root in (each.resolve() for each in arguments.roots):
        right = total = died = 0
        for file in test_files(root):
            name = str(file.relative_to(root))
            if arguments.match not in name:
                continue
            wanted, problem = outcomes(file, root, "cpu", arguments)
            passing = [test for test, outcome in wanted.items() if outcome == ""]
            if problem or not passing:
                print(f"{root.name} {name}: nothing passes on JAX's CPU {problem}", flush=True)
                continue
            given, problem = outcomes(file, root, "knapper,cpu", arguments)
            died += problem.startswith("ended by")
            missing = [test for test in passing if given.get(test, problem or "was not run") != ""]
            right += len(passing) - len(missing)
            total += len(passing)
            print(f"{root.name} {name}: {len(passing) - len(missing)} of {len(passing)} {problem}", flush=True)
            for test in missing:
                print(f"  {test}: {given.get(test, problem or 'was not run')}", flush=True)
        if total:
            print(f"{root.name}: {right} of {total} ({right / total:.1%}) of what passes on JAX's CPU, {died} processes died", flush=True)
            worst = min(worst, right / total if not died else 0.0)
    return 0 if worst >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
