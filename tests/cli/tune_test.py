"""knapper tune and knapper records."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tool_models import TOOL


@pytest.fixture
def matmuls(tmp_path):
    """Two matmuls with their activations: kernels with choices."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) / 16, name)
        for name, shape in (("w1", (256, 512)), ("w2", (512, 256)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "middle"),
        helper.make_node("MatMul", ["b", "w2"], ["y"], "second"),
    ]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [tensor("x", TensorProto.FLOAT, ["rows", 256])],
        [tensor("y", TensorProto.FLOAT, ["rows", 256])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    return "m.onnx"


def record(signature, choice, gain=1.5):
    return {"signature": signature, "target": "cpu", "choice": choice, "gain": gain}


def write(path, *records):
    path.write_text(json.dumps({"knapper_tuning": 1, "records": list(records)}))
    return path.name


def knobs(tool, artefact):
    """Of each kernel: its knobs by name."""
    report = json.loads(tool("explain", artefact, "--json"))["report"]
    return {k["signature"]: {b["name"]: b for b in k["knobs"]} for k in report["unique_kernels"]}


def test_tune_keeps_its_budget_and_installs(tool, matmuls, tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = json.loads(tool("tune", matmuls, "--budget", "12s", "--dim", "rows=256", "--threads", "1", "--json"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Of a processor: by the clock it takes as long as other work on the machine lets it.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 12 * 1.1
    assert done["rounds"] >= 1 and done["measured"] >= 2 and done["gain"] >= 1
    assert all(kernel["measured"] <= 64 for kernel in done["kernels"])
    assert done["output"] == "m.knap" and done["records"] == "m.tune.json"
    saved = json.loads((tmp_path / "m.tune.json").read_text())
    assert len(saved["records"]) == done["kept"]
    # The records in the artefact are those of the file.
    shown = json.loads(tool("records", "show", "m.knap"))["records"]
    assert [r["choice"] for r in shown] == [r["choice"] for r in saved["records"]]
    # The numbers stay.
    x = np.random.default_rng(1).standard_normal((5, 256)).astype(np.float32)
    np.save("x.npy", x)
    tool("run", "m.knap", "-i", "x.npy", "-o", "tuned.npy")
    tool("compile", matmuls, "-o", "plain.knap")
    tool("run", "plain.knap", "-i", "x.npy", "-o", "plain.npy")
    np.testing.assert_allclose(np.load("tuned.npy"), np.load("plain.npy"), rtol=1e-5, atol=1e-5)


def test_records_decide_and_give_the_same_bits(tool, matmuls, tmp_path):
    tool("compile", matmuls, "-o", "plain.knap")
    choices = {
        signature: {"panel": knob["panel"]["others"][0]}
        for signature, knob in knobs(tool, "plain.knap").items()
    }
    assert len(choices) == 2
    name = write(tmp_path / "r.json", *(record(s, c) for s, c in choices.items()))
    files = []
    for i in range(2):
        stats = json.loads(
            tool("compile", matmuls, "-o", f"{i}.knap", "--records", name, "--no-cache", "--json")
        )
        assert stats["records_used"] == 2 and stats["records_stale"] == 0
        x = np.random.default_rng(1).standard_normal((5, 256)).astype(np.float32)
        np.save("x.npy", x)
        tool("run", f"{i}.knap", "-i", "x.npy", "-o", f"{i}.npy")
        files.append((tmp_path / f"{i}.npy").read_bytes())
    assert files[0] == files[1]
    for signature, knob in knobs(tool, "0.knap").items():
        assert knob["panel"]["value"] == choices[signature]["panel"] != knob["panel"]["model"]


def test_the_cache_looks_into_the_records(tool, matmuls, tmp_path):
    tool("compile", matmuls, "-o", "plain.knap")
    signature, knob = next(iter(knobs(tool, "plain.knap").items()))
    others = knob["panel"]["others"]
    for value, cached in ((others[0], False), (others[0], True), (others[1], False)):
        name = write(tmp_path / "r.json", record(signature, {"panel": value}))
        stats = json.loads(tool("compile", matmuls, "-o", "m.knap", "--records", name, "--json"))
        assert stats["from_cache"] == cached and stats["records_used"] == 1
        assert knobs(tool, "m.knap")[signature]["panel"]["value"] == value


def test_what_does_not_fit_is_said(tool, matmuls, tmp_path):
    tool("compile", matmuls, "-o", "plain.knap")
    signatures = list(knobs(tool, "plain.knap"))
    name = write(
        tmp_path / "r.json",
        record(signatures[0], {"panel": 12345}),
        record(signatures[1], {"nonsense": 1}),
        record("0123456789abcdef", {"panel": 16}),  # of another model
    )
    out = tool("compile", matmuls, "-o", "m.knap", "--records", name)
    assert "2 tuning records do not fit" in out and "tune again" in out
    assert all(k["panel"]["value"] == k["panel"]["model"] for k in knobs(tool, "m.knap").values())


@pytest.mark.parametrize("text", ["", "{}", "[", '{"knapper_tuning": 7, "records": []}'])
def test_other_files_are_refused(tool, matmuls, tmp_path, text):
    (tmp_path / "r.json").write_text(text)
    for arguments in (("compile", matmuls), ("tune", matmuls)):
        message = tool(*arguments, "--records", "r.json", code=1)
        assert "r.json" in message and "try:" in message


def test_merge_and_diff(tool, tmp_path):
    a, b = "a" * 16, "b" * 16
    write(tmp_path / "1.json", record(a, {"panel": 16}, 1.1), record(b, {"panel": 32}, 1.3))
    write(tmp_path / "2.json", record(a, {"panel": 48}, 1.2), record(b, {"panel": 64}, 1.2))
    merged = json.loads(tool("records", "merge", "1.json", "2.json"))["records"]
    assert {r["signature"]: r["choice"]["panel"] for r in merged} == {a: 48, b: 32}
    tool("records", "merge", "1.json", "2.json", "-o", "3.json")
    assert json.loads((tmp_path / "3.json").read_text())["records"] == merged
    lines = tool("records", "diff", "1.json", "3.json").splitlines()
    assert lines == [f"- {a} cpu panel=16 1.100x", f"+ {a} cpu panel=48 1.200x"]


@pytest.mark.parametrize("budget", ["0", "-3s", "soon", "5 parsecs", "nan", ""])
def test_a_budget_is_a_time(tool, matmuls, budget):
    assert "--budget" in tool("tune", matmuls, f"--budget={budget}", code=1)


def test_interrupted_it_installs_what_it_has(tool, matmuls, tmp_path):
    process = subprocess.Popen(
        [TOOL, "tune", matmuls, "--budget", "100s", "--dim", "rows=256", "--threads", "1", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while process.poll() is None and not (tmp_path / "m.tune.json").exists():
        time.sleep(0.05)  # the first round ends
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    done = json.loads(out)
    assert done["seconds"] < 100 and (tmp_path / "m.knap").exists()
