"""What import makes of a graph: symbolic sizes, run-time checks, weights by
reference, names of nodes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

BUILD = Path(os.environ.get("KNAPPER_BUILD", "build/dev")).resolve()
PROGRAM = BUILD / "tools" / "knapper-translate" / "knapper-translate"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node

if not PROGRAM.exists():
    pytest.skip(f"{PROGRAM} is not built", allow_module_level=True)


def constant(name, value, dtype=np.int64):
    return numpy_helper.from_array(np.asarray(value, dtype), name)


@pytest.fixture
def imported(tmp_path):
    def run(nodes, inputs, outputs, initializers=(), *options, **more):
        graph = helper.make_graph(
            nodes, "g",
            [helper.make_tensor_value_info(*i) for i in inputs],
            [helper.make_tensor_value_info(*o) for o in outputs],
            list(initializers),
        )  # fmt: skip
        imports = [helper.make_opsetid(*o) for o in more.pop("opsets", [("", 21)])]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10, **more)
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString())
        done = subprocess.run(
            [PROGRAM, "--import-onnx", *options, path],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_shape_arithmetic_stays_symbolic(imported):
    """[b, s, 8] seen as [b, s*2, 4] by sizes that the graph computes."""
    text = imported(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "zero"], ["b"]),
            node("Gather", ["shape", "one"], ["s"]),
            node("Mul", ["s", "two"], ["s2"]),
            node("Unsqueeze", ["b", "axis"], ["bu"]),
            node("Unsqueeze", ["s2", "axis"], ["su"]),
            node("Concat", ["bu", "su", "rest"], ["target"], axis=0),
            node("Reshape", ["x", "target"], ["y"]),
        ],
        [("x", FLOAT, ["b", "s", 8])],
        [("y", FLOAT, None)],
        [constant("zero", 0), constant("one", 1), constant("two", 2),
         constant("axis", [0]), constant("rest", [-1])],
    )  # fmt: skip
    assert '#ts.dims<"b", "2*s", 4>' in text
    # Only the reshape is left.
    assert re.findall(r"ts\.(\w+) %", text) == ["reshape"]


def test_expand_pattern_of_minus_one(imported):
    """Where(shape == -1, 1, shape): sizes are never -1."""
    text = imported(
        [
            node("Shape", ["x"], ["shape"]),
            node("Equal", ["shape", "minus"], ["open"]),
            node("Where", ["open", "ones", "shape"], ["target"]),
            node("Expand", ["c", "target"], ["y"]),
        ],
        [("x", FLOAT, ["b", "s"])],
        [("y", FLOAT, None)],
        [constant("minus", -1), constant("ones", [1, 1]),
         constant("c", [[2]], np.float32)],
    )  # fmt: skip
    assert 'to tensor<?x?xf32, #ts.dims<"b", "s">>' in text


def test_sizes_assumed_equal_are_checked(imported):
    text = imported(
        [node("Add", ["x", "z"], ["y"])],
        [("x", FLOAT, ["a", 4]), ("z", FLOAT, ["b", 4])],
        [("y", FLOAT, None)],
    )
    assert re.search(r'ts\.dim_cast %arg1 .*"b", 4>> to .*"a", 4>>', text)


def test_one_symbol_a_name_and_expressions(imported):
    text = imported(
        [node("Concat", ["past", "x"], ["all"], axis=0), node("Add", ["all", "m"], ["y"])],
        [("past", FLOAT, ["p"]), ("x", FLOAT, ["s"]), ("m", FLOAT, ["p + s"])],
        [("y", FLOAT, None)],
    )
    assert "dim_cast" not in text
    assert re.findall(r'#ts.symbol<"(\w+)"', text) == ["p", "s"]


def test_unnamed_dims_are_symbols_of_their_own(imported):
    text = imported(
        [node("Relu", ["x"], ["y"])], [("x", FLOAT, [None, 4])], [("y", FLOAT, None)]
    )
    assert '#ts.symbol<"x_dim0", 0, -1, 1>' in text


def test_slices_clamp(imported):
    text = imported(
        [node("Slice", ["c", "zero", "n", "axis"], ["y"]), node("Shape", ["x"], ["n"])],
        [("x", FLOAT, ["n"])],
        [("y", FLOAT, None)],
        [constant("c", np.arange(8), np.float32), constant("zero", [0]),
         constant("axis", [0])],
    )  # fmt: skip
    assert '#ts.dims<"min(8, n)">' in text


def test_large_weights_stay_in_the_file(imported, tmp_path):
    data = np.arange(40000, dtype=np.float32)
    text = imported(
        [node("Add", ["x", "w"], ["y"])],
        [("x", FLOAT, [40000])],
        [("y", FLOAT, None)],
        [constant("w", data, np.float32)],
    )
    offset, size = map(int, re.search(r'ts.weight <0, (\d+), (\d+), "w">', text).groups())
    stored = (tmp_path / "model.onnx").read_bytes()[offset : offset + size]
    assert np.array_equal(np.frombuffer(stored, np.float32), data)
    assert f'ts.files = ["{tmp_path}/model.onnx"]' in text


def test_external_data(imported, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(bytes(64) + bytes(4 * 40000))
    weight = TensorProto(name="w", data_type=FLOAT, dims=[40000])
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "data/w.bin", "offset": "64"}.items():
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    text = imported(
        [node("Add", ["x", "w"], ["y"])], [("x", FLOAT, [40000])],
        [("y", FLOAT, None)], [weight],
    )  # fmt: skip
    assert 'ts.weight <1, 64, 160000, "w">' in text
    assert "/data/w.bin" in text


def test_functions_are_inlined_with_their_names(imported):
    inner = node("LeakyRelu", ["a"], ["b"], name="leak")
    reference = inner.attribute.add()
    reference.name, reference.ref_attr_name = "alpha", "slope"
    reference.type = onnx.AttributeProto.FLOAT
    function = helper.make_function(
        "local", "Leak", ["a"], ["b"], [inner], [helper.make_opsetid("", 21)], ["slope"]
    )
    text = imported(
        [node("Leak", ["x"], ["y"], domain="local", name="call", slope=0.25)],
        [("x", FLOAT, [4])],
        [("y", FLOAT, None)],
        (),
        "--mlir-print-debuginfo",
        functions=[function],
        opsets=[("", 21), ("local", 1)],
    )
    assert "dense<2.500000e-01>" in text
    assert 'loc("call/leak"' in text and 'loc("LeakyRelu")' in text


def test_names_of_the_signature(imported):
    text = imported(
        [node("Relu", ["input.1"], ["out:0"])], [("input.1", FLOAT, [4])],
        [("out:0", FLOAT, None)],
    )  # fmt: skip
    assert 'ts.name = "input.1"' in text and 'ts.name = "out:0"' in text
