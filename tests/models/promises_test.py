"""What holds for every model of the bars beside its numbers: it is compiled and
run with nothing else there, in the memory that was planned."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from export import NAMES, ensure, folder
from models_test import LIMIT

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KNAPPER_BUILD", ROOT / "build" / "dev"))
PLAN = BUILD / "tests" / "models" / "knapper-plan"
PEER_FILES = re.compile(r"onnx|torch|openvino|libdnnl|mkl|tvm|iree|libclang|ptxas|nvcc")
OTHER_MEMORY = 6e6  # beside all that is counted: the library, code, the artefact's tables
FRAGMENTATION = 1.10


def alone(library: str, *arguments: Path | str) -> dict:
    """One task of alone.py with no program in reach."""
    nowhere = Path(arguments[-1]).parent / "nowhere"
    nowhere.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("alone.py"), *arguments],
        env={
            "PATH": str(nowhere),
            "HOME": str(nowhere),
            "PYTHONPATH": str(ROOT / "python"),
            "KNAPPER_LIBRARY": str(BUILD / "capi" / library),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    loaded = {Path(file).name for file in result["mapped"]}
    assert not [name for name in loaded if PEER_FILES.search(name)]
    return result


def test_the_fence_holds(tmp_path):
    """alone.py would notice: a spawned program ends it, a peer is refused."""
    script = Path(__file__).with_name("alone.py")
    done = subprocess.run([sys.executable, script, "spawn"], capture_output=True)
    assert done.returncode == -signal.SIGSYS
    code = "import alone, sys; sys.meta_path.insert(0, alone.NoPeers()); import onnx"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=script.parent, capture_output=True, text=True
    )
    assert "stands alone" in done.stderr


@pytest.fixture(scope="module", params=NAMES)
def artefact(request, tmp_path_factory):
    name = request.param
    ensure([name])
    path = tmp_path_factory.mktemp(name) / f"{name}.knap"
    alone("libknapper.so", "compile", folder() / f"{name}.onnx", path)
    yield name, path
    path.unlink()


def test_runs_alone_in_planned_memory(artefact):
    """The runtime library only: neither LLVM nor the reference evaluator is in
    the process, the numbers are right. Memory is that of the interpreter, weights,
    plan, inputs and outputs, and a little: the interpreter's own differs between
    machines, so it is measured."""
    name, path = artefact
    feed = folder() / f"{name}.0.npz"
    result_file = path.with_name("result.npz")
    done = alone("libknapper_rt.so", "run", path, feed, result_file)
    loaded = {Path(file).name for file in done["mapped"]}
    assert [name for name in loaded if name.startswith("libknapper_rt")]
    assert not [name for name in loaded if re.search("LLVM|MLIR|libknapper.so", name)]
    with np.load(feed) as wanted, np.load(result_file) as got:
        for output in got.files:
            want = wanted[f"out.{output}"]
            error = np.abs(got[output] - want).max() / np.abs(want).max()
            assert error <= LIMIT, f"{name} {output}: {error:.1e}"
    planned = done["planned"]["constants"] + done["planned"]["arena"]
    other = done["peak"] - done["before"] - planned - done["arrays"]
    assert other <= OTHER_MEMORY, done
    print(f"{name}: peak {done['peak'] / 1e6:.0f} MB, not counted {other / 1e6:.1f} MB")


def test_arena_is_little_larger_than_what_is_alive(artefact):
    """At the three sizes, and at one as large as a server's."""
    name, path = artefact
    sizes = [(1, 128), (8, 128), (2, 33), (3, 7), (16, 512)]
    for batch, sequence in sizes:
        done = subprocess.run(
            [PLAN, path, str(batch), str(sequence)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        plan = json.loads(done.stdout)
        assert plan["arena"] > 0
        assert plan["arena"] <= FRAGMENTATION * plan["live"], (batch, sequence, plan)
