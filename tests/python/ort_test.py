"""knapper.ort beside onnxruntime: one script, two imports, equal results."""

from __future__ import annotations

import copy
import gc
import importlib
import json
import pickle
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import knapper.ort

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
X = np.arange(12, dtype=np.float32).reshape(3, 4)
onnxruntime = pytest.importorskip("onnxruntime")
onnxruntime.set_default_logger_severity(4)


def model() -> onnx.ModelProto:
    """y = 2x + 1, total = sums of y's rows, rows = the batch; metadata."""
    array = onnx.numpy_helper.from_array
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Mul", ["input.1", "two"], ["doubled"]),
        helper.make_node("Add", ["doubled", "one"], ["y"]),
        helper.make_node("ReduceSum", ["y", "axes"], ["total"], keepdims=0),
        helper.make_node("Shape", ["y"], ["rows"], start=0, end=1),
    ]
    graph = helper.make_graph(
        nodes,
        "affine",
        [value("input.1", TensorProto.FLOAT, ("batch", 4))],
        [
            value("y", TensorProto.FLOAT, ("batch", 4)),
            value("total", TensorProto.FLOAT, ("batch",)),
            value("rows", TensorProto.INT64, (1,)),
        ],
        [array(np.float32(2), "two"), array(np.float32(1), "one"),
         array(np.int64([1]), "axes")],
        doc_string="of the graph",
    )  # fmt: skip
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9,
        producer_name="test", doc_string="of the model", domain="a.b", model_version=7,
    )  # fmt: skip
    helper.set_model_props(made, {"key": "value", "empty": ""})
    # The first dim's meaning, for overrides by denotation.
    made.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    return made


MODEL = model().SerializeToString()


def both(script):
    """What the script gives with each of the two modules."""
    return [
        script(importlib.import_module(name)) for name in ("onnxruntime", "knapper.ort")
    ]


def agree(script):
    theirs, ours = both(script)
    compare(theirs, ours)
    return ours


def compare(theirs, ours):
    assert type(theirs) is type(ours), (theirs, ours)
    if isinstance(theirs, dict):
        assert theirs.keys() == ours.keys()
        theirs, ours = list(theirs.values()), [ours[key] for key in theirs]
    if isinstance(theirs, list | tuple):
        assert len(theirs) == len(ours)
        for one, other in zip(theirs, ours):
            compare(one, other)
    elif isinstance(theirs, np.ndarray):
        assert theirs.dtype == ours.dtype
        np.testing.assert_allclose(theirs, ours, rtol=1e-6)
    else:
        assert theirs == ours


def session(ort, **arguments):
    return ort.InferenceSession(MODEL, **arguments)


def feed(x=X):
    return {"input.1": x}


def raised(action):
    """The exception, without tracebacks of the script."""
    with pytest.raises(Exception) as caught:
        action()
    return caught.value


# ---- the quick-start


def test_quick_start(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(MODEL)

    def script(ort):
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = 2
        made = ort.InferenceSession(
            str(path), sess_options=options, providers=["CPUExecutionProvider"]
        )
        name = made.get_inputs()[0].name
        label = made.get_outputs()[0].name
        return name, label, made.run([label], {name: X.astype(np.float32)})[0]

    agree(script)


@pytest.mark.parametrize("kind", ["str", "path", "bytes"])
def test_sources(kind, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(MODEL)
    source = {"str": str(path), "path": path, "bytes": MODEL}[kind]
    agree(lambda ort: ort.InferenceSession(source, None, None).run(None, feed()))


def test_model_proto_and_artefact(tmp_path):
    path = tmp_path / "model.knap"
    made = knapper.ort.InferenceSession(model())
    made.module.save(path)
    for source in (str(path), path.read_bytes()):
        again = knapper.ort.InferenceSession(source)
        compare(made.run(None, feed()), again.run(None, feed()))
        assert again.get_inputs() == made.get_inputs()
    options = knapper.ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 3)
    with pytest.raises(knapper.ort.onnxruntime_pybind11_state.NotImplemented):
        knapper.ort.InferenceSession(str(path), options)


def test_signature_and_metadata():
    def script(ort):
        made = session(ort, providers=["CPUExecutionProvider"])
        meta = made.get_modelmeta()
        return (
            [(a.name, a.type, a.shape) for a in made.get_inputs() + made.get_outputs()],
            made.get_providers(),
            made.get_provider_options(),
            made.get_overridable_initializers(),
            [meta.producer_name, meta.graph_name, meta.domain, meta.description],
            [meta.graph_description, meta.version, meta.custom_metadata_map],
            made.get_session_options().intra_op_num_threads,
            made.end_profiling(),
            ort.get_device(),
            "CPUExecutionProvider" in ort.get_available_providers(),
        )

    agree(script)


def test_shapes_that_have_no_names():
    value = helper.make_tensor_value_info
    made = helper.make_model(
        helper.make_graph(
            [helper.make_node("Add", ["x", "w"], ["y"])],
            "g",
            [value("x", 1, (None, None, 2)), value("w", 1, (1,))],
            [value("y", 1, None)],
            [helper.make_tensor("w", 1, [1], [2.0])],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=8,
    ).SerializeToString()

    def script(ort):
        s = ort.InferenceSession(made)
        x = np.ones((2, 3, 2), np.float32)
        return [(a.name, a.shape) for a in s.get_inputs() + s.get_outputs()], s.run(
            None, {"x": x}
        )

    agree(script)


# ---- runs


def test_several_outputs_and_dynamic_sizes():
    def script(ort):
        s = session(ort)
        results = [s.run(None, feed(np.ones((n, 4), np.float32))) for n in (1, 7, 0, 64)]
        return results + [
            s.run(["total"], feed()),
            s.run(["rows", "y"], feed()),
            s.run(["total", "total"], feed()),
            s.run([], feed(), None),
            s.run(None, feed(), ort.RunOptions()),
        ]

    agree(script)


def test_forms_of_inputs():
    def script(ort):
        s = session(ort)
        return [
            s.run(None, feed(x))
            for x in (
                X.tolist(),
                X[::2],
                np.asfortranarray(X),
                X[:, ::-1],
                ort.OrtValue.ortvalue_from_numpy(X),
            )
        ]

    agree(script)


def test_run_async():
    def script(ort):
        done, got = threading.Event(), []

        def callback(results, data, error):
            got.append((results, data, error))
            done.set()

        session(ort).run_async(None, feed(), callback, "mine")
        assert done.wait(60)
        return got

    agree(script)


def test_one_session_in_many_threads():
    made = session(knapper.ort)
    options = knapper.ort.RunOptions()
    wrong = []

    def work(seed):
        for n in range(20):
            x = np.full((1 + (seed + n) % 5, 4), seed, np.float32)
            (y,) = made.run(["y"], feed(x), options)
            if not np.array_equal(y, 2 * x + 1):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- values and bindings


def test_ort_values():
    def script(ort):
        value = ort.OrtValue.ortvalue_from_numpy(X.copy())
        facts = [
            value.shape(), value.data_type(), value.element_type(), value.device_name(),
            value.tensor_size_in_bytes(), value.is_tensor(), value.has_value(),
            value.is_sparse_tensor(), value.is_tensor_sequence(), value.numpy(),
            np.asarray(value),
        ]  # fmt: skip
        made = session(ort)
        results = made.run_with_ort_values(["total", "y"], feed(value))
        facts += [r.numpy() for r in results] + [r.data_type() for r in results]
        value.update_inplace(X + 5)
        facts += [value.numpy(), made.run_with_ort_values(None, feed(value))[2].numpy()]
        for kind in (np.float64, 1, TensorProto.BFLOAT16, np.bool_):
            empty = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], kind)
            facts += [empty.data_type(), empty.shape(), empty.tensor_size_in_bytes()]
        facts.append(ort.OrtValue.ortvalue_from_numpy(X[:, ::2]).numpy())
        return facts

    agree(script)


def test_ort_value_shares_memory():
    def script(ort):
        array = X.copy()
        value = ort.OrtValue.ortvalue_from_numpy(array)
        assert value.data_ptr() == array.ctypes.data
        array[0] = 100
        alone = ort.OrtValue.ortvalue_from_numpy(np.full((3, 4), 7, np.float32))
        gc.collect()
        return (
            value.numpy().copy(),
            np.from_dlpack(alone).copy(),
            value.__dlpack_device__(),
        )

    agree(script)


def test_dlpack_both_ways():
    torch = pytest.importorskip("torch")
    OrtValue = knapper.ort.OrtValue
    tensor = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    value = OrtValue.from_dlpack(tensor)
    assert value.data_ptr() == tensor.data_ptr()
    made = session(knapper.ort)
    (y,) = made.run_with_ort_values(["y"], feed(value))
    back = torch.from_dlpack(y)
    assert back.data_ptr() == y.data_ptr()
    torch.testing.assert_close(back, tensor * 2 + 1)
    half = OrtValue.from_dlpack(tensor.to(torch.bfloat16))
    assert half.data_type() == "tensor(bfloat16)" and half.element_type() == 16
    bits = np.zeros((2, 3), np.uint16)
    same = OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
    assert same.data_ptr() == bits.ctypes.data
    assert torch.from_dlpack(same).dtype == torch.bfloat16


def test_io_binding():
    def script(ort):
        made = session(ort)
        binding = made.io_binding()
        array = X.copy()
        binding.bind_cpu_input("input.1", array)
        binding.bind_output("total")
        y = np.zeros((3, 4), np.float32)
        binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
        seen = [binding.copy_outputs_to_cpu()] if ort is knapper.ort else [[]]
        for _ in range(3):
            array += 1  # bound memory is read anew at each run
            made.run_with_iobinding(binding)
            seen.append((y.copy(), binding.copy_outputs_to_cpu()))
        seen.append([v.numpy().copy() for v in binding.get_outputs()])

        binding.clear_binding_outputs()
        total = ort.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32))
        binding.bind_ortvalue_output("total", total)
        binding.bind_ortvalue_input("input.1", ort.OrtValue.ortvalue_from_numpy(X * 3))
        binding.synchronize_inputs()
        made.run_with_iobinding(binding, ort.RunOptions())
        binding.synchronize_outputs()
        seen.append(total.numpy().copy())

        binding.clear_binding_inputs()
        other = np.full((2, 4), 5, np.float32)
        binding.bind_input("input.1", "cpu", 0, 1, list(other.shape), other.ctypes.data)
        binding.bind_output("total")  # again, of another size
        made.run_with_iobinding(binding)
        seen.append(binding.copy_outputs_to_cpu())
        return seen

    agree(script)


def test_all_outputs_bound():
    """After a first run nothing is looked up again, until something is bound anew."""

    def script(ort):
        made = session(ort)
        binding = made.io_binding()
        array = X.copy()
        binding.bind_input("input.1", "cpu", 0, np.float32, array.shape, array.ctypes.data)
        y, other = np.zeros((2, 3, 4), np.float32)
        total = np.zeros(3, np.float32)
        binding.bind_output("total", "cpu", 0, np.float32, total.shape, total.ctypes.data)
        seen = []
        for memory in (y, y, other):
            if memory is other or not seen:
                binding.bind_output("y", "cpu", 0, np.float32, memory.shape, memory.ctypes.data)
            for _ in range(3):
                array += 1
                made.run_with_iobinding(binding)
                seen.append((y.copy(), other.copy(), binding.copy_outputs_to_cpu()))
        fewer = np.full((2, 4), 5, np.float32)
        binding.bind_input("input.1", "cpu", 0, np.float32, fewer.shape, fewer.ctypes.data)
        raised(lambda: made.run_with_iobinding(binding))
        binding.bind_input("input.1", "cpu", 0, np.float32, array.shape, array.ctypes.data)
        made.run_with_iobinding(binding)
        seen.append(binding.copy_outputs_to_cpu())
        return seen

    agree(script)


def test_bound_output_of_the_session_follows_the_size():
    def script(ort):
        made = session(ort)
        binding = made.io_binding()
        sums = []
        for rows in (1, 5, 2):
            binding.bind_output("y")  # onnxruntime binds what it made, of one size
            binding.bind_cpu_input("input.1", np.ones((rows, 4), np.float32))
            made.run_with_iobinding(binding)
            sums.append(binding.get_outputs()[0].numpy().copy())
        return sums

    agree(script)


# ---- options


def test_free_dimensions():
    def script(ort):
        options = ort.SessionOptions()
        options.add_free_dimension_override_by_name("batch", 3)
        by_name = session(ort, sess_options=options)
        options = ort.SessionOptions()
        options.add_free_dimension_override_by_denotation("DATA_BATCH", 5)
        by_meaning = session(ort, sess_options=options)
        shapes = [
            [a.shape for a in s.get_inputs() + s.get_outputs()]
            for s in (by_name, by_meaning)
        ]
        error = raised(lambda: by_name.run(None, feed(X[:2])))
        assert "Got: 2 Expected: 3" in str(error)
        return shapes, by_name.run(None, feed()), type(error).__name__

    agree(script)


@pytest.mark.parametrize(
    "level", [level.name for level in knapper.ort.GraphOptimizationLevel]
)
def test_optimisation_levels(level):
    def script(ort):
        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
        made = session(ort, sess_options=options)
        return int(options.graph_optimization_level), made.run(None, feed())

    agree(script)


def test_defaults_are_those_of_onnxruntime():
    def script(ort):
        options, run = ort.SessionOptions(), ort.RunOptions()
        names = set(knapper.ort.settings.SESSION)
        facts = {n: getattr(options, n) for n in sorted(names)}
        facts |= {n: getattr(run, n) for n in knapper.ort.settings.RUN}
        return {
            n: int(v) if "ORT_" in str(v) or "DEFAULT" in str(v) or n == "execution_mode"
            or n in ("execution_order", "graph_optimization_level") else v
            for n, v in facts.items()
        }  # fmt: skip

    agree(script)


def test_settings_that_change_nothing():
    def script(ort):
        options = ort.SessionOptions()
        options.inter_op_num_threads = 3
        options.log_severity_level = 3
        options.log_verbosity_level = 1
        options.logid = "mine"
        options.enable_mem_pattern = False
        options.use_deterministic_compute = True
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        run = ort.RunOptions()
        run.logid = "this run"
        run.log_severity_level = 4
        return session(ort, sess_options=options).run(None, feed(), run)

    agree(script)


def _config(key, value):
    return lambda ort, o: o.add_session_config_entry(key, value)


HINTS = {
    "execution_mode": lambda ort, o: setattr(
        o, "execution_mode", ort.ExecutionMode.ORT_PARALLEL
    ),
    "execution_order": lambda ort, o: setattr(
        o, "execution_order", ort.ExecutionOrder.PRIORITY_BASED
    ),
    "enable_cpu_mem_arena": lambda ort, o: setattr(o, "enable_cpu_mem_arena", False),
    "enable_mem_reuse": lambda ort, o: setattr(o, "enable_mem_reuse", False),
    "intra_op_num_threads": lambda ort, o: setattr(o, "intra_op_num_threads", -1),
    "set_denormal_as_zero": _config("session.set_denormal_as_zero", "1"),
    "disable_prepacking": _config("session.disable_prepacking", "1"),
    "optimization": _config("optimization.enable_gelu_approximation", "1"),
    "set_seed": lambda ort, o: ort.set_seed(0),
}


@pytest.fixture
def unwarned(monkeypatch):
    """As in a process that has not warned yet."""
    monkeypatch.setattr(knapper.ort.refusals.RULES, "_warned", set())
    monkeypatch.delenv("KNAPPER_ORT_STRICT", raising=False)


@pytest.mark.parametrize("name", HINTS)
def test_hints_warn_once_and_change_no_result(name, unwarned):
    def script(ort):
        options = ort.SessionOptions()
        HINTS[name](ort, options)
        return session(ort, sess_options=options).run(None, feed())

    with pytest.warns(knapper.ort.HintWarning, match="knapper.ort differs") as caught:
        agree(script)
        script(knapper.ort)
    assert [Path(w.filename).name for w in caught] == ["ort_test.py"]


@pytest.mark.parametrize("by", ["environment", "setting"])
def test_strictness_refuses_hints(by, unwarned, monkeypatch):
    if by == "environment":
        monkeypatch.setenv("KNAPPER_ORT_STRICT", "1")
    else:
        knapper.ort.set_strict(True)
    try:
        assert knapper.ort.is_strict()
        options = knapper.ort.SessionOptions()
        options.enable_cpu_mem_arena = False
        options.execution_mode = knapper.ort.ExecutionMode.ORT_PARALLEL
        with pytest.raises(NotImplementedError, match="not honoured.*arena.*execution_mode"):
            session(knapper.ort, sess_options=options)
        with pytest.raises(NotImplementedError, match="set_seed"):
            knapper.ort.set_seed(0)
        options.enable_cpu_mem_arena = True
        options.execution_mode = knapper.ort.ExecutionMode.ORT_SEQUENTIAL
        session(knapper.ort, sess_options=options)
    finally:
        knapper.ort.set_strict(None)


REFUSED = {
    "no_such_key": lambda o: o.add_session_config_entry("no_such_key", "1"),
    "load_model_format": lambda o: o.add_session_config_entry(
        "session.load_model_format", "ORT"
    ),
    "custom_ops": lambda o: o.register_custom_ops_library("ops.so"),
    "add_provider": lambda o: o.add_provider("X", {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_session_options_that_are_refused(name):
    options = knapper.ort.SessionOptions()
    REFUSED[name](options)
    with pytest.raises(NotImplementedError, match="(?s)not honoured.*try: ") as caught:
        session(knapper.ort, sess_options=options)
    assert isinstance(caught.value, knapper.UserError) and caught.value.hint


def test_all_that_is_refused_is_said_at_once():
    options = knapper.ort.SessionOptions()
    for refuse in REFUSED.values():
        refuse(options)
    foreign = model()
    foreign.graph.node[0].op_type = "Foo"
    with pytest.raises(NotImplementedError) as caught:
        knapper.ort.InferenceSession(foreign, options, read_config_from_model=1)
    first = str(caught.value).splitlines()[0]
    for what in ("no_such_key", "load_model_format", "ops.so", "add_provider('X')",
                 "read_config_from_model", "Foo"):  # fmt: skip
        assert what in first
    assert first.startswith("6 things: not honoured by knapper.ort: ")
    run = knapper.ort.RunOptions()
    run.add_active_adapter(None)
    run.add_run_config_entry("no_such_key", "1")
    with pytest.raises(NotImplementedError, match="add_active_adapter.*no_such_key"):
        session(knapper.ort).run(None, feed(), run)


def test_other_calls_that_raise():
    ort = knapper.ort
    made = session(ort)
    for action in (
        lambda: ort.enable_telemetry_events(),
        lambda: made.set_ep_dynamic_options({}),
        lambda: made.io_binding().bind_output("y", "dml", 0),
        lambda: ort.OrtValue.ortvalue_from_numpy(X, "dml", 0),
    ):
        with pytest.raises(NotImplementedError, match="try: "):
            action()
    with pytest.raises(AttributeError, match="no attribute 'threads'"):
        ort.SessionOptions().threads = 3
    with pytest.raises(AttributeError, match="coming-from-onnxruntime"):
        ort.SparseTensor
    with pytest.raises(TypeError, match="takes int"):
        ort.SessionOptions().intra_op_num_threads = "2"
    with pytest.raises(ValueError, match="98"):
        ort.SessionOptions().graph_optimization_level = 98
    with pytest.raises(TypeError, match="knapper.ort.SessionOptions, not onnxruntime"):
        session(ort, sess_options=onnxruntime.SessionOptions())


def test_arguments_that_onnxruntime_ignores(unwarned):
    with pytest.warns(knapper.ort.HintWarning, match="no such argument"):
        made = session(knapper.ort, session_options=None, provider="CPUExecutionProvider")
    compare(made.run(None, feed()), session(onnxruntime).run(None, feed()))


def test_options_of_the_provider_and_of_runs(unwarned):
    def script(ort):
        options = {"arena_extend_strategy": "kSameAsRequested"}
        made = session(ort, providers=[("CPUExecutionProvider", options)])
        run = ort.RunOptions()
        run.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        run.only_execute_path_to_fetches = True
        return made.run(["total"], feed(), run), made.get_providers()

    with pytest.warns(knapper.ort.HintWarning) as caught:
        agree(script)
    assert len(caught) == 3


def test_initializers():
    """Replaced by the options, or fed where the file lists them among the inputs."""
    made = model()
    made.graph.input.append(helper.make_tensor_value_info("one", TensorProto.FLOAT, []))
    listed = made.SerializeToString()

    def script(ort):
        options = ort.SessionOptions()
        five = ort.OrtValue.ortvalue_from_numpy(np.array(5, "f"))  # theirs keeps no hold
        options.add_initializer("two", five)
        plain = ort.InferenceSession(listed, providers=["CPUExecutionProvider"])
        more = feed() | {"one": np.array(7, "f")}
        return (
            session(ort, sess_options=options).run(None, feed()),
            [(a.name, a.type, a.shape) for a in plain.get_overridable_initializers()],
            [a.name for a in plain.get_inputs()],
            plain.run(None, feed()),
            plain.run(None, more),
            plain.run(["total"], more),
        )

    agree(script)
    plain = knapper.ort.InferenceSession(listed)
    with pytest.raises(knapper.UserError, match="rank for input: one Got: 2 Expected: 0"):
        plain.run(None, feed() | {"one": X})
    options = knapper.ort.SessionOptions()
    options.add_external_initializers(["tow"], [knapper.ort.OrtValue(X)])
    with pytest.raises(knapper.UserError, match="no initializer 'tow'"):
        session(knapper.ort, sess_options=options)


def test_external_initializers(tmp_path):
    """Weights of a model in memory, handed over in memory."""
    w = np.arange(12, dtype=np.float32).reshape(4, 3)
    made = helper.make_model(
        helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
            [helper.make_tensor_value_info("x", 1, ("n", 4))],
            [helper.make_tensor_value_info("y", 1, ("n", 3))],
            [onnx.numpy_helper.from_array(w, "w")],
        ),
        opset_imports=[helper.make_opsetid("", 18)], ir_version=9,
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    onnx.save(made, path, save_as_external_data=True, size_threshold=0, location="w.bin")

    def script(ort):
        options = ort.SessionOptions()
        value = ort.OrtValue.ortvalue_from_numpy(w)
        options.add_external_initializers(["w"], [value])
        alone = ort.InferenceSession(path.read_bytes(), options)
        return alone.run(None, {"x": X}), ort.InferenceSession(path).run(None, {"x": X})

    agree(script)


def test_optimized_model(tmp_path, unwarned):
    """What is written is read again, as deployments do."""

    def script(ort):
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / f"{ort.__name__}.onnx")
        session(ort, sess_options=options)
        again = ort.SessionOptions()
        again.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        made = ort.InferenceSession(options.optimized_model_filepath, again)
        return made.run(None, feed())

    with pytest.warns(knapper.ort.HintWarning, match="optimized_model_filepath|compiled"):
        agree(script)


@pytest.mark.parametrize("kind", ["path", "bytes", "artefact"])
def test_pickled_sessions(kind, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(MODEL)
    options = knapper.ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = 1
    if kind != "artefact":
        options.add_free_dimension_override_by_name("batch", 3)
    source = path if kind == "path" else MODEL
    if kind == "artefact":
        session(knapper.ort).module.save(tmp_path / "m.knap")
        source = (tmp_path / "m.knap").read_bytes()
        options.graph_optimization_level = 99
    made = knapper.ort.InferenceSession(source, options)
    again = pickle.loads(pickle.dumps(made))
    compare(made.run(None, feed()), again.run(None, feed()))
    assert again.get_inputs() == made.get_inputs()
    assert again.get_modelmeta() == made.get_modelmeta()
    assert again.get_session_options().intra_op_num_threads == 1
    assert again._model_path == made._model_path == (str(path) if kind == "path" else None)
    stopped = knapper.ort.RunOptions()
    stopped.terminate = True
    with pytest.raises(knapper.Error, match="terminate flag"):
        made.run(None, feed(), copy.deepcopy(stopped))


def test_providers():
    def script(ort):
        wanted = ["DmlExecutionProvider", "CPUExecutionProvider"]
        with pytest.warns(UserWarning, match="'DmlExecutionProvider' is not in available"):
            made = session(ort, providers=wanted)
        return (
            made.get_providers(),
            made.run(["rows"], feed()),
        )

    agree(script)
    for providers in (3, "CPUExecutionProvider", [3], [("CPUExecutionProvider", 3)]):
        with pytest.raises(ValueError):
            session(knapper.ort, providers=providers)


def test_cuda_where_there_is_a_gpu(monkeypatch):
    """What is asked of the compiler, and what is said where it cannot."""
    ort = knapper.ort
    real, targets = knapper.compile, []

    def compile(source, target="cpu", **rest):
        targets.append(target)
        if target == "cuda":
            raise knapper.UserError("no code for this operator")
        return real(source, target=target, **rest)

    monkeypatch.setattr(knapper, "devices", lambda: [{"device": "cpu"}, {"device": "cuda"}])
    monkeypatch.setattr(knapper, "compile", compile)
    ort.providers.available.cache_clear()
    try:
        assert ort.get_available_providers() == [CUDA, CPU] and ort.get_device() == "GPU"
        for wanted in (
            [CUDA, CPU], [CUDA], [(CUDA, {"device_id": 0}), CPU], ["TensorrtExecutionProvider", CUDA],
        ):  # fmt: skip
            with pytest.warns(UserWarning, match="compiled for the CPU instead: no code") as caught:
                made = session(ort, providers=wanted)
            assert len(caught) == 1 and made.get_providers() == [CPU]
            assert targets == ["cuda", "cpu"]
            targets.clear()
        for wanted in ([CPU, CUDA], [CPU], None):
            compare(session(ort, providers=wanted).run(None, feed()), made.run(None, feed()))
            assert targets == ["cpu"]
            targets.clear()
        options = ort.providers.normalized([(CUDA, {"gpu_mem_limit": 9}), CPU], None)
        assert options == {CUDA: {"gpu_mem_limit": "9"}, CPU: {}}
        assert [r.hint for r in ort.providers.refusals(options)] == [True]
        with pytest.warns(ort.HintWarning, match="memory is the host's"):
            value = ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0)
        assert value.device_name() == "cpu"
        with pytest.raises(NotImplementedError, match="another device"):
            made.set_providers([CUDA])
    finally:
        monkeypatch.undo()
        ort.providers.available.cache_clear()
    with pytest.raises(NotImplementedError, match="device 'cuda'"):
        ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0)
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not in available"):
        assert session(ort, providers=[CUDA]).get_providers() == [CPU]


def test_terminate():
    def script(ort):
        made, run = session(ort), ort.RunOptions()
        run.terminate = True
        error = raised(lambda: made.run(None, feed(), run))
        run.terminate = False
        return type(error).__name__, "terminate flag" in str(error), made.run(None, feed(), run)

    agree(script)


def test_terminate_during_a_run():
    """A loop that would turn for years; both kinds of runs; the session stays good."""

    def script(ort):
        made = ort.InferenceSession(turns(), providers=["CPUExecutionProvider"])
        years = {"x": np.ones(3, np.float32), "turns": np.int64(1 << 60)}

        def bound(run):
            binding = made.io_binding()
            for name, value in years.items():
                binding.bind_cpu_input(name, np.asarray(value))
            binding.bind_output("y")
            made.run_with_iobinding(binding, run)

        answers = []
        for call in (lambda run: made.run(None, years, run), bound):
            run = ort.RunOptions()
            timer = threading.Timer(0.2, lambda: setattr(run, "terminate", True))
            timer.start()
            error = raised(lambda: call(run))
            timer.join()
            answers += [type(error).__name__, "terminate flag" in str(error)]
            run.terminate = False
            answers.append(made.run(None, years | {"turns": np.int64(3)}, run))
        return answers

    ours = script(knapper.ort)
    assert ours[:2] == ["Fail", True] and ours[3:5] == ["Fail", True]
    np.testing.assert_array_equal(ours[2][0], np.full(3, 0.125))


def turns():
    """x halved `turns` times."""
    value, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    body = onnx.helper.make_graph(
        [node("Mul", ["c", "half"], ["d"]), node("Identity", ["go"], ["on"])], "body",
        [value("i", 7, []), value("go", 9, []), value("c", 1, [3])], [value("on", 9, []), value("d", 1, [3])])  # fmt: skip
    graph = onnx.helper.make_graph(
        [node("Loop", ["turns", "", "x"], ["y"], body=body)], "g", [value("x", 1, [3]), value("turns", 7, [])],
        [value("y", 1, [3])], [onnx.numpy_helper.from_array(np.float32(0.5), "half")])  # fmt: skip
    opset = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


def test_profiling(tmp_path):
    options = knapper.ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "trace")
    made = session(knapper.ort, sess_options=options)
    assert made.get_profiling_start_time_ns() > 0
    made.run(None, feed())
    made.run(["y"], feed())
    path = made.end_profiling()
    events = json.loads(open(path).read())
    assert path.startswith(str(tmp_path / "trace"))
    assert [e["name"] for e in events].count("model_run") == 2
    kernels = [e for e in events if e["cat"] == "Node"]
    assert kernels and all(e["ph"] == "X" and e["dur"] >= 0 for e in kernels)
    assert all(e["name"].endswith("_kernel_time") and e["args"]["op_name"] for e in kernels)
    assert path.startswith(str(tmp_path / "trace_20"))
    assert "origin" in kernels[0]["args"] and made.end_profiling() == ""


# ---- errors


def error_names(error):
    return [k.__name__ for k in type(error).__mro__]


@pytest.mark.parametrize(
    "values, texts",
    [
        ({}, ["Required inputs (['input.1']) are missing"]),
        (feed() | {"z": X}, ["Invalid input name: z"]),
        (feed(X[0]), ["Invalid rank for input: input.1 Got: 1 Expected: 2"]),
        (feed(X[:, :3]), ["invalid dimensions for input: input.1",
                          "index: 1 Got: 3 Expected: 4"]),
        (feed(X.astype(np.float64)),
         ["Unexpected input data type. Actual: (tensor(double)) , expected: (tensor(float))"]),
        (feed(X.astype(np.int64)), ["Actual: (tensor(int64))"]),
    ],
)  # fmt: skip
def test_errors_of_inputs(values, texts):
    theirs, ours = both(lambda ort: raised(lambda: session(ort).run(None, values)))
    assert type(theirs).__name__ in error_names(ours)
    for text in texts:
        assert text in str(theirs) and text in str(ours)
    assert "input.1" in str(ours)  # also where theirs does not say which


def test_errors_of_outputs():
    theirs, ours = both(lambda ort: raised(lambda: session(ort).run(["no"], feed())))
    assert type(theirs).__name__ in error_names(ours)
    assert "Invalid output name:no" in str(theirs) and "Invalid output name:no" in str(ours)
    assert "y, total, rows" in str(ours)
    for error in both(lambda ort: raised(lambda: session(ort).run("y", feed()))):
        assert isinstance(error, TypeError)


def test_errors_of_bindings():
    def script(ort):
        made = session(ort)
        binding = made.io_binding()
        facts = [raised(lambda: binding.bind_cpu_input("no", X))]
        binding.bind_cpu_input("input.1", X)
        facts.append(raised(lambda: made.run_with_iobinding(binding)))
        facts.append(raised(lambda: binding.bind_output("y", "cpu", 0, None, None, 8)))
        for shape in ((2, 4), (4, 4), (4, 3)):
            y = np.zeros(shape, np.float32)
            binding.bind_output("y", "cpu", 0, np.float32, shape, y.ctypes.data)
            facts.append(raised(lambda: made.run_with_iobinding(binding)))
        binding.clear_binding_outputs()
        binding.bind_output("total")
        binding.bind_cpu_input("input.1", X.astype(np.float64))
        facts.append(raised(lambda: made.run_with_iobinding(binding)))
        facts.append(raised(lambda: session(ort).run_with_iobinding(binding)))
        return facts

    for theirs, ours in zip(*both(script), strict=True):
        assert type(theirs).__name__ in error_names(ours), (theirs, ours)


def test_errors_of_models(tmp_path):
    state = knapper.ort.capi.onnxruntime_pybind11_state
    junk = tmp_path / "junk.onnx"
    junk.write_bytes(b"junk")
    empty = tmp_path / "empty.onnx"
    empty.write_bytes(b"")
    for source, kind in (
        (str(tmp_path / "none.onnx"), "NoSuchFile"),
        (b"junk", "InvalidProtobuf"),
        (str(junk), "InvalidProtobuf"),
        (3, "TypeError"),
    ):
        for error in both(lambda ort: raised(lambda: ort.InferenceSession(source))):
            assert type(error).__name__ == kind
    with pytest.raises(state.InvalidProtobuf, match="it is empty"):
        knapper.ort.InferenceSession(empty)
    foreign = model()
    foreign.graph.node[0].op_type = "Foo"
    with pytest.raises(state.NotImplemented, match="Foo"):
        knapper.ort.InferenceSession(foreign)
    damaged = model()
    damaged.graph.node[1].input[0] = "nothing"
    with pytest.raises(state.InvalidGraph, match="nothing"):
        knapper.ort.InferenceSession(damaged)
    options = knapper.ort.SessionOptions()
    options.add_free_dimension_override_by_name("btach", 3)
    with pytest.raises(state.InvalidArgument, match="symbolic dims are: batch"):
        session(knapper.ort, sess_options=options)
    options = knapper.ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA", 3)
    with pytest.raises(state.InvalidArgument, match="no input's dim has it"):
        session(knapper.ort, sess_options=options)


def test_every_setting_is_in_the_page():
    page = (Path(__file__).parents[2] / "docs" / "coming-from-onnxruntime.md").read_text()
    settings = knapper.ort.settings
    for table in (
        settings.SESSION,
        settings.RUN,
        settings.SESSION_CONFIG,
        settings.RUN_CONFIG,
        [n for n in knapper.ort.__all__ if n.islower()],
    ):
        assert [name for name in table if f"`{name}`" not in page] == []
