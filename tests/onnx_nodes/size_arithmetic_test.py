"""Sizes that a graph computes as exporters write it: truncated quotients, floats that are rounded, choices."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from node_models import check, model, node
from onnx import TensorProto

import knapper

FLOAT, INT64, DOUBLE = TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE


def expanded(nodes, constants):
    """Ones as many as the nodes compute in `to` from `size`, the length of x."""
    ends = [
        node("Shape", ["x"], ["size"]), *nodes,
        node("ConstantOfShape", ["to"], ["zeros"]), node("Add", ["zeros", "c1"], ["y"]),
    ]  # fmt: skip
    return model(ends, {"x": ["n"]}, initializers={**constants, "c1": np.float32(1)})


def against_onnxruntime(made, sizes):
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = [{"x": np.ones(size, np.float32)} for size in sizes]
    return check(made, feeds, reference=lambda feed: session.run(None, feed))


@pytest.mark.parametrize("offset", [3, -1, -3, -7])
def test_truncated_quotients(offset):
    """The front end of wav2vec2, as torch's exporter simplifies it."""
    nodes = [
        node("Div", ["size", "c80"], ["a"]), node("Add", ["a", "offset"], ["b"]), node("Div", ["b", "c2"], ["c"]),
        node("Add", ["c", "one"], ["d"]), node("Div", ["d", "c2"], ["e"]), node("Add", ["e", "c9"], ["to"]),
    ]  # fmt: skip
    made = expanded(nodes, {"c80": np.int64([80]), "c2": np.int64([2]), "one": np.int64([1]), "c9": np.int64([9]),
                            "offset": np.int64([offset])})  # fmt: skip
    against_onnxruntime(made, [0, 79, 80, 159, 160, 240, 400, 641, 16000])


def test_a_length_behind_strides_in_a_reshape():
    """The length that pooling leaves, computed again from the input's as torch's exporter does, and a -1 beside it."""
    pools = [
        node("MaxPool", [given], [made], kernel_shape=[window], strides=[stride])
        for given, made, window, stride in [("x", "p", 80, 80), ("p", "q", 3, 2), ("q", "r", 2, 2)]
    ]
    nodes = [
        *pools, node("Shape", ["x"], ["size"], start=2), node("Div", ["size", "c80"], ["a"]),
        node("Add", ["a", "minus3"], ["b"]), node("Div", ["b", "c2"], ["c"]), node("Add", ["c", "minus1"], ["d"]),
        node("Div", ["d", "c2"], ["e"]), node("Add", ["e", "one"], ["length"]), node("Shape", ["x"], ["batch"], end=1),
        node("Concat", ["batch", "length", "minus1", "c64"], ["to"], axis=0), node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
        node("Reshape", ["t", "to"], ["y"]),
    ]  # fmt: skip
    constants = {"c80": 80, "c2": 2, "c64": 64, "one": 1, "minus1": -1, "minus3": -3}
    made = model(nodes, {"x": ["s48", 128, "s63"]}, initializers={name: np.int64([n]) for name, n in constants.items()})
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal((batch, 128, size), np.float32)} for batch, size in [(1, 400), (2, 16001), (3, 641)]]
    check(made, feeds, reference=lambda feed: session.run(None, feed))


@pytest.mark.parametrize("rounding", ["Floor", "Ceil", None])
@pytest.mark.parametrize("type", [FLOAT, DOUBLE])
def test_floats(type, rounding):
    """(size / 3 + 2) * 0.75, rounded or cast."""
    array = np.float32 if type == FLOAT else np.float64
    nodes = [
        node("Cast", ["size"], ["f"], to=type), node("Div", ["f", "c3"], ["q"]), node("Add", ["q", "c2"], ["s"]),
        node("Mul", ["s", "c34"], ["r"]), *([node(rounding, ["r"], ["w"])] if rounding else []),
        node("Cast", ["w" if rounding else "r"], ["to"], to=INT64),
    ]  # fmt: skip
    made = expanded(nodes, {"c3": array([3]), "c2": array([2]), "c34": array([0.75])})
    against_onnxruntime(made, [0, 1, 2, 3, 7, 40, 1000])


def test_choices():
    """Long inputs are cut to 20, short ones padded up to a multiple of 4, those of 7 left."""
    nodes = [
        node("Mod", ["size", "c4"], ["m"]), node("Sub", ["c4", "m"], ["pad"]), node("Equal", ["m", "c0"], ["fits"]),
        node("Where", ["fits", "c0", "pad"], ["p"]), node("Add", ["size", "p"], ["padded"]),
        node("Greater", ["size", "c20"], ["long"]), node("Equal", ["size", "c7"], ["seven"]),
        node("Where", ["long", "c20", "padded"], ["t"]), node("Where", ["seven", "size", "t"], ["u"]),
        node("Max", ["u", "c4"], ["to"]),
    ]  # fmt: skip
    made = expanded(nodes, {f"c{i}": np.int64([i]) for i in (0, 4, 7, 20)})
    against_onnxruntime(made, [0, 1, 4, 5, 7, 8, 19, 20, 21, 50])


def test_repeats_by_one_hot():
    """repeat_interleave of torch's tracing exporter: x with a dim of 1 is repeated there as often as a size says."""
    nodes = [
        node("Shape", ["x"], ["size"]), node("Concat", ["one", "size"], ["values"], axis=0),
        node("OneHot", ["at", "depth", "values"], ["hot"]), node("Reshape", ["hot", "flat"], ["repeats"]),
        node("Unsqueeze", ["x", "axis"], ["thin"]), node("Tile", ["thin", "repeats"], ["y"]),
    ]  # fmt: skip
    constants = {"one": np.int64([1]), "at": np.int64([1]), "depth": np.int64([2]), "flat": np.int64([-1]), "axis": np.int64([1])}
    made = model(nodes, {"x": ["n"]}, initializers=constants)
    against_onnxruntime(made, [1, 2, 5, 40])


def test_sizes_that_are_looked_up_are_computed_when_the_model_runs():
    table = expanded([node("Gather", ["table", "size"], ["to"], name="looks up")], {"table": np.int64([5, 3, 9])})
    module = knapper.compile(table)
    assert [module(np.ones(n, np.float32))[0].shape for n in (2, 0, 1)] == [(9,), (5,), (3,)]
    assert knapper.compile(table, dim="n=2")(np.ones(2, np.float32))[0].shape == (9,)
    root = expanded([node("Cast", ["size"], ["f"], to=FLOAT), node("Sqrt", ["f"], ["r"]),
                     node("Cast", ["r"], ["to"], to=INT64, name="rounds")], {})  # fmt: skip
    module = knapper.compile(root)
    assert [module(np.ones(n, np.float32))[0].shape for n in (16, 17, 3)] == [(4,), (4,), (1,)]


def test_what_is_not_followed_is_named():
    def parts(nodes, initializers):
        return model([node("Shape", ["x"], ["sizes"]), node("Gather", ["sizes", "at"], ["size"]), *nodes,
                      node("SplitToSequence", ["x", "to"], ["parts"], axis=1),
                      node("ConcatFromSequence", ["parts"], ["y"], axis=0)],
                     {"x": ["n", 4]}, initializers={"at": np.int64(0), **initializers})  # fmt: skip

    table = parts([node("Gather", ["table", "size"], ["to"], name="looks up")], {"table": np.int64([1, 4, 2])})
    with pytest.raises(knapper.UserError, match="computed from the sizes.*'looks up'.*--dim n=NUMBER"):
        knapper.compile(table)
    assert knapper.compile(table, dim="n=2")(np.ones((2, 4), np.float32))[0].shape == (4, 2)
    root = parts([node("Cast", ["size"], ["f"], to=FLOAT), node("Sqrt", ["f"], ["r"]),
                  node("Cast", ["r"], ["to"], to=INT64, name="rounds")], {})  # fmt: skip
    with pytest.raises(knapper.UserError, match="computed from the sizes.*'rounds'.*with integers"):
        knapper.compile(root)


def test_an_expression_that_is_too_long_says_what_to_fix():
    names = [letter * 480 for letter in "abcde"]
    every = {"starts": np.zeros(5, np.int64), "ends": np.full(5, 1 << 40), "axes": np.arange(5), "steps": np.full(5, 2)}
    made = model([node("Slice", ["x", *every], ["half"]), node("Reshape", ["half", "flat"], ["y"])], {"x": names},
                 initializers={**every, "flat": np.int64([-1])})  # fmt: skip
    with pytest.raises(knapper.UserError, match="too long an expression[^$]*--dim a+=NUMBER"):
        knapper.compile(made)
