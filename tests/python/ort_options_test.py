"""knapper.ort's options, providers, initialisers and profiles beside onnxruntime's."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from ort_support import CPU, CUDA, MODEL, X, agree, both, compare, feed, model, onnxruntime, raised, session

import knapper.ort

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
    assert [Path(w.filename).name for w in caught] == [Path(__file__).name]


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
