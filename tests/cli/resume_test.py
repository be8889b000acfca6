"""Dumps of every phase: resumed as they are, and edited."""

from __future__ import annotations

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

# What --start-from reads: file of the dump, phase.
STEPS = {
    "simplify": "01_import.mlir",
    "fuse": "02_simplify.mlir",
    "schedule": "03_fuse.mlir",
    "tile": "04_schedule.mlir",
    "emit": "05_tile.mlir",
    "plan": "06_emit.mlir",
    "pack": "07_plan.json",
}


def network(path):
    """y = softmax(tanh(x w + 1) v): packed weights, several kernels, two of
    them matmuls that differ in which operand is constant."""
    rng = np.random.default_rng(3)
    w = rng.standard_normal((32, 32)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"], name="mul"),
            helper.make_node("Add", ["a", "one"], ["b"], name="plus"),
            helper.make_node("Tanh", ["b"], ["c"], name="tanh"),
            helper.make_node("MatMul", ["c", "v"], ["d"], name="again"),
            helper.make_node("Softmax", ["d"], ["y"], axis=-1, name="soft"),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32]),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [32, 32]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])],
        [
            numpy_helper.from_array(w, "w"),
            numpy_helper.from_array(np.float32([1]), "one"),
        ],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    onnx.save(model, path)


@pytest.fixture
def dump(tool, tmp_path):
    network(tmp_path / "net.onnx")
    rng = np.random.default_rng(5)
    np.savez("in.npz", x=rng.standard_normal((3, 32)).astype(np.float32),
             v=rng.standard_normal((32, 32)).astype(np.float32))  # fmt: skip
    tool("compile", "net.onnx", "--dump-dir", "dump")
    tool("run", "net.knap", "-i", "in.npz", "-o", "whole.npy")
    return tmp_path / "dump"


def resume(tool, path, phase, *more, code=0):
    return tool("compile", path, "--start-from", phase, "-o", "again.knap", *more, code=code)


def edit(path, pattern, replacement):
    text, count = re.subn(pattern, replacement, path.read_text())
    assert count > 0, f"{pattern} is not in {path.name}"
    path.write_text(text)


@pytest.mark.parametrize("phase", STEPS)
def test_every_file_resumes(tool, dump, phase):
    resume(tool, dump / STEPS[phase], phase)
    tool("run", "again.knap", "-i", "in.npz", "-o", "again.npy")
    np.testing.assert_array_equal(np.load("again.npy"), np.load("whole.npy"))


@pytest.fixture
def small(tool, model, tmp_path):
    """The dump of y = relu(2 x + 1)."""
    tool("compile", model, "--dump-dir", "dump")
    np.save("x.npy", np.float32([[-2, 0, 1, 3]]))
    return tmp_path / "dump"


def result(tool, path, phase, *more):
    resume(tool, path, phase, *more)
    tool("run", "again.knap", "-i", "x.npy", "-o", "y.npy")
    return np.load("y.npy")[0].tolist()


def test_edited_tile_program(tool, small):
    path = small / STEPS["emit"]
    edit(path, r"arith.constant 2.0+e\+00 : f32", "arith.constant 5.0e+00 : f32")
    assert result(tool, path, "emit") == [0, 1, 6, 16]


def test_edited_tile_program_for_one_instruction_set(tool, small):
    path = small / STEPS["emit"]
    head, last = path.read_text().split('module @"x86-64-v3"')
    path.write_text(head + 'module @"x86-64-v3"' + last.replace("1.000000e+00", "9.0e+00"))
    assert result(tool, path, "emit", "--isa", "x86-64-v3") == [5, 9, 11, 15]


def test_edited_schedule(tool, small):
    path = small / STEPS["tile"]
    edit(path, r"lanes = 64 : i64", "lanes = 16 : i64")
    assert result(tool, path, "tile") == [0, 1, 3, 7]
    (launch,) = json.loads(tool("explain", "again.knap", "--json"))["launches"]
    assert "lanes=16" in launch["choices"][0]["schedule"]


def test_edited_exec_program(tool, small):
    path = small / STEPS["pack"]
    program = json.loads(path.read_text())
    program["outputs"][0]["name"] = "renamed"
    path.write_text(json.dumps(program))
    assert result(tool, path, "pack") == [0, 1, 3, 7]
    assert tool("run", "again.knap", "-i", "x.npy").startswith("renamed: f32 [1, 4]")


def test_edited_kernel(tool, small):
    path = small / STEPS["schedule"]
    edit(path, "ts.max", "ts.min")
    assert result(tool, path, "schedule") == [-3, 0, 0, 0]


# name: (file, pattern, replacement, phase, parts of the message)
WRONG = {
    "onnx": ("../m.onnx", "", "", "emit", ["05_tile.mlir"]),
    "first_phase": (STEPS["fuse"], "", "", "import", ["leave it out"]),
    "not_yet_fused": (STEPS["fuse"], "", "", "schedule", ["outside any kernel", "03_fuse.mlir"]),
    "not_yet_scheduled": (STEPS["schedule"], "", "", "tile", ["no schedules", "04_schedule.mlir"]),
    "not_yet_tiled": (STEPS["tile"], "", "", "emit", ["no tile programs for", "05_tile.mlir"]),
    "not_yet_emitted": (STEPS["emit"], "", "", "plan", ["no objects for", "06_emit.mlir"]),
    "not_yet_planned": (STEPS["plan"], "", "", "pack", ["exec program", "07_plan.json"]),
    "syntax": (STEPS["emit"], "arith.mulf", "arith.mulfff", "emit", ["05_tile.mlir:", "mulfff"]),
    "no_main": (STEPS["fuse"], "@main", "@other", "fuse", ["no function main", "@main"]),
    "kernel_renamed": (STEPS["emit"], "tile.func @", "tile.func @x", "emit", ["no tile.func @"]),
    "kernel_arguments": (STEPS["emit"], r", %arg2: index\)", ", %arg2: index, %arg9: index)",
                         "emit", ["other arguments"]),
    "kernel_edited": (STEPS["tile"], "ts.max", "ts.min", "tile", ["was edited"]),
    "schedule_unknown": (STEPS["tile"], "lanes = 64", "breadth = 64", "tile", ["does not know", "no setting 'breadth'"]),
    "schedule_too_wide": (STEPS["tile"], "lanes = 64", "lanes = 9223372036854775807", "tile", ["'lanes' of 9223372036854775807", "at most"]),
    "schedule_no_truth": (STEPS["tile"], "flat = 1", "flat = 7", "tile", ["flat = 7, which there is not"]),
    "schedule_of_no_size": (STEPS["tile"], r"grid = #ts.dim<[^>]*>", 'grid = #ts.dim<"zz">', "tile", ["there is no size 'zz'"]),
    "schedule_of_no_programs": (STEPS["tile"], r"grid = #ts.dim<[^>]*>", "grid = #ts.dim<0>", "tile", ["'grid' of 0, at least 1"]),
    "schedule_of_fewer_than_none": (STEPS["tile"], r"grid = #ts.dim<[^>]*>", 'grid = #ts.dim<"-2*k0">', "tile", ["'grid' of -256, at least 1"]),
    "schedule_too_large": (STEPS["tile"], r"grid = #ts.dim<[^>]*>", 'grid = #ts.dim<"4611686018427387904*k0">', "tile", ["'grid' is no 64-bit number"]),
    "schedule_of_no_grain": (STEPS["tile"], r"grain = #ts.dim<[^>]*>", "grain = #ts.dim<-8>", "tile", ["'grain' of -8, at least 1"]),
    "schedule_huge_scratch": (STEPS["tile"], r"scratch = #ts.dim<[^>]*>", "scratch = #ts.dim<4611686018427387904>", "tile", ["'scratch' of 4611686018427387904, at most 1073741824"]),
    "schedule_negative_scratch": (STEPS["tile"], r"scratch = #ts.dim<[^>]*>", "scratch = #ts.dim<-64>", "tile", ["'scratch' of -64, at least 0"]),
    "schedule_with_state": (STEPS["tile"], "state = 0", "state = 4611686018427387904", "tile", ["'state' of 4611686018427387904, at most 0"]),
    "schedule_overflow": (STEPS["tile"], "lanes = 64", "lanes = 99999999999999999999", "tile", ["out of range"]),
    "schedule_of_another_family": (STEPS["tile"], 'kind = "pointwise"', 'kind = "cpu_matmul"', "tile", ["does not know"]),
    "schedule_zero": (STEPS["tile"], "lanes = 64", "lanes = 0", "tile", ["does not know"]),
    "schedule_guarded": (STEPS["tile"], r"guard = \[\]",
                         'guard = [[#ts.dim<"k0">, "le", #ts.dim<8>]]', "tile",
                         ["without a guard"]),
    "entry_missing": (STEPS["plan"], "pointwise_", "pointless_", "plan", ["have no entry"]),
    "object_missing": (STEPS["plan"], r"06_emit\.", "07_emit.", "plan", ["07_emit.", "cannot be read"]),
    "program_syntax": (STEPS["pack"], '"main"', "main(", "pack", ["not an exec program"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_refused(tool, small, tmp_path, case):
    name, pattern, replacement, phase, parts = WRONG[case]
    path = small / name
    if pattern:
        edit(path, pattern, replacement)
    message = resume(tool, path, phase, code=1)
    assert message.startswith("knapper: error: ")
    for part in parts:
        assert part in message, message
    assert not (tmp_path / "again.knap").exists()


def test_refused_constants(tool, dump):
    path = dump / STEPS["pack"]
    program = json.loads(path.read_text())
    program["buffers"] = program["buffers"][:1]
    path.write_text(json.dumps(program))
    message = resume(tool, path, "pack", code=1)
    assert "no longer is the constant" in message


def test_a_size_that_no_input_has(tool, tmp_path):
    (tmp_path / "sizes.mlir").write_text(
        'func.func @main(%x: tensor<f32>) -> tensor<?xf32, #ts.dims<"n">> {\n'
        '  %y = ts.broadcast %x [] : tensor<f32> to tensor<?xf32, #ts.dims<"n">>\n'
        '  return %y : tensor<?xf32, #ts.dims<"n">>\n}\n'
    )
    message = tool("compile", "sizes.mlir", code=1)
    assert "no input has the size 'n'" in message and "--dim n=" in message


def test_results_in_place(tool, tmp_path):
    """A chain of kernels, one of which writes over its operand."""
    body = "".join(
        f"  %{y} = ts.kernel pointwise (%a = %{x} : !t) -> !t {{\n"
        f"    %0 = ts.{op} %a : !t\n    ts.yield %0 : !t\n  }}\n"
        for x, y, op in [("x", "p", "neg"), ("p", "q", "exp"), ("q", "r", "neg"), ("r", "s", "tanh")]
    )
    (tmp_path / "chain.mlir").write_text(
        '!t = tensor<?x8xf32, #ts.dims<"n", 8>>\n'
        "func.func @main(%x: !t) -> !t {\n" + body + "  return %s : !t\n}\n"
    )
    resume(tool, "chain.mlir", "schedule")
    described = json.loads(tool("explain", "again.knap", "--json"))
    assert len(described["launches"]) == 4
    kinds = [buffer["kind"] for buffer in described["memory"]["buffers"]]
    assert kinds.count("temp") == 1
    x = np.random.default_rng(0).standard_normal((700, 8)).astype(np.float32)
    np.save("x.npy", x)
    tool("run", "again.knap", "-i", "x.npy", "-o", "y.npy")
    np.testing.assert_allclose(np.load("y.npy"), np.tanh(-np.exp(-x)), rtol=2e-6)
