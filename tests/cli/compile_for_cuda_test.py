"""Compiling for NVIDIA GPUs works anywhere; running wants one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

PTXAS = shutil.which("ptxas")
SEEDS = sorted((Path(__file__).parents[1] / "onnx_fuzz" / "seeds").glob("*.onnx"))


@pytest.mark.parametrize("model", SEEDS, ids=lambda path: path.stem)
def test_small_models_compile(tool, model):
    assert "kernels" in tool("compile", model, "-o", "m.knap", "--target", "cpu,cuda")


@pytest.fixture
def block(tmp_path):
    """A matmul, an activation, a normalisation, a softmax and a pooled
    convolution, with a symbolic batch."""
    generator = np.random.default_rng(1)
    constants = {
        "w": generator.standard_normal((48, 32)),
        "gain": generator.standard_normal(32),
        "bias": generator.standard_normal(32),
        "shape": np.array([0, 2, 4, 4]),
        "filter": generator.standard_normal((5, 2, 3, 3)),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["multiplied"]),
        helper.make_node("Gelu", ["multiplied"], ["active"]),
        helper.make_node("LayerNormalization", ["active", "gain", "bias"], ["norm"]),
        helper.make_node("Softmax", ["norm"], ["y"]),
        helper.make_node("Reshape", ["norm", "shape"], ["image"]),
        helper.make_node("Conv", ["image", "filter"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["conv"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 48))],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n", 32)),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ("n", 5, 1, 1)),
        ],
        [
            numpy_helper.from_array(
                v if v.dtype == np.int64 else v.astype(np.float32), name
            )
            for name, v in constants.items()
        ],
    )
    path = tmp_path / "block.onnx"
    onnx.save(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9
        ),
        path,
    )
    return path


def gpus(tool) -> list[dict]:
    devices = json.loads(tool("devices", "--json"))
    return [device for device in devices if device["device"] == "cuda"]


def text_of(path) -> bytes:
    """The PTX of an artefact."""
    file = path.read_bytes()
    start = file.index(b".version")
    return file[start : file.index(b"\0", start)]


def test_compiles_without_a_gpu(tool, block, tmp_path):
    tool("compile", block, "--target", "cuda", "-o", "m.knap")
    ptx = text_of(tmp_path / "m.knap")
    assert b".target sm_90a" in ptx
    assert b".reqntid" in ptx
    # The driver compiles what a run needs: each kernel's text is marked.
    names = re.findall(rb"^\.visible \.entry (\w+)\(", ptx, re.M)
    assert names and names == re.findall(rb"^// kernel (\w+)$", ptx, re.M)
    assert b"ld.global.v4" in ptx or b"ld.global.nc.v4" in ptx


@pytest.mark.skipif(PTXAS is None, reason="the assembler of CUDA is not installed")
def test_assembles_without_spills(tool, block, tmp_path):
    tool("compile", block, "--target", "cuda", "-o", "m.knap")
    (tmp_path / "m.ptx").write_bytes(text_of(tmp_path / "m.knap"))
    done = subprocess.run(
        [PTXAS, "-arch=sm_90a", "-v", "m.ptx", "-o", "m.cubin"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    spills = [line for line in done.stderr.splitlines() if "spill stores" in line]
    assert spills
    assert all("0 bytes spill stores, 0 bytes spill loads" in s for s in spills)
    assert "C75" not in done.stderr


def test_matmuls_are_of_tf32_only_where_allowed(tool, block, tmp_path):
    def mentions(text, *options):
        tool("compile", block, "-o", "m.knap", *options)
        return text in (tmp_path / "m.knap").read_bytes()

    for target in ("cuda", "cuda:sm_80"):
        assert not mentions(b"tf32", "--target", target)
        assert not mentions(b".tf32", "--target", target, "--no-allow-tf32")
        # The schedule's label, for reports.
        assert mentions(b"tf32=1", "--target", target, "--allow-tf32")
    # The matrix is a constant, transposed when constants are packed.
    assert mentions(b"k8.f32.tf32.tf32", "--target", "cuda", "--allow-tf32")
    assert mentions(b"mma.sync.aligned.m16n8k8", "--target", "cuda:sm_80", "--allow-tf32")
    # A CPU has nothing to allow: bits stay.
    for name, options in (("exact", []), ("allowed", ["--allow-tf32"])):
        tool("compile", block, "--target", "cpu", "-o", f"{name}.knap", *options)
        tool("run", f"{name}.knap", "--dim", "n=37", "-o", f"{name}.npz")
    exact, allowed = np.load(tmp_path / "exact.npz"), np.load(tmp_path / "allowed.npz")
    assert all(np.array_equal(exact[name], allowed[name]) for name in exact.files)


def test_sums_meet_in_memory_unless_told_to_be_deterministic(tool, tmp_path):
    (tmp_path / "s.mlir").write_text("""
func.func @main(%x: tensor<100x64xf32>, %i: tensor<300x64xi64>, %u: tensor<300x64xf32>) -> tensor<100x64xf32> {
  %r = ts.scatter_elements %x, %i, %u dim 0 {reduction = #ts<reduce_kind add>} : tensor<100x64xf32>, tensor<300x64xi64>, tensor<300x64xf32>
  return %r : tensor<100x64xf32>
}
""")

    def code(*options):
        tool("compile", "s.mlir", "-o", "m.knap", "--target", "cuda", *options)
        return (tmp_path / "m.knap").read_bytes()

    assert b"red.global.add.f32" in code()
    assert b"red.global" not in code("--deterministic")
    # A maximum is the same in any order.
    text = (tmp_path / "s.mlir").read_text().replace("kind add", "kind max")
    (tmp_path / "s.mlir").write_text(text)
    assert b"atomic=1" in code("--deterministic")


def test_running_without_a_gpu_is_a_device_error(tool, block):
    if gpus(tool):
        pytest.skip("this machine has a GPU")
    tool("compile", block, "--target", "cuda", "-o", "m.knap")
    text = tool("run", "m.knap", "--dim", "n=3", code=2)
    assert "no NVIDIA GPU is here" in text
    assert "--target cpu" in text


def test_runs_on_a_gpu(tool, block):
    if not gpus(tool):
        pytest.skip("this machine has no NVIDIA GPU")
    for target in ("cpu", "cuda"):
        tool("compile", block, "--target", target, "-o", f"{target}.knap")
        tool("run", f"{target}.knap", "--dim", "n=37", "-o", f"{target}.npz")
    wanted, got = np.load("cpu.npz"), np.load("cuda.npz")
    for name in wanted.files:
        error = np.abs(got[name] - wanted[name]).max() / np.abs(wanted[name]).max()
        assert error < 1e-5, name


def test_unknown_gpus_and_foreign_options_are_refused(tool, block):
    text = tool("compile", block, "--target", "cuda:sm_20", code=1)
    assert "cuda:sm_20" in text and "cuda:sm_90a" in text
    text = tool("compile", block, "--target", "cuda", "--isa", "x86-64-v3", code=1)
    assert "'x86-64-v3' is for CPUs" in text


def test_doubles_and_sorts_have_code(tool, tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Sin", ["x"], ["y"])],
        "double",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, (8, 300))],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, (8, 300))],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    )
    onnx.save(model, tmp_path / "double.onnx")
    tool("compile", "double.onnx", "--target", "cuda", "-o", "double.knap")
    graph.node[0].CopyFrom(helper.make_node("TopK", ["x", "k"], ["y", "i"]))
    graph.initializer.append(numpy_helper.from_array(np.array([3]), "k"))
    graph.output[0].type.tensor_type.shape.dim[1].dim_value = 3
    onnx.save(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9
        ),
        tmp_path / "top.onnx",
    )
    assert "1 kernels" in tool("compile", "top.onnx", "--target", "cuda", "-o", "top.knap")
