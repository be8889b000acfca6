"""`run --verify`: right kernels pass, a wrong one is named."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tool_models import affine


def row_sums(path):
    """y = sum over the rows of relu(x), then a square root."""
    graph = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["x", "axes"], ["s"], keepdims=0, name="/total"),
            helper.make_node("Transpose", ["s"], ["y"], perm=[1, 0], name="/transposed"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, "n"])],
        [helper.make_tensor("axes", TensorProto.INT64, [1], [2])],
    )  # fmt: skip
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    onnx.save(model, path)
    return path


def test_kernels_agree(tool, tmp_path):
    text = tool("run", "--verify", row_sums(tmp_path / "m.onnx"), "--dim", "n=3")
    first, last = text.splitlines()
    assert first.startswith("y: f32 [4, 3]")
    assert last.startswith("verified: ") and "agree with the float64 reference" in last
    assert "/total" in last


@pytest.mark.parametrize("seed", [0, 1])
def test_seeds_are_the_run_s(tool, tmp_path, seed):
    path = affine(tmp_path / "m.onnx")
    text = tool("run", "--verify", path, "--dim", "n=2", "--seed", seed)
    assert text.startswith(tool("run", path, "--dim", "n=2", "--seed", seed))


def test_a_kernel_that_diverges_is_named(tool, tmp_path):
    """Cancellation that float32 cannot hold: what it gives is far from float64."""
    x = np.ones((1, 4, 64), np.float32)
    x[0, 2, 0], x[0, 2, 63] = 3e9, -3e9
    np.save("x.npy", x)
    path = row_sums(tmp_path / "m.onnx")
    message = tool("run", "--verify", path, "-i", "x.npy", code=3, output="kernel 0 diverges")
    assert "1 of 1 kernels diverge" in message or "1 of 2 kernels diverge" in message
    assert "/total" in message and "first kernel 0" in message
    # The kernel alone diverges, too.
    assert "knapper run --verify m.kernel.mlir -i m.kernel.npz" in message
    assert set(np.load("m.kernel.npz")) == {"input0"}
    message = tool("run", "--verify", "m.kernel.mlir", "-i", "m.kernel.npz", code=3, output="kernel 0 diverges")
    assert "1 of 1 kernels diverge" in message


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_kernel_may_be_off_as_its_narrowest_type_is(tool, tmp_path, dtype):
    """The softmax is stored in 16 bits only on its way to the float32 output."""
    weight = np.random.default_rng(0).standard_normal((64, 10)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"], name="/project"),
            helper.make_node("Softmax", ["h"], ["y"], name="/classify"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    onnx.save(model, tmp_path / "m.onnx")
    text = tool("run", "--verify", tmp_path / "m.onnx", "--dim", "n=2", "--dtype", dtype)
    assert "agree with the float64 reference" in text
