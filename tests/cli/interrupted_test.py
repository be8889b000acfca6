"""A compile that is ended at any moment leaves a whole artefact or none."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from tool_models import TOOL, environment

MODEL = Path(__file__).resolve().parents[1] / "onnx_fuzz" / "seeds" / "transformer.onnx"
MOMENTS = 12


def compile_into(folder: Path, env: dict[str, str]) -> subprocess.Popen:
    return subprocess.Popen(
        [TOOL, "compile", MODEL, "-o", folder / "m.knap"],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Shells ignore it for their background jobs, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def loads(artefact: Path) -> bool:
    done = subprocess.run([TOOL, "run", artefact], capture_output=True, text=True)
    # Sizes are missing: that is said only after loading.
    return "--dim" in done.stderr or done.returncode == 0


@pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not built")
@pytest.mark.parametrize("cached", [False, True], ids=["compiled", "from_cache"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_interrupted(tmp_path, how, cached):
    env = environment(tmp_path) | {"TMPDIR": str(tmp_path / "temporary")}
    env["KNAPPER_CACHE"] = "true" if cached else "false"
    (tmp_path / "temporary").mkdir()
    whole = tmp_path / "whole"
    whole.mkdir()
    assert compile_into(whole, env).wait() == 0
    start = time.monotonic()
    assert compile_into(whole, env).wait() == 0
    length = time.monotonic() - start
    ended = 0
    # Further moments, earlier ones, where the machine has become so much faster that all compiles were done.
    moments = [length * (moment + 1) / MOMENTS for moment in range(MOMENTS)]
    moments += [length / MOMENTS / 2**halved for halved in range(1, 8)]
    for moment, after in enumerate(moments):
        if moment >= MOMENTS and ended:
            break
        out = tmp_path / f"out{moment}"
        out.mkdir()
        old = moment % 2 == 0
        if old:  # what is there already stays until it is replaced
            (out / "m.knap").write_bytes((whole / "m.knap").read_bytes())
        process = compile_into(out, env)
        time.sleep(after)
        process.send_signal(how)
        ended += process.wait() != 0
        left = [p.name for p in out.iterdir()]
        assert left in ([], ["m.knap"]), left
        assert left or not old
        if left:
            assert loads(out / "m.knap")
    assert ended > 0
    assert not list((tmp_path / "temporary").iterdir())
