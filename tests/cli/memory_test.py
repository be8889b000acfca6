"""Out of memory is an error of the machine, whatever asks for it."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tool_models import TOOL, environment

from export import ensure, folder

MEGABYTE = 1 << 20
SEED = Path(__file__).resolve().parents[1] / "onnx_fuzz" / "seeds" / "transformer.onnx"

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not built")


def limited(limit: int, tmp_path: Path, *arguments) -> subprocess.CompletedProcess:
    return subprocess.run(
        [TOOL, *map(str, arguments)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        cwd=tmp_path,
        env=environment(tmp_path) | {"KNAPPER_CACHE": "false"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def ended_well(done: subprocess.CompletedProcess) -> bool:
    """True when it did its work, False when it said that memory is out."""
    if done.returncode == 0:
        return True
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert "device error" in done.stderr and "memory" in done.stderr, done.stderr
    return False


def least(tmp_path: Path) -> int:
    """The address space with which the tool does anything, to 4 MB."""
    low, high = 16 * MEGABYTE, 2048 * MEGABYTE
    while high - low > 4 * MEGABYTE:
        middle = (low + high) // 2
        if limited(middle, tmp_path, "version").returncode == 0:
            high = middle
        else:
            low = middle
    return high


def sweep(tmp_path, steps, width, *arguments) -> list[bool]:
    base = least(tmp_path)
    return [
        ended_well(limited(base + width * i // steps, tmp_path, *arguments))
        for i in range(steps + 1)
    ]


def test_compile(tmp_path):
    """From too little for anything to enough: never an abort, no file left."""
    before = set(tmp_path.iterdir())
    ends = sweep(tmp_path, 24, 300 * MEGABYTE, "compile", SEED, "-o", "m.knap")
    assert not ends[0] and ends[-1]
    assert {p.name for p in set(tmp_path.iterdir()) - before} <= {"m.knap"}


def test_large_model(tmp_path):
    """Compile, load and run of GPT-2, whose weights alone are 650 MB."""
    ensure(["gpt2"])
    model, path = folder() / "gpt2.onnx", tmp_path / "gpt2.knap"
    ends = sweep(tmp_path, 8, 1200 * MEGABYTE, "compile", model, "-o", path)
    assert not ends[0] and ends[-1]
    sizes = ["--dim", "batch=1", "--dim", "sequence=64"]
    ends = sweep(tmp_path, 16, 1000 * MEGABYTE, "run", path, *sizes)
    assert not ends[0] and ends[-1]
    # More than any limit: sizes that the run cannot have.
    done = limited(4096 * MEGABYTE, tmp_path, "run", path,
                   "--dim", "batch=512", "--dim", "sequence=512")  # fmt: skip
    assert not ended_well(done)
    path.unlink()


def constants(nodes, inputs, **initializers):
    return helper.make_model(helper.make_graph(
        [helper.make_node(*n, **k) for *n, k in nodes], "g", [helper.make_tensor_value_info("x", 1, [3])] if inputs else [],
        [helper.make_tensor_value_info("y", 1, None)], [numpy_helper.from_array(np.asarray(v), k) for k, v in initializers.items()]),
        opset_imports=[helper.make_opsetid("", 21)], ir_version=9)  # fmt: skip


def expanded(count: int, op="ReduceSum"):
    """The sum of as many ones: a file of 300 bytes."""
    last = ("CumSum", ["e", "zero"], ["c"], {}) if op == "CumSum" else ("ReduceSum", ["e"], ["q"], {"keepdims": 0})
    nodes = [("Expand", ["one", "s"], ["e"], {}), last]
    if op == "CumSum":
        nodes.append(("ReduceSum", ["c"], ["q"], {"keepdims": 0}))
    nodes.append(("Add", ["x", "q"], ["y"], {}))
    return constants(nodes, True, one=np.float32(1), s=np.int64([count]), zero=np.int64(0))


def ranged(count: int):
    nodes = [("Range", ["a", "b", "c"], ["r"], {}), ("ReduceMax", ["r"], ["q"], {"keepdims": 0}), ("Add", ["x", "q"], ["y"], {})]
    return constants(nodes, True, a=np.float32(0), b=np.float32(count), c=np.float32(1))


@pytest.mark.parametrize("name", ["ReduceSum", "CumSum", "Range"])
def test_evaluating_constants_takes_memory(tmp_path, name):
    """Too little is the machine's error, and more than a model may ask for the model's."""
    def make(count):
        onnx.save(ranged(count) if name == "Range" else expanded(count, name), tmp_path / "m.onnx")
        return tmp_path / "m.onnx"

    for limit in (1 << 30, 3 << 29):
        assert not ended_well(limited(limit, tmp_path, "compile", make(1 << 27), "-o", "m.knap"))
    done = limited(64 << 30, tmp_path, "compile", make(1 << 31), "-o", "m.knap")
    assert done.returncode == 1 and "depends on constants only takes" in done.stderr, done.stderr
    assert limited(64 << 30, tmp_path, "compile", make(1 << 16), "-o", "m.knap").returncode == 0


def test_a_constant_as_large_as_its_kernel_wants_it(tmp_path):
    """A matrix of one number: 300 bytes, packed into 16 GB."""
    nodes = [("Expand", ["one", "s"], ["e"], {}), ("MatMul", ["x2", "e"], ["y"], {})]
    made = constants([("Expand", ["x0", "s0"], ["x2"], {})] + nodes, True, one=np.float32(2), s=np.int64([1 << 16, 1 << 16]),
                     s0=np.int64([1, 1 << 16]), x0=np.float32(1))  # fmt: skip
    onnx.save(made, tmp_path / "m.onnx")
    done = limited(64 << 30, tmp_path, "compile", "m.onnx", "-o", "m.knap")
    assert done.returncode == 1 and "takes" in done.stderr, done.stderr
