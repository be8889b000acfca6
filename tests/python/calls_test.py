"""Calling a module: forms of arguments, results, memory, errors."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import knapper
from conftest import affine_model

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
        ({"y": np.zeros((1, 4), np.float32)}, "y"),
    ],
)
def test_wrong_outputs(affine, outputs, message):
    with pytest.raises(knapper.UserError, match=message):
        affine.run([X], outputs)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda m: m(), "the model takes 1 inputs, 0 were given"),
        (lambda m: m(X, X), "the model takes 1 inputs, 2 were given"),
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


def test_many_threads(affine):
    wrong = []

    def work(seed):
        generator = np.random.default_rng(seed)
        for _ in range(200):
            batch = int(generator.integers(1, 40))
            x = generator.standard_normal((batch, 4), np.float32)
            if not np.allclose(affine(x)["y"], x * 2 + 1):
                wrong.append((seed, batch))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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
    with pytest.raises(knapper.UserError, match="no output 'z'"):
        affine.bind([X], {"z": np.empty(3, np.float32)})
    with pytest.raises(knapper.UserError, match="is of dtype f64"):
        affine.bind([X], [np.empty((3, 4)), np.empty(3, np.float32)])
    with pytest.raises(knapper.UserError):
        affine.bind([X], [np.empty((2, 4), np.float32), np.empty(3, np.float32)])()


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
