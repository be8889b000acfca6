"""Weights as integers: what is stored, what comes out, what is said of it."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def linear(path, *, depth=100, columns=130, transposed=False):
    """y = x w + b, x: [m, depth], w of numbers around 0, one group of zeros."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((depth, columns)).astype(np.float32)
    weights[:32, 3] = 0
    bias = rng.standard_normal(columns).astype(np.float32)
    stored = np.ascontiguousarray(weights.T) if transposed else weights
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=int(transposed))],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", depth])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", columns])],
        [numpy_helper.from_array(stored, "w"), numpy_helper.from_array(bias, "b")],
    )
    opset = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)
    return weights, bias


def rounded(weights, bits, group, asymmetric):
    """What graph/quantize/QuantizeWeights.h says is stored."""
    depth, columns = weights.shape
    groups = -(-depth // group)
    padded = np.zeros((groups * group, columns), np.float32)
    padded[:depth] = weights
    blocks = padded.reshape(groups, group, columns)
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    top, bottom = blocks.max(1), blocks.min(1)
    zero = np.zeros_like(top)
    if asymmetric:
        top, bottom = np.maximum(top, 0), np.minimum(bottom, 0)
        scale = (top - bottom) / np.float32((1 << bits) - 1)
    elif bits == 4:
        scale = np.where(top > -bottom, top, bottom) / np.float32(low)
    else:
        scale = np.maximum(top, -bottom) / np.float32(high)
    scale = np.where(scale == 0, np.float32(1), scale)
    if asymmetric:
        zero = low - np.rint(bottom / scale)
    steps = np.clip(np.rint(blocks / scale[:, None]) + zero[:, None], low, high)
    exact = (steps - zero[:, None]) * scale[:, None]
    return exact.reshape(-1, columns)[:depth].astype(np.float64)


@pytest.mark.parametrize("isa", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("group", [32, 128])
@pytest.mark.parametrize("bits", [8, 4])
def test_matmuls(tool, tmp_path, bits, group, asymmetric, isa):
    weights, bias = linear("m.onnx", transposed=group == 32)
    exact = rounded(weights, bits, group, asymmetric)
    flags = ["--weights-only", f"int{bits}", "--group", group, "--isa", isa]
    tool("quantize", "m.onnx", "-o", "q.knap", *flags, *["--asymmetric"] * asymmetric)
    if isa == "x86-64-v4" and isa not in tool("devices"):
        pytest.skip(f"this machine has no {isa}")
    x = np.random.default_rng(1).standard_normal((40, 100)).astype(np.float32)
    first = None
    for rows in (1, 3, 5, 8, 40):  # alone, in registers, from scratch, several tiles
        np.save("x.npy", x[:rows])
        tool("run", "q.knap", "-i", "x.npy", "-o", "y.npy")
        y, wanted = np.load("y.npy"), x[:rows] @ exact + bias
        assert np.abs(y - wanted).max() <= 3e-6 * np.abs(wanted).max()
        first = y[0] if first is None else first
        np.testing.assert_array_equal(y[0], first)


def test_report(tool):
    linear("m.onnx", depth=512, columns=512)
    rng = np.random.default_rng(2)
    for name in ("a", "b"):
        np.savez(f"{name}.npz", x=rng.standard_normal((4, 512)).astype(np.float32))
    errors = {}
    for kind in ("int8", "int4"):
        flags = ["--weights-only", kind, "--data", "a.npz", "--data", "b.npz"]
        report = json.loads(
            tool("quantize", "m.onnx", "-o", "q.knap", *flags, "--json")
        )
        (output,) = report["outputs"]
        assert output["name"] == "y" and output["elements"] == 2 * 4 * 512
        errors[kind] = output["relative_rms"]
        ratio = report["artefact_bytes"] / report["float_bytes"]
        assert ratio < (0.4 if kind == "int8" else 0.3)
    assert 1e-4 < errors["int8"] < 0.01 < errors["int4"] < 0.2
    table = tool("quantize", "m.onnx", "-o", "q.knap", *flags)
    assert "rms error" in table and "q.knap" in table and " y\n" in table


def test_other_sizes_of_data(tool):
    linear("m.onnx")
    np.savez("x.npz", x=np.ones((2, 7), np.float32))
    tool(
        "quantize", "m.onnx", "-o", "q.knap", "--weights-only", "int8",
        "--data", "x.npz", code=1,
    )  # fmt: skip


@pytest.mark.parametrize("kind, least", [("int8", 0.012), ("int4", 0.2)])
def test_with_bf16(tool, kind, least):
    """Weights as integers, what else is stored as bf16: errors add up, no more."""
    rng = np.random.default_rng(7)
    names = ["w0", "w1", "w2"]
    arrays = [rng.standard_normal((128, 128)).astype(np.float32) / 11 for _ in names]
    nodes = []
    value = "x"
    for i, name in enumerate(names):
        nodes.append(helper.make_node("MatMul", [value, name], [f"p{i}"]))
        nodes.append(helper.make_node("Tanh", [f"p{i}"], [f"t{i}"]))
        nodes.append(helper.make_node("Add", [f"t{i}", value], [f"s{i}"]))
        value = f"s{i}"
    # A matmul of two activations, which bf16 is for.
    nodes.append(helper.make_node("Transpose", [value], ["transposed"], perm=[1, 0]))
    nodes.append(helper.make_node("MatMul", [value, "transposed"], ["y"]))
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", 128])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", "m"])],
        [numpy_helper.from_array(a, n) for a, n in zip(arrays, names)],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), "m.onnx")
    x = rng.standard_normal((33, 128)).astype(np.float32)
    np.savez("x.npz", x=x)
    value = x.astype(np.float64)
    for array in arrays:
        value = np.tanh(value @ array) + value
    wanted = value @ value.T
    errors = {}
    for dtype in ("f32", "bf16"):
        flags = ["--weights-only", kind, "--dtype", dtype, "--data", "x.npz", "--json"]
        report = json.loads(tool("quantize", "m.onnx", "-o", "q.knap", *flags))
        tool("run", "q.knap", "-i", "x.npz", "-o", "y.npz")
        y = np.load("y.npz")["y"]
        errors[dtype] = np.linalg.norm(y - wanted) / np.linalg.norm(wanted)
        # What is told is against float32.
        said = report["outputs"][0]["relative_rms"]
        assert said == pytest.approx(errors[dtype], rel=0.02)
    assert errors["f32"] < least and errors["bf16"] < errors["f32"] + 0.01
    text = tool("compile", "m.onnx", "--weights", kind, "--dtype", "bf16", "--stop-after=simplify")
    assert text.count("ts.scaled_dot") == 3
    assert any("ts.dot" in line and "bf16" in line for line in text.splitlines())
