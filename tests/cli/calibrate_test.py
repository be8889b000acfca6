"""Static int8: what is written, what comes out, what is said of it, bad data."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

DEPTH, HIDDEN, COLUMNS = 96, 130, 70
RANDOM = np.random.default_rng(3)
WEIGHTS = {
    "w0": RANDOM.standard_normal((DEPTH, HIDDEN)).astype(np.float32) / 10,
    "w1": RANDOM.standard_normal((COLUMNS, HIDDEN)).astype(np.float32) / 10,
    "b0": RANDOM.standard_normal(HIDDEN).astype(np.float32),
    "b1": RANDOM.standard_normal(COLUMNS).astype(np.float32),
    "small": RANDOM.standard_normal((COLUMNS, 5)).astype(np.float32),
}
WEIGHTS["w0"][:, 7] = 0
WEIGHTS["w0"][:, 8] *= 4  # columns have scales of their own


def two_layers(path="m.onnx", opset=17, external=False):
    """MatMul, gelu-like, Gemm with a transposed matrix, and one that is small."""
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["p"], name="up"),
        helper.make_node("Add", ["p", "b0"], ["s"], name="bias"),
        helper.make_node("Relu", ["s"], ["r"], name="relu"),
        helper.make_node("Gemm", ["r", "w1", "b1"], ["y"], name="down", transB=1),
        helper.make_node("MatMul", ["y", "small"], ["z"], name="last"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", DEPTH])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", COLUMNS]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ["m", 5]),
        ],
        [numpy_helper.from_array(w, name) for name, w in WEIGHTS.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
    )
    model.metadata_props.add(key="author", value="someone")
    if external:
        onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    else:
        onnx.save(model, path)


def samples(folder, count=4, rows=16):
    folder.mkdir(exist_ok=True)
    for i in range(count):
        x = RANDOM.standard_normal((rows + i, DEPTH)).astype(np.float32)
        np.savez(folder / f"{i}.npz", x=x)


@pytest.fixture
def quick(tool):
    """The tool, which compiles for one instruction set."""

    def call(*arguments, **more):
        return tool(*arguments, env={"KNAPPER_ISA": "x86-64-v3"}, **more)

    return call


@pytest.fixture
def folder(tmp_path):
    samples(tmp_path / "data")
    return "data"


def exact(x):
    hidden = np.maximum(x.astype(float) @ WEIGHTS["w0"] + WEIGHTS["b0"], 0)
    return hidden @ WEIGHTS["w1"].T + WEIGHTS["b1"]


def relative(got, wanted):
    return np.sqrt(((got - wanted) ** 2).sum() / (wanted**2).sum())


def run(tool, path):
    x = np.load("data/0.npz")["x"]
    np.save("x.npy", x)
    tool("run", path, "-i", "x.npy", "-o", "out.npz")
    return x, np.load("out.npz")["y"]


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--range", "error"],
        ["--range", "percentile", "--percentile", "99.9"],
        ["--activations", "i8"],
    ],
)
def test_artefact(tool, folder, flags):
    two_layers()
    text = tool("quantize", "m.onnx", "-o", "q.knap", "--calibrate", folder, *flags, "--json")
    report = json.loads(text)
    x, y = run(tool, "q.knap")
    # A percentile cuts off the largest numbers, which count most.
    bound = 0.15 if "percentile" in flags else 0.05
    assert 1e-4 < relative(y, exact(x)) < bound
    assert [layer["name"] for layer in report["layers"]] == ["up", "down"]
    assert [node["name"] for node in report["kept"]] == ["last"]
    assert "4096" in report["kept"][0]["why"]
    assert report["samples"] == 4
    outputs = {output["name"]: output for output in report["outputs"]}
    assert outputs["y"]["elements"] == COLUMNS * (16 + 17 + 18 + 19)
    for layer in report["layers"]:
        assert 1e-4 < layer["alone"]["relative_rms"] < bound
        assert layer["scale"] > 0
    down = report["layers"][1]
    assert down["low"] == 0  # what relu gives
    # The last layer's result is the output.
    got = down["together"]["relative_rms"]
    assert got == pytest.approx(outputs["y"]["relative_rms"], rel=1e-3)
    assert down["together"]["relative_rms"] >= 0.9 * down["alone"]["relative_rms"]


def test_integers_multiply(quick, folder, tmp_path):
    """The matmul is one of bytes: neither matrix is in the artefact as floats."""
    two_layers()
    quick("quantize", "m.onnx", "-o", "q.knap", "--calibrate", folder)
    assert (tmp_path / "q.knap").stat().st_size > 0
    quick("quantize", "m.onnx", "-o", "q.onnx", "--calibrate", folder)
    text = quick("compile", "q.onnx", "--stop-after=simplify")
    dots = [line for line in text.splitlines() if "ts.dot" in line]
    assert sum("ui8" in line and "i32" in line for line in dots) == 2
    assert len(dots) == 3


@pytest.mark.parametrize("activations", ["u8", "i8"])
@pytest.mark.parametrize("external", [False, True])
def test_model_for_others(quick, folder, activations, external):
    """ONNX Runtime runs what is written, and agrees."""
    onnxruntime = pytest.importorskip("onnxruntime")
    two_layers(external=external)
    flags = ["--calibrate", folder, "--activations", activations]
    quick("quantize", "m.onnx", "-o", "q.onnx", *flags)
    quick("quantize", "m.onnx", "-o", "q.knap", *flags)
    model = onnx.load("q.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert model.metadata_props[0].value == "someone"
    names = [i.name for i in model.graph.initializer]
    assert "w0" not in names and "w1" not in names and "small" in names
    x, y = run(quick, "q.knap")
    session = onnxruntime.InferenceSession("q.onnx", providers=["CPUExecutionProvider"])
    (theirs,) = session.run(["y"], {"x": x})
    # A number on the edge between two steps may go to either.
    assert relative(theirs, y) < 2e-3
    x, compiled = run(quick, "q.onnx")
    np.testing.assert_array_equal(compiled, y)


def test_shared_input_and_weights(quick, folder):
    """Two layers of one input have one pair of nodes for it; tied weights too."""
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("MatMul", ["x", "w0"], ["b"]),
        helper.make_node("Sub", ["a", "b"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", DEPTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", HIDDEN])],
        [numpy_helper.from_array(WEIGHTS["w0"], "w0")],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), "m.onnx")
    text = quick("quantize", "m.onnx", "-o", "q.onnx", "--calibrate", folder)
    assert "MatMul of 'a'" in text and "MatMul of 'b'" in text
    kinds = [node.op_type for node in onnx.load("q.onnx").graph.node]
    assert kinds.count("QuantizeLinear") == 1
    assert kinds.count("DequantizeLinear") == 2


def test_keep(quick, folder):
    two_layers()
    flags = ["--calibrate", folder, "--keep", "up", "--json"]
    report = json.loads(quick("quantize", "m.onnx", "-o", "q.knap", *flags))
    assert [layer["name"] for layer in report["layers"]] == ["down"]
    assert {"name": "up", "operator": "MatMul", "why": "asked for"} in report["kept"]
    message = quick(
        "quantize", "m.onnx", "-o", "q.knap", "--calibrate", folder, "--keep", "none", code=1
    )
    assert "option keep" in message and "'none'" in message


def test_table(quick, folder):
    two_layers()
    text = quick("quantize", "m.onnx", "-o", "q.knap", "--calibrate", folder)
    assert "rms error" in text and "alone" in text and "range of its input" in text
    assert "  last: it has fewer than 4096 weights" in text


def test_old_opset(quick, folder):
    two_layers(opset=12)
    message = quick("quantize", "m.onnx", "-o", "q.onnx", "--calibrate", folder, code=1)
    assert "opset 12" in message and "need opset 13" in message and "convert_version" in message


def save(x, **more):
    np.savez("bad.npz", x=x, **more)


ONES = np.ones((2, DEPTH), np.float32)
BAD = {
    "missing input": (lambda: np.savez("bad.npz"), ["bad.npz", "no array for input 'x'"]),
    "another input": (lambda: save(ONES, more=ONES), ["bad.npz", "no input 'more'"]),
    "wrong shape": (lambda: save(ONES[:, :5]), ["bad.npz, ", "5", str(DEPTH)]),
    "wrong rank": (lambda: save(ONES[0]), ["bad.npz, ", "x"]),
    "wrong dtype": (lambda: save(ONES.astype(float)), ["bad.npz, ", "f64"]),
    "NaN": (lambda: save(ONES * np.nan), ["bad.npz: ", "NaN", "leave this sample out"]),
    "infinite": (lambda: save(ONES * np.inf), ["bad.npz: ", "'x'", "infinite"]),
    "overflow": (lambda: save(ONES * 3e38), ["bad.npz: ", "'r'", "infinite"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data(quick, tmp_path, folder, case):
    make, parts = BAD[case]
    two_layers()
    make()
    flags = ["--calibrate", folder, "--calibrate", "bad.npz"]
    message = quick("quantize", "m.onnx", "-o", "q.knap", *flags, code=1)
    for part in parts:
        assert part in message, message
    assert not (tmp_path / "q.knap").exists()


def test_empty_folder(quick, tmp_path):
    two_layers()
    (tmp_path / "empty").mkdir()
    message = quick("quantize", "m.onnx", "-o", "q.knap", "--calibrate", "empty", code=1)
    assert "empty: the folder holds no .npz file" in message and "numpy.savez" in message


def test_zeros(quick):
    """A layer that never saw a number has no range."""
    two_layers()
    np.savez("z.npz", x=np.zeros((3, DEPTH), np.float32))
    flags = ["--calibrate", "z.npz", "--json"]
    report = json.loads(quick("quantize", "m.onnx", "-o", "q.knap", *flags))
    assert [layer["name"] for layer in report["layers"]] == ["down"]
    assert any("was 0 in all" in node["why"] for node in report["kept"])


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_weights_only_model(quick, folder, kind, asymmetric):
    """In blocks, for ONNX Runtime; the artefact has the same numbers."""
    onnxruntime = pytest.importorskip("onnxruntime")
    two_layers(opset=20)
    flags = ["--weights-only", kind, "--group", 32, *["--asymmetric"] * asymmetric]
    text = quick("quantize", "m.onnx", "-o", "q.onnx", *flags, "--data", folder, "--json")
    report = json.loads(text)
    assert [layer["name"] for layer in report["layers"]] == ["up", "down"]
    onnx.checker.check_model(onnx.load("q.onnx"), full_check=True)
    quick("quantize", "m.onnx", "-o", "q.knap", *flags)
    x, y = run(quick, "q.knap")
    session = onnxruntime.InferenceSession("q.onnx", providers=["CPUExecutionProvider"])
    (theirs,) = session.run(["y"], {"x": x})
    assert relative(theirs, y) < 2e-6
    x, compiled = run(quick, "q.onnx")
    assert relative(compiled, y) < 2e-6
    text = quick("compile", "q.onnx", "--stop-after=simplify")
    assert text.count("ts.scaled_dot") == 2


def test_weights_only_old_opset(quick):
    two_layers(opset=17)
    flags = ["--weights-only", "int8"]
    message = quick("quantize", "m.onnx", "-o", "q.onnx", *flags, code=1)
    assert "opset 17" in message and "need opset 21" in message and ".knap" in message
