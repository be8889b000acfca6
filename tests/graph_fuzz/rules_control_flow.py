"""Rules of what has state, steps, branches or sizes that data decides; of quantisation and sampling."""

from __future__ import annotations

import numpy as np
from graph_builder import ELEMENT, ONE, Builder, Dim, Skip
from onnx import TensorProto, helper
from rules_elementwise import tame
from rules_reduce import spatial, window

BYTES = ("i8", "u8")


def quantize(b: Builder):
    """There and back, by tensor or by channel."""
    x = b.floating(least_rank=1, test=lambda v: v.dtype == "f32")
    if b.special:
        raise Skip  # where NaN goes is not said
    kind = b.choice(BYTES)
    axis = b.integer(0, x.rank - 1)
    dims = [x.dims[axis]] if b.maybe(0.4) and x.dims[axis].static else []
    scale = b.fresh("f32", dims, low=0.05, high=0.4)
    zero = b.fresh(kind, dims, low=0, high=9)
    more = {"axis": axis} if dims else {}
    q = b.node("QuantizeLinear", [x, scale, zero], kind, x.dims, size=128, **more)
    if b.maybe(0.6):
        b.node("DequantizeLinear", [q, scale, zero], "f32", x.dims, size=50, **more)


def dynamic_quantize(b: Builder):
    x = b.floating(least_rank=1, test=lambda v: v.dtype == "f32" and all(d.least > 0 for d in v.dims))
    if b.special:
        raise Skip
    q, scale, zero = b.several("DynamicQuantizeLinear", [x],
                               [("u8", x.dims, 255), ("f32", [], 1), ("u8", [], 255)])  # fmt: skip
    if b.maybe(0.6):
        n = b.dim()
        w = b.fresh(b.choice(BYTES), [x.dims[-1], n])
        y = b.node("MatMulInteger", [q, w, zero], "i32", [*x.dims[:-1], n] if x.rank > 1 else [n], size=1e5)
        y = b.node("Cast", [y], "f32", y.dims, size=1e5, to=1)
        b.node("Mul", [y, scale], "f32", y.dims, size=100)


def matmul_integer(b: Builder):
    x = b.whole(least_rank=2, dtypes=BYTES)
    n = b.dim()
    w = b.fresh(b.choice(BYTES), [x.dims[-1], n], low=0, high=50)
    inputs = [x, w]
    if b.maybe(0.6):
        inputs.append(b.fresh(x.dtype, [], low=0, high=9))
        if b.maybe(0.6):
            inputs.append(b.fresh(w.dtype, b.choice([[], [n]]), low=0, high=9))
    b.node("MatMulInteger", inputs, "i32", [*x.dims[:-1], n], size=1e5)


def qlinear_matmul(b: Builder):
    x = b.whole(least_rank=2, dtypes=BYTES)
    n = b.dim()
    w = b.fresh(x.dtype, [x.dims[-1], n], low=0, high=30)

    def scale():
        return b.fresh("f32", [], low=0.1, high=0.3, special=False)

    def zero():
        return b.fresh(x.dtype, [], low=0, high=9)
    b.node("QLinearMatMul", [x, scale(), zero(), w, scale(), zero(), scale(), zero()], x.dtype,
           [*x.dims[:-1], n], size=128)  # fmt: skip


def conv_integer(b: Builder):
    dtype = b.choice(BYTES)
    h, w = Dim.of(b.integer(3, 9)), b.choice([Dim.of(b.integer(3, 9)), *b.symbols])
    if w.least < 3:
        raise Skip
    c, out = b.choice([1, 3, 4, 8, 17]), b.choice([1, 4, 16, 19])
    x = b.fresh(dtype, [b.choice([ONE, Dim.of(2)]), Dim.of(c), h, w])
    k = b.choice([1, 2, 3])
    filters = b.fresh(b.choice(BYTES), [Dim.of(out), Dim.of(c), Dim.of(k), Dim.of(k)], constant=True)
    pad, stride = b.choice([0, 1]), b.choice([1, 2])
    dims = [x.dims[0], Dim.of(out), *(window(d, k, stride, 2 * pad, 1) for d in (h, w))]
    inputs = [x, filters] + ([b.fresh(dtype, [], low=0, high=9)] if b.maybe(0.5) else [])
    b.node("ConvInteger", inputs, "i32", dims, size=1e5, pads=[pad] * 4, strides=[stride] * 2)


def resize(b: Builder):
    x = spatial(b, b.choice([3, 4]))
    factors = [b.choice([1.0, 2.0, 0.5, 1.5, 3.0]) for _ in x.dims[2:]]
    mode = b.choice(["nearest", "linear", "cubic"])
    how = b.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    dims = [d.map(lambda s, f=f: int(s * f), f"r{f}") for d, f in zip(x.dims[2:], factors)]
    if any(d.least < 1 for d in dims):
        raise Skip
    scales = b.array(np.array([1.0, 1.0, *factors], np.float32))
    b.node("Resize", [x, "", scales], x.dtype, [*x.dims[:2], *dims], size=2 * x.size, mode=mode,
           coordinate_transformation_mode=how,
           nearest_mode=b.choice(["floor", "ceil", "round_prefer_floor"]) if mode == "nearest" else None)  # fmt: skip


def grid_sample(b: Builder):
    x = spatial(b, 4, lambda v: v.dtype == "f32")
    if b.special:
        raise Skip
    h, w = Dim.of(b.integer(1, 5)), Dim.of(b.integer(1, 5))
    grid = b.fresh("f32", [x.dims[0], h, w, Dim.of(2)], low=-1.3, high=1.3, constant=False)
    b.node("GridSample", [x, grid], "f32", [*x.dims[:2], h, w], size=x.size,
           mode=b.choice(["linear", "nearest", "cubic"]),
           padding_mode=b.choice(["zeros", "border", "reflection"]), align_corners=b.integer(0, 1))  # fmt: skip


def recurrent(b: Builder):
    op = b.choice(["RNN", "GRU", "LSTM"])
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    if b.special:
        raise Skip
    steps = b.choice([ONE, Dim.of(2), Dim.of(5), *[s for s in b.symbols if s.least > 0]])
    batch = b.choice([ONE, Dim.of(3), *[s for s in b.symbols if s.least > 0]])
    inner, hidden = b.choice([1, 3, 8, 16]), b.choice([1, 4, 5, 16])
    way = b.choice(["forward", "reverse", "bidirectional"])
    ways = Dim.of(2 if way == "bidirectional" else 1)
    x = b.fresh("f32", [steps, batch, Dim.of(inner)], constant=False)
    w = b.fresh("f32", [ways, Dim.of(gates * hidden), Dim.of(inner)])
    r = b.fresh("f32", [ways, Dim.of(gates * hidden), Dim.of(hidden)])
    inputs = [x, w, r]
    if b.maybe(0.6):
        inputs.append(b.fresh("f32", [ways, Dim.of(2 * gates * hidden)]))
    results = [("f32", [steps, ways, batch, Dim.of(hidden)], 1), ("f32", [ways, batch, Dim.of(hidden)], 1)]
    if op == "LSTM":
        results.append(("f32", [ways, batch, Dim.of(hidden)], 4))
    more = {"linear_before_reset": b.integer(0, 1)} if op == "GRU" else {}
    b.several(op, inputs, results, hidden_size=hidden, direction=way, **more)


def attention(b: Builder):
    if b.special:
        raise Skip
    dtype = b.float_type()
    heads = b.choice([1, 2, 4])
    groups = b.choice([h for h in (1, 2, 4) if heads % h == 0])
    batch = b.choice([ONE, Dim.of(2), *[s for s in b.symbols if s.least > 0]])
    q_len = b.choice([ONE, Dim.of(5), Dim.of(17), *[s for s in b.symbols if s.least > 0]])
    k_len = b.choice([q_len, Dim.of(7), Dim.of(33)])
    depth, width = b.choice([4, 8, 16, 17]), b.choice([4, 8])
    q = b.fresh(dtype, [batch, Dim.of(heads), q_len, Dim.of(depth)], constant=False)
    k = b.fresh(dtype, [batch, Dim.of(groups), k_len, Dim.of(depth)], constant=False)
    v = b.fresh(dtype, [batch, Dim.of(groups), k_len, Dim.of(width)], constant=False)
    inputs = [q, k, v]
    if b.maybe(0.4):
        inputs.append(b.fresh(dtype, b.choice([[q_len, k_len], [ONE, ONE, q_len, k_len]])))
    b.node("Attention", inputs, dtype, [batch, Dim.of(heads), q_len, Dim.of(width)],
           is_causal=b.integer(0, 1) if k_len == q_len else 0)  # fmt: skip


def attention_parts(b: Builder):
    """Attention as exporters write it out."""
    dtype = b.float_type()
    if b.special:
        raise Skip
    heads, depth = Dim.of(b.choice([1, 2, 3])), Dim.of(b.choice([4, 8, 16]))
    batch = b.choice([ONE, Dim.of(2), *[s for s in b.symbols if s.least > 0]])
    steps = b.choice([Dim.of(4), Dim.of(9), *[s for s in b.symbols if s.least > 0]])
    q, k, v = (b.fresh(dtype, [batch, steps, heads, depth], constant=False) for _ in range(3))
    q, v = (b.node("Transpose", [x], dtype, [batch, heads, steps, depth], perm=[0, 2, 1, 3]) for x in (q, v))
    k = b.node("Transpose", [k], dtype, [batch, heads, depth, steps], perm=[0, 2, 3, 1])
    s = b.node("MatMul", [q, k], dtype, [batch, heads, steps, steps], size=20)
    s = b.node("Mul", [s, b.number(depth.least**-0.5, dtype)], dtype, s.dims, size=10)
    if b.maybe(0.4):
        s = b.node("Add", [s, b.fresh(dtype, [batch, ONE, ONE, steps])], dtype, s.dims, size=10)
    p = b.node("Softmax", [s], dtype, s.dims, size=1, axis=-1)
    y = b.node("MatMul", [p, v], dtype, [batch, heads, steps, depth])
    b.node("Transpose", [y], dtype, [batch, steps, heads, depth], perm=[0, 2, 1, 3])


def rotary(b: Builder):
    dtype = b.float_type()
    batch, heads = b.choice([ONE, Dim.of(2)]), Dim.of(b.choice([1, 3]))
    steps = b.choice([ONE, Dim.of(5), *[s for s in b.symbols if s.least > 0]])
    depth = b.choice([4, 8, 16])
    x = b.fresh(dtype, [batch, heads, steps, Dim.of(depth)], constant=False)
    c, s = (b.fresh(dtype, [batch, steps, Dim.of(depth // 2)], low=-1, high=1) for _ in range(2))
    b.node("RotaryEmbedding", [x, c, s], dtype, x.dims, interleaved=b.integer(0, 1))


def dft(b: Builder):
    if b.special:
        raise Skip
    size = Dim.of(b.choice([1, 2, 5, 8, 12]))
    x = b.fresh(b.choice(["f32", "f64"]), [b.choice([ONE, Dim.of(3), *b.symbols]), size, ONE], constant=False)
    sided = b.integer(0, 1)
    out = Dim.of(size.least // 2 + 1) if sided else size
    b.node("DFT", [x, "", b.array(np.int64(1))], x.dtype, [x.dims[0], out, Dim.of(2)], size=30, onesided=sided)


def late_size(b: Builder):
    """A size that data decides, and what comes after it."""
    if b.maybe(0.5):
        x = b.floating(least_rank=1, test=lambda v: v.dims[0].static and v.dims[0].least > 0)
        flags = b.fresh("bool", [x.dims[0]], constant=False)
        rest = list(x.dims[1:])
        y = b.unlisted("Compress", [x, flags], axis=0)
        b.node("ReduceSum", [y, b.ints64(0)], x.dtype, [ONE, *rest], size=x.size * x.dims[0].most)
        return
    x = b.whole(least_rank=1)
    y = b.unlisted("NonZero", [x])
    b.node("ReduceSum", [y, b.ints64(1)], "i64", [Dim.of(x.rank), ONE], size=1e4)


def branch(b: Builder):
    """An If on data, whose branches read from outside."""
    x = tame(b, b.floating())
    condition = b.fresh("bool", [], constant=False)
    y = b.fresh(x.dtype, x.dims)

    def graph(op, name):
        return helper.make_graph(
            [helper.make_node(op, [x.name, y.name], [name])], name, [],
            [helper.make_tensor_value_info(name, ELEMENT[x.dtype], None)])  # fmt: skip
    b.used |= {x.name, y.name}
    stem = f"if{len(b.nodes)}"
    b.node("If", [condition], x.dtype, x.dims, size=x.size + y.size,
           then_branch=graph("Add", f"{stem}then"), else_branch=graph("Mul", f"{stem}else"))  # fmt: skip


def loop(b: Builder):
    """A Loop that adds, for a number of iterations that data decides, and keeps each iteration's value."""
    x = tame(b, b.floating(test=lambda v: v.rank <= 4))
    iterations = b.fresh("i64", [], low=3, high=4, constant=b.maybe(0.5))
    y = b.fresh(x.dtype, x.dims)
    stem = f"loop{len(b.nodes)}"
    names = {k: f"{stem}{k}" for k in ("iteration", "go", "carried", "again", "next", "each")}
    element = ELEMENT[x.dtype]
    shape = [d.sizes[0] if d.static else None for d in x.dims]
    body = helper.make_graph(
        [helper.make_node("Identity", [names["go"]], [names["again"]]),
         helper.make_node("Sub", [y.name, names["carried"]], [names["next"]]),
         helper.make_node("Abs", [names["next"]], [names["each"]])],
        stem,
        [helper.make_tensor_value_info(names["iteration"], TensorProto.INT64, []),
         helper.make_tensor_value_info(names["go"], TensorProto.BOOL, []),
         helper.make_tensor_value_info(names["carried"], element, shape)],
        [helper.make_tensor_value_info(names["again"], TensorProto.BOOL, []),
         helper.make_tensor_value_info(names["next"], element, shape),
         helper.make_tensor_value_info(names["each"], element, shape)])  # fmt: skip
    b.used |= {y.name}
    size = x.size + 4 * y.size
    b.several("Loop", [iterations, "", x], [(x.dtype, x.dims, size), (x.dtype, [Dim.of(3), *x.dims], size)],
              body=body)  # fmt: skip


def scan(b: Builder):
    """A Scan: running maxima and their product with each element."""
    x = tame(b, b.floating(least_rank=2, test=lambda v: v.dims[0].least > 0 and v.rank <= 4))
    start = b.fresh(x.dtype, x.dims[1:])
    stem = f"scan{len(b.nodes)}"
    element = ELEMENT[x.dtype]
    shape = [d.sizes[0] if d.static else None for d in x.dims[1:]]
    names = [f"{stem}{k}" for k in ("state", "item", "next", "out")]
    infos = [helper.make_tensor_value_info(n, element, shape) for n in names]
    body = helper.make_graph(
        [helper.make_node("Max", names[:2], [names[2]]), helper.make_node("Mul", names[1:3], [names[3]])],
        stem, infos[:2], infos[2:])  # fmt: skip
    b.several("Scan", [start, x],
              [(x.dtype, x.dims[1:], x.size + start.size), (x.dtype, x.dims, x.size * (x.size + start.size))],
              body=body, num_scan_inputs=1, scan_input_directions=[b.integer(0, 1)])  # fmt: skip


def loss(b: Builder):
    n, c = b.choice([Dim.of(3), *[s for s in b.symbols if s.least > 0]]), Dim.of(b.integer(2, 9))
    x = b.fresh("f32", [n, c], constant=False)
    target = b.fresh("i64", [n], low=0, high=c.least, constant=False)
    how = b.choice(["none", "mean", "sum"])
    if b.maybe(0.5):
        b.node("SoftmaxCrossEntropyLoss", [x, target], "f32", [n] if how == "none" else [], reduction=how)
    else:
        b.node("NegativeLogLikelihoodLoss", [x, target], "f32", [n] if how == "none" else [], reduction=how)


def classical(b: Builder):
    """Operators of ai.onnx.ml on numbers."""
    x = b.floating(2, test=lambda v: v.dtype == "f32" and v.dims[1].static and v.dims[1].least > 0)
    if b.special:
        raise Skip
    n = x.dims[1].least
    numbers = [float(v) for v in b.data("f32", (n,))]
    op = b.choice(["Scaler", "Normalizer", "Binarizer", "LinearRegressor", "Imputer"])
    if op == "Scaler":
        b.node(op, [x], "f32", x.dims, domain="ai.onnx.ml", offset=numbers, scale=numbers[::-1])
    elif op == "Normalizer":
        b.node(op, [x], "f32", x.dims, domain="ai.onnx.ml", norm=b.choice(["MAX", "L1", "L2"]))
    elif op == "Binarizer":
        b.node(op, [x], "f32", x.dims, domain="ai.onnx.ml", threshold=0.5)
    elif op == "Imputer":
        b.node(op, [x], "f32", x.dims, domain="ai.onnx.ml", imputed_value_floats=numbers,
               replaced_value_float=0.0)  # fmt: skip
    else:
        b.node(op, [x], "f32", [x.dims[0], ONE], domain="ai.onnx.ml", coefficients=numbers, intercepts=[0.5],
               size=x.size * n)  # fmt: skip


def col2im(b: Builder):
    n, c = b.choice([ONE, Dim.of(2), *b.symbols]), b.integer(1, 3)
    h, w, k = b.integer(3, 6), b.integer(3, 6), 2
    blocks = (h - k + 1) * (w - k + 1)
    x = b.fresh(b.float_type(), [n, Dim.of(c * k * k), Dim.of(blocks)], constant=False)
    b.node("Col2Im", [x, b.ints64(h, w), b.ints64(k, k)], x.dtype, [n, Dim.of(c), Dim.of(h), Dim.of(w)],
           size=4 * x.size)  # fmt: skip


def unpool(b: Builder):
    x = spatial(b, 4, lambda v: all(d.static and d.least >= 2 and d.least % 2 == 0 for d in v.dims[2:]))
    if b.special:
        raise Skip
    half = [*x.dims[:2], *(Dim.of(d.least // 2) for d in x.dims[2:])]
    y, i = b.several("MaxPool", [x], [(x.dtype, half, x.size), ("i64", half, 1e4)], kernel_shape=[2, 2],
                     strides=[2, 2])  # fmt: skip
    b.node("MaxUnpool", [y, i], x.dtype, x.dims, size=x.size, kernel_shape=[2, 2], strides=[2, 2])


RULES = [
    (quantize, 2), (dynamic_quantize, 1), (matmul_integer, 1), (qlinear_matmul, 1), (conv_integer, 1),
    (resize, 2), (grid_sample, 1), (recurrent, 1), (attention, 2), (attention_parts, 2), (rotary, 1), (dft, 1),
    (late_size, 1), (branch, 1), (loop, 1), (scan, 1), (loss, 1), (classical, 1), (col2im, 1), (unpool, 1),
]  # fmt: skip
