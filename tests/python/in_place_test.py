"""Outputs in the memory of inputs: what may, what is copied, what is refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import knapper
import knapper.ort as ort

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
RNG = np.random.default_rng(3)
HEADS, WIDTH, ROOM = 2, 8, 12


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def model(nodes, inputs, outputs, opset=24):
    """Inputs and outputs by name, with dims or (type, dims)."""

    def info(name, what):
        kind, dims = what if isinstance(what, tuple) else (FLOAT, what)
        return helper.make_tensor_value_info(name, kind, dims)

    graph = helper.make_graph(
        nodes, "g", [info(*i) for i in inputs.items()], [info(*o) for o in outputs.items()]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


CACHE = ["batch", HEADS, "room", WIDTH]


def step() -> onnx.ModelProto:
    """A layer's attention for the tokens that come, whose keys and values go
    behind those held: the standard's cache of a fixed size."""
    return model(
        [
            node("TensorScatter", ["past_k", "k", "at"], ["present_k"], axis=2),
            node("TensorScatter", ["past_v", "v", "at"], ["present_v"], axis=2),
            node("Shape", ["k"], ["n"], start=2, end=3),
            node("Add", ["at", "n"], ["held"]),
            node("Attention", ["q", "present_k", "present_v", "", "", "", "held"], ["y"], is_causal=1),
        ],
        {
            "q": ["batch", HEADS, "tokens", WIDTH],
            "k": ["batch", HEADS, "tokens", WIDTH],
            "v": ["batch", HEADS, "tokens", WIDTH],
            "at": (INT64, ["batch"]),
            "past_k": CACHE,
            "past_v": CACHE,
        },
        {"y": None, "present_k": CACHE, "present_v": CACHE},
    )


@pytest.fixture(scope="module")
def decoder():
    return knapper.compile(step(), threads=2)


def sequence(batch=3):
    """Tokens of a prompt of unequal lengths, then one each."""
    at = np.array([0, 2, 1][:batch])
    for tokens in (3, 1, 1, 2, 1):
        feed = {name: normal(batch, HEADS, tokens, WIDTH) for name in "qkv"}
        yield feed | {"at": at.copy()}
        at += tokens


def caches(batch=3):
    return {name: normal(batch, HEADS, ROOM, WIDTH) for name in ("past_k", "past_v")}


def in_turn(module, steps, held):
    """Each step with copies: results and caches."""
    results = []
    for feed in steps:
        result = module(feed | held)
        held = {"past_k": result["present_k"], "past_v": result["present_v"]}
        results.append(result["y"])
    return results, held


def test_the_pairs(decoder):
    # The tokens' own keys and values are free when the result is written.
    wanted = {"y": ("k", "v"), "present_k": ("past_k",), "present_v": ("past_v",)}
    assert decoder.in_place == wanted
    assert decoder.describe()["in_place"] == [
        {"output": "y", "inputs": ["k", "v"]},
        {"output": "present_k", "inputs": ["past_k"]},
        {"output": "present_v", "inputs": ["past_v"]},
    ]
    assert "present_k over past_k" in decoder.explain()


def test_a_loop_in_place_equals_one_with_copies(decoder):
    steps, held = list(sequence()), caches()
    wanted, left = in_turn(decoder, steps, held)
    mine = {name: array.copy() for name, array in held.items()}
    for feed, want in zip(steps, wanted):
        result = decoder.run(
            feed | mine, {"present_k": mine["past_k"], "present_v": mine["past_v"]}
        )
        np.testing.assert_array_equal(result["y"], want)
        assert result["present_k"].ctypes.data == mine["past_k"].ctypes.data
    for name, array in left.items():
        np.testing.assert_array_equal(mine[name], array)


def test_only_the_rows_written_change(decoder):
    held = caches(1)
    before = {name: array.copy() for name, array in held.items()}
    feed = {name: normal(1, HEADS, 2, WIDTH) for name in "qkv"} | {"at": np.array([5])}
    decoder.run(feed | held, {"present_k": held["past_k"], "present_v": held["past_v"]})
    for name, new in (("past_k", "k"), ("past_v", "v")):
        want = before[name]
        want[:, :, 5:7] = feed[new]
        np.testing.assert_array_equal(held[name], want)


def test_the_number_of_threads_changes_no_bit():
    steps, results = list(sequence()), []
    for threads in (1, 2, 4):
        module = knapper.compile(step(), threads=threads)
        module = knapper.compile(step(), threads=threads)
        held = {name: np.full((3, HEADS, ROOM, WIDTH), 0.5, np.float32) for name in ("past_k", "past_v")}
        made = []
        for feed in steps:
            made.append(
                module.run(
                    feed | held, {"present_k": held["past_k"], "present_v": held["past_v"]}
                )["y"].tobytes()
            )
        results.append((made, held["past_k"].tobytes(), held["past_v"].tobytes()))
    assert results[0] == results[1] == results[2]


def test_bound_elsewhere_the_input_stays(decoder):
    feed, held = next(sequence()), caches()
    before = {name: array.copy() for name, array in held.items()}
    wanted, left = in_turn(decoder, [feed], held)
    outputs = {"present_k": np.empty_like(held["past_k"]), "present_v": held["past_v"]}
    decoder.run(feed | held, outputs)
    np.testing.assert_array_equal(held["past_k"], before["past_k"])
    np.testing.assert_array_equal(outputs["present_k"], left["past_k"])
    np.testing.assert_array_equal(held["past_v"], left["past_v"])


def test_overlapping_in_part_is_refused(decoder):
    feed, held = next(sequence()), caches()
    size = held["past_k"].size
    memory = np.zeros(size + 16, np.float32)
    shape = held["past_k"].shape
    past, present = memory[:size].reshape(shape), memory[16:].reshape(shape)
    with pytest.raises(
        knapper.UserError,
        match="(?s)output 'present_k': its memory is partly input 'past_k'.*give output "
        "'present_k' exactly the memory of input 'past_k', or memory of its own",
    ):
        decoder.run(feed | held | {"past_k": past}, {"present_k": present})


def test_memory_of_another_input_is_refused(decoder):
    feed, held = next(sequence()), caches()
    with pytest.raises(knapper.UserError, match="(?s)also (in|out)put 'p.*memory of their own"):
        decoder.run(feed | held, {"present_k": held["past_v"]})
    both = feed | {"past_k": held["past_k"], "past_v": held["past_k"]}
    with pytest.raises(knapper.UserError, match="also (in|out)put 'p"):
        decoder.run(both, {"present_k": held["past_k"]})
    with pytest.raises(knapper.UserError, match="also output 'present"):
        decoder.run(both, {"present_k": held["past_k"], "present_v": held["past_k"]})


def test_an_index_outside_fails_the_run(decoder):
    feed, held = next(sequence()), caches()
    with pytest.raises(knapper.UserError, match="index"):
        decoder.run(feed | held | {"at": np.array([0, ROOM - 2, 0])})


def test_bind_does_not_run_what_is_in_place():
    """The sizes of other outputs are found by a run, which must change nothing."""
    module = knapper.compile(
        model(
            [node("Add", ["x", "x"], ["y"]), node("ReduceSum", ["w"], ["sum"], keepdims=0)],
            {"x": ["n"], "w": ["m"]},
            {"sum": [], "y": ["n"]},
        )
    )
    x, w = normal(7), normal(3)
    before = x.copy()
    assert "x" in module.in_place["y"]
    call = module.bind({"x": x, "w": w}, {"y": x})
    np.testing.assert_array_equal(x, before)
    for times in (2, 4):
        call()
        np.testing.assert_array_equal(x, before * times)


def test_elementwise_models_update_their_operand():
    module = knapper.compile(
        model([node("Mul", ["x", "g"], ["a"]), node("Tanh", ["a"], ["y"])],
              {"x": ["n", 5], "g": ["n", 5]}, {"y": ["n", 5]})
    )  # fmt: skip
    assert module.in_place == {"y": ("x", "g")}
    for rows in (1, 7, 300):
        x, g = normal(rows, 5), normal(rows, 5)
        want = module(x, g)["y"].copy()
        for under in (x.copy(), g.copy()):
            feed = {"x": x, "g": g}
            which = "x" if np.array_equal(under, x) else "g"
            module.run(feed | {which: under}, {"y": under})
            np.testing.assert_array_equal(under, want)


def test_what_is_read_later_keeps_its_memory():
    """x is read at other elements, or after y is written."""
    module = knapper.compile(
        model(
            [node("Neg", ["x"], ["y"]), node("MatMul", ["y", "x"], ["z"])],
            {"x": [5, 5]},
            {"y": [5, 5], "z": [5, 5]},
        )
    )
    assert "z" not in module.in_place and "y" not in module.in_place
    x = normal(5, 5)
    with pytest.raises(knapper.UserError, match="memory of their own"):
        module.run({"x": x}, {"z": x})


def test_a_cache_that_is_also_returned_as_it_was():
    made = model(
        [node("Identity", ["past"], ["old"]),
         node("TensorScatter", ["past", "k", "at"], ["present"], axis=2)],
        {"past": CACHE, "k": ["batch", HEADS, 1, WIDTH], "at": (INT64, ["batch"])},
        {"present": CACHE, "old": CACHE},
    )  # fmt: skip
    module = knapper.compile(made)
    past, k, at = normal(2, HEADS, ROOM, WIDTH), normal(2, HEADS, 1, WIDTH), np.array([3, 0])
    before = past.copy()
    assert "present" not in module.in_place
    result = module(past, k, at)
    np.testing.assert_array_equal(result["old"], before)
    want = before.copy()
    want[0, :, 3], want[1, :, 0] = k[0, :, 0], k[1, :, 0]
    np.testing.assert_array_equal(result["present"], want)
    # The old one may stay where it is.
    assert module.in_place == {"old": ("past",)}
    module.run({"past": past, "k": k, "at": at}, {"old": past})
    np.testing.assert_array_equal(past, before)


def test_a_cache_returned_twice_and_written_twice():
    made = model(
        [node("TensorScatter", ["past", "k", "at"], ["once"], axis=2),
         node("TensorScatter", ["once", "v", "at"], ["present"], axis=2, mode="circular"),
         node("Identity", ["present"], ["again"])],
        {"past": CACHE, "k": ["batch", HEADS, 2, WIDTH], "v": ["batch", HEADS, 1, WIDTH],
         "at": (INT64, ["batch"])},
        {"present": CACHE, "again": CACHE},
    )  # fmt: skip
    module = knapper.compile(made)
    past, k, v = normal(1, HEADS, ROOM, WIDTH), normal(1, HEADS, 2, WIDTH), normal(1, HEADS, 1, WIDTH)
    want = past.copy()
    want[:, :, 4:6], want[:, :, 4:5] = k, v
    assert module.in_place == {"present": ("past",)}
    feed = {"past": past, "k": k, "v": v, "at": np.array([4])}
    result = module(feed)
    np.testing.assert_array_equal(result["present"], want)
    np.testing.assert_array_equal(result["again"], want)
    result = module.run(feed, {"present": past})
    np.testing.assert_array_equal(past, want)
    np.testing.assert_array_equal(result["again"], want)


def test_io_binding_shares_past_and_present(tmp_path):
    onnx.save(step(), tmp_path / "step.onnx")
    session = ort.InferenceSession(tmp_path / "step.onnx", providers=["CPUExecutionProvider"])
    steps, held = list(sequence()), caches()
    wanted, left = in_turn(session.module, steps, held)
    values = {n: ort.OrtValue.ortvalue_from_numpy(array.copy()) for n, array in held.items()}
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y")
    for name, value in values.items():
        binding.bind_ortvalue_output(name.replace("past", "present"), value)
    for feed, want in zip(steps, wanted):
        for name, array in feed.items():
            binding.bind_cpu_input(name, array)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), want)
    for name, array in left.items():
        np.testing.assert_array_equal(values[name].numpy(), array)
