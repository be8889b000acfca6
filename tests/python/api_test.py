"""What Python's users try without looking it up: `in`, repr, pickle, await,
usual names of dtypes, Python's own exceptions."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import knapper
from affine_models import affine_model, build

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def endless() -> knapper.Module:
    """A loop that ends after `turns` turns."""
    scalar = lambda name, kind: helper.make_tensor_value_info(name, kind, [])  # noqa: E731
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["on"], ["on_out"]),
            helper.make_node("Add", ["v", "v"], ["v_out"]),
        ],
        "body",
        [scalar("i", TensorProto.INT64), scalar("on", TensorProto.BOOL), scalar("v", TensorProto.FLOAT)],
        [scalar("on_out", TensorProto.BOOL), scalar("v_out", TensorProto.FLOAT)],
    )
    return knapper.compile(
        build(
            [helper.make_node("Loop", ["turns", "", "x"], ["y"], body=body)],
            [("turns", TensorProto.INT64, ()), ("x", TensorProto.FLOAT, ())],
            [("y", TensorProto.FLOAT, ())],
        ),
        threads=1,
    )


FOREVER = [np.int64(1 << 60), np.float32(0)]


# ---- results


def test_result_is_asked_for_names(affine):
    result = affine(X)
    assert "y" in result and "total" in result and "z" not in result
    assert X not in result and 0 not in result
    assert dict(result.items()).keys() == {"y", "total"}
    assert result.get("z") is None and result.get("y") is result["y"]
    assert [a.shape for a in result.values()] == [(3, 4), (3,)]


def test_repr(affine, subtract):
    result = affine(X)
    assert repr(result) == "Result(y: f32[3, 4], total: f32[3])"
    page = result._repr_html_()
    assert "<td>y</td><td>f32</td><td>3, 4</td>" in page
    page = affine._repr_html_()
    assert "cpu, 2 threads" in page and "batch" in page and "input.1" in page
    assert "&lt;script&gt;" in knapper.html.table(["<script>"], [])
    report = affine.explain()
    assert isinstance(report, str) and report._repr_html_().startswith("<iframe srcdoc=")
    assert (subtract.device, subtract.threads) == ("cpu", 1)
    assert subtract.symbols == ("rows", "columns")


def test_module_refuses_unknown_attributes(affine):
    with pytest.raises(AttributeError, match="'threads' cannot be set(?s:.*)knapper.load"):
        affine.threads = 1
    with pytest.raises(AttributeError, match="'treads' cannot be set(?s:.*)of your own"):
        affine.treads = 1
    with pytest.raises(AttributeError):
        affine.treads
    with pytest.raises(TypeError, match="knapper.compile"):
        knapper.Module()


# ---- dtypes


def test_dtype_of_an_input_is_numpys_too(affine):
    dtype = affine.inputs[0].dtype
    assert dtype == "f32" and dtype == np.float32 and np.dtype("f4") == dtype
    assert dtype != "f64" and dtype != np.float64 and dtype != 7
    assert np.dtype(dtype) == np.float32
    assert np.zeros((2, 4), dtype).dtype == np.float32
    assert str(dtype) == "f32" and f"{dtype:>4}" == " f32" and dtype.itemsize == 4
    assert {"f32": 1}[dtype] == 1
    # Names that NumPy reads as other types ("i8" has eight bytes there).
    made = knapper.compile(
        build(
            [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16)],
            [("x", TensorProto.INT8, (2,))],
            [("y", TensorProto.FLOAT16, (2,))],
        )
    )
    assert np.dtype(made.inputs[0].dtype) == np.int8
    assert np.dtype(made.outputs[0].dtype) == np.float16


def test_dtypes_by_any_usual_name():
    names = {
        "f16": ["f16", "fp16", "float16", "half", "Float16", np.float16, np.dtype("e")],
        "bf16": ["bf16", "bfloat16"],
    }
    if (ml_dtypes := sys.modules.get("ml_dtypes")) is not None:
        names["bf16"].append(ml_dtypes.bfloat16)
    if (torch := sys.modules.get("torch")) is not None:
        names["f16"].append(torch.float16)
        names["bf16"].append(torch.bfloat16)
    for name, usual in names.items():
        for dtype in usual:
            assert knapper.dtypes.name_of(dtype) == name
    assert knapper.compile(affine_model(), dtype=np.float16)(X)["y"][0, 1] == 3


def test_sizes_are_fixed_by_a_mapping():
    for dim in ({"batch": 3}, ["batch=3"], "batch=3", {"batch": np.int64(3)}):
        assert knapper.compile(affine_model(), dim=dim).inputs[0].shape == (3, 4)


# ---- exceptions


def test_errors_are_pythons_too(affine, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        knapper.load(tmp_path / "none.knap")
    assert isinstance(caught.value, knapper.UserError)
    assert caught.value.filename == str(tmp_path / "none.knap")
    with pytest.raises(FileNotFoundError):
        knapper.compile(tmp_path / "none.onnx")
    with pytest.raises(FileNotFoundError):
        affine.save(tmp_path / "none" / "x.knap")
    for call in (
        lambda: affine(X[:, :3].copy()),
        lambda: knapper.load(b"no artefact"),
        lambda: knapper.compile(affine_model(), threads=-1),
    ):
        with pytest.raises(ValueError) as wrong:
            call()
        assert isinstance(wrong.value, knapper.UserError)
    for call in (
        lambda: affine(X.astype(np.float64)),
        lambda: knapper.load(7),
        lambda: knapper.compile(affine_model(), threads="two"),
        lambda: knapper.compile(affine_model(), no_such=1),
    ):
        with pytest.raises(TypeError) as wrong:
            call()
        assert isinstance(wrong.value, knapper.UserError)
    large = np.broadcast_to(np.float32(0), (1 << 46, 4))
    with pytest.raises(MemoryError):
        affine(large)


def test_errors_survive_pickling(affine, tmp_path):
    for call in (
        lambda: knapper.load(tmp_path / "none.knap"),
        lambda: affine(X.astype(np.float64)),
        lambda: affine(z=X),
    ):
        with pytest.raises(knapper.UserError) as caught:
            call()
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is type(caught.value)
        assert (str(again), again.where, again.hint) == (
            str(caught.value), caught.value.where, caught.value.hint
        )  # fmt: skip


# ---- waiting


def test_wait_with_a_timeout():
    module = endless()
    pending = module.start(FOREVER)
    with pytest.raises(TimeoutError, match="not ended after 0.01 s"):
        pending.wait(0.01)
    assert not pending.done()
    waiting = threading.Thread(target=lambda: pytest.raises(knapper.UserError, pending.wait))
    waiting.start()
    with pytest.raises(TimeoutError):
        pending.wait(timeout=0)
    pending.cancel()  # also while another thread waits
    waiting.join(120)
    assert not waiting.is_alive()
    with pytest.raises(ValueError, match="has been waited for"):
        pending.wait(1)
    with pytest.raises(TypeError, match="number of seconds"):
        module.start([np.int64(1), np.float32(1)]).wait("long")
    assert module.start([np.int64(1), np.float32(1)]).wait(60)["y"] == 2


def test_await(affine):
    module = endless()

    async def work():
        results = await asyncio.gather(*(go(affine.start([X + i])) for i in range(8)))
        for i, result in enumerate(results):
            np.testing.assert_array_equal(result["y"], (X + i) * 2 + 1)
        with pytest.raises(TypeError):
            await affine.start([X.astype(np.float64)])
        with pytest.raises(ValueError):
            await affine.start([X[:, :3].copy()])
        pending = module.start(FOREVER)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(go(pending), 0.02)
        # It was cancelled with the task: the next run gets its turn.
        return await module.start([np.int64(2), np.float32(1)])

    async def go(pending):
        return await pending

    assert asyncio.run(work())["y"] == 4


# ---- pickle


def test_pickle(affine):
    again = pickle.loads(pickle.dumps(affine))
    assert again.inputs == affine.inputs and again.threads == affine.threads
    np.testing.assert_array_equal(again(X)["y"], X * 2 + 1)
    result = pickle.loads(pickle.dumps(affine(X)))
    assert repr(result) == "Result(y: f32[3, 4], total: f32[3])" and "y" in result
    np.testing.assert_array_equal(result["y"], X * 2 + 1)
    np.testing.assert_array_equal(result.tensor("y").numpy(), X * 2 + 1)
    assert pickle.loads(pickle.dumps(affine.inputs)) == affine.inputs
    tensor = pickle.loads(pickle.dumps(affine(X).tensor(0)))
    np.testing.assert_array_equal(tensor.numpy(), X * 2 + 1)
    for lasting in (affine.bind([X]), affine.start([X])):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(lasting)


# ---- threads

THREADS = "import sys, knapper; print(knapper.load(sys.argv[1], threads=int(sys.argv[2])).threads)"


def test_threads_of_the_environment(affine_artefact):
    def threads(given=0, **variables):
        environment = {k: v for k, v in os.environ.items() if k not in ("KNAPPER_THREADS", "OMP_NUM_THREADS")}
        environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        done = subprocess.run(
            [sys.executable, "-c", THREADS, affine_artefact, str(given)],
            env=environment | variables, capture_output=True, text=True,
        )  # fmt: skip
        return int(done.stdout) if done.returncode == 0 else done.stderr

    assert threads() == len(os.sched_getaffinity(0)) or threads() < len(os.sched_getaffinity(0))
    assert threads(OMP_NUM_THREADS="1") == 1
    assert threads(KNAPPER_THREADS="5", OMP_NUM_THREADS="1") == 5
    assert threads(3, KNAPPER_THREADS="5") == 3
    assert "KNAPPER_THREADS: 'two' is no number of threads" in threads(KNAPPER_THREADS="two")


# ---- the package


def test_import_is_light():
    """NumPy and what Python has loaded anyway; nothing of seconds."""
    program = (
        "import sys, numpy; before = set(sys.modules); import knapper;"
        "print(*sorted(set(sys.modules) - before))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    heavy = {"asyncio", "tempfile", "difflib", "torch", "onnx", "ml_dtypes", "html", "http", "unittest"}
    assert not heavy & {name.partition(".")[0] for name in loaded}
    assert len([name for name in loaded if not name.startswith("knapper")]) < 30, loaded


def test_onnx_file_next_to_its_artefact(tmp_path):
    model, made = tmp_path / "m.onnx", tmp_path / "m.knap"
    onnx.save(affine_model(), model)
    knapper.compile(model, output=made)
    with pytest.raises(ValueError, match="(?s)compiled artefact.*knapper.load"):
        knapper.compile(made)
    with pytest.raises(ValueError, match="(?s)compiled artefact.*knapper.load"):
        knapper.compile(made.read_bytes())
    with pytest.raises(ValueError, match="(?s)is a model.*knapper.compile"):
        knapper.load(model)
