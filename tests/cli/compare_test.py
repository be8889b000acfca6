"""`compare`: what differs between two artefacts of one model."""

from __future__ import annotations

import json
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tool_models import TOOL, affine


def compiled(tool, model, name, *flags):
    tool("compile", model, "--no-cache", "-o", name, *flags)
    return name


def compared(tool, *arguments, code=0):
    """The JSON; with `code` it is on stdout and stderr is empty."""
    done = subprocess.run([TOOL, "compare", "--json", "--rounds", "3", *arguments],
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert (done.returncode, done.stderr) == (code, ""), done.stdout
    return json.loads(done.stdout)


def test_sizes_are_those_of_files(tool, model):
    a = compiled(tool, model, "a.knap")
    np.save("x.npy", np.ones((7, 4), np.float32))
    assert [run["sizes"] for run in compared(tool, a, a, "-i", "x.npy")["runs"]] == [{"n": 7}]
    said = tool("compare", a, a, "-i", "x.npy", "--dim", "n=2", code=1)
    assert "--dim n=2, but input 'x' from its file has n=7" in said


def matmul_and_softmax(path, activation):
    """y = softmax(activation(x w)) over the columns: the second kernel has constants."""
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="matmul"),
        helper.make_node(activation, ["a"], ["b"], name="activation"),
        helper.make_node("Softmax", ["b"], ["y"], name="soft", axis=0),
    ]
    save(path, nodes, ["n", 16], ["n", 16], rng.standard_normal((16, 16)).astype(np.float32))
    return path


def save(path, nodes, taken, given, weights):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, taken)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, given)],
        [numpy_helper.from_array(weights, "w")])  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


def test_the_same(tool, model):
    compiled(tool, model, "a.knap")
    compiled(tool, model, "b.knap")
    text = tool("compare", "a.knap", "b.knap", "--rounds", "4")
    assert "kernels: 1 the same, 0 differ\n" in text
    for size in (1, 3, 32):
        assert f"n={size}: the same bits" in text
    assert len(re.findall(r"first [\d.]+ us \([\d.]+ to [\d.]+\), second", text)) == 3
    both = compared(tool, "a.knap", "b.knap")
    assert both["same_outputs"] and not both["kernels"]["launches_differ"]
    for run in both["runs"]:
        for spread in (run["first_ms"], run["second_ms"], run["ratio"]):
            assert 0 < spread["p25"] <= spread["median"] <= spread["p75"]


def test_sizes_are_taken_in_turn(tool, model):
    compiled(tool, model, "a.knap")
    both = compared(tool, "a.knap", "a.knap", "--dim", "n=7", "--dim", "n=9")
    assert [run["sizes"] for run in both["runs"]] == [{"n": 7}, {"n": 9}]
    tool("compare", "a.knap", "a.knap", "--dim", "k=7", code=1)


def test_another_schedule(tool, model, tmp_path):
    """A record of the tuner: the same bits from another block."""
    compiled(tool, model, "a.knap")
    described = json.loads(tool("explain", "a.knap", "--json"))
    (kernel,) = described["report"]["unique_kernels"]
    (tmp_path / "r.json").write_text(json.dumps({"knapper_tuning": 1, "records": [
        {"signature": kernel["signature"], "target": "cpu", "choice": {"block": 1024}, "gain": 1.0,
         "machine": "", "threads": 1, "sizes": ""}]}))  # fmt: skip
    compiled(tool, model, "b.knap", "--records", "r.json")
    both = compared(tool, "a.knap", "b.knap")
    (kernel,) = both["kernels"]["differing"]
    assert "schedules" in kernel["what"] and "names" not in kernel["what"]
    assert "block=4096" in kernel["first"]["schedules"][0]
    assert "block=1024" in kernel["second"]["schedules"][0]
    assert kernel["ratio"] > 0 and kernel["first"]["us"] > 0
    assert both["same_outputs"]


@pytest.mark.parametrize("old, new", [
    ("arith.constant 2.000000e+00", "arith.constant 3.000000e+00"),  # a constant only
    ("arith.mulf", "arith.addf"),
])  # fmt: skip
def test_other_code(tool, model, tmp_path, old, new):
    """One name, one schedule: code that is edited is seen, and so are its results."""
    compiled(tool, model, "a.knap", "--dump-dir", "steps")
    step = tmp_path / "steps" / "05_tile.mlir"
    assert old in step.read_text()
    step.write_text(step.read_text().replace(old, new))
    tool("compile", step, "--start-from", "emit", "-o", "b.knap")
    both = compared(tool, "a.knap", "b.knap", code=4)
    (kernel,) = both["kernels"]["differing"]
    assert kernel["what"] == ["code"] and "x86-64-v3" in kernel["code_differs_for"]
    assert not both["same_outputs"]
    (output,) = both["runs"][2]["outputs"]
    assert output["name"] == "y" and output["elements"] == 128
    assert 0 < output["differing"] <= 128 and output["largest_difference"] > 0.1


def test_a_kernel_that_moved_is_the_same(tool, tmp_path):
    """Another kernel beside it: its displacements differ, it does not."""
    compiled(tool, matmul_and_softmax(tmp_path / "m.onnx", "Tanh"), "a.knap")
    compiled(tool, matmul_and_softmax(tmp_path / "n.onnx", "Sin"), "b.knap")
    both = compared(tool, "a.knap", "b.knap", code=4)["kernels"]
    origins = sorted(k["origin"] for k in both["differing"])
    assert len(origins) == 2 and "soft" not in "".join(origins)
    assert both["same"] >= 1


def test_instruction_sets(tool, model):
    compiled(tool, model, "a.knap", "--isa", "x86-64-v4,x86-64-v3")
    compiled(tool, model, "b.knap", "--isa", "x86-64-v3")
    both = compared(tool, "a.knap", "b.knap")
    assert both["kernels"]["instruction_sets_only_first"] == ["x86-64-v4"]
    assert both["kernels"]["differing"] == []


def test_refusals(tool, tmp_path):
    """Sizes that both refuse are no difference, unless nothing is left."""
    add = [helper.make_node("Add", ["x", "w"], ["y"], name="add")]
    save(tmp_path / "m.onnx", add, ["n", "k"], ["n", "k"], np.ones(3, np.float32))
    compiled(tool, tmp_path / "m.onnx", "a.knap")
    both = compared(tool, "a.knap", "a.knap")
    assert ["refused" in run for run in both["runs"]] == [True, False, True]
    assert "k and 3 must be equal" in both["runs"][0]["refused"][1]
    message = tool("compare", "a.knap", "a.knap", "--dim", "k=5", code=1)
    assert "both refuse to run" in message


def test_other_signatures(tool, model, tmp_path):
    add = [helper.make_node("Add", ["x", "w"], ["y"], name="add")]
    save(tmp_path / "n.onnx", add, ["n", 3], ["n", 3], np.ones(3, np.float32))
    compiled(tool, model, "a.knap")
    compiled(tool, tmp_path / "n.onnx", "b.knap")
    message = tool("compare", "a.knap", "b.knap", code=1)
    assert "other inputs: x: f32 [n, 4] and x: f32 [n, 3]" in message


def test_other_models(tool, model, tmp_path):
    compiled(tool, model, "a.knap")
    compiled(tool, affine(tmp_path / "n.onnx", scale=3.0), "b.knap")
    both = compared(tool, "a.knap", "b.knap", code=4)
    assert [k["what"] for k in both["kernels"]["differing"]] in (
        [["only in the first"], ["only in the second"]],
        [["only in the second"], ["only in the first"]])  # fmt: skip
    tool("compare", "a.knap", model, code=1)
    tool("compare", "a.knap", "none.knap", code=1)
