"""Calling a module: forms of arguments, results, memory, errors."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import knapper
from affine_models import affine_model, build
from onnx import TensorProto, helper

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_signature(affine):
    assert affine.inputs == (
        knapper.TensorInfo("input.1", "f32", ("batch", 4)),
    )
    assert [i.name for i in affine.outputs] == ["y", "total"]
    assert affine.outputs[1].shape == ("batch",)
    assert "input.1: f32[batch, 4]" in repr(affine)


def test_result_by_position_and_name(affine):
    result = affine(X)
    np.testing.assert_array_equal(result[0], X * 2 + 1)
    np.testing.assert_array_equal(result["y"], result[0])
    np.testing.assert_allclose(result[-1], (X * 2 + 1).sum(1), rtol=1e-6)
    assert len(result) == 2
    assert result.keys() == ["y", "total"]
    first, second = result
    assert first is result[0] and second is result["total"]
    with pytest.raises(KeyError, match="no output 'z'; there are: y, total"):
        result["z"]
    with pytest.raises(IndexError):
        result[2]


def test_forms_of_arguments(subtract):
    a, b = X, X[::-1].copy()
    wanted = a - b
    for result in (
        subtract(a, b),
        subtract(a=a, b=b),
        subtract(b=b, a=a),
        subtract(a, b=b),
        subtract({"b": b, "a": a}),
        subtract.run([a, b]),
        subtract.run({"a": a, "b": b}),
        subtract.start([a, b]).wait(),
        subtract(a.tolist(), b.tolist()),
        subtract(np.asfortranarray(a), b),
    ):
        np.testing.assert_array_equal(result["c"], wanted)


def test_every_size_of_a_symbolic_dim(affine):
    for batch in (1, 2, 7, 64, 1000, 1):
        x = np.random.default_rng(batch).standard_normal((batch, 4), np.float32)
        np.testing.assert_allclose(affine(x)["y"], x * 2 + 1, rtol=1e-6)


def test_empty_batch(affine):
    result = affine(np.empty((0, 4), np.float32))
    assert result["y"].shape == (0, 4)
    assert result["total"].shape == (0,)


def test_outputs_outlive_result_and_module(affine_artefact):
    module = knapper.load(affine_artefact)
    array = module(X)["y"]
    del module
    gc.collect()
    # Other runs must not get the memory that the array still uses.
    other = knapper.load(affine_artefact)
    for _ in range(10):
        other(X + 100)
    np.testing.assert_array_equal(array, X * 2 + 1)


def test_held_results_do_not_share_memory(affine):
    results = [affine(X + i) for i in range(5)]
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result["y"], (X + i) * 2 + 1)


def test_memory_is_given_back(affine):
    affine(X)
    addresses = set()
    for _ in range(50):
        result = affine(X)
        addresses.add(result["y"].ctypes.data)
        del result
    assert len(addresses) <= 4, "results do not reuse memory"


def test_inputs_are_released(affine):
    x = X.copy()
    alive = weakref.ref(x)
    result = affine(x)
    del x
    gc.collect()
    assert alive() is None
    np.testing.assert_array_equal(result["y"], X * 2 + 1)


def test_given_outputs(affine):
    y = np.zeros((3, 4), np.float32)
    result = affine.run({"input.1": X}, {"y": y})
    np.testing.assert_array_equal(y, X * 2 + 1)
    assert result["y"].ctypes.data == y.ctypes.data
    np.testing.assert_allclose(result["total"], y.sum(1), rtol=1e-6)


@pytest.mark.parametrize(
    "outputs, message",
    [
        ({"z": np.zeros(3, np.float32)}, "no output 'z'"),
        ([None], "the model gives 2 outputs"),
        ({"y": np.zeros((3, 4))}, "of dtype f64"),
        ({"y": np.zeros((4, 3), np.float32).T}, "contiguous"),
        ({"y": np.zeros((1, 4), np.float32)}, "the output is f32.3, 4., the memory"),
        ({"y": np.zeros((4, 3), np.float32)}, "the output is f32.3, 4., the memory"),
        ({"y": np.zeros((12,), np.float32)}, "the output is f32.3, 4., the memory"),
        ({"y": np.zeros((1, 3, 4), np.float32)}, "the output is f32.3, 4., the memory"),
        ({"y": np.zeros((5, 4), np.float32)}, "the output is f32.3, 4., the memory"),
        ({"total": np.zeros((3, 1), np.float32)}, "the output is f32.3., the memory"),
        (np.zeros((3, 4), np.float32), "ndarray is no list of arrays"),
    ],
)
def test_wrong_outputs(affine, outputs, message):
    """Refused by every way of running, before anything is written."""
    for call in (
        lambda: affine.run([X], outputs),
        lambda: affine.bind([X], outputs),
        lambda: affine.start([X], outputs).wait(),
    ):
        with pytest.raises(knapper.UserError, match=message):
            call()
    given = outputs.values() if isinstance(outputs, dict) else outputs
    assert not any(np.any(memory) for memory in given if memory is not None)


@pytest.mark.parametrize("shape", [(12,), (5, 4), (3, 4), (20, 1, 1)])
def test_outputs_in_flat_memory(affine, shape):
    """Memory that is known to suffice: an output is in the first bytes of it."""
    for call in (
        lambda memory: affine.run([X], [memory, None], flat_outputs=True),
        lambda memory: affine.start({"input.1": X}, {"y": memory}, flat_outputs=True).wait(),
        lambda memory: affine.bind([X], {"y": memory}, flat_outputs=True)(),
    ):
        memory = np.full(shape, -7, np.float32)
        result = call(memory)
        np.testing.assert_array_equal(memory.ravel()[:12], (X * 2 + 1).ravel())
        assert (memory.ravel()[12:] == -7).all()
        if isinstance(result, knapper.Result):
            assert result["y"].shape == (3, 4)
            assert result["y"].ctypes.data == memory.ctypes.data
    with pytest.raises(knapper.UserError, match="takes 48 bytes, 44 were given"):
        affine.run([X], [np.zeros(11, np.float32), None], flat_outputs=True)
    with pytest.raises(TypeError, match="is of dtype f64"):
        affine.run([X], [np.zeros(12), None], flat_outputs=True)


def test_flat_memory_of_a_size_that_data_decides():
    """NonZero: as many columns as there are ones, 6 at most."""
    model = build(
        [helper.make_node("NonZero", ["x"], ["at"], name="find")],
        [("x", TensorProto.FLOAT, (6,))],
        [("at", TensorProto.INT64, (1, "found"))],
    )
    module = knapper.compile(model, threads=1)
    room = np.full(6, -7)
    for ones in ([0, 2, 5], [1], [], [0, 1, 2, 3, 4, 5]):
        x = np.zeros(6, np.float32)
        x[ones] = 1
        room[:] = -7
        found = module.run([x], [room], flat_outputs=True)["at"]
        assert found.tolist() == [ones]
        assert room.tolist() == ones + [-7] * (6 - len(ones))
        exact = np.empty((1, len(ones)), np.int64)
        assert module.run([x], [exact])["at"].tolist() == [ones]
        with pytest.raises(ValueError, match="the memory given for it is i64.1, 7."):
            module.run([x], [np.empty((1, 7), np.int64)])
    with pytest.raises(knapper.UserError, match="is known after a run only"):
        module.bind([x], [room], flat_outputs=True)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda m: m(), r"the model takes 1 input \(input.1\), 0 were given"),
        (lambda m: m(X, X), r"the model takes 1 input \(input.1\), 2 were given"),
        (lambda m: m(x=X), "no input 'x'"),
        (lambda m: m({}), "input 'input.1' is missing"),
        (lambda m: m(X, **{"input.1": X}), "by position and by name"),
        (lambda m: m(X.astype(">f4")), "no dtype >f4"),
        (lambda m: m("text"), "is no array"),
        (lambda m: m(X.astype(np.float64)), "input.1.*f64|f64.*input.1"),
        (lambda m: m(X[0]), "input.1"),
        (lambda m: m(X[:, :3].copy()), "input.1"),
    ],
)
def test_wrong_inputs(affine, call, message):
    with pytest.raises(knapper.UserError, match=message):
        call(affine)


def test_many_threads(affine, at_once):
    wrong = []

    def work(seed):
        generator = np.random.default_rng(seed)
        for _ in range(200):
            batch = int(generator.integers(1, 40))
            x = generator.standard_normal((batch, 4), np.float32)
            if not np.allclose(affine(x)["y"], x * 2 + 1):
                wrong.append((seed, batch))

    at_once(work, range(8))
    assert not wrong


def test_pending_is_waited_for_once(affine):
    pending = affine.start([X])
    pending.wait()
    assert pending.done()
    with pytest.raises(knapper.UserError, match="has been waited for"):
        pending.wait()


def test_pending_that_nobody_waits_for(affine):
    for _ in range(20):
        affine.start([X])
    gc.collect()
    np.testing.assert_array_equal(affine(X)["y"], X * 2 + 1)


def test_bound_calls(affine):
    x, y = X.copy(), np.empty_like(X)
    bound = affine.bind({"input.1": x}, {"y": y})
    assert bound.outputs[0] is y and bound.outputs[1].shape == (3,)
    for turn in range(3):
        x += turn  # read anew by each call
        outputs = bound()
        assert outputs[0] is y
        np.testing.assert_array_equal(y, x * 2 + 1)
        np.testing.assert_allclose(outputs[1], y.sum(1), rtol=1e-6)
    # Other calls between leave it as it is, and it them.
    other = np.empty((1, 4), np.float32)
    affine.run([X[:1]], [other, None])
    affine(X[:2])
    np.testing.assert_array_equal(bound()[0], x * 2 + 1)
    np.testing.assert_array_equal(other, X[:1] * 2 + 1)


def test_bound_calls_keep_what_they_use():
    module = knapper.compile(affine_model(), threads=1)
    x = X.copy()
    bound, freed = module.bind([x]), weakref.ref(x)
    del module, x
    gc.collect()
    np.testing.assert_array_equal(bound()[0], X * 2 + 1)
    assert freed() is not None
    del bound
    gc.collect()
    assert freed() is None


def test_bound_calls_refuse(affine, subtract):
    with pytest.raises(knapper.UserError, match="would be copied"):
        affine.bind([X.tolist()])
    with pytest.raises(knapper.UserError, match="would be copied"):
        subtract.bind([X, X.T.copy().T])
    with pytest.raises(knapper.UserError, match="runs in no stream"):
        affine.bind([X], stream=0)
    with pytest.raises(TypeError, match="a str is no CUDA stream"):
        affine.bind([X], stream="default")
    with pytest.raises(knapper.UserError, match="no output 'z'"):
        affine.bind([X], {"z": np.empty(3, np.float32)})
    with pytest.raises(knapper.UserError, match="is of dtype f64"):
        affine.bind([X], [np.empty((3, 4)), np.empty(3, np.float32)])
    with pytest.raises(knapper.UserError, match="the memory given for it is f32.2, 4."):
        affine.bind([X], [np.empty((2, 4), np.float32), np.empty(3, np.float32)])
    with pytest.raises(knapper.UserError, match="got f32.3, 3."):
        affine.bind([X[:, :3].copy()])


def test_binding_runs_nothing(affine):
    """What the caller's memory holds stays until the first call."""
    y = np.full((3, 4), -7, np.float32)
    bound = affine.bind([X], [y, None])
    assert (y == -7).all()
    bound()
    np.testing.assert_array_equal(y, X * 2 + 1)


def test_runs_into_memory_of_changing_shapes(affine):
    """The structs of the call before are used again where they fit only."""
    for batch in (1, 3, 3, 1, 64, 3):
        x = np.full((batch, 4), batch, np.float32)
        y, total = np.empty_like(x), np.empty(batch, np.float32)
        for given in ([y, total], [y, None], [None, total], [None, None]):
            y[...] = total[...] = 0
            result = affine.run([x], given)
            np.testing.assert_array_equal(result["y"], x * 2 + 1)
            np.testing.assert_allclose(result["total"], (x * 2 + 1).sum(1), rtol=1e-6)
            assert (given[0] is None) == (y[0, 0] == 0)
            assert (given[1] is None) == (total[0] == 0)
