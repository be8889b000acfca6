"""`python -m knapper.reduce`: the smallest model that still fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

PACKAGE = Path(__file__).resolve().parents[2] / "python"


def reduce(folder, *arguments, code=0):
    path = os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-m", "knapper.reduce", *map(str, arguments)], cwd=folder,
                          env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.returncode == code, done.stderr + done.stdout
    return done.stderr if code else done.stdout


def save(path, nodes, result, weights=()):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        [numpy_helper.from_array(a, name) for name, a in weights])  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return path


@pytest.fixture
def long_model(tmp_path):
    """Forty nodes, one of them Floor; a branch that is added at the end."""
    nodes, last = [], "x"
    for i, op in enumerate(["Tanh", "Neg"] * 10 + ["Floor"] + ["Abs", "Neg"] * 9):
        nodes.append(helper.make_node(op, [last], [f"v{i}"], name=f"node{i}"))
        last = f"v{i}"
    nodes.append(helper.make_node("Add", [last, "v3"], ["y"], name="end"))
    return save(tmp_path / "m.onnx", nodes, ["n", 64])


def check(folder, text):
    (folder / "check.py").write_text("import sys, onnx, numpy\n" + text)
    return f"{sys.executable} check.py {{model}} {{inputs}}"


def test_a_command_says_what_fails(long_model, tmp_path):
    command = check(tmp_path, """
model, feed = onnx.load(sys.argv[1]), numpy.load(sys.argv[2])
assert {i.name for i in model.graph.input} == set(feed.files)
sys.exit(7 if any(n.op_type == "Floor" for n in model.graph.node) else 0)
""")  # fmt: skip
    said = reduce(tmp_path, long_model, "--dim", "n=3", "--check", command, "-o", "small.onnx")
    assert said.startswith("small.onnx: status 7\n")
    small = onnx.load(tmp_path / "small.onnx")
    assert [n.op_type for n in small.graph.node] == ["Floor"]
    (value,) = small.graph.input
    assert np.load(tmp_path / "small.npz")[value.name].shape == (3, 64)


def test_another_failure_is_not_taken_for_it(long_model, tmp_path):
    """Fewer than three nodes fail in another way: three stay."""
    command = check(tmp_path, """
ops = [n.op_type for n in onnx.load(sys.argv[1]).graph.node]
sys.exit(0 if "Floor" not in ops else 7 if len(ops) > 2 else 8)
""")  # fmt: skip
    reduce(tmp_path, long_model, "--dim", "n=1", "--check", command)
    ops = [n.op_type for n in onnx.load(tmp_path / "m.small.onnx").graph.node]
    assert len(ops) == 3 and "Floor" in ops


def test_a_kernel_that_diverges(tmp_path):
    """Of a model that float32 cannot hold: the sum, with what it reads."""
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Mul", ["a", "w"], ["b"]),
        helper.make_node("ReduceSum", ["b", "axes"], ["c"], keepdims=0),
        helper.make_node("Sigmoid", ["c"], ["y"]),
    ]
    signs = np.ones(64, np.float32)
    signs[63] = -1
    model = save(tmp_path / "m.onnx", nodes, ["n"], [("w", signs), ("axes", np.int64([1]))])
    x = np.ones((1, 64), np.float32)
    x[0, 0] = x[0, 63] = 3e9
    np.savez(tmp_path / "in.npz", x=x)
    said = reduce(tmp_path, model, "--inputs", "in.npz")
    assert said.splitlines()[0].endswith("m.small.onnx: diverges")
    assert [n.op_type for n in onnx.load(tmp_path / "m.small.onnx").graph.node] == ["ReduceSum"]


def test_refusals(long_model, tmp_path):
    assert "does not fail" in reduce(tmp_path, long_model, "--dim", "n=2", code=1)
    message = reduce(tmp_path, long_model, code=1)
    assert "size 'n' has no value" in message and "--dim n=N" in message
    assert "none.onnx" in reduce(tmp_path, "none.onnx", code=1)
