"""knapper.ort beside onnxruntime: one script, two imports, equal results."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper
from ort_support import MODEL, X, agree, both, compare, feed, model, onnxruntime, raised, session

import knapper.ort

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


def test_one_session_in_many_threads(at_once):
    made = session(knapper.ort)
    options = knapper.ort.RunOptions()
    wrong = []

    def work(seed):
        for n in range(20):
            x = np.full((1 + (seed + n) % 5, 4), seed, np.float32)
            (y,) = made.run(["y"], feed(x), options)
            if not np.array_equal(y, 2 * x + 1):
                wrong.append(seed)

    at_once(work, range(6))
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
        total, rows = np.zeros(3, np.float32), np.zeros(1, np.int64)
        binding.bind_output("total", "cpu", 0, np.float32, total.shape, total.ctypes.data)
        binding.bind_output("rows", "cpu", 0, np.int64, rows.shape, rows.ctypes.data)
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


def test_numbers_below_zero():
    """A size is unknown then, a version is one."""
    value, shape = helper.make_tensor_value_info, (-1, 4)
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])], "g",
        [value("x", TensorProto.FLOAT, shape)], [value("y", TensorProto.FLOAT, shape)],
    )  # fmt: skip
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9, model_version=-3
    )

    def script(ort):
        made = ort.InferenceSession(model.SerializeToString())
        shapes = [value.shape for value in (*made.get_inputs(), *made.get_outputs())]
        return [shapes, made.get_modelmeta().version, made.run(None, {"x": X})]

    agree(script)


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
