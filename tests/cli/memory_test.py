"""Out of memory is an error of the machine, whatever asks for it."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest
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
