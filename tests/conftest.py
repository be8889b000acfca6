"""What all tests share: threads (`at_once`), and how the files of tests are handed to the workers of --dist loadfile.
A worker takes one file after the other.

A long file that comes last leaves the other workers idle, so the longest come first. And what a worker that
died has left goes to the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

try:
    from xdist.scheduler import LoadFileScheduling
except ImportError:  # not installed

    LoadFileScheduling = object

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
    "tests/pytorch/random_functions_test.py",
    "tests/stablehlo/random_programs_test.py",
    "tests/pytorch/autograd_cache_test.py",
    "tests/cli/memory_test.py",
    "tests/sweep/sweep_test.py",
)


@pytest.fixture(scope="session")
def at_once() -> Callable[[Callable, Iterable], None]:
    """`at_once(work, arguments)`: calls `work` once an argument, each in a thread of its own, and waits for all."""

    def run(work: Callable, arguments: Iterable) -> None:
        threads = [threading.Thread(target=work, args=(each,)) for each in arguments]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return run


def pytest_collection_modifyitems(items) -> None:
    rank = {ROOT / file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))  # stable: within a file nothing moves


class FileScheduling(LoadFileScheduling):
    """LoadFileScheduling of pytest-xdist 3.8, in which a session never ends after the death of a worker: the test
    that killed it and the files that it had finished are handed out again, and a worker that is given a finished
    file waits for ever."""

    def remove_node(self, node) -> str | None:
        files = self.assigned_work.pop(node)
        killer = next((test for tests in files.values() for test, done in tests.items() if not done), None)
        if killer is None:
            return None
        for tests in files.values():
            if killer in tests:
                tests[killer] = True
        self.workqueue.update({file: tests for file, tests in files.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return killer


@pytest.hookimpl(optionalhook=True)  # without -n
def pytest_xdist_make_scheduler(config, log):
    return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None
