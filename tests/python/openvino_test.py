"""knapper.openvino: one script, also with openvino where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

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
        lambda: ov.Core().compile_model(path, "NO_SUCH", {}),
    ):
        with pytest.raises(RuntimeError):
            action()
    with pytest.raises(KeyError):
        compiled([X])["no"]


def test_queue_of_requests(ov, path):
    compiled = ov.compile_model(path, "CPU")
    jobs = ov.AsyncInferQueue(compiled, 3)
    got = {}
    jobs.set_callback(lambda request, key: got.update({key: request.get_output_tensor(1).data.copy()}))
    for n in range(8):
        jobs.start_async({"input.1": X * n}, n)
    jobs.wait_all()
    assert len(jobs) == 3 and jobs.is_ready() and sorted(got) == list(range(8))
    for n, total in got.items():
        np.testing.assert_array_equal(total, (2 * n * X).sum(1))
    assert jobs[jobs.get_idle_request_id()].results["y"].shape == (3, 4)


def test_errors_of_a_queue(path):
    compiled = knapper.openvino.compile_model(path)
    jobs = knapper.openvino.AsyncInferQueue(compiled, 2)
    jobs.set_callback(lambda request, key: {}[key])
    jobs.start_async([X], "no such key")
    with pytest.raises(KeyError, match="no such key"):
        jobs.wait_all()
    jobs.start_async([X[:, :3].copy()])
    with pytest.raises(RuntimeError, match="input.1"):
        jobs.wait_all()
    jobs.wait_all()


def test_callbacks_and_userdata(ov, path):
    request = ov.compile_model(path).create_infer_request()
    seen = []
    request.set_callback(lambda data: seen.append((data, request.results["total"].copy())), 7)
    request.start_async({0: X})
    request.wait()
    request.start_async({0: X + 1}, userdata=5)
    request.wait()
    assert [data for data, _ in seen] == [7, 5] and request.userdata == 5
    np.testing.assert_array_equal(seen[1][1], (2 * X + 2).sum(1))
    assert request.latency > 0 and request.model_inputs[0].any_name == "input.1"
    if ov is knapper.openvino:
        request.start_async({0: X})  # once the last run's callback is over
        request.wait()
        with pytest.raises(RuntimeError, match="input.1"):
            request.start_async({0: X[:, :3].copy()})
            request.wait()


def test_memory_of_outputs(ov, path):
    request = ov.compile_model(path).create_infer_request()
    y, total = np.zeros((3, 4), np.float32), np.zeros(3, np.float32)
    request.set_tensor("y", ov.Tensor(y, shared_memory=True))
    request.set_output_tensor(1, ov.Tensor(total, shared_memory=True))
    request.set_tensor("input.1", ov.Tensor(X.copy()))
    for _ in range(2):
        request.infer()
        np.testing.assert_array_equal(y, 2 * X)
        np.testing.assert_array_equal(total, (2 * X).sum(1))
        y[:] = 0
    np.testing.assert_array_equal(request.get_input_tensor().data, X)
    assert request.get_tensor("y").data.ctypes.data == y.ctypes.data
    if ov is knapper.openvino:
        request.set_output_tensor(0, ov.Tensor(np.zeros((4, 4), np.float32), shared_memory=True))
        with pytest.raises(RuntimeError, match="output 'y': the output is f32"):
            request.infer()


def test_export_and_import(ov, path):
    exported = ov.compile_model(path, "CPU").export_model()
    again = ov.Core().import_model(exported.getvalue(), "CPU")
    np.testing.assert_array_equal(again([X])["y"], 2 * X)
    if ov is knapper.openvino:
        import_model = ov.Core().import_model
        np.testing.assert_array_equal(import_model(exported, "AUTO")(X)["y"], 2 * X)
        with pytest.raises(RuntimeError, match="compiled model"):
            import_model(exported.getvalue(), "CPU", {"INFERENCE_PRECISION_HINT": "bf16"})


@pytest.mark.filterwarnings("ignore::knapper.hints.HintWarning")
def test_properties(ov, path):
    properties = importlib.import_module(f"{ov.__name__}.properties")
    hints = importlib.import_module(f"{ov.__name__}.properties.hint")
    core = ov.Core()
    assert "CPU" in core.available_devices and core.get_property("CPU", "FULL_DEVICE_NAME")
    compiled = core.compile_model(path, "CPU", {
        hints.performance_mode: hints.PerformanceMode.LATENCY,
        properties.inference_num_threads(): 2,
        "INFERENCE_PRECISION_HINT": "f32",
    })  # fmt: skip
    assert int(compiled.get_property("INFERENCE_NUM_THREADS")) == 2
    for name in ("NUM_STREAMS", properties.optimal_number_of_infer_requests()):
        assert int(compiled.get_property(name)) >= 1
    assert compiled.get_property("EXECUTION_DEVICES") == ["CPU"]
    assert properties.inference_num_threads(2)[0] == "INFERENCE_NUM_THREADS"
    many = core.compile_model(path, "AUTO:CPU", {"PERFORMANCE_HINT": "THROUGHPUT"})
    assert "THROUGHPUT" in str(many.get_property(hints.performance_mode))
    np.testing.assert_array_equal(compiled(X)["y"], many(X)["y"])
    model = ov.convert_model(path)
    model.reshape({"input.1": ov.PartialShape([ov.Dimension(3), ov.Dimension()])})
    assert str(model.input().partial_shape).startswith("[3,")


HINTS = {
    "streams": ("CPU", {"NUM_STREAMS": 4}),
    "throughput": ("CPU", {"PERFORMANCE_HINT": "THROUGHPUT"}),
    "pinning": ("CPU", {"ENABLE_CPU_PINNING": False}),
    "profile": ("CPU", {"PERF_COUNT": True}),
    "devices": ("AUTO:GPU,CPU", {}),
}


@pytest.mark.parametrize("name", HINTS)
def test_hints_warn_once_and_are_refused_under_strictness(name, path, monkeypatch):
    ours = knapper.openvino
    monkeypatch.setattr(ours.settings.RULES, "_warned", set())
    monkeypatch.delenv("KNAPPER_OPENVINO_STRICT", raising=False)
    with pytest.warns(ours.HintWarning, match="knapper.openvino differs") as caught:
        for _ in range(2):
            np.testing.assert_array_equal(ours.compile_model(path, *HINTS[name])(X)["y"], 2 * X)
    assert len(caught) == 1 and caught[0].filename == __file__
    monkeypatch.setenv("KNAPPER_OPENVINO_STRICT", "1")
    with pytest.raises(ours.OpenVINOError, match="not honoured"):
        ours.compile_model(path, *HINTS[name])
    ours.set_strict(False)
    assert not ours.is_strict()
    ours.set_strict(None)
    assert ours.is_strict()


def test_name_openvino(path):
    """Programs that import openvino, by install() and by python -m knapper.openvino."""
    code = """
        import sys
        if "install" in sys.argv:
            import knapper.openvino
            knapper.openvino.install()
        import importlib.metadata
        import numpy as np, openvino as ov, openvino.properties.hint as hints
        from openvino.runtime import Core
        core = Core()
        compiled = core.compile_model(sys.argv[1], "CPU", {hints.performance_mode: hints.PerformanceMode.LATENCY})
        assert ov.__version__ == importlib.metadata.version("openvino") == ov.get_version().split("-")[0]
        try: from openvino.preprocess import PrePostProcessor
        except ImportError as error: assert "not part of knapper.openvino" in str(error)
        print(type(compiled).__module__, compiled([np.ones((1, 4), "f")])["total"])
    """
    folder = str(Path(knapper.__file__).parents[1])
    for start in (["-c"], ["-m", "knapper.openvino", "-c"]):
        done = subprocess.run(
            [sys.executable, *start, textwrap.dedent(code), str(path), "install"[: 7 * (len(start) == 1)]],
            env=os.environ | {"PYTHONPATH": folder}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.stdout == "knapper.openvino.compiled [8.]\n", done.stderr
    (info,) = Path(knapper.openvino.switch.FOLDER).glob("*.dist-info")
    assert info.name == f"openvino-{knapper.openvino.__version__}.dist-info"


def test_what_is_not_honoured_raises(path, tmp_path):
    ours = knapper.openvino
    core = ours.Core()
    compiled = core.compile_model(path)
    for action in (
        lambda: core.compile_model(path, "GPU"),
        lambda: core.compile_model(path, "CPU", {"NO_SUCH": 1}),
        lambda: core.set_property({"INFERENCE_PRECISION_HINT": "i8"}),
        lambda: core.read_model("model.xml"),
        lambda: ours.convert_model(path, example_input=X),
        lambda: ours.convert_model(print),
    ):
        with pytest.raises(ours.OpenVINOError, match="(?s)not honoured.*try: "):
            action()
    with pytest.raises(ours.OpenVINOError, match="2 things: .*device 'NPU'.*NO_SUCH"):
        core.compile_model(path, "NPU", {"NO_SUCH": 1})
    for action in (
        lambda: compiled.get_property("NO_SUCH"),
        lambda: core.get_property("NO_SUCH"),
        lambda: compiled.create_infer_request().get_input_tensor(),
        lambda: compiled.create_infer_request().set_tensor("y", ours.Tensor(X.astype("d"))),
    ):
        with pytest.raises(RuntimeError):
            action()
    file = tmp_path / "m.knap"
    compiled.module.save(file)
    np.testing.assert_array_equal(core.compile_model(file)(X)[0], 2 * X)
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "bf16"})
    assert core.get_property("CPU", "INFERENCE_PRECISION_HINT") == "bf16"
    half = core.compile_model(path)
    np.testing.assert_allclose(half(X)["y"], 2 * X, rtol=1e-2)
    assert half.get_property("INFERENCE_PRECISION_HINT") == "bf16"


def test_every_property_is_in_the_page():
    page = (Path(__file__).parents[2] / "docs" / "coming-from-openvino.md").read_text()
    settings = knapper.openvino.settings
    for name in (*settings.HONOURED, *settings.ACCEPTED, *settings.HINTS):
        assert f"`{name}`" in page, name
