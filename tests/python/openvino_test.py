"""knapper.openvino: one script, also with openvino where it is installed."""

from __future__ import annotations

import importlib
import importlib.util

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import knapper.openvino

X = np.arange(12, dtype=np.float32).reshape(3, 4)
MODULES = ["knapper.openvino"]
if importlib.util.find_spec("openvino") is not None:
    MODULES.append("openvino")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    value = helper.make_tensor_value_info
    array = onnx.numpy_helper.from_array
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["input.1", "two"], ["y"]),
            helper.make_node("ReduceSum", ["y", "axes"], ["total"], keepdims=0),
        ],
        "g",
        [value("input.1", TensorProto.FLOAT, ("batch", 4))],
        [
            value("y", TensorProto.FLOAT, ("batch", 4)),
            value("total", TensorProto.FLOAT, ("batch",)),
        ],
        [array(np.float32(2), "two"), array(np.int64([1]), "axes")],
    )
    file = tmp_path_factory.mktemp("openvino") / "m.onnx"
    onnx.save(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9
        ),
        file,
    )
    return file


@pytest.fixture(params=MODULES)
def ov(request):
    return importlib.import_module(request.param)


def test_read_compile_infer(ov, path):
    core = ov.Core()
    model = core.read_model(path)
    assert str(model.inputs[0].partial_shape) == "[?,4]" and model.is_dynamic()
    compiled = core.compile_model(
        model, "CPU", {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": 2}
    )
    port = compiled.input(0)
    assert port.any_name == port.get_any_name() == "input.1" and port.names == {"input.1"}
    assert str(port.partial_shape) == "[?,4]" and port.element_type == ov.Type.f32
    assert port.element_type.to_dtype() == np.float32
    for rows in (1, 3, 7):
        x = np.ones((rows, 4), np.float32)
        results = compiled([x])
        np.testing.assert_array_equal(results[0], 2 * x)
        np.testing.assert_array_equal(results["total"], np.full(rows, 8))
        np.testing.assert_array_equal(results[compiled.output(1)], np.full(rows, 8))
        assert len(results) == 2 and next(iter(results)).any_name == "y"


def test_forms_of_inputs(ov, path):
    compiled = ov.compile_model(path)
    for inputs in (
        X, [X], (X,), {"input.1": X}, {0: X}, {compiled.input(0): X},
        [X.astype(np.float64)], [np.asfortranarray(X)], ov.Tensor(X), [ov.Tensor(X)],
    ):  # fmt: skip
        np.testing.assert_array_equal(compiled(inputs)["y"], 2 * X)
    np.testing.assert_array_equal(compiled.infer_new_request({0: X}).to_tuple()[0], 2 * X)


def test_requests(ov, path):
    compiled = ov.compile_model(path)
    request = compiled.create_infer_request()
    np.testing.assert_array_equal(request.infer([X])["y"], 2 * X)
    np.testing.assert_array_equal(request.get_output_tensor(0).data, 2 * X)
    np.testing.assert_array_equal(request.get_tensor("total").data, (2 * X).sum(1))
    mine = ov.Tensor(X.copy(), shared_memory=True)
    request.set_input_tensor(mine)
    mine.data[:] = 5
    np.testing.assert_array_equal(request.infer()["y"], np.full((3, 4), 10))
    request.start_async([X])
    request.wait()
    np.testing.assert_array_equal(request.results["y"], 2 * X)
    assert [tuple(t.shape) for t in request.output_tensors] == [(3, 4), (3,)]


def test_reshape(ov, path):
    core = ov.Core()
    model = core.read_model(path)
    model.reshape([2, 4])
    compiled = core.compile_model(model, "CPU")
    assert tuple(compiled.input(0).shape) == (2, 4)
    assert tuple(compiled.output("total").shape) == (2,)
    with pytest.raises(RuntimeError):
        compiled([X])
    model.reshape({"input.1": [-1, 4]})
    assert model.is_dynamic()


def test_errors(ov, path):
    compiled = ov.compile_model(path)
    for inputs in ([X[0]], [X[:, :3].copy()], {"no": X}, [X, X],
                   [ov.Tensor(X.astype(np.float64))]):  # fmt: skip
        with pytest.raises(RuntimeError):
            compiled(inputs)
    for action in (
        lambda: compiled.input("no"),
        lambda: compiled.output(),
        lambda: compiled.input(0).shape,
        lambda: ov.Core().read_model("/no/such.onnx"),
        lambda: ov.Core().compile_model(path, "CPU", {"NO_SUCH": 1}),
        lambda: ov.Core().compile_model(path, "NO_SUCH"),
    ):
        with pytest.raises(RuntimeError):
            action()
    with pytest.raises(KeyError):
        compiled([X])["no"]


def test_what_is_not_honoured_raises(path, tmp_path):
    ours = knapper.openvino
    core = ours.Core()
    compiled = core.compile_model(path)
    request = compiled.create_infer_request()
    for action in (
        lambda: core.compile_model(path, "GPU"),
        lambda: core.compile_model(path, "CPU", {"PERFORMANCE_HINT": "THROUGHPUT"}),
        lambda: core.set_property({"NUM_STREAMS": 4}),
        lambda: core.read_model("model.xml"),
        lambda: compiled.export_model(),
        lambda: request.set_tensor("y", ours.Tensor(X)),
        lambda: request.start_async([X], userdata=3),
    ):
        with pytest.raises(ours.OpenVINOError, match="(?s)not honoured.*try: "):
            action()
    file = tmp_path / "m.knap"
    compiled.module.save(file)
    np.testing.assert_array_equal(core.compile_model(file)(X)[0], 2 * X)
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "bf16"})
    half = core.compile_model(path)
    np.testing.assert_allclose(half(X)["y"], 2 * X, rtol=1e-2)
    assert half.get_property("INFERENCE_PRECISION_HINT") == "bf16"
