"""Rules of reductions, norms, softmax, scans, sorting, matmuls, convolutions and pools."""

from __future__ import annotations

import numpy as np
from graph_builder import ONE, Builder, Dim, Skip, Value, broadcast
from rules_elementwise import tame


def reduce(b: Builder):
    op = b.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                   "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum"])  # fmt: skip
    whole = op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare") and b.maybe(0.2)
    if whole:
        x = b.bounded(b.whole(dtypes=("i32", "i64")), 1e3)
    else:
        x = tame(b, b.floating(test=lambda v: op != "ReduceProd" or v.dtype != "f16"))  # else it underflows
    if op == "ReduceProd" and not whole:
        x = b.bounded(x, 1.5) if not b.special else x
    if op == "ReduceLogSumExp" and not b.special:
        x = b.bounded(x, 8)
    if op == "ReduceLogSum" and not b.special:
        x = b.node("Abs", [x], x.dtype, x.dims, size=x.size)
        x = b.node("Add", [x, b.number(0.25, x.dtype)], x.dtype, x.dims, size=x.size + 1)
    if b.maybe(0.3) and x.rank > 1:  # after a transpose
        order = list(range(x.rank))
        b.random.shuffle(order)
        x = b.node("Transpose", [x], x.dtype, [x.dims[i] for i in order], size=x.size, perm=order)
    axes = sorted(b.random.sample(range(x.rank), b.integer(0, x.rank)))
    keep = b.integer(0, 1)
    more = {"keepdims": keep}
    if not axes:
        if b.maybe(0.5):
            more["noop_with_empty_axes"] = 1
            b.node(op, [x], x.dtype, x.dims, size=x.size**2, **more)
            return
        axes = list(range(x.rank))
        inputs = [x]
    else:
        inputs = [x, b.ints64(*(a - x.rank if b.maybe(0.3) else a for a in axes))]
    if op in ("ReduceMax", "ReduceMin", "ReduceMean") and any(0 in x.dims[a].sizes for a in axes):
        if op == "ReduceMean" or not x.is_float:
            raise Skip
    dims = [ONE if i in axes else d for i, d in enumerate(x.dims) if keep or i not in axes]
    n = max(1, int(np.prod([x.dims[a].most for a in axes])))
    size = {"ReduceMax": x.size, "ReduceMin": x.size, "ReduceMean": x.size, "ReduceLogSumExp": x.size + 8,
            "ReduceLogSum": 20, "ReduceSumSquare": n * x.size**2}.get(op, n * x.size)  # fmt: skip
    b.node(op, inputs, x.dtype, dims, size=size, **more)


def arg(b: Builder):
    x = b.floating(least_rank=1, test=lambda v: any(d.least > 0 for d in v.dims))
    axis = b.choice([i for i, d in enumerate(x.dims) if d.least > 0])
    keep = b.integer(0, 1)
    dims = [ONE if i == axis else d for i, d in enumerate(x.dims) if keep or i != axis]
    b.node(b.choice(["ArgMax", "ArgMin"]), [x], "i64", dims, size=100, axis=axis, keepdims=keep,
           select_last_index=b.integer(0, 1))  # fmt: skip


def softmax(b: Builder):
    op = b.choice(["Softmax", "Softmax", "LogSoftmax", "Hardmax"])
    x = b.floating(least_rank=1)
    axis = b.integer(-x.rank, x.rank - 1)
    if op == "Hardmax" and x.dims[axis].least == 0:
        raise Skip  # an empty dim has no largest element
    b.node(op, [x], x.dtype, x.dims, size=1 if op != "LogSoftmax" else x.size + 8, axis=axis)


def layer_norm(b: Builder):
    x = tame(b, b.floating(least_rank=1))
    axis = b.integer(0, x.rank - 1)
    if any(0 in d.sizes for d in x.dims[axis:]):
        raise Skip
    scale = b.fresh(x.dtype, x.dims[axis:])
    if b.maybe(0.4):
        b.node("RMSNormalization", [x, scale], x.dtype, x.dims, size=10 * scale.size, axis=axis)
        return
    inputs = [x, scale] + ([b.fresh(x.dtype, x.dims[axis:])] if b.maybe(0.6) else [])
    b.node("LayerNormalization", inputs, x.dtype, x.dims, size=10 * scale.size, axis=axis - x.rank)


def channel_norm(b: Builder):
    op = b.choice(["BatchNormalization", "GroupNormalization", "InstanceNormalization", "LRN",
                   "MeanVarianceNormalization", "LpNormalization"])  # fmt: skip
    x = tame(b, b.floating(4 if op == "MeanVarianceNormalization" else None, 3,
                           test=lambda v: v.dims[1].static and all(d.least > 0 for d in v.dims)))  # fmt: skip
    c = x.dims[1]
    if op == "LRN":
        b.node(op, [b.bounded(x, 100)], x.dtype, x.dims, size=x.size, attributes={"size": 3})
        return
    if op == "MeanVarianceNormalization":
        b.node(op, [x], x.dtype, x.dims, size=10)
        return
    if op == "LpNormalization":
        b.node(op, [x], x.dtype, x.dims, size=1, axis=b.integer(-1, x.rank - 1), p=b.integer(1, 2))
        return
    scale, bias = b.fresh(x.dtype, [c]), b.fresh(x.dtype, [c])
    if op == "BatchNormalization":
        mean, var = b.fresh(x.dtype, [c]), b.fresh(x.dtype, [c], low=0.2, high=2, special=False)
        b.node(op, [x, scale, bias, mean, var], x.dtype, x.dims, size=10 * x.size)
    elif op == "GroupNormalization":
        groups = b.choice([g for g in range(1, c.least + 1) if c.least % g == 0])
        b.node(op, [x, scale, bias], x.dtype, x.dims, size=40, num_groups=groups)
    else:
        b.node(op, [x, scale, bias], x.dtype, x.dims, size=40)


def cumulative(b: Builder):
    op = b.choice(["CumSum", "CumSum", "CumProd"])
    x = tame(b, b.floating(least_rank=1))
    if op == "CumProd" and not b.special:
        x = b.bounded(x, 1.5)
    axis = b.integer(-x.rank, x.rank - 1)
    b.node(op, [x, b.array(np.int64(axis))], x.dtype, x.dims, size=x.size * max(1, x.dims[axis].most),
           exclusive=b.integer(0, 1), reverse=b.integer(0, 1))  # fmt: skip


def topk(b: Builder):
    x = b.floating(least_rank=1, test=lambda v: any(d.least > 0 for d in v.dims))
    if b.special:
        raise Skip  # where NaN goes is not said
    axis = b.choice([i for i, d in enumerate(x.dims) if d.least > 0])
    k = b.integer(1, x.dims[axis].least)
    dims = [Dim.of(k) if i == axis else d for i, d in enumerate(x.dims)]
    b.several("TopK", [x, b.ints64(k)], [(x.dtype, dims, x.size), ("i64", dims, 100)], axis=axis,
              largest=b.integer(0, 1), sorted=1)  # fmt: skip


def matmul(b: Builder):
    x = tame(b, b.floating(least_rank=1))
    k = x.dims[-1]
    limit = 60 if x.dtype == "f16" else 1e3
    x = b.bounded(x, limit) if not b.special else x

    def fits(v):
        return (v.dtype == x.dtype and v.rank >= 2 and v.dims[-2] == k
                and broadcast(v.dims[:-2], x.dims[:-2]) is not None)  # fmt: skip
    y = b.find(fits, 0.5)
    if y is None and b.maybe(0.3):  # one that stands the other way
        y = b.find(lambda v: v.dtype == x.dtype and v.rank >= 2 and v.dims[-1] == k
                   and broadcast(v.dims[:-2], x.dims[:-2]) is not None, 1)  # fmt: skip
        if y is not None:
            order = [*range(y.rank - 2), y.rank - 1, y.rank - 2]
            y = b.node("Transpose", [y], y.dtype, [y.dims[i] for i in order], size=y.size, perm=order)
    if y is None:
        kind = b.integer(0, 3)
        front = x.dims[:-2] if kind == 0 else ()
        y = b.fresh(x.dtype, [*front, k, *([] if kind == 1 and not front else [b.dim()])])
    y = b.bounded(y, limit) if not b.special else y
    a = list(x.dims) if x.rank > 1 else [ONE, *x.dims]
    c = list(y.dims) if y.rank > 1 else [*y.dims, ONE]
    dims = [*broadcast(a[:-2], c[:-2]), *([a[-2]] if x.rank > 1 else []), *([c[-1]] if y.rank > 1 else [])]
    out = b.node("MatMul", [x, y], x.dtype, dims, size=x.size * y.size * max(1, k.most) ** 0.5)
    if b.maybe(0.5) and out.rank:  # a bias and an activation
        out = tame(b, out)
        out = biased(b, out)
        if b.maybe(0.5):
            b.node(b.choice(["Relu", "Sigmoid", "Tanh" if b.special else "Gelu", "Tanh"]), [out], out.dtype, out.dims, size=out.size)


def biased(b: Builder, x: Value) -> Value:
    bias = b.fresh(x.dtype, x.dims[-1:])
    return b.node("Add", [x, bias], x.dtype, x.dims, size=x.size + bias.size)


def gemm(b: Builder):
    x = tame(b, b.floating(2))
    x = b.bounded(x, 60)
    ta, tb = b.integer(0, 1), b.integer(0, 1)
    m, k = x.dims[::-1] if ta else x.dims
    n = b.dim()
    y = b.fresh(x.dtype, [n, k] if tb else [k, n])
    inputs = [x, y]
    if b.maybe(0.7):
        inputs.append(b.fresh(x.dtype, b.choice([[n], [], [ONE, n], [m, n], [m, ONE]])))
    b.node("Gemm", inputs, x.dtype, [m, n], size=x.size * y.size * max(1, k.most) ** 0.5 + 8, transA=ta,
           transB=tb, alpha=b.choice([1.0, 0.5]), beta=b.choice([1.0, 0.5, 0.0]))  # fmt: skip


def einsum(b: Builder):
    equations = ["ab,bc->ac", "abc,acd->abd", "ab,cb->ac", "abc,bd->acd", "ab,ab->a", "ab,c->abc", "aij,aj->ai",
                 "bhqd,bhkd->bhqk", "bqhd,bkhd->bhqk", "ab->ba", "abc->b"]  # fmt: skip
    equation = b.choice(equations)
    left, right = equation.split("->")
    sizes: dict[str, Dim] = {}
    operands, dtype = [], b.float_type()
    for letters in left.split(","):
        for letter in letters:
            sizes.setdefault(letter, Dim.of(b.integer(1, 9)) if b.maybe(0.6) or not b.symbols else
                             b.choice(b.symbols))  # fmt: skip
        dims = tuple(sizes[c] for c in letters)
        found = b.find(lambda v, d=dims: v.dtype == dtype and v.dims == d, 0.5)
        operands.append(b.bounded(found, 60) if found else b.fresh(dtype, dims))
    total = np.prod([s.most for s in sizes.values()])
    b.node("Einsum", operands, dtype, [sizes[c] for c in right], equation=equation,
           size=float(np.prod([o.size for o in operands]) * total**0.5))  # fmt: skip


def window(size: Dim, kernel, stride, pads, dilation, ceil=False) -> Dim:
    def out(s):
        free = s + pads - (dilation * (kernel - 1) + 1)
        if free < 0:
            raise Skip
        return (-(-free // stride) if ceil else free // stride) + 1
    return size.map(out, f"w{kernel},{stride},{pads},{dilation}")


def spatial(b: Builder, rank=None, test=None) -> Value:
    rank = rank or b.choice([3, 4, 4, 4, 5])

    def fits(v):
        return (v.dims[1].static and v.dims[1].least > 0 and all(d.least > 0 for d in v.dims)
                and (test is None or test(v)))  # fmt: skip
    found = b.find(lambda v: v.is_float and v.rank == rank and fits(v))
    if found is not None:
        return found
    dims = [b.choice([ONE, Dim.of(2), *b.symbols]), Dim.of(b.choice([1, 2, 3, 4, 8, 16, 17]))]
    for _ in range(rank - 2):
        dims.append(Dim.of(b.choice([1, 3, 5, 7, 8, 12, 14])) if b.maybe(0.6) or not b.symbols else
                    b.choice(b.symbols))  # fmt: skip
    value = Value("", b.float_type(), tuple(dims))
    if not fits(value):
        raise Skip
    return b.fresh(value.dtype, dims, constant=False)


def conv(b: Builder):
    x = spatial(b)
    x = b.bounded(x, 60) if not b.special else x
    n, c, *space = x.dims
    groups = b.choice([1, 1, c.least, b.choice([g for g in range(1, c.least + 1) if c.least % g == 0])])
    out = Dim.of(groups * b.choice([1, 1, 2, 3, 4, 8]) if groups > 1 else b.choice([1, 2, 4, 8, 16, 19]))
    kernel = [b.choice([1, 1, 2, 3, 3, 5]) for _ in space]
    strides = [b.choice([1, 1, 2, 3]) for _ in space]
    dilations = [b.choice([1, 1, 1, 2]) for _ in space]
    pads = [b.choice([0, 1, 1, 2]) for _ in range(2 * len(space))]
    half = len(space)
    dims = [window(d, kernel[i], strides[i], pads[i] + pads[i + half], dilations[i])
            for i, d in enumerate(space)]  # fmt: skip
    # Padding times an infinite weight is NaN or skipped: both are right.
    w = b.fresh(x.dtype, [out, Dim.of(c.least // groups), *map(Dim.of, kernel)],
                constant=b.maybe(0.8), special=False)  # fmt: skip
    inputs = [x, w] + ([b.fresh(x.dtype, [out])] if b.maybe(0.5) else [])
    depth = c.least // groups * int(np.prod(kernel))
    y = b.node("Conv", inputs, x.dtype, [n, out, *dims], size=x.size * w.size * depth**0.5,
               kernel_shape=kernel if b.maybe(0.5) else None, strides=strides, dilations=dilations,
               pads=pads, group=groups)  # fmt: skip
    if b.maybe(0.4):
        y = tame(b, y)
        if b.maybe(0.5):
            y = b.node("Add", [y, b.fresh(y.dtype, y.dims if b.maybe(0.3) else [out, *[ONE] * half])],
                       y.dtype, y.dims, size=y.size + 4)  # fmt: skip
        b.node(b.choice(["Relu", "Sigmoid", "HardSwish"]), [y], y.dtype, y.dims, size=y.size)


def conv_transpose(b: Builder):
    x = spatial(b, b.choice([3, 4, 4]))
    x = b.bounded(x, 60) if not b.special else x
    n, c, *space = x.dims
    groups = b.choice([1, 1, b.choice([g for g in range(1, c.least + 1) if c.least % g == 0])])
    each = b.choice([1, 2, 4])
    kernel = [b.choice([1, 2, 3]) for _ in space]
    strides = [b.choice([1, 2, 3]) for _ in space]
    pads = [b.choice([0, 0, 1]) if k > 1 else 0 for k in kernel] * 2
    dims = []
    for i, d in enumerate(space):
        def out(s, i=i):
            size = strides[i] * (s - 1) + kernel[i] - 2 * pads[i]
            if size <= 0:
                raise Skip
            return size
        dims.append(d.map(out, f"t{kernel[i]},{strides[i]},{pads[i]}"))
    w = b.fresh(x.dtype, [c, Dim.of(each), *map(Dim.of, kernel)], special=False)
    inputs = [x, w] + ([b.fresh(x.dtype, [Dim.of(each * groups)])] if b.maybe(0.5) else [])
    b.node("ConvTranspose", inputs, x.dtype, [n, Dim.of(each * groups), *dims], size=x.size * w.size * 8,
           strides=strides, pads=pads, group=groups)  # fmt: skip


def pool(b: Builder):
    op = b.choice(["MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
    x = tame(b, spatial(b))
    n, c, *space = x.dims
    if op.startswith("Global"):
        b.node(op, [x], x.dtype, [n, c, *[ONE] * len(space)], size=x.size * 10)
        return
    kernel = [b.choice([1, 2, 3]) for _ in space]
    strides = [b.choice([1, 2]) for _ in space]
    pads = [b.integer(0, k - 1) for k in kernel] * 2
    dilations = [b.choice([1, 1, 2]) for _ in space]
    half = len(space)
    if op == "LpPool" and (any(pads) or any(d > 1 for d in dilations)):
        pads, dilations = [0] * (2 * half), [1] * half
    dims = [window(d, kernel[i], strides[i], pads[i] + pads[i + half], dilations[i])
            for i, d in enumerate(space)]  # fmt: skip
    more = {"count_include_pad": b.integer(0, 1)} if op == "AveragePool" else {}
    if op == "LpPool":
        more["p"] = b.integer(1, 3)
    b.node(op, [x], x.dtype, [n, c, *dims], size=x.size * (9 if op == "LpPool" else 1), kernel_shape=kernel,
           strides=strides, pads=pads, dilations=dilations, **more)  # fmt: skip


RULES = [
    (reduce, 9), (arg, 2), (softmax, 4), (layer_norm, 4), (channel_norm, 3), (cumulative, 2), (topk, 1),
    (matmul, 9), (gemm, 3), (einsum, 2), (conv, 5), (conv_transpose, 2), (pool, 3),
]  # fmt: skip
