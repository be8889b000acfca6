"""Damaged models that import accepts are compiled and run.

Each must give results or an error of a known kind; a crash, a hang or an
InternalError fails. KNAPPER_FUZZ_CASES says how many models are damaged
(default 600, about one in eight is accepted); 5000 is the bar.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("KNAPPER_BUILD", "build/dev")).resolve()
PROGRAM = BUILD / "tests" / "onnx_fuzz" / "onnx-fuzz"
CASES = int(os.environ.get("KNAPPER_FUZZ_CASES", "600"))
TIMEOUT = 60


def size(dim: int | str) -> int:
    """A size for every symbol: 3."""
    if isinstance(dim, int):
        return dim
    known = {"min": min, "max": max, "floordiv": lambda a, b: a // b,
             "mod": lambda a, b: a % b}  # fmt: skip
    names = set(re.findall(r"[A-Za-z_][\w.]*", dim)) - set(known)
    try:
        return int(eval(dim, {"__builtins__": {}}, known | {n: 3 for n in names}))
    except Exception:  # a name that is no identifier
        return 3


def run(path: str) -> str:
    import knapper

    try:
        module = knapper.compile(path, threads=1, cache=False)
        random = np.random.default_rng(0)
        inputs = []
        for info in module.inputs:
            shape = [size(d) for d in info.shape]
            if np.prod(shape, dtype=float) > 1 << 22:
                return "ok too large to run"
            array = random.integers(0, 2, shape) + random.random(shape)
            names = {"f32": "f4", "f64": "f8", "f16": "f2", "i1": "?"}
            inputs.append(array.astype(names.get(info.dtype) or
                                       info.dtype[0] + str(int(info.dtype[1:]) // 8)))
        module(*inputs)
        return "ok"
    except (knapper.UserError, knapper.DeviceError) as error:
        return f"ok {type(error).__name__}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:500]


def worker() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(run(line.strip())) + "\n")


def answers(paths: list[Path]) -> dict[Path, str]:
    found, process = {}, None
    for path in paths:
        if process is None or process.poll() is not None:
            process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        timer = threading.Timer(TIMEOUT, process.kill)
        timer.start()
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        timer.cancel()
        found[path] = json.loads(line) if line else f"ended with {process.wait()}"
    if process is not None:
        process.stdin.close()
        process.wait()
    return found


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_accepted_models_run(tmp_path):
    subprocess.run(
        [PROGRAM, FOLDER / "seeds", "--count", str(CASES), "--write", tmp_path],
        check=True,
    )
    paths = sorted(tmp_path.glob("*.onnx"), key=lambda p: int(p.stem))
    assert len(paths) >= CASES // 20
    bad = {p.stem: a for p, a in answers(paths).items() if not a.startswith("ok")}
    assert not bad, "\n".join(f"case {k}: {v}" for k, v in bad.items())


if __name__ == "__main__":
    worker()
