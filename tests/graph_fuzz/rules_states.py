"""Rules of sequences, optionals, functions, control flow that data ends, and of what carries a state."""

from __future__ import annotations

import numpy as np
from graph_builder import ELEMENT, ONE, Builder, Dim, Skip
from onnx import TensorProto, helper
from rules_elementwise import tame


def info(name, dtype, dims):
    return helper.make_tensor_value_info(
        name, ELEMENT[dtype], None if dims is None else [d.sizes[0] if d.static else None for d in dims])  # fmt: skip


def sequence_edits(b: Builder):
    """Made, inserted into, erased from; then one element, all of them, or how many."""
    x = b.floating(least_rank=1)
    items = [x]
    for _ in range(b.integer(0, 2)):
        items.append(b.fresh(x.dtype, x.dims))
    s = b.unlisted("SequenceConstruct", items)
    if b.maybe(0.3):
        s = b.unlisted("SequenceEmpty", [], dtype=int(ELEMENT[x.dtype]))
        items = []
    for _ in range(b.integer(1, 3)):
        if items and b.maybe(0.3):
            at = b.integer(-len(items), len(items) - 1)
            s = b.unlisted("SequenceErase", [s, b.array(np.int64(at))])
            items.pop(at)
        else:
            y = b.fresh(x.dtype, x.dims) if b.maybe(0.5) else x
            at = b.integer(-len(items), len(items)) if b.maybe(0.6) else None
            s = b.unlisted("SequenceInsert", [s, y] + ([] if at is None else [b.array(np.int64(at))]))
            items.insert(len(items) if at is None else at + len(items) if at < 0 else at, y)
    if not items:
        raise Skip
    kind = b.integer(0, 3)
    size = max(i.size for i in items)
    if kind == 0:
        b.node("SequenceLength", [s], "i64", [], size=9)
    elif kind == 1:
        b.node("SequenceAt", [s, b.array(np.int64(b.integer(-len(items), len(items) - 1)))], x.dtype, x.dims,
               size=size)  # fmt: skip
    else:
        axis, new = b.integer(0, x.rank - 1), b.integer(0, 1)
        count = Dim.of(len(items))
        dims = [*x.dims[:axis], count, *x.dims[axis:]] if new else [
            *x.dims[:axis], x.dims[axis] * count, *x.dims[axis + 1:]]  # fmt: skip
        b.node("ConcatFromSequence", [s], x.dtype, dims, size=size, axis=axis, new_axis=new)


def sequence_map(b: Builder):
    x = tame(b, b.floating(least_rank=1))
    y = b.fresh(x.dtype, x.dims)
    stem = f"map{len(b.nodes)}"
    body = helper.make_graph(
        [helper.make_node("Mul", [f"{stem}in", f"{stem}in"], [f"{stem}out"])], stem,
        [info(f"{stem}in", x.dtype, None)], [info(f"{stem}out", x.dtype, None)])  # fmt: skip
    s = b.unlisted("SequenceMap", [b.unlisted("SequenceConstruct", [x, y])], body=body)
    b.node("ConcatFromSequence", [s], x.dtype, [Dim.of(2), *x.dims], size=max(x.size, y.size) ** 2, axis=0,
           new_axis=1)  # fmt: skip


def optional(b: Builder):
    x = b.floating()
    o = b.unlisted("Optional", [x])
    if b.maybe(0.3):
        b.node("OptionalHasElement", [o], "bool", [])
    else:
        b.node("OptionalGetElement", [o], x.dtype, x.dims, size=x.size)


def function(b: Builder):
    """A function of the model with an attribute, called twice."""
    x = tame(b, b.floating(test=lambda v: v.dtype == "f32"))
    name = f"Scaled{len(b.nodes)}"
    constant = helper.make_node("Constant", [], ["k"])
    reference = constant.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "value_float", "factor", 1
    b.functions.append(helper.make_function(
        "local", name, ["a", "b"], ["c", "d"],
        [constant, helper.make_node("Mul", ["a", "k"], ["c"]), helper.make_node("Sub", ["c", "b"], ["d"])],
        [helper.make_opsetid("", b.opset)], ["factor"]))  # fmt: skip
    y = b.fresh("f32", x.dims)
    c, d = b.several(name, [x, y], [("f32", x.dims, 2 * x.size), ("f32", x.dims, 2 * x.size + y.size)],
                     domain="local", factor=b.choice([0.5, 2.0, -1.0]))  # fmt: skip
    b.several(name, [d, c] if b.maybe(0.5) else [c, d],
              [("f32", x.dims, 8 * x.size), ("f32", x.dims, 8 * x.size + 4 * y.size)], domain="local",
              factor=b.choice([0.25, 1.5]))  # fmt: skip


def until(b: Builder):
    """A Loop that a condition ends; its number of iterations is a size of its result."""
    x = tame(b, b.floating(test=lambda v: v.rank <= 3))
    limit = b.fresh("i64", [], low=0, high=5, constant=b.maybe(0.3))
    start = b.fresh("i64", [], low=0, high=3, constant=b.maybe(0.3))
    stem = f"until{len(b.nodes)}"
    names = {k: stem + k for k in ("turn", "go", "count", "x", "more", "again", "next", "each")}
    body = helper.make_graph(
        [helper.make_node("Add", [names["count"], b.array(np.int64(1)).name], [names["more"]]),
         helper.make_node("Less", [names["more"], limit.name], [names["again"]]),
         helper.make_node("Mul", [names["x"], b.number(0.5, x.dtype).name], [names["next"]]),
         helper.make_node("Add", [names["next"], names["x"]], [names["each"]])],
        stem,
        [info(names["turn"], "i64", []), info(names["go"], "bool", []), info(names["count"], "i64", []),
         info(names["x"], x.dtype, x.dims)],
        [info(names["again"], "bool", []), info(names["more"], "i64", []), info(names["next"], x.dtype, x.dims),
         info(names["each"], x.dtype, x.dims)])  # fmt: skip
    b.used |= {limit.name, *(i for n in body.node for i in n.input)}
    turns = b.choice(["", b.array(np.int64(b.integer(0, 4)))])
    results = [f"{stem}r{i}" for i in range(3)]
    b.nodes.append(helper.make_node(
        "Loop", [turns if isinstance(turns, str) else turns.name, b.array(np.bool_(True)).name, start.name, x.name],
        results, name=f"n{len(b.nodes)}", body=body))  # fmt: skip
    b.used |= {start.name, x.name, b.nodes[-1].input[0], b.nodes[-1].input[1]}
    b.node("Identity", [results[0]], "i64", [], size=9)
    b.node("Identity", [results[1]], x.dtype, x.dims, size=x.size)
    if b.maybe(0.7):
        b.node("ReduceSum", [results[2], b.ints64(0)], x.dtype, x.dims, size=4 * x.size, keepdims=0)


def nested(b: Builder):
    """A Loop with an If in it, on the turn or on what is carried."""
    x = tame(b, b.floating(test=lambda v: v.rank <= 3))
    y = b.fresh(x.dtype, x.dims)
    turns = b.fresh("i64", [], low=0, high=4, constant=b.maybe(0.4))
    stem = f"nested{len(b.nodes)}"
    n = {k: stem + k for k in ("turn", "go", "x", "again", "odd", "flag", "next", "then", "else", "deep")}

    def graph(name, nodes, out):
        return helper.make_graph(nodes, stem + name, [], [info(out, x.dtype, None)])

    two = b.array(np.int64(2)).name
    deep = graph("deep", [helper.make_node("Max", [n["x"], y.name], [n["deep"]])], n["deep"])
    other = graph("other", [helper.make_node("Sub", [n["x"], y.name], [stem + "o"])], stem + "o")
    inner = [helper.make_node("If", [n["flag"]], [n["else"]], then_branch=deep, else_branch=other)]
    body = helper.make_graph(
        [helper.make_node("Identity", [n["go"]], [n["again"]]),
         helper.make_node("Mod", [n["turn"], two], [n["odd"]]),
         helper.make_node("Cast", [n["odd"]], [n["flag"]], to=int(TensorProto.BOOL)),
         helper.make_node("If", [n["flag"]], [n["next"]],
                          then_branch=graph("then", [helper.make_node("Add", [n["x"], y.name], [n["then"]])], n["then"]),
                          else_branch=graph("else", inner, n["else"]))],
        stem, [info(n["turn"], "i64", []), info(n["go"], "bool", []), info(n["x"], x.dtype, x.dims)],
        [info(n["again"], "bool", []), info(n["next"], x.dtype, x.dims)])  # fmt: skip
    b.used |= {y.name, two}
    b.node("Loop", [turns, "", x], x.dtype, x.dims, size=x.size + 4 * y.size, body=body)


def attention_cache(b: Builder):
    """Attention with what came before, in one row of heads, with a limit, masks and windows."""
    if b.special:
        raise Skip
    dtype = b.float_type()
    groups = b.choice([1, 2])
    heads = groups * b.choice([1, 2, 3])
    batch = b.choice([ONE, Dim.of(2), *[s for s in b.symbols if s.least > 0]])
    steps = b.choice([ONE, ONE, Dim.of(4), Dim.of(9), *[s for s in b.symbols if s.least > 0]])
    past = b.choice([Dim.of(3), Dim.of(16), *b.symbols])
    depth, width = b.choice([4, 8, 16]), b.choice([4, 8])
    flat = b.maybe(0.5)

    def shaped(h, d):
        return [batch, steps, Dim.of(h * d)] if flat else [batch, Dim.of(h), steps, Dim.of(d)]

    q, k, v = (b.fresh(dtype, shaped(h, d), constant=False)
               for h, d in ((heads, depth), (groups, depth), (groups, width)))  # fmt: skip
    more = {"q_num_heads": heads, "kv_num_heads": groups} if flat else {}
    inputs, total = [q, k, v, ""], steps
    cached = b.maybe(0.6)
    if cached:
        total = past + steps
    if b.maybe(0.4) and (total is steps or total.static):
        kind = b.choice([dtype, dtype, "bool"])
        if kind == "bool":  # a row that sees nothing is another matter
            inputs[3] = b.array(np.ones((steps.most, total.most), bool)) if steps.static and total.static else ""
        else:
            inputs[3] = b.fresh(kind, b.choice([[steps, total], [batch, ONE, steps, total]]))
    if cached:
        inputs += [b.fresh(dtype, [batch, Dim.of(groups), past, Dim.of(d)], constant=False) for d in (depth, width)]
    if b.maybe(0.3):
        more["softcap"] = b.choice([1.0, 5.0])
    if b.maybe(0.3):
        more["scale"] = 0.3
    more["is_causal"] = b.integer(0, 1)
    results = [(dtype, shaped(heads, width), 4)]
    if cached:
        results += [(dtype, [batch, Dim.of(groups), total, Dim.of(d)], 4) for d in (depth, width)]
    b.several("Attention", [i for i in inputs] if cached or inputs[3] else inputs[:3], results, **more)


def linear_attention(b: Builder):
    if b.special or b.opset < 27:
        raise Skip
    heads, groups = b.choice([(1, 1), (2, 1), (2, 2)])
    batch = b.choice([ONE, Dim.of(2), *[s for s in b.symbols if s.least > 0]])
    steps = b.choice([ONE, Dim.of(5), *[s for s in b.symbols if s.least > 0]])
    depth, width = b.choice([2, 4, 8]), b.choice([3, 4])
    dtype = b.choice(["f32", "f32", "f16"])
    q = b.fresh(dtype, [batch, steps, Dim.of(heads * depth)], low=-0.5, high=0.5, constant=False)
    k = b.fresh(dtype, [batch, steps, Dim.of(groups * depth)], low=-0.5, high=0.5, constant=False)
    v = b.fresh(dtype, [batch, steps, Dim.of(groups * width)], constant=False)
    rule = b.choice(["linear", "gated", "delta", "gated_delta"])
    state = [batch, Dim.of(groups), Dim.of(depth), Dim.of(width)]
    inputs = [q, k, v, b.fresh(dtype, state, constant=False) if b.maybe(0.5) else "", "", ""]
    if rule.startswith("gated"):
        inputs[4] = b.fresh(dtype, [batch, steps, Dim.of(groups)], low=-1, high=0)
    if rule.endswith("delta"):
        inputs[5] = b.fresh(dtype, [batch, steps, Dim.of(groups)], low=0, high=1)
    while inputs[-1] == "":
        inputs.pop()
    b.several("LinearAttention", inputs, [(dtype, [batch, steps, Dim.of(heads * width)], 8), (dtype, state, 8)],
              q_num_heads=heads, kv_num_heads=groups, update_rule=rule)  # fmt: skip


def causal_conv(b: Builder):
    if b.special or b.opset < 27:
        raise Skip
    c, k = b.choice([1, 3, 8]), b.choice([2, 3, 4])
    batch = b.choice([ONE, Dim.of(2), *b.symbols])
    steps = b.choice([ONE, Dim.of(7), *[s for s in b.symbols if s.least > 0]])
    dtype = b.float_type()
    x = b.fresh(dtype, [batch, Dim.of(c), steps], constant=False)
    inputs = [x, b.fresh(dtype, [Dim.of(c), ONE, Dim.of(k)])]
    inputs.append(b.fresh(dtype, [Dim.of(c)]) if b.maybe(0.5) else "")
    state = [batch, Dim.of(c), Dim.of(k - 1)]
    if b.maybe(0.6):
        inputs.append(b.fresh(dtype, state, constant=False))
    elif not inputs[-1]:
        inputs.pop()
    b.several("CausalConvWithState", inputs, [(dtype, x.dims, 20), (dtype, state, 4)],
              activation=b.choice(["none", "silu"]))  # fmt: skip


def tensor_scatter(b: Builder):
    batch = b.choice([ONE, Dim.of(3)])
    cache, new = b.integer(4, 9), b.integer(1, 4)
    rest = [Dim.of(b.choice([1, 4, 7]))]
    x = b.fresh(b.float_type(), [batch, Dim.of(cache), *rest], constant=False)
    update = b.fresh(x.dtype, [batch, Dim.of(new), *rest], constant=False)
    mode = b.choice(["linear", "circular"])
    at = b.fresh("i64", [batch], low=0, high=cache - new + 1 if mode == "linear" else cache)
    b.node("TensorScatter", [x, update, at], x.dtype, x.dims, mode=mode, axis=b.choice([1, -2]))


def swiglu(b: Builder):
    if b.opset < 28:
        raise Skip
    x = tame(b, b.floating())
    y = b.fresh(x.dtype, x.dims)
    b.node("SwiGLU", [x, y], x.dtype, x.dims, size=x.size * y.size, alpha=b.choice([1.0, 1.702]))


def recurrent_more(b: Builder):
    """Lengths, first states, peepholes, a clip, other activations."""
    if b.special:
        raise Skip
    op = b.choice(["RNN", "GRU", "LSTM"])
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    steps, batch = b.choice([Dim.of(3), Dim.of(6)]), b.choice([ONE, Dim.of(3), *[s for s in b.symbols if s.least > 0]])
    inner, hidden = b.choice([2, 5]), b.choice([3, 8])
    way = b.choice(["forward", "reverse", "bidirectional"])
    ways = Dim.of(2 if way == "bidirectional" else 1)
    x = b.fresh("f32", [steps, batch, Dim.of(inner)], constant=False)
    inputs = [x, b.fresh("f32", [ways, Dim.of(gates * hidden), Dim.of(inner)], constant=True),
              b.fresh("f32", [ways, Dim.of(gates * hidden), Dim.of(hidden)], constant=True),
              b.fresh("f32", [ways, Dim.of(2 * gates * hidden)]) if b.maybe(0.5) else "",
              b.fresh("i32", [batch], low=1, high=steps.least + 1, constant=False) if b.maybe(0.6) else ""]  # fmt: skip
    state = [ways, batch, Dim.of(hidden)]
    inputs.append(b.fresh("f32", state, low=-1, high=1) if b.maybe(0.6) else "")
    results = [("f32", [steps, ways, batch, Dim.of(hidden)], 2), ("f32", state, 2)]
    more = {"clip": 1.5} if b.maybe(0.3) else {}
    if op == "LSTM":
        inputs.append(b.fresh("f32", state, low=-1, high=1) if b.maybe(0.5) else "")
        if b.maybe(0.4):
            inputs.append(b.fresh("f32", [ways, Dim.of(3 * hidden)], constant=True))
        results.append(("f32", state, 6))
        more["input_forget"] = b.choice([None, 1])
    if op == "GRU":
        more["linear_before_reset"] = b.integer(0, 1)
    if op == "RNN" and b.maybe(0.5):
        more["activations"] = [b.choice(["Relu", "Sigmoid", "Softsign", "HardSigmoid"])] * ways.least
    while inputs[-1] == "":
        inputs.pop()
    b.several(op, inputs, results, hidden_size=hidden, direction=way, **more)


RULES = [
    (sequence_edits, 2), (sequence_map, 1), (optional, 1), (function, 2), (until, 1), (nested, 1), (attention_cache, 2),
    (linear_attention, 2), (causal_conv, 2), (tensor_scatter, 1), (swiglu, 1), (recurrent_more, 1),
]  # fmt: skip
