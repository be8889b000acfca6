"""The border of strings and callbacks under what nobody should do: whatever comes,
an error in words or a right result."""

from __future__ import annotations

import ctypes
import random

import numpy as np
import pytest
from onnx import TensorProto, helper

import knapper
from knapper.library import CTensor, library

STRING, F32, I64 = TensorProto.STRING, TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def compiled(nodes, inputs, outputs):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("test", 1)]
    return knapper.compile(helper.make_model(graph, opset_imports=opsets, ir_version=9))


def on_strings(op, **attributes):
    return compiled([node(op, ["x"], ["y"], **attributes)], [("x", STRING, ["n"])], [("y", STRING, None)])


@pytest.fixture(autouse=True)
def unregistered():
    yield
    try:
        knapper.unregister_operator("test", "Op")
    except knapper.UserError:
        pass


def register(compute, shape=0):
    knapper.register_operator("test", "Op", compute=compute, shape=shape)


def mine(inputs=(("x", F32, ["n"]),), outputs=(("y", F32, None),)):
    """Neg, then the registered operator, then Neg: kernels on both sides."""
    inner = [node("Neg", [i[0]], [i[0] + "_"]) for i in inputs if i[1] == F32]
    names = [i[0] + "_" if i[1] == F32 else i[0] for i in inputs]
    made = [o[0] + "_" if o[1] == F32 else o[0] for o in outputs]
    outer = [node("Neg", [o[0] + "_"], [o[0]]) for o in outputs if o[1] == F32]
    return compiled([*inner, node("Op", names, made, "mine", domain="test"), *outer], inputs, outputs)


X = np.arange(4, dtype=np.float32)

# ---- strings


def test_any_bytes_come_back_as_they_were():
    m = on_strings("Identity")
    draw = random.Random(7)
    words = [bytes(draw.randrange(256) for _ in range(draw.randrange(40))) for _ in range(500)]
    words += [b"\0", b"a\0b", b"\xff\xfe", b"\xed\xa0\x80", b"\xc3", b"\xf4\x90\x80\x80", b"", b"\xef\xbb\xbf"]
    given = m(np.array(words, object))[0]
    assert [w.encode(errors="surrogateescape") for w in given] == words
    assert m(given)[0].tolist() == given.tolist()


OPERATORS = {
    "StringNormalizer": {"case_change_action": "LOWER", "stopwords": ["a"]},
    "StringConcat": {},
    "StringSplit": {"delimiter": "\u00fc"},
    "RegexFullMatch": {"pattern": r"\w*\p{L}?.{0,9}"},
    "Cast": {"to": F32},
    "Equal": {},
}


@pytest.mark.parametrize("op", OPERATORS)
def test_any_bytes_in_every_operator(op):
    """A result, or an error that names the node; never a crash."""
    names = ["x", "x"] if op in ("StringConcat", "Equal") else ["x"]
    types = {"Cast": [F32], "Equal": [TensorProto.BOOL], "RegexFullMatch": [TensorProto.BOOL],
             "StringSplit": [STRING, I64]}.get(op, [STRING])  # fmt: skip
    outputs = [(f"y{i}", t, None) for i, t in enumerate(types)]
    m = compiled([node(op, names, [o[0] for o in outputs], "it", **OPERATORS[op])], [("x", STRING, ["n"])], outputs)
    draw = random.Random(11)
    pieces = [b"\0", b"\xff", b"\xc3", b"\xc3\xbc", b"a", b"1", b" ", b"\xe2\x82", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"e9", b"-"]
    for _ in range(60):
        words = [b"".join(draw.choices(pieces, k=draw.randrange(6))) for _ in range(draw.randrange(5))]
        try:
            result = m(np.array(words, object))
        except knapper.UserError as error:
            assert op == "Cast" and "node 'it' (Cast): string " in str(error)
        else:
            assert op == "StringNormalizer" or len(result[0]) == len(words)


def test_one_string_of_many_bytes():
    text = "\u00fc" * (16 << 20)
    assert on_strings("Identity")([text])[0][0] == text


def test_no_strings_of_any_rank():
    for shape in ((0,), (2, 0), (0, 3)):
        dims = [f"d{i}" for i in range(len(shape))]
        m = compiled([node("StringConcat", ["x", "x"], ["y"])], [("x", STRING, dims)], [("y", STRING, None)])
        assert m(np.empty(shape, object))[0].shape == shape


class CString(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


@pytest.mark.parametrize(
    "data, size, says",
    [(None, 5, "string 1 has 5 bytes at NULL"), (None, 2**64 - 1, "bytes at NULL")],
)
def test_strings_at_null_are_refused(data, size, says):
    m = on_strings("Identity")
    entries = (CString * 2)(CString(None, 0), CString(data, size))
    shape = (ctypes.c_int64 * 1)(2)
    x = (CTensor * 1)()
    x[0].data, x[0].bytes = ctypes.addressof(entries), ctypes.sizeof(entries)
    x[0].dtype, x[0].rank, x[0].shape = 23, 1, shape
    out = ctypes.c_void_p()
    error = library().knapper_run(m._handle.value, x, 1, None, 0, ctypes.byref(out))
    with pytest.raises(knapper.UserError, match=says):
        knapper.library.check(error)


@pytest.mark.parametrize("value", [[1], [None], [["a"], ["b", "c"]], "a", np.float32([1]), [object()]])
def test_what_is_no_array_of_strings(value):
    with pytest.raises(knapper.UserError):
        on_strings("Identity")(value)


def test_strings_where_numbers_are_wanted():
    m = compiled([node("Neg", ["x"], ["y"])], [("x", F32, ["n"])], [("y", F32, None)])
    for value in (["a"], np.array(["a"]), np.array(["a"], object), np.array([b"a"])):
        with pytest.raises(knapper.UserError):
            m(value)


# ---- callbacks


@pytest.mark.parametrize("raised", [ValueError("no"), StopIteration(), MemoryError(), RecursionError("deep"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), Exception("a\0b\x1b[31m%s%n"), Exception("x" * 100_000), ValueError("\udcff")])
def test_whatever_is_raised_names_the_node(raised):
    def compute(x):
        raise raised

    register(compute)
    with pytest.raises(knapper.UserError, match=r"node 'mine' \(Op\)") as caught:
        mine()(X)
    assert caught.value.__cause__ is raised


def test_an_exception_whose_text_raises():
    class Bad(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    def compute(x):
        raise Bad

    register(compute)
    with pytest.raises(knapper.UserError, match=r"node 'mine' \(Op\): Bad") as caught:
        mine()(X)
    assert isinstance(caught.value.__cause__, Bad)


@pytest.mark.parametrize(
    "result",
    [None, (), [], "text", object(), X[:3], X.astype(complex), np.array(["a"] * 4), (X, X), X.reshape(2, 2), float, {}],
)  # fmt: skip
def test_wrong_results(result):
    register(lambda x: result)
    with pytest.raises(knapper.UserError, match="node 'mine'"):
        mine()(X)


@pytest.mark.parametrize(
    "shape",
    [None, 7, (), "f32", [], ("f32", 4), ("f32", ("n",)), ("f32", (2**63,)), ("f32", (-(2**70),)), ("f32", (2**64 + 3,)), ("f32", (1.5j,)),
     ("f32", (1,) * 33), (None, (3,)), ("string32", (3,)), [("f32", (3,))] * 3, ("f32", (-3,)), object()],
)  # fmt: skip
def test_wrong_shapes(shape):
    register(lambda x: x, lambda x: shape)
    with pytest.raises(knapper.UserError, match="node 'mine'"):
        mine()


@pytest.mark.parametrize("size", [2**62, 2**45])
def test_a_result_larger_than_memory(size):
    def shape(x):
        return "f32", (-1,) if isinstance(x.shape[0], knapper.UnknownSize) else (size,)

    def compute(x, *, out):
        raise AssertionError("not reached")

    register(compute, shape)
    with pytest.raises(knapper.Error, match="too large|memory|overflows 64 bits"):
        mine()(X)


def test_a_callback_runs_its_own_module():
    def compute(x):
        return x + m(x[1:])[0].sum() if len(x) else x

    register(compute)
    m = mine()
    assert [m(np.ones(n, np.float32))[0].shape for n in (0, 1, 3)] == [(0,), (1,), (3,)]
    # Without an end it is Python's recursion that ends it.
    register(lambda x: endless(x)[0])
    endless = mine()
    with pytest.raises(knapper.UserError, match="node 'mine'"):
        endless(X)


def test_a_callback_compiles_registers_and_unregisters():
    def compute(x):
        knapper.unregister_operator("test", "Op")
        register(lambda x: x + 1)
        inner = mine()
        return inner(x)[0]

    register(compute)
    m = mine()
    np.testing.assert_array_equal(m(X)[0], X + 1)
    np.testing.assert_array_equal(m(X)[0], X + 1)


def test_callbacks_of_many_threads_that_raise_by_turns(at_once):
    def compute(x):
        if x[0] > -2:  # after Neg
            raise KeyError(float(x[0]))
        return x

    register(compute)
    m, wrong = mine(), []

    def work(i):
        for j in range(30):
            x = np.full(3, (i + j) % 4, np.float32)
            try:
                good = np.array_equal(m(x)[0], x) and x[0] >= 2
            except knapper.UserError as error:
                good = isinstance(error.__cause__, KeyError) and error.__cause__.args == (-x[0],) and x[0] < 2
            if not good:
                wrong.append((i, j))

    at_once(work, range(4))
    assert not wrong


def test_arrays_kept_after_the_call_are_not_the_callers():
    """Inputs are gone after the call, as documented; results are copied."""
    kept = []

    def compute(x):
        kept.append(x.copy())
        return kept[-1]

    register(compute)
    m = mine()
    first = m(X)[0]
    kept[0][:] = 9
    np.testing.assert_array_equal(first, X)


def test_strings_made_by_a_callback():
    words = ["", "a\0b", "\u00fc" * 1000, "\udcff"]
    register(lambda x: np.array(words, object), lambda x: ("string", (4,)))
    m = mine(outputs=(("y", STRING, None),))
    assert m(X)[0].tolist() == words
    register(lambda x: np.array([1, 2, 3, 4], object), lambda x: ("string", (4,)))
    with pytest.raises(knapper.UserError, match="node 'mine'.*a int among strings"):
        mine(outputs=(("y", STRING, None),))(X)
