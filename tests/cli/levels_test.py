"""Which instruction sets a file holds, and that each computes the model."""

from __future__ import annotations

import json

import knapper
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

LEVELS = ["x86-64-v4-amx", "x86-64-v4-bf16", "x86-64-v4", "x86-64-v3"]


@pytest.fixture
def matmul(tmp_path):
    """tanh(x w + b), K odd."""
    random = np.random.default_rng(3)
    w = random.standard_normal((37, 50)).astype(np.float32)
    b = random.standard_normal(50).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w", "b"], ["g"]),
            helper.make_node("Tanh", ["g"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 37])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 50])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "m.onnx")
    return "m.onnx", w, b


def isas(tool, file):
    return [target["isa"] for target in json.loads(tool("explain", file, "--json"))["targets"]]


def test_matmuls_of_bf16_have_levels_of_their_own(tool, matmul):
    model, w, b = matmul
    tool("compile", model, "-o", "half.knap", "--dtype", "bf16")
    assert isas(tool, "half.knap") == LEVELS
    # Nothing else differs at those levels.
    tool("compile", model, "-o", "plain.knap")
    assert isas(tool, "plain.knap") == LEVELS[2:]
    flags = open("/proc/cpuinfo").read()
    # Small: where tanh is 1 whatever it is of, it hides what a matmul is off by.
    x = np.random.default_rng(4).standard_normal((5, 37)).astype(np.float32) / 12
    np.save("x.npy", x)
    exact = np.tanh(x.astype(np.float64) @ w + b)
    for isa, flag in zip(LEVELS, ["amx_bf16", "avx512_bf16", "avx512vl", "avx2"], strict=True):
        if flag not in flags:
            continue
        tool("run", "half.knap", "-i", "x.npy", "-o", "y.npy", "--isa", isa)
        np.testing.assert_allclose(np.load("y.npy"), exact, rtol=0, atol=0.012)
    tool("run", "half.knap", "-i", "x.npy", "-o", "best.npy")
    np.testing.assert_allclose(np.load("best.npy"), exact, rtol=0, atol=0.012)


def test_matmuls_of_float32_in_parts_are_an_option(tool):
    """Of bf16, at the level with tile registers alone, where it pays; elsewhere nothing changes."""
    random = np.random.default_rng(5)
    w = random.standard_normal((64, 2400)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [384, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [384, 2400])],
        [numpy_helper.from_array(w, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "wide.onnx")

    def split(file):
        report = json.loads(tool("explain", file, "--json"))["report"]
        return [b["value"] for k in report["unique_kernels"] for b in k["knobs"] if b["name"] == "split"]

    x = random.standard_normal((384, 64)).astype(np.float32)
    np.save("x.npy", x)
    exact = x.astype(np.float64) @ w
    for matmuls, parts in [("f32", []), ("bf16x6", [3]), ("bf16x3", [2])]:
        tool("compile", "wide.onnx", "-o", "wide.knap", "--float32-matmul", matmuls)
        assert split("wide.knap") == parts
        assert isas(tool, "wide.knap") == LEVELS[2:] if not parts else [LEVELS[0], *LEVELS[2:]]
        tool("run", "wide.knap", "-i", "x.npy", "-o", "y.npy")
        error = np.abs(np.load("y.npy") - exact).max() / np.abs(exact).max()
        assert error < (2e-5 if matmuls == "bf16x3" else 1e-6)
    assert "one of" in tool("compile", "wide.onnx", "-o", "wide.knap", "--float32-matmul", "bf16", code=1)
    # The name that the option had before, as a flag and as an environment variable.
    for flags, env in ((["--float32-products", "bf16x3"], {}), ([], {"KNAPPER_FLOAT32_PRODUCTS": "bf16x3"})):
        tool("compile", "wide.onnx", "-o", "wide.knap", *flags, env=env)
        assert split("wide.knap") == [2]
    knapper.compile("wide.onnx", float32_products="bf16x6").save("wide.knap")
    assert split("wide.knap") == [3]
