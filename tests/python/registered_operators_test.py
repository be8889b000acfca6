"""Operators that are registered from Python."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import knapper

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
ROWS = ("x", F32, ["n", 3])


def model(inputs, outputs, nodes, initializers=()) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        list(initializers),
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("test", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def single(inputs=(ROWS,), outputs=(("y", F32, None),), names=None, **attributes):
    """A model of one node of operator Op, named "mine"."""
    node = helper.make_node(
        "Op",
        [i[0] for i in inputs] if names is None else names,
        [o[0] for o in outputs],
        "mine",
        domain="test",
        **attributes,
    )
    return model(inputs, outputs, [node])


@pytest.fixture(autouse=True)
def unregistered():
    yield
    for name in ("Op", "Other"):
        try:
            knapper.unregister_operator("test", name)
        except knapper.UserError:
            pass


def register(compute, shape=None, name="Op"):
    knapper.register_operator("test", name, compute=compute, shape=shape)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_without_a_shape_function_inputs_broadcast():
    register(lambda x, y: x + y)
    inputs = (ROWS, ("b", F32, [3]))
    m = knapper.compile(single(inputs))
    assert m.outputs[0].shape == ("n", 3)
    np.testing.assert_array_equal(m(X, X[1])[0], X + X[1])
    np.testing.assert_array_equal(m(X[:0], X[1])[0], X[:0])


def test_the_shape_function_sees_symbolic_sizes_and_attributes():
    seen = []

    def shape(x, *, times):
        seen.append(x)
        return x.dtype, (times * x.shape[0], x.shape[1], x.shape[0])

    register(
        lambda x, *, times: np.einsum("ij,k->ijk", np.tile(x, (times, 1)), np.ones(len(x))),
        shape,
    )  # fmt: skip
    m = knapper.compile(single(times=2))
    first, (n, three) = seen[0]
    assert first == "f32" and isinstance(n, knapper.UnknownSize) and three == 3
    # What arithmetic made is a size of its own, the copied one is the input's.
    assert m.outputs[0].shape == ("y_dim0", 3, "n")
    for rows in (2, 1, 0):
        assert m(X[:rows])[0].shape == (2 * rows, 3, rows)
    assert seen[-1] == knapper.TensorSpec("f32", (0, 3))


def test_between_kernels_on_both_sides():
    register(lambda x: np.sort(x, axis=1)[:, ::-1], 0)
    node = helper.make_node
    m = knapper.compile(
        model(
            [ROWS],
            [("y", F32, None)],
            [
                node("Neg", ["x"], ["a"]),
                node("Op", ["a"], ["b"], domain="test"),
                node("Op", ["b"], ["c"], domain="test"),
                node("Relu", ["c"], ["d"]),
                node("Sub", ["d", "b"], ["y"]),
            ],
        )
    )
    b = np.sort(-X, axis=1)[:, ::-1]
    np.testing.assert_array_equal(m(X)[0], np.maximum(b, 0) - b)


def test_several_results_and_an_operand_left_out():
    def compute(x, limit, low, *, scale):
        assert limit is None and x.flags.writeable is False
        kept = x[x > low]
        return kept * np.float32(scale), np.int64(len(kept))

    register(compute, lambda x, *_, **__: [(x.dtype, (None,)), ("i64", ())])
    inputs = (ROWS, ("low", F32, []))
    outputs = (("y", F32, None), ("count", I64, None))
    m = knapper.compile(single(inputs, outputs, ["x", "", "low"], scale=2.0))
    for low in (1, 4, 9):
        y, count = m(X, np.float32(low))
        np.testing.assert_array_equal(y, 2 * X[X > low])
        assert count == (X > low).sum()


def test_out_is_the_librarys_memory():
    def compute(x, *, out):
        np.multiply(x, 3, out=out[0])

    register(compute, 0)
    np.testing.assert_array_equal(knapper.compile(single())(X)[0], 3 * X)


def test_attributes_of_every_kind():
    given = {
        "i": 7, "f": 0.5, "s": "text", "list_i": [1, 2], "list_f": [0.25],
        "list_s": ["a", "\u00fc"], "t": onnx.numpy_helper.from_array(np.uint8([[1], [2]])),
    }  # fmt: skip
    seen = {}

    def compute(x, **attributes):
        seen.update(attributes)
        return x

    register(compute, 0)
    knapper.compile(single(**given))(X)
    t = seen.pop("t")
    np.testing.assert_array_equal(t, np.uint8([[1], [2]]))
    assert t.dtype == np.uint8
    del given["t"]
    assert seen == given


def test_inside_a_loop():
    calls = []

    def compute(x):
        calls.append(1)
        return x + 1

    register(compute, 0)
    node = helper.make_node
    body = helper.make_graph(
        [
            node("Op", ["v"], ["w"], domain="test"),
            node("Identity", ["c"], ["d"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", I64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", F32, None),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", F32, None),
        ],
    )
    m = knapper.compile(
        model(
            [ROWS, ("trips", I64, [])],
            [("y", F32, None)],
            [node("Loop", ["trips", "", "x"], ["y"], body=body)],
        )
    )
    np.testing.assert_array_equal(m(X, np.int64(4))[0], X + 4)
    assert len(calls) == 4


def test_a_function_of_the_model_comes_first():
    register(lambda x: x * 0, 0)
    m = single()
    body = [helper.make_node("Neg", ["a"], ["b"])]
    opsets = [helper.make_opsetid("", 20)]
    m.functions.append(helper.make_function("test", "Op", ["a"], ["b"], body, opsets))
    np.testing.assert_array_equal(knapper.compile(m)(X)[0], -X)


class Mine(Exception):
    pass


def test_exceptions_are_the_cause_of_an_error_that_names_the_node():
    def compute(x):
        if x.size and x[0, 0] < 0:
            raise Mine("below 0")
        return x

    register(compute, 0)
    m = knapper.compile(single())
    calls = (lambda x: m(x), lambda x: m.start([x]).wait(), lambda x: m.run([x]))
    for call in calls:
        with pytest.raises(knapper.UserError) as caught:
            call(-X - 1)
        assert isinstance(caught.value.__cause__, Mine)
        text = str(caught.value)
        assert "node 'mine' (Op): Mine: below 0\n  try: " in text
        np.testing.assert_array_equal(m(X)[0], X)


def test_what_ends_a_program_comes_out_as_it_is():
    def compute(x):
        raise KeyboardInterrupt

    register(compute, 0)
    with pytest.raises(KeyboardInterrupt):
        knapper.compile(single())(X)


def test_exceptions_of_a_shape_function_come_out_of_the_compile():
    def shape(x):
        raise Mine("no shape")

    register(lambda x: x, shape)
    with pytest.raises(knapper.UserError, match="node 'mine'.*Mine: no shape") as caught:
        knapper.compile(single())
    assert isinstance(caught.value.__cause__, Mine)


def test_sizes_that_are_not_known_have_no_order():
    register(lambda x: x, lambda x: (x.dtype, (max(x.shape[0], 2), 3)))
    with pytest.raises(knapper.UserError, match="TypeError: .*known in a run only"):
        knapper.compile(single())


@pytest.mark.parametrize(
    "compute, shape, error, says",
    [
        (lambda x: x[:1], 0, ValueError, r"shape \(1, 3\), the shape function said \(2, 3\)"),
        (lambda x: (x, x), 0, ValueError, "gives 2 results, the node has 1"),
        (lambda x: x.astype(np.complex64), 0, TypeError, "Cannot cast"),
        (lambda x: x, lambda x: ("f32", (None,)), ValueError, "rank 2, the shape function said 1"),
    ],
)  # fmt: skip
def test_wrong_results_are_refused(compute, shape, error, says):
    register(compute, shape)
    m = knapper.compile(single())
    with pytest.raises(knapper.UserError, match=says) as caught:
        m(X)
    assert isinstance(caught.value.__cause__, error)


@pytest.mark.parametrize(
    "shape, error, says",
    [
        (lambda x: ("f32", (-12,)), None, "the size -12, which no input has"),
        (lambda x: ("f33", (3,)), TypeError, "f33"),
        (lambda x: [("f32", ())] * 2, ValueError, "gives 2 results, the node has 1"),
        (5, ValueError, "the node has no input 5"),
        (lambda x: ("i64", (3,)), None, "declared as FLOAT but the graph gives i64"),
    ],
)  # fmt: skip
def test_wrong_shapes_are_refused_by_the_compile(shape, error, says):
    register(lambda x: x, shape)
    with pytest.raises(knapper.UserError, match=says) as caught:
        knapper.compile(single())
    if error:
        assert isinstance(caught.value.__cause__, error)


def test_another_shape_than_compiled_is_refused(tmp_path):
    register(lambda x: x, 0)
    knapper.compile(single()).save(tmp_path / "m.knap")
    register(lambda x: x[0], lambda x: (x.dtype, x.shape[1:]))
    m = knapper.load(tmp_path / "m.knap")
    with pytest.raises(knapper.UserError, match=r"f32\[3\].*compiled for f32\[n, 3\]"):
        m(X)


def test_what_is_not_registered_is_listed():
    m = model(
        [ROWS],
        [("y", F32, None)],
        [
            helper.make_node("Op", ["x"], ["a"], "one", domain="test"),
            helper.make_node("Other", ["x"], ["b"], "two", domain="test"),
            helper.make_node("Add", ["a", "b"], ["y"]),
        ],
    )
    with pytest.raises(knapper.UserError) as caught:
        knapper.compile(m)
    text = str(caught.value)
    assert "Op (test opset 3): a custom operator that is not registered" in text
    assert "Other (test opset 3)" in text and "'two'" in text
    assert 'knapper.register_operator("test", "Op", ...)' in text
    register(lambda x: x, 0)
    rows = {o["op"]: o for o in knapper.inspect(m)["operators"]}
    assert rows["Op"]["supported"] and rows["Op"]["registered"]
    assert not rows["Other"]["supported"] and not rows["Other"]["registered"]
    assert rows["Add"]["supported"] and not rows["Add"]["registered"]


def test_loaded_modules_keep_their_operator_until_they_go(tmp_path):
    class Compute:
        def __call__(self, x):
            return x + 1

    compute = Compute()
    gone = weakref.ref(compute)
    register(compute, 0)
    m = knapper.compile(single())
    m.save(tmp_path / "m.knap")
    del compute
    register(lambda x: x + 2, 0)
    np.testing.assert_array_equal(m(X)[0], X + 1)
    np.testing.assert_array_equal(knapper.load(tmp_path / "m.knap")(X)[0], X + 2)
    assert gone() is not None
    del m
    gc.collect()
    assert gone() is None


def test_the_compile_cache_keeps_no_model_with_registered_operators(tmp_path):
    options = {"cache": True, "cache_dir": str(tmp_path)}
    for width in (3, 4):
        register(
            lambda x, width=width: np.ones((len(x), width), np.float32),
            lambda x, width=width: (x.dtype, (x.shape[0], width)),
        )
        assert knapper.compile(single(), **options)(X)[0].shape == (2, width)


def test_from_many_threads(at_once):
    register(lambda x: x * 2, 0)
    m = knapper.compile(single())
    wrong = []

    def run(i):
        x = X + i
        for _ in range(20):
            if not np.array_equal(m(x)[0], 2 * x):
                wrong.append(i)

    at_once(run, range(4))
    assert not wrong


def test_strings_go_in_and_out():
    def compute(x):
        return np.char.upper(x.astype(str)).astype(object), np.vectorize(len, otypes=[np.int64])(x)

    register(compute, lambda x: [("string", x.shape), ("i64", x.shape)])
    m = single(
        (("x", TensorProto.STRING, ["n"]),),
        (("y", TensorProto.STRING, None), ("size", I64, None)),
    )
    m = knapper.compile(m)
    assert m.inputs[0].dtype == "string"
    words = ["ab", "\u00fcber", ""]
    for given in (words, np.array(words), np.array(words, object), [w.encode() for w in words]):
        y, size = m(given)
        assert y.tolist() == ["AB", "\u00dcBER", ""]
        assert size.tolist() == [2, 4, 0]
    assert m([])[0].shape == (0,)
    with pytest.raises(knapper.UserError, match="float64 where strings are wanted"):
        m(np.ones(2))


def test_refusals():
    with pytest.raises(knapper.UserError, match="compute: int is no function"):
        register(3)
    with pytest.raises(knapper.UserError, match="name the operator"):
        register(lambda x: x, name="")
    with pytest.raises(knapper.UserError, match="there is no such operator"):
        knapper.unregister_operator("test", "Nobody")
    with pytest.raises(knapper.UserError, match="cannot be loaded"):
        knapper.load_operators("/no/such/file.so")
