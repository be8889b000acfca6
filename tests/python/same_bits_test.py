"""The bits of a result depend on the artefact alone: not on threads, nor on who else runs it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading

import numpy as np
import pytest
from affine_models import build
from onnx import TensorProto, helper, numpy_helper

import knapper

FLOAT = TensorProto.FLOAT
RANDOM = np.random.default_rng(11)
PROCESSES, THREADS = 2, 10


def weight(name, *shape):
    return numpy_helper.from_array(RANDOM.standard_normal(shape).astype(np.float32), name)


@pytest.fixture(scope="module")
def artefact(tmp_path_factory):
    """A convolution, matmuls, softmax, a norm and sums along every side: all that is split."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "filter"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("MatMul", ["r", "w"], ["m"]),
        node("Softmax", ["m"], ["s"], axis=-1),
        node("LayerNormalization", ["m", "scale"], ["l"], axis=-1),
        node("MatMul", ["s", "l"], ["p"]),
        node("ReduceSum", ["p", "all"], ["total"]),
        node("ReduceMean", ["p", "channels"], ["mean"]),
        node("CumSum", ["mean", "last"], ["run"]),
    ]
    model = build(
        nodes,
        [("x", FLOAT, ("n", 8, 48, 48))],
        [("total", FLOAT, (1, 1, 1, 1)), ("run", FLOAT, ("n", 1, 48, 48)), ("p", FLOAT, ("n", 24, 48, 48))],
        [weight("filter", 24, 8, 3, 3), weight("w", 48, 48), weight("scale", 48),
         numpy_helper.from_array(np.array([0, 1, 2, 3]), "all"),
         numpy_helper.from_array(np.array([1]), "channels"),
         numpy_helper.from_array(np.array(3), "last")],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("bits") / "m.knap"
    knapper.compile(model, threads=2, cache=False).save(path)
    return path


def digest(module, n=3) -> str:
    x = np.random.default_rng(n).standard_normal((n, 8, 48, 48)).astype(np.float32)
    return hashlib.sha256(b"".join(np.asarray(y).tobytes() for y in module(x))).hexdigest()


def all_digests(path) -> list[str]:
    """Of ten threads at a time: some share a module, some have one of another number of threads."""
    shared = knapper.load(path, threads=3)
    found: list[str] = []

    def work(i):
        module = shared if i % 2 else knapper.load(path, threads=1 + i % 8)
        found.extend(digest(module) for _ in range(4))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_threads_change_no_bit(artefact):
    for n in (1, 3):
        assert len({digest(knapper.load(artefact, threads=t), n) for t in range(1, 9)}) == 1


def test_two_processes_and_ten_threads(artefact):
    command = [sys.executable, __file__, str(artefact)]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(PROCESSES)]
    found = [d for run in runs for d in json.loads(run.communicate(timeout=300)[0])]
    assert all(run.returncode == 0 for run in runs)
    assert len(found) == PROCESSES * THREADS * 4
    assert set(found) == {digest(knapper.load(artefact, threads=1))}


if __name__ == "__main__":
    print(json.dumps(all_digests(sys.argv[1])))
