"""Branches, loops, scans and recurrent operators whose course the data and sizes decide,
compiled once and run at several sizes, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import knapper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node
value = helper.make_tensor_value_info
RNG = np.random.default_rng(7)


def rand(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def constant(name, data, dtype=np.int64):
    return numpy_helper.from_array(np.asarray(data, dtype), name)


def graph(nodes, inputs, outputs, initializers=()):
    return helper.make_graph(nodes, "g", inputs, outputs, list(initializers))


def model(nodes, inputs, outputs, initializers=(), opset=17):
    return helper.make_model(
        graph(nodes, inputs, outputs, initializers),
        opset_imports=[helper.make_opsetid("", opset)], ir_version=8,
    )  # fmt: skip


def check(made, feeds, tolerance=1e-5):
    module = knapper.compile(made, threads=2, cache=False)
    peer = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for feed in feeds:
        feed = {name: np.asarray(array) for name, array in feed.items()}
        got = module(**feed)
        for output, wanted in zip(peer.get_outputs(), peer.run(None, feed)):
            mine = got[output.name]
            assert mine.shape == wanted.shape, output.name
            assert mine.dtype == wanted.dtype
            np.testing.assert_allclose(mine, wanted, rtol=tolerance, atol=tolerance)


# --- If ---------------------------------------------------------------------------------------


def test_branch_on_data():
    """Both branches use what is outside, a weight of their own, and give one shape."""
    yes = graph(
        [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "s"], ["a"])],
        [], [value("a", FLOAT, None)], [constant("w", rand(8, 8), np.float32)],
    )  # fmt: skip
    no = graph([node("Sub", ["x", "s"], ["b"])], [], [value("b", FLOAT, None)])
    made = model(
        [
            node("ReduceSum", ["x"], ["s"], keepdims=0),
            node("Greater", ["s", "limit"], ["c"]),
            node("If", ["c"], ["r"], then_branch=yes, else_branch=no),
            node("Relu", ["r"], ["y"]),
        ],
        [value("x", FLOAT, ["n", 8]), value("limit", FLOAT, [])],
        [value("y", FLOAT, None), value("r", FLOAT, None)],
    )
    x = rand(3, 8)
    check(made, [{"x": x, "limit": np.float32(l)} for l in (-1e9, 1e9)]
          + [{"x": rand(70, 8), "limit": np.float32(-1e9)}], 1e-4)  # fmt: skip


def test_branches_of_other_sizes():
    yes = graph([node("Concat", ["x", "x"], ["a"], axis=0)], [], [value("a", FLOAT, None)])
    no = graph([node("Neg", ["x"], ["b"])], [], [value("b", FLOAT, None)])
    made = model(
        [
            node("If", ["c"], ["r"], then_branch=yes, else_branch=no),
            node("Exp", ["r"], ["y"]),
            node("ReduceSum", ["r"], ["z"], keepdims=0),
        ],
        [value("x", FLOAT, ["n", 3]), value("c", BOOL, [])],
        [value("y", FLOAT, None), value("z", FLOAT, None)],
    )
    check(made, [{"x": rand(n, 3), "c": np.array(c)} for n in (2, 5) for c in (True, False)])


def test_nested_branches():
    def branch(then, otherwise, condition, out):
        return graph(
            [node("If", [condition], [out], then_branch=then, else_branch=otherwise)],
            [], [value(out, FLOAT, None)],
        )  # fmt: skip

    def leaf(op, out):
        return graph([node(op, ["x"], [out])], [], [value(out, FLOAT, None)])

    made = model(
        [node("If", ["a"], ["y"],
              then_branch=branch(leaf("Exp", "p"), leaf("Neg", "q"), "b", "r"),
              else_branch=branch(leaf("Abs", "s"), leaf("Tanh", "t"), "b", "u"))],
        [value("x", FLOAT, ["n"]), value("a", BOOL, []), value("b", BOOL, [1])],
        [value("y", FLOAT, None)],
    )  # fmt: skip
    check(made, [{"x": rand(4), "a": np.array(a), "b": np.array([b])}
                 for a in (True, False) for b in (True, False)])  # fmt: skip


def test_branches_of_other_ranks_decided_by_a_size():
    """What exporters write for squeeze: one branch is compiled, the run checks it."""
    made = model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "last"], ["size"]),
            node("Equal", ["size", "one"], ["c"]),
            node("If", ["c"], ["r"],
                 then_branch=graph([node("Squeeze", ["x", "last"], ["a"])], [],
                                   [value("a", FLOAT, None)]),
                 else_branch=graph([node("Identity", ["x"], ["b"])], [],
                                   [value("b", FLOAT, None)])),
            node("MatMul", ["r", "w"], ["y"]),
        ],
        [value("x", FLOAT, ["n", 4, "t"])], [value("y", FLOAT, ["n", 5])],
        [constant("last", [-1]), constant("one", [1]), constant("w", rand(4, 5), np.float32)],
    )  # fmt: skip
    check(made, [{"x": rand(3, 4, 1)}, {"x": rand(9, 4, 1)}])
    module = knapper.compile(made, cache=False)
    with pytest.raises(knapper.UserError, match="compiled for sizes where t == 1|must be equal"):
        module(x=rand(3, 4, 2))


def test_a_branch_may_have_impossible_sizes():
    """The slice of ten rows is only taken where there are ten."""
    yes = graph(
        [node("Slice", ["x", "eight", "end"], ["t"]), node("ReduceSum", ["t"], ["a"], keepdims=0)],
        [], [value("a", FLOAT, None)], [constant("eight", [8]), constant("end", [1 << 40])],
    )  # fmt: skip
    no = graph([node("ReduceMax", ["x"], ["b"], keepdims=0)], [], [value("b", FLOAT, None)])
    made = model(
        [
            node("Shape", ["x"], ["n"]), node("Squeeze", ["n"], ["size"]),
            node("Greater", ["size", "ten"], ["c"]),
            node("If", ["c"], ["y"], then_branch=yes, else_branch=no),
        ],
        [value("x", FLOAT, ["n"])], [value("y", FLOAT, None)], [constant("ten", 9)],
    )  # fmt: skip
    check(made, [{"x": rand(n)} for n in (1, 9, 10, 30)])


def branches(then, otherwise, kind=None):
    """Two branches on data, of what `q` is made, and y = concatenation or q itself."""
    given = [kind("a"), kind("b")] if kind else [value("a", FLOAT, None), value("b", FLOAT, None)]
    end = [node("ConcatFromSequence", ["q"], ["y"], axis=0)] if kind else [node("Neg", ["q"], ["y"])]
    return model(
        [node("If", ["c"], ["q"], then_branch=graph(then, [], given[:1]), else_branch=graph(otherwise, [], given[1:])), *end],
        [value("x", FLOAT, ["n", 3]), value("c", BOOL, [])], [value("y", FLOAT, None)],
    )  # fmt: skip


def sequence(name):
    return helper.make_tensor_sequence_value_info(name, FLOAT, None)


def test_branches_that_give_sequences():
    then = [node("Relu", ["x"], ["r"]), node("SequenceConstruct", ["x", "r"], ["a"])]
    other = [node("Concat", ["x", "x"], ["t"], axis=0), node("SequenceConstruct", ["t", "x"], ["b"])]
    check(branches(then, other, sequence), [{"x": rand(n, 3), "c": c} for n in (1, 4) for c in (True, False)])


@pytest.mark.parametrize("then, kind, told", [
    ([node("ReduceMax", ["x"], ["a"], keepdims=0)], None, "give f32 and nx3xf32, and the condition depends on data"),
    ([node("SequenceConstruct", ["x"], ["a"])], sequence, "a sequence of 1: nx3xf32 and a sequence of 2: nx3xf32, nx3xf32"),
])  # fmt: skip
def test_branches_that_no_type_holds(then, kind, told):
    other = [node("SequenceConstruct", ["x", "x"], ["b"])] if kind else [node("Relu", ["x"], ["b"])]
    with pytest.raises(knapper.Error, match=told):
        knapper.compile(branches(then, other, kind), cache=False)


# --- Loop -------------------------------------------------------------------------------------


def loop_body(nodes, carried, outputs, initializers=()):
    return graph(
        nodes, [value("i", INT64, []), value("c", BOOL, [])] + carried, outputs, initializers
    )


def test_loop_with_a_trip_count_from_data():
    body = loop_body(
        [
            node("Identity", ["c"], ["c2"]),
            node("Cast", ["i"], ["f"], to=FLOAT),
            node("MatMul", ["h", "w"], ["hw"]),
            node("Add", ["hw", "f"], ["g"]),
            node("Tanh", ["g"], ["h2"]),
            node("Add", ["h", "x"], ["row"]),
        ],
        [value("h", FLOAT, None)],
        [value("c2", BOOL, []), value("h2", FLOAT, None), value("row", FLOAT, None)],
        [constant("w", rand(4, 4), np.float32)],
    )
    made = model(
        [node("Loop", ["m", "", "h0"], ["last", "rows"], body=body)],
        [value("m", INT64, []), value("h0", FLOAT, ["n", 4]), value("x", FLOAT, ["n", 4])],
        [value("last", FLOAT, None), value("rows", FLOAT, None)],
    )
    check(made, [{"m": np.int64(m), "h0": rand(n, 4), "x": rand(n, 4)}
                 for m, n in ((3, 2), (11, 5), (1, 1))], 1e-4)  # fmt: skip


def test_loop_without_a_turn():
    """Nothing is collected, in the right shape; ONNX Runtime forgets the other dims."""
    body = loop_body(
        [node("Identity", ["c"], ["c2"]), node("Neg", ["h"], ["h2"])], [value("h", FLOAT, None)],
        [value("c2", BOOL, []), value("h2", FLOAT, None), value("h", FLOAT, None)],
    )  # fmt: skip
    module = knapper.compile(
        model(
            [node("Loop", ["m", "", "h0"], ["last", "rows"], body=body)],
            [value("m", INT64, []), value("h0", FLOAT, ["n", 4])],
            [value("last", FLOAT, None), value("rows", FLOAT, None)],
        ),
        cache=False,
    )
    h0 = rand(2, 4)
    for turns in (0, -3, 2):
        result = module(m=np.array(turns), h0=h0)
        np.testing.assert_array_equal(result["last"], h0)
        assert result["rows"].shape == (max(turns, 0), 2, 4)


def test_loop_that_ends_by_its_condition():
    """Doubles until the sum passes a limit; collects what it saw."""
    body = loop_body(
        [
            node("Add", ["v", "v"], ["v2"]),
            node("ReduceSum", ["v2"], ["s"], keepdims=0),
            node("Less", ["s", "limit"], ["c2"]),
        ],
        [value("v", FLOAT, None)],
        [value("c2", BOOL, []), value("v2", FLOAT, None), value("s", FLOAT, [])],
    )
    made = model(
        [node("Loop", ["", "go", "x"], ["y", "sums"], body=body)],
        [value("x", FLOAT, ["n"]), value("limit", FLOAT, []), value("go", BOOL, [])],
        [value("y", FLOAT, None), value("sums", FLOAT, None)],
    )
    check(made, [{"x": np.ones(n, np.float32), "limit": np.float32(l), "go": np.array(g)}
                 for n, l, g in ((3, 50, True), (7, 1e4, True), (2, 1, True), (2, 9, False))])  # fmt: skip


def test_loop_that_grows_what_it_carries():
    body = loop_body(
        [
            node("Identity", ["c"], ["c2"]),
            node("ReduceSum", ["v"], ["s"], keepdims=1),
            node("Concat", ["v", "s"], ["v2"], axis=0),
        ],
        [value("v", FLOAT, None)],
        [value("c2", BOOL, []), value("v2", FLOAT, None)],
    )
    made = model(
        [
            node("Loop", ["five", "", "x"], ["r"], body=body),
            node("Neg", ["r"], ["y"]),
        ],
        [value("x", FLOAT, ["n"])], [value("y", FLOAT, None)], [constant("five", 5)],
    )  # fmt: skip
    check(made, [{"x": rand(n)} for n in (1, 4, 9)], 1e-4)


def test_loop_that_swaps_and_counts():
    """Carried values that only change places; an integer that is counted."""
    body = loop_body(
        [
            node("Identity", ["c"], ["c2"]), node("Identity", ["a"], ["a2"]),
            node("Identity", ["b"], ["b2"]), node("Add", ["k", "i"], ["k2"]),
        ],
        [value("a", FLOAT, None), value("b", FLOAT, None), value("k", INT64, [])],
        [value("c2", BOOL, []), value("b2", FLOAT, None), value("a2", FLOAT, None),
         value("k2", INT64, []), value("k", INT64, [])],
    )  # fmt: skip
    made = model(
        [node("Loop", ["m", "", "x", "z", "zero"], ["p", "q", "k", "seen"], body=body)],
        [value("m", INT64, []), value("x", FLOAT, [3]), value("z", FLOAT, [3])],
        [value(n, t, None) for n, t in (("p", FLOAT), ("q", FLOAT), ("k", INT64), ("seen", INT64))],
        [constant("zero", 0)],
    )
    made.graph.node[0].attribute[0].g.output[4].name = "k"
    check(made, [{"m": np.int64(m), "x": rand(3), "z": rand(3)} for m in (0, 1, 2, 5)])


def test_branch_inside_a_loop_inside_a_branch():
    then = graph([node("Mul", ["v", "x"], ["t"])], [], [value("t", FLOAT, None)])
    other = graph([node("Sub", ["v", "x"], ["e"])], [], [value("e", FLOAT, None)])
    body = loop_body(
        [
            node("Identity", ["c"], ["c2"]), node("Mod", ["i", "two"], ["r"]),
            node("Cast", ["r"], ["odd"], to=BOOL),
            node("If", ["odd"], ["v2"], then_branch=then, else_branch=other),
        ],
        [value("v", FLOAT, None)], [value("c2", BOOL, []), value("v2", FLOAT, None)],
        [constant("two", 2)],
    )  # fmt: skip
    made = model(
        [node("If", ["c0"], ["y"],
              then_branch=graph([node("Loop", ["m", "", "x"], ["z"], body=body)], [],
                                [value("z", FLOAT, None)]),
              else_branch=graph([node("Neg", ["x"], ["w"])], [], [value("w", FLOAT, None)]))],
        [value("x", FLOAT, ["n"]), value("m", INT64, []), value("c0", BOOL, [])],
        [value("y", FLOAT, None)],
    )  # fmt: skip
    check(made, [{"x": rand(4), "m": np.int64(m), "c0": np.array(c)}
                 for m in (0, 3, 4) for c in (True, False)])  # fmt: skip


# --- Scan -------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan(reverse, axis):
    body = graph(
        [node("Add", ["s", "x"], ["s2"]), node("Mul", ["s2", "b"], ["o"])],
        [value("s", FLOAT, [3]), value("x", FLOAT, [3])],
        [value("s2", FLOAT, [3]), value("o", FLOAT, [3])],
    )
    made = model(
        [node("Scan", ["s0", "xs"], ["last", "ys"], body=body, num_scan_inputs=1,
              scan_input_axes=[axis], scan_input_directions=[reverse],
              scan_output_axes=[axis], scan_output_directions=[1 - reverse])],
        [value("s0", FLOAT, [3]), value("xs", FLOAT, ["t", 3] if axis == 0 else [3, "t"]),
         value("b", FLOAT, [3])],
        [value("last", FLOAT, None), value("ys", FLOAT, None)],
    )  # fmt: skip
    check(made, [{"s0": rand(3), "xs": rand(t, 3) if axis == 0 else rand(3, t), "b": rand(3)}
                 for t in (1, 2, 17)])  # fmt: skip


def test_scan_of_opset_8():
    body = graph(
        [node("Add", ["s", "x"], ["s2"]), node("Mul", ["s2", "w"], ["o"])],
        [value("s", FLOAT, [3]), value("x", FLOAT, [3])],
        [value("s2", FLOAT, [3]), value("o", FLOAT, [3])],
        [constant("w", [1, 2, 3], np.float32)],
    )
    made = model(
        [node("Scan", ["", "s0", "xs"], ["last", "ys"], body=body, num_scan_inputs=1)],
        [value("s0", FLOAT, ["b", 3]), value("xs", FLOAT, ["b", "t", 3])],
        [value("last", FLOAT, ["b", 3]), value("ys", FLOAT, ["b", "t", 3])], opset=8,
    )  # fmt: skip
    check(made, [{"s0": rand(b, 3), "xs": rand(b, t, 3)} for b, t in ((1, 4), (3, 2), (2, 6))])


# --- RNN, GRU, LSTM ---------------------------------------------------------------------------

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(op, steps, direction="forward", hidden=5, inputs=3, lengths=False, initial=False,
              peepholes=False, **attributes):  # fmt: skip
    directions = 2 if direction == "bidirectional" else 1
    gates = GATES[op]
    weights = [
        constant("w", rand(directions, gates * hidden, inputs), np.float32),
        constant("r", rand(directions, gates * hidden, hidden) / 2, np.float32),
        constant("b", rand(directions, 2 * gates * hidden), np.float32),
    ]
    names = ["x", "w", "r", "b", "lengths" if lengths else "", "h0" if initial else ""]
    outputs = ["y", "h"]
    signature = [value("x", FLOAT, [steps, "batch", inputs])]
    if lengths:
        signature.append(value("lengths", TensorProto.INT32, ["batch"]))
    state = [directions, "batch", hidden]
    if initial:
        signature.append(value("h0", FLOAT, state))
    if op == "LSTM":
        outputs.append("c")
        names += ["c0" if initial else "", "p" if peepholes else ""]
        if initial:
            signature.append(value("c0", FLOAT, state))
        if peepholes:
            weights.append(constant("p", rand(directions, 3 * hidden), np.float32))
    made = model(
        [node(op, names, outputs, hidden_size=hidden, direction=direction, **attributes)],
        signature, [value(o, FLOAT, None) for o in outputs], weights,
    )  # fmt: skip

    def feed(t, b):
        arrays = {"x": rand(t, b, inputs)}
        if lengths:
            arrays["lengths"] = RNG.integers(1, t + 1, b).astype(np.int32)
            arrays["lengths"][0] = t
        if initial:
            arrays["h0"] = rand(directions, b, hidden)
            if op == "LSTM":
                arrays["c0"] = rand(directions, b, hidden)
        return arrays

    times = (1, 2, 9) if isinstance(steps, str) else (steps,)
    check(made, [feed(t, b) for t in times for b in (1, 4)], 2e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_recurrent(op, direction):
    recurrent(op, "t", direction, initial=True)


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("steps", [1, 3])
def test_recurrent_with_few_steps(op, steps):
    recurrent(op, steps, "bidirectional")


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_recurrent_with_lengths(op, direction):
    recurrent(op, "t", direction, lengths=True, initial=op != "LSTM")


@pytest.mark.parametrize(
    "op, attributes",
    [
        ("GRU", {"linear_before_reset": 1}),
        ("GRU", {"activations": ["HardSigmoid", "Softsign"]}),
        ("RNN", {"activations": ["Relu"]}),
        ("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}),
        ("RNN", {"activations": ["Elu"], "clip": 0.7}),
        ("LSTM", {"clip": 0.5}),
        ("LSTM", {"peepholes": True}),
        ("LSTM", {"activations": ["Sigmoid", "Relu", "ScaledTanh"], "activation_alpha": [1.5],
                  "activation_beta": [0.7]}),
    ],
)  # fmt: skip
def test_recurrent_with(op, attributes):
    recurrent(op, "t", **attributes)


def test_lstm_larger():
    recurrent("LSTM", "t", "bidirectional", hidden=96, inputs=64)


# --- Sequences --------------------------------------------------------------------------------


def test_sequences():
    made = model(
        [
            node("SplitToSequence", ["x", "two"], ["s"], axis=1),
            node("SequenceAt", ["s", "one"], ["a"]),
            node("SequenceInsert", ["s", "a", "zero"], ["s2"]),
            node("SequenceErase", ["s2", "minus"], ["s3"]),
            node("SequenceLength", ["s3"], ["n"]),
            node("ConcatFromSequence", ["s3"], ["y"], axis=1),
        ],
        [value("x", FLOAT, ["n", 7])], [value("y", FLOAT, None), value("n", INT64, [])],
        [constant("two", 2), constant("one", 1), constant("zero", 0), constant("minus", -1)],
    )  # fmt: skip
    check(made, [{"x": rand(n, 7)} for n in (1, 5)])


def test_a_loop_that_collects_a_sequence():
    body = loop_body(
        [
            node("Identity", ["c"], ["c2"]), node("Cast", ["i"], ["f"], to=FLOAT),
            node("Add", ["x", "f"], ["e"]), node("SequenceInsert", ["s", "e"], ["s2"]),
        ],
        [helper.make_tensor_sequence_value_info("s", FLOAT, None)],
        [value("c2", BOOL, []), helper.make_tensor_sequence_value_info("s2", FLOAT, None)],
    )  # fmt: skip
    made = model(
        [
            node("SequenceEmpty", [], ["s0"]),
            node("Loop", ["three", "", "s0"], ["all"], body=body),
            node("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1),
        ],
        [value("x", FLOAT, ["n"])], [value("y", FLOAT, None)], [constant("three", 3)],
    )  # fmt: skip
    check(made, [{"x": rand(4)}])
