"""Which files of tests come first: with --dist loadfile a worker takes one after the other, and a long one
that comes last leaves the other workers idle."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The longest first; about a minute each and more.
LONGEST = (
    "tests/ops/ops_test.py",
    "tests/models/models_test.py",
    "tests/docs/pages_test.py",
    "tests/graph_fuzz/graph_fuzz_test.py",
    "tests/graph_fuzz/mutations_test.py",
    "tests/onnx_nodes/node_cases_test.py",
    "tests/models/promises_test.py",
    "tests/models/exports_test.py",
    "tests/serving/engine_test.py",
    "tests/cli/memory_test.py",
    "tests/sweep/sweep_test.py",
)


def pytest_collection_modifyitems(items) -> None:
    rank = {ROOT / file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))  # stable: within a file nothing moves
