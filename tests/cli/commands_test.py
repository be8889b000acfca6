"""What every command does when all is well."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from tool_models import TOOL, affine, environment

PACKAGE = Path(__file__).resolve().parents[2] / "python"


def expected(x, scale=2.0):
    return np.maximum(x * np.float32(scale) + 1, 0)


def test_version(tool):
    assert re.fullmatch(r"knapper \d+\.\d+\.\d+\n", tool("version"))


def test_version_as_a_flag(tool):
    assert tool("--version") == tool("version")


def test_python_has_the_command(tool, model):
    """The package's command is the library's own."""
    def call(*words):
        return subprocess.run([sys.executable, "-m", "knapper", *words], capture_output=True, text=True,
                              env=environment(model.parent) | {"PYTHONPATH": str(PACKAGE)})  # fmt: skip

    assert call("--version").stdout == tool("--version")
    done = call("run", str(model), "--dim", "n=2")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", tool("run", model, "--dim", "n=2"))
    done = call("run", str(model))
    assert done.returncode == 1 and "size 'n' has no value" in done.stderr


def test_sizes_are_chosen_when_asked_for(tool, model):
    out = tool("run", model, "--dim", "auto")
    assert out.startswith("sizes chosen: n=1\ny: f32 [1, 4]")
    assert tool("run", model, "--dim", "auto", "--dim", "n=3").startswith("y: f32 [3, 4]")
    assert json.loads(tool("bench", model, "--dim", "auto", "--seconds", "0.05", "--json"))["inputs"] == ["f32 [1, 4]"]
    assert tool("profile", model, "--dim", "auto").startswith("sizes chosen: n=1\n")


def test_inspect_of_what_cannot_compile_fails(tool, tmp_path):
    from onnx import TensorProto, helper

    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])  # noqa: E731
    nodes = [helper.make_node("Frobnicate", ["x"], ["h"], domain="corp"), helper.make_node("Blur", ["h"], ["y"], domain="corp")]
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("corp", 1)]), "odd.onnx")
    done = subprocess.run([TOOL, "inspect", "odd.onnx"], capture_output=True, text=True, env=environment(tmp_path))
    assert done.returncode == 1
    assert "Frobnicate" in done.stdout and "Blur" in done.stdout and "''" not in done.stdout
    done = subprocess.run([TOOL, "inspect", "--json", "odd.onnx"], capture_output=True, text=True, env=environment(tmp_path))
    assert done.returncode == 1 and len(json.loads(done.stdout)["unsupported"]) == 2


def test_cache_list_is_short(tool, model):
    for isa in ("x86-64-v3", "x86-64-v4", "x86-64-v3,x86-64-v4"):
        tool("compile", model, "--isa", isa)
    lines = tool("cache", "list", "--limit", "2").splitlines()
    assert lines[0].startswith("3 entries, ") and len(lines) == 4
    assert lines[-1] == "and 1 more: --limit N shows N"
    assert len(tool("cache", "list").splitlines()) == 4


def test_help_teaches(tool):
    text = tool("--help")
    assert "Exit codes" in text and "knapper compile model.onnx" in text
    text = tool("compile", "--help")
    for part in ("--isa", "--no-cache", "--dump-dir", "simplify", "find-composites"):
        assert part in text


def test_help_as_people_ask_for_it(tool):
    assert tool("help") == tool("--help")
    assert tool("help", "compile") == tool("compile", "--help")
    assert tool("help", "cache", "list") == tool("cache", "list", "--help")
    assert tool("-V") == tool("--version")
    assert "no command is given" in tool(code=1) and "knapper cache --help" in tool("cache", code=1)
    assert "there is no command 'hepl'" in tool("help", "hepl", code=1)


def test_each_command_has_examples_of_its_own(tool):
    top = re.findall(r"^  ([a-z-]+) ", tool("--help").split("Subcommands:")[1].split("For example")[0], re.M)
    parts = [("cache", part) for part in ("list", "explain", "prune")] + [("records", part) for part in ("show", "merge", "diff")]
    named = [(name,) for name in top if name not in ("version", "help")] + parts
    assert len(named) > 20
    for words in named:
        text = tool(*words, "--help")
        assert f"knapper {' '.join(words)}" in text.split("For example")[-1], words
        assert "Exit codes: 0 done" not in text, words


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
