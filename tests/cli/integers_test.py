"""Random integer inputs are indices that the model takes, over the whole of what they index."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def write(path, nodes, constants, inputs=("ids",), dtype=TensorProto.INT64):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, dtype, ["n", "s"]) for name in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def counted(rows):
    """A table whose row r is r."""
    return np.arange(rows, dtype=np.float32).reshape(rows, 1)


def drawn(tool, model, *flags, size=50):
    """All that the model's y was, over some seeds."""
    found = []
    for seed in range(4):
        tool("run", model, "--dim", f"n=3,s={size}", "--seed", seed, "-o", "y.npy", *flags)
        found.append(np.load("y.npy"))
    return np.concatenate([value.reshape(-1) for value in found])


GATHER = helper.make_node("Gather", ["table", "ids"], ["y"])


def test_words_of_the_whole_vocabulary(tool, tmp_path):
    values = drawn(tool, write(tmp_path / "m.onnx", [GATHER], {"table": counted(7)}))
    assert set(values) == set(range(7))
    module = json.loads(tool("explain", "m.onnx", "--json"))
    assert module["inputs"][0]["index_limit"] == 7


def test_the_least_of_two_tables_counts(tool, tmp_path):
    nodes = [helper.make_node("Gather", ["large", "ids"], ["a"]), helper.make_node("Gather", ["small", "ids"], ["b"]),
             helper.make_node("Add", ["a", "b"], ["y"])]  # fmt: skip
    values = drawn(tool, write(tmp_path / "m.onnx", nodes, {"large": counted(99), "small": counted(3)}))
    assert set(values) == {0, 2, 4}


def test_each_input_has_its_own(tool, tmp_path):
    nodes = [helper.make_node("Gather", ["words", "ids"], ["a"]), helper.make_node("Gather", ["types", "kinds"], ["b"]),
             helper.make_node("Add", ["a", "b"], ["y"])]  # fmt: skip
    model = write(tmp_path / "m.onnx", nodes, {"words": counted(40), "types": np.float32([[0], [1000]])}, ("ids", "kinds"))
    values = drawn(tool, model)
    assert {v // 1000 for v in values} == {0, 1} and {v % 1000 for v in values} == set(range(40))


def test_through_what_moves_and_shifts(tool, tmp_path):
    nodes = [helper.make_node("Cast", ["ids"], ["narrow"], to=TensorProto.INT32),
             helper.make_node("Transpose", ["narrow"], ["transposed"], perm=[1, 0]),
             helper.make_node("Add", ["transposed", "two"], ["shifted"]),
             helper.make_node("Gather", ["table", "shifted"], ["y"])]  # fmt: skip
    values = drawn(tool, write(tmp_path / "m.onnx", nodes, {"table": counted(8), "two": np.int32(2)}))
    assert set(values) == {2, 3, 4, 5, 6, 7}


def test_a_table_of_one_row(tool, tmp_path):
    assert set(drawn(tool, write(tmp_path / "m.onnx", [GATHER], {"table": counted(1)}))) == {0}


def test_other_integers_are_flags(tool, tmp_path):
    cast = helper.make_node("Cast", ["ids"], ["y"], to=TensorProto.FLOAT)
    assert set(drawn(tool, write(tmp_path / "m.onnx", [cast], {}))) == {0, 1}


def test_a_wish_is_followed(tool, tmp_path):
    model = write(tmp_path / "m.onnx", [GATHER], {"table": counted(7)})
    assert set(drawn(tool, model, "--integers", 3)) == {0, 1, 2}
    assert "index" in tool("run", model, "--dim", "n=3,s=50", "--integers", 100, code=1)


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scattered_places(tool, tmp_path, reduction):
    """ScatterElements along a dim of 5."""
    node = helper.make_node("ScatterElements", ["data", "ids", "updates"], ["y"], axis=0, reduction=reduction)
    path = tmp_path / "m.onnx"
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("ids", TensorProto.INT64, [30, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.zeros((5, 2), np.float32), "data"),
         numpy_helper.from_array(np.ones((30, 2), np.float32), "updates")])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    tool("run", path, "-o", "y.npy")
    assert (np.load("y.npy") > 0).all()
