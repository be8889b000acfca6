"""StableHLO that we write: op cases and ONNX models, computed by the interpreter in jaxlib as by us."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import knapper
import ml_dtypes
import numpy as np
import onnx
import pytest
from corpus import programs, reference
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[2]
RANDOM = np.random.default_rng(1)
# Ops of the list of cases that StableHLO has no spelling for, or whose cases do not evaluate in turn.
REFUSED = {"external", "grouped_matmul", "if", "loop", "packed_dot", "paged_attention", "recurrence", "scaled_dot", "bind_size", "check", "kernel",
           "next", "yield", "non_max_suppression", "true_places"}
KNAPPER = Path(os.environ.get("KNAPPER_BUILD", ROOT / "build" / "dev")) / "bin" / "knapper"
MOST = 2048  # elements of a tensor
TYPE = re.compile(r"tensor<((?:[\d?]+x)*)([a-zA-Z]\w*), #ts\.dims<([^>]*)>>")


def evaluated(text, sizes):
    return str(int(eval(text.strip().strip('"'), {"min": min, "max": max}, dict(sizes))))  # noqa: S307


def static(mlir, sizes):
    """The case with numbers for its sizes."""

    def shaped(match):
        dims = re.findall(r'"[^"]*"|\d+', match.group(3))
        return f"tensor<{''.join(evaluated(each, sizes) + 'x' for each in dims)}{match.group(2)}>"

    mlir = TYPE.sub(shaped, mlir)
    return re.sub(r'<("[^"<>]*")>', lambda match: f"<{evaluated(match.group(1), sizes)}>", mlir)


def drawn(type, kind, sizes):
    element = programs.element_of(type)
    shape = [int(each) for each in re.findall(r"(\d+)x", type.split(element + ">")[0])]
    dtype = programs.NUMPY[element]
    if kind.startswith("index"):
        word, limit = kind.split(" ", 1)
        limit = int(evaluated(limit, sizes))
        return RANDOM.integers(0 if word == "index0" else -limit, limit, shape).astype(dtype)
    if element == "i1":
        return RANDOM.integers(0, 2, shape).astype(bool)
    if element in programs.INTEGERS:
        low, high = programs.limits(element)
        return RANDOM.integers(max(low, -20), min(high, 20), shape, endpoint=True).astype(dtype)
    values = RANDOM.standard_normal(shape)
    if kind == "positive" or element == "f8E8M0FNU":  # which has no others; the interpreter makes infinity of its NaN
        values = np.abs(values) + 0.1
    if kind == "unit":
        values = np.tanh(values) * 0.99
    return values.astype(dtype)


def by_both(model, text, given, model_format="mlir"):
    head = re.search(r"@main\((.*?)\) -> \((.*?)\) \{\n", text, re.S)
    types = re.findall(r"tensor<[^>]*>", head.group(1))
    results = re.findall(r"tensor<[^>]*>", head.group(2))
    plain = re.sub(r' loc\("[^"]*"\)', "", text)
    program = programs.Program("translated", "", "", plain, tuple(given), tuple(types), tuple(results))
    wanted = reference.evaluate(program)
    module = knapper.compile(model, cache=False, threads=1, model_format=model_format)
    outputs = module(*given)
    return [np.asarray(outputs[i]) for i in range(len(outputs))], wanted


def near(ours, theirs):
    for x, y in zip(ours, theirs, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        if x.dtype.kind in "iub" or "int" in x.dtype.name:
            np.testing.assert_array_equal(x, y)
            continue
        coarse = float(ml_dtypes.finfo(x.dtype).eps)
        a, b = x.astype(np.float64), y.astype(np.float64)
        size = np.nanmax(np.abs(np.where(np.isfinite(b), b, 0)), initial=1)
        np.testing.assert_allclose(a, b, rtol=64 * coarse, atol=8 * coarse * size)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    path = tmp_path_factory.mktemp("cases") / "cases.json"
    subprocess.run([sys.executable, str(ROOT / "tests" / "ops" / "cases.py"), str(path)], check=True)
    return json.loads(path.read_text())


def elements(mlir):
    """Of the largest tensor."""
    return max(math.prod(map(int, re.findall(r"\d+", dims))) for dims in re.findall(r"tensor<((?:\d+x)*)[a-z]", mlir))


def small_ones(case):
    """The case with numbers, of its sizes those that the interpreter, an element at a time, is soon through with."""
    for sizes in sorted(case["sizes"], key=lambda each: -sum(each.values())):
        try:
            mlir = static(case["mlir"], sizes)
        except NameError:  # a size that data decides
            return
        if "?" not in mlir and elements(mlir) <= MOST:
            yield mlir, sizes


def some_of_each_op(cases):
    """Four of each op, the largest that are small."""
    found = {}
    for case in cases:
        for op in set(re.findall(r"\bts\.([a-z]\w*)", re.sub(r"#ts\.\w+", "", case["mlir"]))):
            found.setdefault(op, []).append(case)
    for op, all_ in sorted(found.items()):
        small = [(case, *ones) for case in all_ if (ones := next(small_ones(case), None))]
        yield op, small[:: max(1, len(small) // 4)][:4]


def test_op_cases(cases):
    written, refused, seen = set(), {}, set()
    for op, some in some_of_each_op(cases):
        for case, mlir, sizes in some:
            if case["name"] in seen:
                written.add(op)
                continue
            try:
                text = knapper.translate(mlir.encode(), model_format="mlir")
            except knapper.UserError as error:
                refused.setdefault(op, str(error))
                continue
            types = re.findall(r"%\w+: (tensor<[^>]*>)", mlir.split("->")[0])
            given = [drawn(type, kind, sizes) for type, kind in zip(types, case["inputs"], strict=True)]
            try:
                near(*by_both(mlir.encode(), text, given))
            except Exception as error:
                error.add_note(f"{case['name']} of {sizes}\n{text[:3000]}")
                raise
            written.add(op)
            seen.add(case["name"])
    assert set(refused) - written <= REFUSED, {op: why for op, why in refused.items() if op not in written}
    assert len(written) >= 65 and len(seen) >= 150, (len(written), len(seen))


def model_of(nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [onnx.numpy_helper.from_array(value, name) for name, value in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def convolutional():
    weights = [("k", RANDOM.standard_normal((8, 3, 3, 3)).astype(np.float32)), ("w", RANDOM.standard_normal((8, 300)).astype(np.float32) / 8)]
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2]), helper.make_node("GlobalAveragePool", ["m"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["z"]), helper.make_node("Softmax", ["z"], ["y"]),
    ]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 8, 8])
    return model_of(nodes, [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 300])], weights)


def test_an_onnx_model(tmp_path):
    """By the command line; weights above 64 KiB come from the file."""
    path, out = tmp_path / "model.onnx", tmp_path / "model.mlir"
    path.write_bytes(convolutional())
    done = subprocess.run([KNAPPER, "translate", path, "-o", out, "--dim", "batch=2"], capture_output=True, text=True, check=True)
    assert "of StableHLO" in done.stdout and out.read_text() == knapper.translate(path, dim="batch=2")
    given = [RANDOM.standard_normal((2, 3, 8, 8)).astype(np.float32)]
    text = out.read_text()
    assert 'loc("x")' in text and 'jax.result_info = "y"' in text
    near(*by_both(path, text, given, "onnx"))
    # Also as our own reader sees it.
    ours = knapper.compile(out, cache=False)(*given)[0]
    near([np.asarray(ours)], [np.asarray(knapper.compile(path, cache=False)(*given)[0])])


def test_the_model_is_not_overwritten(tmp_path):
    path, model = tmp_path / "model.onnx", convolutional()
    path.write_bytes(model)
    done = subprocess.run([KNAPPER, "translate", path, "-o", path, "--dim", "batch=2"], capture_output=True, text=True)
    assert done.returncode != 0 and "would overwrite the model" in done.stderr
    assert path.read_bytes() == model


def test_what_cannot_be_written():
    with pytest.raises(knapper.UserError, match="--dim batch=1"):
        knapper.translate(convolutional())
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]
    model = model_of(nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])], [helper.make_tensor_value_info("y", TensorProto.INT64, [1, "n"])])
    with pytest.raises(knapper.UserError, match="cannot be written as StableHLO"):
        knapper.translate(model)


def test_a_kept_source(tmp_path):
    """Of an artefact, by its path and its bytes, with the sizes that it was compiled for."""
    path, out = tmp_path / "model.onnx", tmp_path / "model.knap"
    path.write_bytes(convolutional())
    module = knapper.compile(path, dim="batch=2", keep_source=True, output=out, isa="x86-64-v3", cache=False)
    assert module.describe()["source_bytes"] > path.stat().st_size
    wanted = knapper.translate(path, dim="batch=2")
    assert knapper.translate(out) == knapper.translate(out.read_bytes()) == wanted
    done = subprocess.run([KNAPPER, "translate", out, "-o", "-"], capture_output=True, text=True, check=True)
    assert done.stdout == wanted
    with pytest.raises(knapper.UserError, match="'batch'"):
        knapper.translate(out, dim="batch=3")


def compiled(path, model, **options):
    """An artefact's bytes."""
    knapper.compile(model, output=path / "m.knap", isa="x86-64-v3", cache=False, **options)
    return (path / "m.knap").read_bytes()


def test_a_kept_program(tmp_path):
    text = b"module { func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { %r = stablehlo.add %x, %x : tensor<4xf32> return %r : tensor<4xf32> } }"
    data = compiled(tmp_path, text, model_format="stablehlo", keep_source=True)
    assert knapper.translate(data) == knapper.translate(text, model_format="stablehlo")


def test_a_damaged_kept_source(tmp_path):
    """Loading does not read it, translating compares its hash."""
    model = convolutional()
    data = compiled(tmp_path, model, dim="batch=2", keep_source=True)
    at = data.index(model)
    damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    x = np.zeros((2, 3, 8, 8), np.float32)
    np.testing.assert_array_equal(*(np.asarray(knapper.load(each)(x)[0]) for each in (damaged, data)))
    with pytest.raises(knapper.UserError, match="the hash of the kept source does not match"):
        knapper.translate(damaged)


def test_sources_that_are_not_kept(tmp_path):
    model = convolutional()
    with pytest.raises(knapper.UserError, match="keeps no source"):
        knapper.translate(compiled(tmp_path, model))
    with pytest.raises(knapper.UserError, match="tensor IR may name any file"):
        knapper.compile(b"", model_format="mlir", keep_source=True, cache=False)


def test_weights_in_other_files_are_not_kept(tmp_path):
    loaded = onnx.load_from_string(convolutional())
    onnx.save_model(loaded, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    with pytest.raises(knapper.UserError, match="lie in other files, .*m.data among them"):
        knapper.compile(tmp_path / "m.onnx", keep_source=True, cache=False)
