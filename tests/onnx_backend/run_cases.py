#!/usr/bin/env python3
"""Runs ONNX's own backend tests and writes the list of what does not pass.

    run_cases.py [--category Node]... [--filter REGEX] [--jobs N]
                 [--json FILE] [--write docs/onnx-backend.md] [--as-given]

The cases are the installed package's (`onnx.backend.test`): node, simple and
PyTorch cases and the light whole models. They run in worker processes, so that
a crash counts for its case only. Every case ends in one of

    passed      the numbers agree
    refused     a UserError, with its reason
    random      shapes and types agree; the numbers are random by definition
    wrong       other numbers, shapes or types
    broken      any other error, or a crash

Small inputs that a case needs to be constants (axes, shapes) become some;
--as-given leaves them inputs, so that such a case is refused.

Exits 1 when a case is wrong or broken.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
CATEGORIES = ("Node", "Simple", "PyTorchConverted", "PyTorchOperator", "Real")
TIMEOUT = 300


def load() -> dict[str, dict[str, object]]:
    """Test methods by category and name, for the CPU."""
    sys.path.insert(0, str(FOLDER))
    warnings.simplefilter("ignore")
    import expectations
    import onnx.backend.test
    from knapper_backend import KnapperBackend

    class Test(onnx.backend.test.BackendTest):
        @classmethod
        def assert_similar_outputs(cls, ref_outputs, outputs, rtol, atol, *rest, **more):
            ref_outputs = expectations.exact(current) or ref_outputs
            if expectations.is_random(current):
                assert [(x.shape, x.dtype) for x in outputs] == [
                    (np.shape(x), x.dtype) for x in ref_outputs
                ]
                raise RandomResult
            super().assert_similar_outputs(ref_outputs, outputs, rtol, atol, *rest, **more)

    classes = Test(KnapperBackend, __name__).test_cases
    cases: dict[str, dict[str, object]] = {}
    for name, made in classes.items():
        category = name[len("OnnxBackend") : -len("Test")].removesuffix("Model")
        cases[category] = {
            n: made for n in dir(made) if n.startswith("test_") and n.endswith("_cpu")
        }
    return cases


class RandomResult(Exception):
    """A case has run and its numbers cannot be compared."""


current = ""  # the case that runs


def run_one(made: type, name: str) -> tuple[str, str]:
    global current
    import knapper

    from knapper_backend import Prepared

    current = name
    try:
        getattr(made(name), name)()
        return "passed", Prepared.adapted
    except RandomResult:
        return "random", "the numbers are random by definition; shapes and types agree"
    except unittest.SkipTest as error:
        return "skipped", str(error)
    except knapper.UserError as error:
        return "refused", str(error)
    except AssertionError as error:
        return "wrong", str(error)
    except BaseException as error:  # every end of a case is a result
        return "broken", f"{type(error).__name__}: {error}"


def worker() -> int:
    cases = load()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        category, name = line.split()
        status, reason = run_one(cases[category][name], name)
        answers.write(json.dumps([status, reason[:2000]]) + "\n")
    return 0


def drive(names: list[tuple[str, str]], results: dict, home: str) -> None:
    """Feeds a worker case by case; a dead or slow one is replaced."""
    process = None
    for category, name in names:
        if process is None or process.poll() is not None:
            process = subprocess.Popen(
                [sys.executable, __file__, "--worker"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
                env=os.environ | {"ONNX_HOME": home},
            )  # fmt: skip
        timer = threading.Timer(TIMEOUT, process.kill)
        timer.start()
        try:
            process.stdin.write(f"{category} {name}\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        timer.cancel()
        if line:
            results[category, name] = tuple(json.loads(line))
        else:
            results[category, name] = ("broken", f"ended with {process.wait()}")
    if process is not None:
        process.stdin.close()
        process.wait()


def brief(reason: str) -> str:
    """A refusal without what names one case only."""
    text = reason.split("\n  try:")[0]
    text = text.replace("the model needs what is not supported yet:", "")
    text = re.sub(r"; \d+ nodes?: .*", "", text, flags=re.M)
    text = re.sub(r"node '[^']*' ", "", text)
    text = re.sub(r"input '[^']*': (has|is)", r"an input \1", text)
    text = re.sub(r"^the model: ", "", text.strip())
    return " ".join(text.split())[:160]


def render(results: dict) -> str:
    """The page of what does not pass."""
    import onnx

    count = collections.Counter()
    for (category, _), (status, reason) in results.items():
        count[category, status] += 1
        if status == "passed" and reason:
            count[category, reason] += 1
    lines = [
        "# ONNX backend tests",
        "",
        f"Generated by `tests/onnx_backend/run_cases.py --write` from onnx "
        f"{onnx.__version__}; the suite checks that it is current. Every case that does not pass is refused with the "
        f"reason given here, or gives random numbers.",
        "",
        "Of those that pass, some need what models know and the cases give as inputs (axes, shapes, small tables) as constants of the model; where no input "
        "is left then, the compiler folds the whole case and no kernel runs. The expected values of test_dft_inverse and test_dft_inverse_opset19 "
        "are computed again in float64 (`tests/onnx_backend/expectations.py`).",
        "",
        "| cases | passed | of them with constants | of them folded | random | refused | wrong | broken |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for category in CATEGORIES:
        row = [count[category, s] for s in ("passed", "random", "refused", "wrong", "broken")]
        row[1:1] = [count[category, "constants"], count[category, "folded"]]
        if any(row):
            lines.append(f"| {category} | " + " | ".join(map(str, row)) + " |")
    for status in ("wrong", "broken", "random", "refused"):
        groups = collections.defaultdict(list)
        for (_, name), (got, reason) in results.items():
            if got == status:
                groups[brief(reason)].append(name.removesuffix("_cpu"))
        if groups:
            lines += ["", f"## {status.capitalize()}", ""]
        for reason, names in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0])):
            lines.append(f"- {reason} ({len(names)}): {', '.join(sorted(names))}")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--category", action="append", choices=CATEGORIES)
    parser.add_argument("--filter", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--as-given", action="store_true", help="no input is made a constant")
    arguments = parser.parse_args()
    if arguments.as_given:
        if arguments.write:
            parser.error("the page is of cases whose small inputs may become constants")
        os.environ["KNAPPER_AS_GIVEN"] = "1"
    if arguments.worker:
        return worker()

    names = [
        (category, name)
        for category, cases in load().items()
        if category in (arguments.category or CATEGORIES)
        for name in sorted(cases)
        if re.search(arguments.filter, name)
    ]
    results: dict[tuple[str, str], tuple[str, str]] = {}
    with tempfile.TemporaryDirectory() as home:
        threads = [
            threading.Thread(
                target=drive, args=(names[i :: arguments.jobs], results, home)
            )
            for i in range(arguments.jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for (category, name), (status, reason) in sorted(results.items()):
        if status in ("wrong", "broken"):
            print(f"{status} {category} {name}: {' '.join(reason.split())[:200]}")
    count = collections.Counter(status for status, _ in results.values())
    print(", ".join(f"{n} {status}" for status, n in sorted(count.items())))
    if arguments.json:
        arguments.json.write_text(
            json.dumps([[*k, *v] for k, v in sorted(results.items())], indent=1)
        )
    if arguments.write:
        arguments.write.write_text(render(results))
    return 1 if count["wrong"] or count["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
