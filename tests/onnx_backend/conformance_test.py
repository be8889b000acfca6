"""ONNX's own backend tests on compiled code: the bars.

Slow (a compilation a case); KNAPPER_ONNX_FILTER restricts it to matching names.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
from run_cases import render

FOLDER = Path(__file__).resolve().parent
AS_GIVEN = 1827  # node cases that pass without an input made a constant; more is progress
NODE_REFUSED = 39  # operators of sequences, images; fewer is progress


def test_backend_cases(tmp_path):
    report = tmp_path / "results.json"
    run = subprocess.run(
        [sys.executable, FOLDER / "run_cases.py", "--json", report,
         "--filter", os.environ.get("KNAPPER_ONNX_FILTER", "")],
        capture_output=True, text=True,
    )  # fmt: skip
    print(run.stdout)
    assert report.exists(), run.stderr[-2000:]
    count = collections.Counter()
    results = {}
    constants = 0
    for category, name, status, reason in json.loads(report.read_text()):
        results[category, name] = status, reason
        count[category, status] += 1
        count[category] += 1
        constants += category == "Node" and status == "passed" and reason != ""
    wrong = [k for k in count if k[1] in ("wrong", "broken")]
    assert not wrong, run.stdout[-4000:]
    assert count["Node", "refused"] <= NODE_REFUSED
    assert count["Node", "passed"] + count["Node", "random"] > 0
    if "KNAPPER_ONNX_FILTER" not in os.environ:
        assert count["Node", "passed"] - constants >= AS_GIVEN
    # The light whole models.
    assert count["Real", "passed"] == count["Real"] - count["Real", "skipped"]
    # What does not pass is published, with its reason.
    page = (FOLDER.parents[1] / "docs" / "onnx-backend.md").read_text()
    if f"from onnx {onnx.__version__};" in page and "KNAPPER_ONNX_FILTER" not in os.environ:
        assert page == render(results), (
            "write it again: tests/onnx_backend/run_cases.py --write docs/onnx-backend.md"
        )
