"""What every command does when all is well."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess

import numpy as np
from tool_models import TOOL, affine, environment


def expected(x, scale=2.0):
    return np.maximum(x * np.float32(scale) + 1, 0)


def test_version(tool):
    assert re.fullmatch(r"knapper \d+\.\d+\.\d+\n", tool("version"))


def test_help_teaches(tool):
    text = tool("--help")
    assert "Exit codes" in text and "knapper compile model.onnx" in text
    text = tool("compile", "--help")
    for part in ("--isa", "--no-cache", "--dump-dir", "simplify", "find-composites"):
        assert part in text


def test_compile_run_npy(tool, model, tmp_path):
    out = tool("compile", model, "-o", "m.knap")
    assert "m.knap" in out and "launches" in out and "pack" in out
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.save("x.npy", x)
    out = tool("run", "m.knap", "-i", "x.npy", "-o", "y.npy", "-o", "all.npz")
    assert out.startswith("y: f32 [3, 4]")
    np.testing.assert_allclose(np.load("y.npy"), expected(x), rtol=1e-6)
    np.testing.assert_array_equal(np.load("all.npz")["y"], np.load("y.npy"))


def test_output_has_a_default_name(tool, model, tmp_path):
    tool("compile", model)
    assert (tmp_path / "m.knap").exists()
    assert not list(tmp_path.glob("*.tmp"))


def test_inputs_of_all_kinds(tool, model):
    x = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    tool("compile", model)
    np.savez("stored.npz", x=x)
    np.savez_compressed("packed.npz", x=x)
    np.save("fortran.npy", np.asfortranarray(x))
    for source in ("stored.npz", "packed.npz", "fortran.npy", "x=fortran.npy"):
        tool("run", "m.knap", "--input", source, "--output", "y=y.npy")
        np.testing.assert_allclose(np.load("y.npy"), expected(x), rtol=1e-6)


def test_random_inputs_have_a_seed(tool, model):
    tool("compile", model)
    run = ("run", "m.knap", "--dim", "n=5")
    assert tool(*run) == tool(*run)
    assert tool(*run) != tool(*run, "--seed", "1")
    assert "[5, 4]" in tool(*run)


def test_run_compiles(tool, model):
    assert "y: f32 [2, 4]" in tool("run", model, "--dim", "n=2", "--threads", "1")


def test_profile(tool, model):
    tool("compile", model)
    said = tool("profile", "m.knap", "--dim", "n=64", "--runs", "2")
    assert said.startswith("m.trace.json: 2 runs of 1 launches")
    with open("m.trace.json") as file:
        events = json.load(file)["traceEvents"]
    runs = [e for e in events if e.get("cat") == "run"]
    kernels = [e for e in events if e.get("tid") == 2 and e["ph"] == "X"]
    assert [e["name"] for e in runs] == ["run 1", "run 2"] and len(kernels) == 2
    for run, kernel in zip(runs, kernels):
        assert run["ts"] <= kernel["ts"] and kernel["dur"] > 0
        assert kernel["ts"] + kernel["dur"] <= run["ts"] + run["dur"]
        assert kernel["cat"] == "pointwise" and "clip" in kernel["name"]
        assert kernel["args"]["bytes"] == 64 * 4 * 4 * 2
    assert runs[0]["ts"] + runs[0]["dur"] <= runs[1]["ts"]


def test_bench(tool, model):
    tool("compile", model)
    bench = ("bench", "m.knap", "--dim", "n=64", "--iterations", "5")
    text = tool(*bench)
    assert "median" in text and "GB/s" in text and "roofline" in text
    result = json.loads(tool(*bench, "--json"))
    assert result["runs"] == 5 and result["median_ms"] > 0
    assert result["p90_ms"] >= result["median_ms"] >= result["min_ms"]
    (kernel,) = result["kernels"]
    assert kernel["launches"] == 1 and kernel["roofline_percent"] > 0
    assert "sum" in kernel["origin"]


def test_explain(tool, model, tmp_path):
    assert tool("explain", model, "-o", "r.html") == "r.html\n"
    page = (tmp_path / "r.html").read_text()
    assert "http" not in page.replace("http-equiv", "")
    for part in ("id=\"launches\"", "id=\"memory\"", "simplify", "clip"):
        assert part in page
    described = json.loads(tool("explain", model, "--json"))
    assert len(described["launches"]) == 1
    assert described["memory"]["example"]["symbols"] == {"n": 1}


def test_report_escapes_names(tool, tmp_path):
    path = affine(tmp_path / "evil.onnx", name="<img src=x onerror=alert(1)>")
    tool("explain", path, "-o", "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<img" not in page and "&lt;img" in page


def test_inspect(tool, model):
    text = tool("inspect", model)
    assert "input   x: FLOAT [n, 4]" in text and "every operator is known" in text
    assert json.loads(tool("inspect", model, "--json"))["nodes"] == 3


def test_devices(tool):
    text = tool("devices")
    assert "cpu" in text and "cores" in text
    assert json.loads(tool("devices", "--json"))[0]["device"] == "cpu"


def test_stop_after_prints(tool, model, tmp_path):
    text = tool("compile", model, "--stop-after", "simplify")
    assert "func.func" in text
    assert not (tmp_path / "m.knap").exists()


def test_environment_is_a_flag(tool, model):
    text = tool("compile", model, env={"KNAPPER_STOP_AFTER": "import"})
    assert "func.func" in text


def test_completion(tool):
    script = tool("completion", "bash")
    words = subprocess.run(
        ["bash", "-c", script + "COMP_WORDS=(knapper compile --stop); COMP_CWORD=2; "
         "_knapper; echo ${COMPREPLY[@]}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert words.stdout.split() == ["--stop-after"]
    first = subprocess.run(
        ["bash", "-c", script + "COMP_WORDS=(knapper co); COMP_CWORD=1; _knapper; "
         "echo ${COMPREPLY[@]}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert sorted(first.stdout.split()) == ["compare", "compile", "completion"]
    assert tool("completion", "zsh").startswith("#compdef knapper")


def test_progress_on_a_terminal(tool, model, tmp_path):
    leader, follower = pty.openpty()
    done = subprocess.run([TOOL, "compile", model], stdout=subprocess.DEVNULL,
                          stderr=follower, env=environment(tmp_path))  # fmt: skip
    os.close(follower)
    shown = os.read(leader, 65536).decode()
    os.close(leader)
    assert done.returncode == 0
    assert "[1/" in shown and "simplify" in shown
    assert shown.endswith("\r\x1b[K")  # nothing stays on the line


def test_an_interrupted_compile_leaves_nothing(tool, model, tmp_path):
    """Ended in every phase that the terminal shows."""
    before = {p.name for p in tmp_path.iterdir()} | {"cache"}
    for phase in ("simplify", "emit", "pack"):
        leader, follower = pty.openpty()
        process = subprocess.Popen([TOOL, "compile", model, "--no-cache"],
                                   stdout=subprocess.DEVNULL, stderr=follower,
                                   env=environment(tmp_path))  # fmt: skip
        os.close(follower)
        shown = ""
        while phase not in shown:
            shown += os.read(leader, 1024).decode()
        process.kill()
        os.close(leader)
        # Killed in time or not: the whole file or none.
        if process.wait() == 0 or (tmp_path / "m.knap").exists():
            tool("run", "m.knap", "--dim", "n=1")
            (tmp_path / "m.knap").unlink()
        assert {p.name for p in tmp_path.iterdir()} <= before
