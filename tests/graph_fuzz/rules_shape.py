"""Rules of operators that move elements: shapes, slices, gathers, scatters."""

from __future__ import annotations

import numpy as np
from graph_builder import ONE, Builder, Dim, Skip, Value, count


def any_value(b: Builder, **more) -> Value:
    kind = b.random.random()
    if kind < 0.7:
        return b.floating(**more)
    if kind < 0.95 or more:
        return b.whole(**more)
    return b.truth()


def axis_of(b: Builder, rank: int) -> tuple[int, int]:
    """An axis, and how it is written."""
    axis = b.integer(0, rank - 1)
    return axis, axis - rank if b.maybe(0.4) else axis


def transpose(b: Builder):
    x = any_value(b, least_rank=1)
    order = list(range(x.rank))
    b.random.shuffle(order)
    if b.maybe(0.15):
        b.node("Transpose", [x], x.dtype, x.dims[::-1], size=x.size)
    else:
        b.node("Transpose", [x], x.dtype, [x.dims[i] for i in order], size=x.size, perm=order)


def reshape(b: Builder):
    x = any_value(b)
    kind = b.integer(0, 4)
    if kind == 0 and x.rank >= 2:  # two neighbours become one
        i = b.integer(0, x.rank - 2)
        dims = [*x.dims[:i], x.dims[i] * x.dims[i + 1], *x.dims[i + 2:]]
        if any(0 in d.sizes for d in x.dims):
            raise Skip
        numbers = [d.sizes[0] if d.static else 0 if k < i else None for k, d in enumerate(dims)]
        if numbers[i] is None or (not dims[i].static) or b.maybe(0.3):
            numbers[i] = -1
        if any(n is None for n in numbers):
            raise Skip
        b.node("Reshape", [x, b.ints64(*numbers)], x.dtype, dims, size=x.size)
    elif kind == 1:  # one is divided
        whole = [i for i, d in enumerate(x.dims) if d.static and d.least > 1]
        if not whole or any(0 in d.sizes for d in x.dims):
            raise Skip
        i = b.choice(whole)
        size = x.dims[i].least
        part = b.choice([p for p in range(1, size + 1) if size % p == 0])
        dims = [*x.dims[:i], Dim.of(part), Dim.of(size // part), *x.dims[i + 1:]]
        numbers, symbols = [], [d for d in dims if not d.static]
        for k, d in enumerate(dims):
            numbers.append(d.sizes[0] if d.static else 0 if k < i else -1)
        if numbers.count(-1) > 1:
            raise Skip
        _ = symbols
        b.node("Reshape", [x, b.ints64(*numbers)], x.dtype, dims, size=x.size)
    elif kind == 2:  # everything in a row
        if any(0 in d.sizes for d in x.dims):
            raise Skip
        total = ONE
        for d in x.dims:
            total = total * d
        b.node("Reshape", [x, b.ints64(-1)], x.dtype, [total], size=x.size)
    elif kind == 3:
        axis = b.integer(0, x.rank)
        first = last = ONE
        for i, d in enumerate(x.dims):
            if i < axis:
                first = first * d
            else:
                last = last * d
        b.node("Flatten", [x], x.dtype, [first, last], size=x.size, axis=axis)
    else:  # to the shape of another value
        y = b.find(lambda v: v.static and v.name != x.name, 1)
        if y is None or not x.static or count(x.dims) != count(y.dims):
            raise Skip
        shape = b.node("Shape", [y], "i64", [Dim.of(y.rank)])
        b.node("Reshape", [x, shape], x.dtype, y.dims, size=x.size,
               allowzero=1 if 0 in count(y.dims) else None)  # fmt: skip


def squeeze(b: Builder):
    x = any_value(b)
    ones = [i for i, d in enumerate(x.dims) if d == ONE]
    if ones and b.maybe(0.6):
        chosen = sorted(b.random.sample(ones, b.integer(1, len(ones))))
        dims = [d for i, d in enumerate(x.dims) if i not in chosen]
        b.node("Squeeze", [x, b.ints64(*chosen)], x.dtype, dims, size=x.size)
    elif x.rank < 5:
        axis = b.integer(0, x.rank)
        dims = [*x.dims[:axis], ONE, *x.dims[axis:]]
        b.node("Unsqueeze", [x, b.ints64(axis)], x.dtype, dims, size=x.size)


def expand(b: Builder):
    x = any_value(b)
    dims = [Dim.of(b.integer(1, 4)) if d == ONE else d for d in x.dims]
    if len(dims) < 5 and b.maybe(0.3):
        dims.insert(0, Dim.of(b.integer(1, 3)))
    numbers = [d.sizes[0] if d.static else 1 for d in dims]
    b.node("Expand", [x, b.ints64(*numbers)], x.dtype, dims, size=x.size)


def tile(b: Builder):
    x = any_value(b, least_rank=1)
    times = [b.random.choices([1, 2, 3, 0], [6, 2, 1, 0.3])[0] for _ in x.dims]
    dims = [d * Dim.of(t) for d, t in zip(x.dims, times)]
    dims = [Dim.of(0) if t == 0 else d for d, t in zip(dims, times)]
    b.node("Tile", [x, b.ints64(*times)], x.dtype, dims, size=x.size)


def concat(b: Builder):
    x = any_value(b, least_rank=1)
    axis, written = axis_of(b, x.rank)
    operands, total = [x], x.dims[axis]
    for _ in range(b.integer(1, 3)):
        def fits(v):
            return (v.dtype == x.dtype and v.rank == x.rank
                    and all(p == q for i, (p, q) in enumerate(zip(v.dims, x.dims)) if i != axis))  # fmt: skip
        y = b.find(fits, 0.5)
        if y is None:
            y = b.fresh(x.dtype, [*x.dims[:axis], b.dim(), *x.dims[axis + 1:]])
        operands.append(y)
        total = total + y.dims[axis]
    b.random.shuffle(operands)
    b.node("Concat", operands, x.dtype, [*x.dims[:axis], total, *x.dims[axis + 1:]],
           size=max(v.size for v in operands), axis=written)  # fmt: skip


def split(b: Builder):
    x = any_value(b, least_rank=1, test=lambda v: any(d.static and d.least > 1 for d in v.dims))
    axis = b.choice([i for i, d in enumerate(x.dims) if d.static and d.least > 1])
    size = x.dims[axis].least

    def part(n):
        return (x.dtype, [*x.dims[:axis], Dim.of(n), *x.dims[axis + 1:]], x.size)
    if b.maybe(0.4):
        number = b.integer(2, min(4, size))
        each = -(-size // number)
        if each * (number - 1) > size:
            raise Skip
        parts = [each] * (number - 1) + [size - each * (number - 1)]
        b.several("Split", [x], [part(n) for n in parts], axis=axis, num_outputs=number)
        return
    first = b.integer(0, size)
    parts = [first, size - first]
    b.several("Split", [x, b.ints64(*parts)], [part(n) for n in parts], axis=axis)


def slices(b: Builder):
    x = any_value(b, least_rank=1)
    axes = sorted(b.random.sample(range(x.rank), b.integer(1, min(3, x.rank))))
    starts, ends, steps, dims = [], [], [], list(x.dims)
    for axis in axes:
        d = x.dims[axis]
        step = b.choice([1, 1, 1, 2, 3, -1, -2])
        start = b.choice([0, 1, -1, 2, -3, 1000, -1000] if step > 0 else [-1, -1, 1000, 2, 0])
        end = b.choice([1 << 40, -1, 3, 1000, 0] if step > 0 else [-(1 << 40), -1000, 0, 1])
        starts.append(start)
        ends.append(end)
        steps.append(step)
        dims[axis] = d.map(lambda s, a=start, e=end, t=step: sliced(s, a, e, t),
                           f"slice{start},{end},{step}")  # fmt: skip
    inputs = [x, b.ints64(*starts), b.ints64(*ends), b.ints64(*axes), b.ints64(*steps)]
    b.node("Slice", inputs, x.dtype, dims, size=x.size)


def sliced(size, start, end, step) -> int:
    if size == 0:
        return 0
    low = start + size if start < 0 else start
    high = end + size if end < 0 else end
    if step > 0:
        low, high = min(max(low, 0), size), min(max(high, 0), size)
        return max(0, -(-(high - low) // step))
    low, high = min(max(low, 0), size - 1), min(max(high, -1), size - 1)
    return max(0, -(-(low - high) // -step))


def pad(b: Builder):
    x = any_value(b, least_rank=1)
    mode = b.choice(["constant", "constant", "edge", "reflect", "wrap"])
    pads = [b.choice([0, 0, 1, 2, -1 if mode == "constant" else 0]) for _ in range(2 * x.rank)]
    dims = []
    for i, d in enumerate(x.dims):
        low, high = pads[i], pads[i + x.rank]
        if d.least + min(low, 0) + min(high, 0) < 0 or d.least <= max(low, high) and mode != "constant":
            pads[i] = pads[i + x.rank] = low = high = 0
        if low + high == 0:
            dims.append(d)
        elif low + high > 0:
            dims.append(d + Dim.of(low + high))
        else:
            dims.append(d.map(lambda s, c=low + high: s + c, f"pad{low + high}"))
    inputs = [x, b.ints64(*pads)]
    if mode == "constant" and b.maybe(0.5) and x.dtype != "bool":
        inputs.append(b.number(b.choice([1, 2, 7]), x.dtype))
    b.node("Pad", inputs, x.dtype, dims, size=max(x.size, 7), mode=mode)


def depth(b: Builder):
    block = 2
    if b.maybe(0.5):
        x = b.floating(4, test=lambda v: v.dims[1].static and v.dims[1].least % 4 == 0)
        n, c, h, w = x.dims
        b.node("DepthToSpace", [x], x.dtype, [n, Dim.of(c.least // 4), h * Dim.of(2), w * Dim.of(2)],
               size=x.size, blocksize=block, mode=b.choice(["DCR", "CRD"]))  # fmt: skip
    else:
        x = b.floating(4, test=lambda v: all(d.static and d.least % 2 == 0 for d in v.dims[2:]))
        n, c, h, w = x.dims
        b.node("SpaceToDepth", [x], x.dtype, [n, c * Dim.of(4), Dim.of(h.least // 2), Dim.of(w.least // 2)],
               size=x.size, blocksize=block)  # fmt: skip


def sizes(b: Builder):
    """Arithmetic on sizes that becomes a value."""
    x = any_value(b, least_rank=1)
    if b.maybe(0.4):
        b.node("Size", [x], "i64", [], size=1000)
        return
    shape = b.node("Shape", [x], "i64", [Dim.of(x.rank)], size=1000)
    if b.maybe(0.5):
        axis = b.integer(0, x.rank - 1)
        one = b.node("Gather", [shape, b.ints64(axis)], "i64", [ONE], size=1000)
        with_zero = x.dims[axis]
        b.node("ConstantOfShape", [one], "f32", [with_zero], size=1)
    else:
        b.node("Cast", [shape], "f32", [Dim.of(x.rank)], size=1000, to=1)


def trilu(b: Builder):
    x = any_value(b, least_rank=2)
    b.node("Trilu", [x, b.array(np.int64(b.integer(-3, 3)))], x.dtype, x.dims, size=x.size,
           upper=b.integer(0, 1))  # fmt: skip


def eye(b: Builder):
    x = b.floating(2)
    b.node("EyeLike", [x], x.dtype, x.dims, size=1, k=b.integer(-2, 2))


def gather(b: Builder):
    x = any_value(b, least_rank=1, test=lambda v: any(d.least > 0 for d in v.dims))
    axis = b.choice([i for i, d in enumerate(x.dims) if d.least > 0])
    size = x.dims[axis].least
    rank = b.integer(0, 2)
    index = b.fresh(b.choice(["i64", "i32"]), b.shape(rank), low=-size, high=size)
    dims = [*x.dims[:axis], *index.dims, *x.dims[axis + 1:]]
    if len(dims) > 6:
        raise Skip
    b.node("Gather", [x, index], x.dtype, dims, size=x.size, axis=axis)


def gather_elements(b: Builder):
    x = any_value(b, least_rank=1, test=lambda v: any(d.least > 0 for d in v.dims))
    axis = b.choice([i for i, d in enumerate(x.dims) if d.least > 0])
    size = x.dims[axis].least
    dims = [b.dim() if i == axis else d for i, d in enumerate(x.dims)]
    index = b.fresh(b.choice(["i64", "i32"]), dims, low=-size, high=size)
    b.node("GatherElements", [x, index], x.dtype, dims, size=x.size, axis=axis)


def gather_nd(b: Builder):
    x = any_value(b, least_rank=1, test=lambda v: all(d.least > 0 for d in v.dims))
    depth = b.integer(1, x.rank)
    least = min(d.least for d in x.dims[:depth])
    front = b.shape(b.integer(0, 2))
    index = b.fresh("i64", [*front, Dim.of(depth)], low=-least, high=least)
    b.node("GatherND", [x, index], x.dtype, [*front, *x.dims[depth:]], size=x.size)


def scatter_elements(b: Builder):
    x = any_value(b, least_rank=1, test=lambda v: all(d.least > 0 for d in v.dims))
    axis = b.integer(0, x.rank - 1)
    mode = b.choice(["none", "add", "mul", "max", "min"]) if x.dtype != "bool" else "none"
    if mode == "mul":
        x = b.bounded(x, 4)
    if mode == "none":  # one element an index, or the last wins by chance
        dims = [ONE if i == axis else d for i, d in enumerate(x.dims)]
    else:
        dims = [Dim.of(b.integer(1, 5)) if i == axis else d for i, d in enumerate(x.dims)]
    size = x.dims[axis].least
    index = b.fresh("i64", dims, low=-size, high=size)
    updates = b.fresh(x.dtype, dims)
    b.node("ScatterElements", [x, index, updates], x.dtype, x.dims, size=x.size * 4 + updates.size,
           axis=axis, reduction=mode)  # fmt: skip


def scatter_nd(b: Builder):
    x = any_value(b, least_rank=1, test=lambda v: all(d.least > 0 for d in v.dims))
    mode = b.choice(["none", "add", "max", "min"]) if x.dtype != "bool" else "none"
    depth = b.integer(1, x.rank)
    least = min(d.least for d in x.dims[:depth])
    front = [ONE] if mode == "none" else [Dim.of(b.integer(1, 6))]
    index = b.fresh("i64", [*front, Dim.of(depth)], low=-least, high=least)
    updates = b.fresh(x.dtype, [*front, *x.dims[depth:]])
    b.node("ScatterND", [x, index, updates], x.dtype, x.dims, size=x.size + 6 * updates.size,
           reduction=mode)  # fmt: skip


def one_hot(b: Builder):
    index = b.whole(dtypes=("i64", "i32"))
    values = b.fresh("f32", [Dim.of(2)])
    axis = b.choice([-1, 0])
    dims = [*index.dims, Dim.of(5)] if axis == -1 else [Dim.of(5), *index.dims]
    b.node("OneHot", [index, b.array(np.int64(5)), values], "f32", dims, axis=axis)


def reverse_sequence(b: Builder):
    x = any_value(b, least_rank=2, test=lambda v: v.dims[0].static and v.dims[1].least > 0)
    batch, time = x.dims[0], x.dims[1]
    lengths = b.fresh("i64", [batch], low=1, high=time.least + 1)
    b.node("ReverseSequence", [x, lengths], x.dtype, x.dims, size=x.size, batch_axis=0, time_axis=1)


def center_crop_pad(b: Builder):
    x = any_value(b, least_rank=1)
    axis = b.integer(0, x.rank - 1)
    size = b.integer(1, 9)
    dims = [*x.dims[:axis], Dim.of(size), *x.dims[axis + 1:]]
    if not x.dims[axis].static:
        raise Skip
    b.node("CenterCropPad", [x, b.ints64(size)], x.dtype, dims, size=x.size, axes=[axis])


def ranges(b: Builder):
    x = any_value(b, least_rank=1)
    axis = b.integer(0, x.rank - 1)
    shape = b.node("Shape", [x], "i64", [ONE], size=1000, start=axis, end=axis + 1)
    size = b.node("Squeeze", [shape], "i64", [], size=1000)
    b.node("Range", [b.array(np.int64(0)), size, b.array(np.int64(1))], "i64", [x.dims[axis]], size=1000)


def sequence(b: Builder):
    x = any_value(b, least_rank=1, test=lambda v: any(d.static and d.least > 1 for d in v.dims))
    axis = b.choice([i for i, d in enumerate(x.dims) if d.static and d.least > 1])
    ones = [*x.dims[:axis], ONE, *x.dims[axis + 1:]]
    name = f"s{len(b.nodes)}"
    from onnx import helper

    b.nodes.append(helper.make_node("SplitToSequence", [x.name, b.array(np.int64(1)).name], [name],
                                    name=f"n{len(b.nodes)}", axis=axis))  # fmt: skip
    b.used.update([x.name, f"c{len(b.constants) - 1}"])
    at = b.integer(-x.dims[axis].least, x.dims[axis].least - 1)
    if b.maybe(0.5):
        b.node("SequenceAt", [name, b.array(np.int64(at))], x.dtype, ones, size=x.size)
    else:
        b.node("ConcatFromSequence", [name], x.dtype, x.dims, size=x.size, axis=axis)


RULES = [
    (transpose, 6), (reshape, 7), (squeeze, 3), (expand, 2), (tile, 2), (concat, 4), (split, 3), (slices, 5),
    (pad, 3), (depth, 1), (sizes, 1), (trilu, 1), (eye, 1), (gather, 3), (gather_elements, 1), (gather_nd, 1),
    (scatter_elements, 1), (scatter_nd, 1), (one_hot, 1), (reverse_sequence, 1), (center_crop_pad, 1),
    (ranges, 1), (sequence, 1),
]  # fmt: skip
