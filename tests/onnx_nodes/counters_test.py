"""What Paddle's and PyTorch's exports do with counters: slices by them in loops, numbers whose rank wobbles."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import check, model, node
from onnx import TensorProto, helper, numpy_helper

import knapper

RNG = np.random.default_rng(5)
I64, F32, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def constant(name, value):
    return node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value)))


@pytest.mark.parametrize("starts, ends", [([0, 0], [2, 3]), ([1, -3], [9, -1]), ([3, 2], [1, 2]), ([-9, 0], [-1, 99])])
def test_slice_where_data_says(starts, ends):
    made = model([node("Slice", ["x", "s", "e", "a"], ["y"])], {"x": ["n", 5], "s": (I64, [2]), "e": (I64, [2])},
                 initializers={"a": np.int64([0, -1])})  # fmt: skip
    feeds = [{"x": random(n, 5), "s": np.int64(starts), "e": np.int64(ends)} for n in (4, 1)]
    check(made, feeds)


def test_slice_up_to_what_data_says():
    made = model([node("Slice", ["x", "zero", "e", "one"], ["y"])], {"x": [2, "n"], "e": (I64, [1])},
                 initializers={"zero": np.int64([0]), "one": np.int64([1])})  # fmt: skip
    check(made, [{"x": random(2, 6), "e": np.int64([e])} for e in (0, 4, 6, 50, -2)])


def test_slice_by_data_with_a_step():
    made = model([node("Slice", ["x", "s", "e", "one", "two"], ["y"])], {"x": [5], "s": (I64, [1])},
                 initializers={"e": np.int64([5]), "one": np.int64([0]), "two": np.int64([2])})  # fmt: skip
    module, x = knapper.compile(made), np.arange(5, dtype=np.float32)
    for start in (0, 1, 4, -1, -3, 9):
        np.testing.assert_array_equal(module(x, np.int64([start]))[0], x[start::2])


def counting(by, through, rank):
    """sum of row i of x for i = 0, by, 2 by..., written into row i of a result; the counter goes on as
    `through` says."""
    add = [node("Add", ["i", "by"], ["i_next"])]
    if through == "floats":
        add = [node("Cast", ["i"], ["f"], to=F32), node("Add", ["f", "byf"], ["f_next"]),
               node("Cast", ["f_next"], ["i_next"], to=I64)]  # fmt: skip
    one = [1] if rank else []
    body = helper.make_graph(
        [
            constant("by", np.int64(by)), constant("byf", np.float32(by)), constant("at", np.int64([1])),
            constant("axis", np.int64([0])), *add,
            node("Reshape", ["i", "at"], ["start"]), node("Add", ["start", "at"], ["end"]),
            node("Slice", ["x", "start", "end", "axis"], ["row"]),
            node("ReduceSum", ["row"], ["sum"], keepdims=0), node("Add", ["total", "sum"], ["total_next"]),
            node("Identity", ["c"], ["c_next"]),
        ],
        "body",
        [helper.make_tensor_value_info("t", I64, []), helper.make_tensor_value_info("c", BOOL, []),
         helper.make_tensor_value_info("i", I64, one), helper.make_tensor_value_info("total", F32, [])],
        [helper.make_tensor_value_info("c_next", BOOL, []), helper.make_tensor_value_info("i_next", I64, one),
         helper.make_tensor_value_info("total_next", F32, [])],
    )  # fmt: skip
    first = np.int64([0]) if rank else np.int64(0)
    return model([node("Loop", ["trips", "", "first", "none"], ["last", "y"], body=body)],
                 {"x": ["n", 3], "trips": (I64, [])}, (("last", I64), "y"),
                 {"first": first, "none": np.float32(0)})  # fmt: skip


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("through", ["integers", "floats"])
@pytest.mark.parametrize("by", [1, 2])
def test_a_carried_counter(by, through, rank):
    def want(feed):
        x, turns = feed["x"], int(feed["trips"])
        last = np.full([1] if rank else [], by * turns)
        return [last, np.float32(sum(x[by * t].sum() for t in range(turns)))]

    check(counting(by, through, rank), [{"x": random(7, 3), "trips": np.int64(t)} for t in (0, 1, 3)], 1e-5, want)


def test_a_carried_number_that_is_no_counter():
    """It doubles: sizes by it depend on data."""
    body = helper.make_graph(
        [constant("two", np.int64([2])), constant("axis", np.int64([0])), node("Mul", ["i", "two"], ["i_next"]),
         node("Slice", ["x", "i", "i_next", "axis"], ["part"]), node("ReduceSum", ["part"], ["s"], keepdims=0),
         node("Add", ["total", "s"], ["total_next"]), node("Identity", ["c"], ["c_next"])],
        "body",
        [helper.make_tensor_value_info("t", I64, []), helper.make_tensor_value_info("c", BOOL, []),
         helper.make_tensor_value_info("i", I64, [1]), helper.make_tensor_value_info("total", F32, [])],
        [helper.make_tensor_value_info("c_next", BOOL, []), helper.make_tensor_value_info("i_next", I64, [1]),
         helper.make_tensor_value_info("total_next", F32, [])],
    )  # fmt: skip
    made = model([node("Loop", ["trips", "", "first", "none"], ["last", "y"], body=body)],
                 {"x": ["n"], "trips": (I64, [])}, (("last", I64), "y"),
                 {"first": np.int64([1]), "none": np.float32(0)})  # fmt: skip
    def want(feed):
        end = 2 ** int(feed["trips"])
        return [np.int64([end]), np.float32(feed["x"][1:end].sum())]

    check(made, [{"x": random(9), "trips": np.int64(t)} for t in (0, 1, 3)], 1e-5, want)


def wobbling(nodes, inputs, initializers=()):
    """total = total + step, iteration by iteration, by `nodes`."""
    body = helper.make_graph(
        [*nodes, node("Identity", ["c"], ["c_next"])], "body",
        [helper.make_tensor_value_info("t", I64, []), helper.make_tensor_value_info("c", BOOL, []),
         helper.make_tensor_value_info("total", F32, None)],
        [helper.make_tensor_value_info("c_next", BOOL, []), helper.make_tensor_value_info("total_next", F32, None)],
    )  # fmt: skip
    return model([node("Loop", ["trips", "", "first"], ["y"], body=body)],
                 {"first": [], "step": [1], **inputs}, initializers=initializers)  # fmt: skip


def test_a_carried_number_that_becomes_a_line_of_one():
    """[] and [1] make [1]. How often the loop runs is known, or data; then the rank is what it begins with."""
    add = [node("Add", ["total", "step"], ["total_next"])]
    feed = {"first": np.float32(2), "step": np.float32([3])}
    check(wobbling(add, {}, {"trips": np.int64(4)}), [feed], 0, lambda _: [np.float32([14])])
    feeds = [feed | {"trips": np.int64(t)} for t in (0, 1, 4)]
    check(wobbling(add, {"trips": (I64, [])}), feeds, 0, lambda f: [np.float32(2 + 3 * f["trips"])])


def test_a_carried_number_whose_rank_changes_each_iteration():
    """A body that makes [1] of [] and [] of [1]: one of them is taken, and the import ends."""
    line = helper.make_graph([node("Add", ["total", "step"], ["a"])], "line", [], [helper.make_tensor_value_info("a", F32, None)])
    single = helper.make_graph(
        [node("Add", ["total", "step"], ["s"]), node("Reshape", ["s", "none"], ["b"])], "single", [],
        [helper.make_tensor_value_info("b", F32, None)],
    )  # fmt: skip
    nodes = [node("Shape", ["total"], ["dims"]), node("Size", ["dims"], ["rank"]),
             node("Cast", ["rank"], ["is_line"], to=BOOL),
             node("If", ["is_line"], ["total_next"], then_branch=single, else_branch=line)]  # fmt: skip
    made = wobbling(nodes, {}, {"trips": np.int64(4), "none": np.zeros(0, np.int64)})
    y = knapper.compile(made, cache=False)(first=np.float32(2), step=np.float32([3]))["y"]
    assert np.asarray(y).reshape(-1).tolist() == [14]


def test_what_a_turn_writes_first_may_begin_as_anything():
    """`made` begins as a number, is never read, and ends as a matrix."""
    body = helper.make_graph(
        [node("Add", ["x", "s"], ["made_next"]), node("ReduceSum", ["made_next"], ["s_next"], keepdims=0),
         node("Identity", ["c"], ["c_next"])],
        "body",
        [helper.make_tensor_value_info("t", I64, []), helper.make_tensor_value_info("c", BOOL, []),
         helper.make_tensor_value_info("made", F32, None), helper.make_tensor_value_info("s", F32, [])],
        [helper.make_tensor_value_info("c_next", BOOL, []), helper.make_tensor_value_info("made_next", F32, None),
         helper.make_tensor_value_info("s_next", F32, [])],
    )  # fmt: skip
    made = model([node("Loop", ["trips", "", "zero", "zero"], ["y", "s_last"], body=body)], {"x": ["n", 3]},
                 ("y", "s_last"), {"zero": np.float32(0), "trips": np.int64(3)})  # fmt: skip
    def want(feed):
        total = np.float32(0)
        for _ in range(3):
            last = feed["x"] + total
            total = last.sum()
        return [last, total]

    check(made, [{"x": random(n, 3)} for n in (2, 4)], 1e-3, want)


def test_a_number_of_another_rank_in_a_branch():
    yes = helper.make_graph([constant("a", np.float32(2))], "yes", [], [helper.make_tensor_value_info("a", F32, [])])
    no = helper.make_graph([constant("b", np.float32([3]))], "no", [], [helper.make_tensor_value_info("b", F32, [])])
    made = model([node("If", ["c"], ["k"], then_branch=yes, else_branch=no), node("Mul", ["x", "k"], ["y"])],
                 {"x": ["n"], "c": (BOOL, [])})  # fmt: skip
    x = random(4)
    check(made, [{"x": x, "c": np.array(c)} for c in (True, False)], 1e-6)


def test_a_state_says_how_large_the_batch_is():
    made = model([node("GRU", ["x", "w", "r", "", "", "h"], ["", "last"], hidden_size=3), node("Squeeze", ["last"], ["y"])],
                 {"x": ["t", "batch", 2], "h": [1, 1, 3]}, initializers={"w": random(1, 9, 2), "r": random(1, 9, 3)})  # fmt: skip
    check(made, [{"x": random(5, 1, 2), "h": random(1, 1, 3)}], 1e-5)


def test_the_layout_of_another_machine_is_refused():
    made = model([node("ReorderInput", ["x"], ["y"], domain="com.microsoft.nchwc")], {"x": [1, 16, 4, 4]},
                 domains=[("com.microsoft.nchwc", 1)])  # fmt: skip
    with pytest.raises(knapper.UserError, match="ORT_ENABLE_EXTENDED"):
        knapper.compile(made)
