"""Graphs that nobody draws: odd signatures, names that attack, depth, width."""

from __future__ import annotations

import time

import numpy as np
import pytest
from against import BOOL, FLOAT, given, i64, model, node, random, same, value
from onnx import helper

import knapper

X = random(2, 3)
IN, OUT = {"x": (FLOAT, [2, 3])}, {"y": (FLOAT, None)}
RELU = [node("Relu", ["x"], ["y"], name="clip")]
C = np.float32([1, 2, 3])


@pytest.mark.parametrize("made", [
    model(RELU, {**IN, "unused": (FLOAT, ["k", 7])}, OUT),
    model(RELU, IN, {"x": (FLOAT, [2, 3]), **OUT}),
    model([], IN, {"x": (FLOAT, [2, 3])}),
    model(RELU, IN, {"c": (FLOAT, [3]), **OUT}, {"c": C}),
    model([], {}, {"c": (FLOAT, [3])}, {"c": C}),
    model([node("Identity", ["c"], ["y"])], {}, OUT, {"c": C}),
    model([node("ConstantOfShape", ["s"], ["y"])], {}, OUT, {"s": i64([2, 3])}),
    model([*RELU, node("Identity", ["y"], ["z"]), node("Identity", ["x"], ["w"])], IN,
          {**OUT, "z": (FLOAT, None), "w": (FLOAT, None)}),
    model([node("Relu", ["x"], ["a"], name="n"), node("Neg", ["a"], ["y"], name="n")], IN, OUT),
    model([node("Clip", ["x", "", "high"], ["y"], name="")], IN, OUT, {"high": np.float32(0.5)}),
], ids=["unused_input", "input_is_output", "nothing_at_all", "constant_too", "constant_only",
        "constant_named", "made_from_nothing", "one_value_three_names", "one_name_two_nodes",
        "no_names"])  # fmt: skip
def test_odd_signatures(made):
    arrays = {i.name: X if i.name == "x" else random(3, 7) for i in made.graph.input}
    same(made, arrays)


def test_outputs_never_are_the_caller_s_memory():
    module = knapper.compile(model([node("Identity", ["x"], ["y"])], IN, OUT))
    mine = X.copy()
    y = module(mine)["y"]
    mine[:] = 0
    np.testing.assert_array_equal(y, X)


def test_one_output_twice():
    made = model(RELU, IN, OUT)
    made.graph.output.append(made.graph.output[0])
    module = knapper.compile(made)
    assert [o.name for o in module.outputs] == ["y", "y"]
    for result in (module(X), module.start([X]).wait(), module.run([X], {"y": np.empty_like(X)})):
        assert len(result) == 2
        for y in (*result, result["y"], result[-1]):
            np.testing.assert_array_equal(y, np.maximum(X, 0))


def test_an_initializer_is_no_input():
    made = model([node("Add", ["x", "c"], ["y"])], {**IN, "c": (FLOAT, [3])}, OUT, {"c": C})
    module = knapper.compile(made)
    assert [i.name for i in module.inputs] == ["x"]
    np.testing.assert_array_equal(module(X)["y"], X + C)


def function(name, nodes, domain="f"):
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    return helper.make_function(domain, name, ["a"], ["b"], nodes, opsets)


def calls(name, *functions):
    return model([node(name, ["x"], ["y"], domain="f", name="start")], IN, OUT,
                 functions=list(functions), opsets=[("", 21), ("f", 1)])  # fmt: skip


def twice(made, what):
    getattr(made.graph, what).append(getattr(made.graph, what)[0])
    return made


REFUSED = {
    "no_outputs": (model(RELU, IN, {}), "no outputs"),
    "input_twice": (twice(model(RELU, IN, OUT), "input"), "input 'x'"),
    "input_without_name": (model(RELU, {**IN, "": (FLOAT, [1])}, OUT), "no name"),
    "initializer_twice": (
        twice(model([node("Add", ["x", "c"], ["y"])], IN, OUT, {"c": C}), "initializer"),
        "initializer 'c'"),
    "null_in_a_name": (model([node("Relu", ["x\0"], ["y"])], {"x\0": (FLOAT, [3])}, OUT),
                       "null character"),
    "huge": (model(RELU, {"x": (FLOAT, [2**40, 2**40])}, OUT), "input 'x'.*too large"),
    "two_that_call_each_other": (
        calls("A", function("A", [node("B", ["a"], ["b"], domain="f")]),
              function("B", [node("A", ["a"], ["b"], domain="f")])), "nested"),
    "function_without_result": (
        calls("A", function("A", [node("Relu", ["a"], ["c"])])), "'start'.*output 'b'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    made, message = REFUSED[name]
    with pytest.raises(knapper.UserError, match=f"(?s){message}.*\n  try: "):
        knapper.compile(made)


def test_choice_by_data():
    branches = {
        branch: helper.make_graph([node(op, ["x"], ["o"])], branch, [], [value("o", FLOAT)])
        for branch, op in (("then_branch", "Neg"), ("else_branch", "Relu"))
    }
    module = knapper.compile(
        model([node("If", ["c"], ["y"], name="fork", **branches)], {**IN, "c": (BOOL, [])}, OUT)
    )
    x = random(2, 3)
    np.testing.assert_array_equal(module(x=x, c=np.array(True))[0], -x)
    np.testing.assert_array_equal(module(x=x, c=np.array(False))[0], np.maximum(x, 0))


NAMES = [
    "<script>alert(1)</script>", "</style>", "\x1b[31mred", "\x9b31m", "a\nb", "\u202eevil",
    "\u2066\u200b", "\"quote'", "../../x", "%s%n", "ünïcödé 名前", "&amp;",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_that_attack(name):
    made = model(
        [node("Relu", ["x" + name], ["h" + name], name=name),
         node("MatMul", ["h" + name, "w"], ["y" + name], name=name + "2")],
        {"x" + name: (FLOAT, ["d" + name, 3])}, {"y" + name: (FLOAT, None)}, {"w": random(3, 3)})  # fmt: skip
    module = knapper.compile(made)
    x = random(4, 3)
    assert [i.name for i in module.inputs] == ["x" + name]  # as it is, for programs
    result = module({"x" + name: x})
    assert result["y" + name].shape == (4, 3)
    shown = [repr(module), repr(result), module.explain()]
    wrong = model([node("MatMul", ["x", "w"], ["y"], name=name)], IN, OUT, {"w": random(5, 3)})
    unknown = model([node("Frob" + name, ["x"], ["y"], name=name)], IN, OUT)
    for call in (
        lambda: module(random(2, 4)),
        lambda: module(x.astype(np.float64)),
        lambda: module({"q" + name: x}),
        lambda: module.run([x], {"q" + name: x}),
        lambda: module.run([x], [np.zeros((1, 1), np.float32)]),
        lambda: knapper.compile(wrong),
        lambda: knapper.compile(unknown),
    ):
        with pytest.raises(knapper.UserError) as caught:
            call()
        shown += [str(caught.value), caught.value.where, caught.value.hint]
    for text in shown:
        hidden = [c for c in text if not c.isprintable() and c not in "\n\t\N{NO-BREAK SPACE}"]
        assert not hidden, text[:2000]
    assert "<script>alert" not in shown[2] and shown[2].count("</style>") <= 1


def chain(ops, *more):
    nodes = [node(ops[i % len(ops)], [f"v{i}", *more], [f"v{i + 1}"], name=f"n{i}")
             for i in range(5000)]  # fmt: skip
    nodes[0].input[0], nodes[-1].output[0] = "x", "y"
    return model(nodes, IN, OUT, dict.fromkeys(more, np.float32(0.999)))


def test_deep():
    wanted = X
    for i in range(5000):
        wanted = wanted + np.float32(0.999) if i % 2 else wanted * np.float32(0.999)
    same(chain(["Mul", "Add"], "c"), {"x": X}, wanted=[wanted], rtol=1e-3)
    same(chain(["Relu", "Identity"]), {"x": X}, wanted=[np.maximum(X, 0)])


def test_compile_time_grows_with_the_length():
    """Every node reads the input: twice the nodes may not take four times as long. Other work on the machine
    slows down one of the two at times."""

    def seconds(count):
        nodes = [node("Add" if i % 2 else "Mul", [f"v{i}", "x"], [f"v{i + 1}"]) for i in range(count)]
        nodes[0].input[0], nodes[-1].output[0] = "x", "y"
        made = model(nodes, IN, OUT)
        began = time.process_time()
        knapper.compile(made, cache=False, threads=1)
        return time.process_time() - began

    assert any(seconds(4000) < 3 * seconds(2000) for _ in range(4))


def test_each_value_twice():
    """2^100 paths through 100 nodes."""
    nodes = [node("Add", [f"v{i}"] * 2, [f"v{i + 1}"]) for i in range(100)]
    nodes[0].input[:], nodes[-1].output[0] = ["x", "x"], "y"
    same(model(nodes, IN, OUT), {"x": X}, wanted=[X * np.float32(2.0**100)])


def test_wide():
    nodes = [node("Add", ["x", f"c{i}"], [f"y{i}"], name=f"n{i}") for i in range(1000)]
    made = model(nodes, IN, {f"y{i}": (FLOAT, None) for i in range(1000)},
                 {f"c{i}": np.float32(i) for i in range(1000)})  # fmt: skip
    results = given(made, {"x": X})
    for i, y in enumerate(results):
        np.testing.assert_array_equal(y, X + np.float32(i))


def test_many_inputs():
    arrays = {f"x{i}": random(2, 3) for i in range(500)}
    made = model([node("Sum", list(arrays), ["y"])], dict.fromkeys(arrays, (FLOAT, [2, 3])), OUT)
    same(made, arrays, rtol=1e-3, atol=1e-4)
