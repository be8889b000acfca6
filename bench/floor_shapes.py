"""The single kernels of `bench/floors.py`: a table of shapes.

Each gives an ONNX model of one kernel, its inputs, what NumPy says in float64,
the loop nest that anyone would write in C, and its work: bytes (operands and
results once) and operations. An operation is what takes a place in the units
that multiply and add: an addition, a maximum or a multiply-add count one, a
division 8, exp 10, what is made of exp and a division 20. A multiply-add does
two of the peak's FLOP, so the peak takes half as many of these a second.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

EXP, DIVISION, SIGMOID, ERF = 10, 8, 20, 20
C_TYPES = {"float32": "float", "int64": "int64_t"}


@dataclasses.dataclass
class Kernel:
    model: ModelProto
    inputs: list[np.ndarray]
    constants: list[np.ndarray]
    shape: tuple[int, ...]  # of the result
    wanted: Callable[[], np.ndarray]
    nest: str  # the body of a C function, see naive.py
    steps: int  # of its outermost loop
    operations: float
    moved: int  # bytes


@dataclasses.dataclass(frozen=True)
class Shape:
    family: str
    name: str
    make: Callable[[], Kernel]


def line_aligned(array: np.ndarray) -> np.ndarray:
    """A copy that starts at a cache line."""
    line = 64
    memory = np.empty(array.nbytes + line, np.uint8)
    start = -memory.ctypes.data % line
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def random(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def node(kind: str, inputs: str, output: str = "y", **attributes):
    return helper.make_node(kind, inputs.split(), [output], name=f"{kind}_{output}", **attributes)


def kernel(
    nodes, feeds, wanted, nest, steps, operations, *, constants=None, moved=None, opset=23
) -> Kernel:
    """`wanted` gets the arrays by name, in float64 where they are floats."""
    constants = {k: np.asarray(v) for k, v in (constants or {}).items()}
    arrays = feeds | constants

    def exact():
        return wanted(
            **{k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in arrays.items()}
        )

    shape = exact().shape
    types = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "kernel",
        [info(k, types[v.dtype], v.shape) for k, v in feeds.items()],
        [info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
    )
    used = {k: v for k, v in arrays.items() if v.dtype == np.float32 or k in feeds}
    names = "".join(
        f"const {C_TYPES[str(v.dtype)]} *restrict {k} = in[{i}];\n"
        for i, (k, v) in enumerate(used.items())
    )
    if moved is None:
        moved = sum(v.nbytes for v in used.values()) + 4 * math.prod(shape)
    return Kernel(
        model,
        [line_aligned(v) for v in feeds.values()],
        [line_aligned(v) for k, v in used.items() if k not in feeds],
        shape,
        exact,
        names + nest,
        steps,
        operations,
        moved,
    )


# --- Pointwise


def relu(rows, columns):
    def make():
        nodes = [node("Relu", "x", "a"), node("Mul", "a half", "b"), node("Add", "b one")]
        return kernel(
            nodes,
            {"x": random(rows, columns)},
            lambda x, half, one: np.maximum(x, 0) * half + one,
            f"""for (long i = begin * {columns}; i < end * {columns}; ++i)
              y[i] = (x[i] > 0 ? x[i] : 0) * 0.5f + 1;""",
            rows,
            2 * rows * columns,
            constants={"half": np.float32(0.5), "one": np.float32(1)},
            moved=8 * rows * columns,
        )

    return make


def add(rows, columns):
    def make():
        return kernel(
            [node("Add", "x z")],
            {"x": random(rows, columns), "z": random(rows, columns, seed=2)},
            lambda x, z: x + z,
            f"for (long i = begin * {columns}; i < end * {columns}; ++i) y[i] = x[i] + z[i];",
            rows,
            rows * columns,
        )

    return make


def add_row(rows, columns):
    def make():
        return kernel(
            [node("Add", "x z")],
            {"x": random(rows, columns), "z": random(columns, seed=2)},
            lambda x, z: x + z,
            f"""for (long i = begin; i < end; ++i)
              for (long j = 0; j < {columns}; ++j) y[i * {columns} + j] = x[i * {columns} + j] + z[j];""",
            rows,
            rows * columns,
        )

    return make


def scale_rows(rows, columns):
    def make():
        return kernel(
            [node("Mul", "x z")],
            {"x": random(rows, columns), "z": random(rows, 1, seed=2)},
            lambda x, z: x * z,
            f"""for (long i = begin; i < end; ++i)
              for (long j = 0; j < {columns}; ++j) y[i * {columns} + j] = x[i * {columns} + j] * z[i];""",
            rows,
            rows * columns,
        )

    return make


def silu(rows, columns):
    def make():
        return kernel(
            [node("Sigmoid", "x", "s"), node("Mul", "x s")],
            {"x": random(rows, columns)},
            lambda x: x / (1 + np.exp(-x)),
            f"for (long i = begin * {columns}; i < end * {columns}; ++i) y[i] = x[i] / (1 + expf(-x[i]));",
            rows,
            (SIGMOID + 1) * rows * columns,
        )

    return make


def gelu(rows, columns):
    def make():
        def wanted(x):
            return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))

        return kernel(
            [node("Gelu", "x")],
            {"x": random(rows, columns)},
            wanted,
            f"""for (long i = begin * {columns}; i < end * {columns}; ++i)
              y[i] = x[i] * 0.5f * (1 + erff(x[i] * 0.70710678f));""",
            rows,
            (ERF + 3) * rows * columns,
        )

    return make


def scale_channels(images, channels, pixels):
    def make():
        return kernel(
            [node("Mul", "x g", "a"), node("Add", "a b")],
            {
                "x": random(images, channels, pixels),
                "g": random(channels, 1, seed=2),
                "b": random(channels, 1, seed=3),
            },
            lambda x, g, b: x * g + b,
            f"""for (long i = begin; i < end; ++i)
              for (long p = 0; p < {pixels}; ++p)
                y[i * {pixels} + p] = x[i * {pixels} + p] * g[i % {channels}] + b[i % {channels}];""",
            images * channels,
            images * channels * pixels,
        )

    return make


# --- Reductions


def reduce(kind, shape, axes, operation, start, finish="a"):
    """A reduction of [outer, middle, inner] over `axes`, which is (0,), (1,), (2,) or (1, 2)."""
    outer, middle, inner = shape

    def make():
        at = f"x[(o * {middle} + m) * {inner} + i]"
        loops = {
            (0,): (
                middle,
                f"""for (long m = begin; m < end; ++m) for (long i = 0; i < {inner}; ++i)
                  y[m * {inner} + i] = {start};
                for (long o = 0; o < {outer}; ++o) for (long m = begin; m < end; ++m)
                  for (long i = 0; i < {inner}; ++i) {{
                    float a = y[m * {inner} + i], v = {at}; {operation} y[m * {inner} + i] = a; }}
                for (long m = begin; m < end; ++m) for (long i = 0; i < {inner}; ++i) {{
                  float a = y[m * {inner} + i]; y[m * {inner} + i] = {finish}; }}""",
            ),
            (1,): (
                outer,
                f"""for (long o = begin; o < end; ++o) {{
                  for (long i = 0; i < {inner}; ++i) y[o * {inner} + i] = {start};
                  for (long m = 0; m < {middle}; ++m) for (long i = 0; i < {inner}; ++i) {{
                    float a = y[o * {inner} + i], v = {at}; {operation} y[o * {inner} + i] = a; }}
                  for (long i = 0; i < {inner}; ++i) {{
                    float a = y[o * {inner} + i]; y[o * {inner} + i] = {finish}; }}
                }}""",
            ),
            (2,): (
                outer,
                f"""for (long o = begin; o < end; ++o) for (long m = 0; m < {middle}; ++m) {{
                  float a = {start};
                  for (long i = 0; i < {inner}; ++i) {{ float v = {at}; {operation} }}
                  y[o * {middle} + m] = {finish}; }}""",
            ),
            (1, 2): (
                outer,
                f"""for (long o = begin; o < end; ++o) {{
                  float a = {start};
                  for (long m = 0; m < {middle}; ++m)
                    for (long i = 0; i < {inner}; ++i) {{ float v = {at}; {operation} }}
                  y[o] = {finish}; }}""",
            ),
        }
        steps, nest = loops[axes]
        of = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceL2": None}[kind]
        if of is None:
            of = lambda x, axis: np.sqrt(np.square(x).sum(axis))  # noqa: E731
        return kernel(
            [node(kind, "x axes", keepdims=0)],
            {"x": random(*shape)},
            lambda x, axes: of(x, axis=tuple(axes)),
            nest,
            steps,
            math.prod(shape),
            constants={"axes": np.array(axes, np.int64)},
        )

    return make


def total(shape, axes):
    return reduce("ReduceSum", shape, axes, "a += v;", "0")


def mean(shape, axes):
    count = math.prod(shape[a] for a in axes)
    return reduce("ReduceMean", shape, axes, "a += v;", "0", f"a / {count}")


def largest(shape, axes):
    return reduce("ReduceMax", shape, axes, "a = v > a ? v : a;", "-INFINITY")


def arg_max(rows, columns):
    """The index as a float, which costs a kernel of its own nothing."""

    def make():
        return kernel(
            [node("ArgMax", "x", "a", axis=1, keepdims=0), node("Cast", "a", to=TensorProto.FLOAT)],
            {"x": random(rows, columns)},
            lambda x: x.argmax(1).astype(np.float64),
            f"""for (long i = begin; i < end; ++i) {{
              long best = 0;
              for (long j = 1; j < {columns}; ++j)
                if (x[i * {columns} + j] > x[i * {columns} + best]) best = j;
              y[i] = best; }}""",
            rows,
            2 * rows * columns,
        )

    return make


# --- Softmax and norms


def softmax(outer, length, inner=1):
    def make():
        at = f"[(o * {length} + l) * {inner} + i]"

        def wanted(x):
            e = np.exp(x - x.max(1, keepdims=True))
            return e / e.sum(1, keepdims=True)

        shape = (outer, length) if inner == 1 else (outer, length, inner)
        return kernel(
            [node("Softmax", "x", axis=1)],
            {"x": random(*shape)},
            wanted,
            f"""for (long o = begin; o < end; ++o) for (long i = 0; i < {inner}; ++i) {{
              float most = -INFINITY, sum = 0;
              for (long l = 0; l < {length}; ++l) most = x{at} > most ? x{at} : most;
              for (long l = 0; l < {length}; ++l) sum += y{at} = expf(x{at} - most);
              for (long l = 0; l < {length}; ++l) y{at} /= sum; }}""",
            outer,
            (EXP + 4) * outer * length * inner,
        )

    return make


def layer_norm(rows, columns):
    def make():
        def wanted(x, g, b):
            return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g + b

        return kernel(
            [node("LayerNormalization", "x g b", axis=-1)],
            {"x": random(rows, columns)},
            wanted,
            f"""for (long i = begin; i < end; ++i) {{
              const float *r = x + i * {columns};
              float mean = 0, square = 0;
              for (long j = 0; j < {columns}; ++j) mean += r[j];
              mean /= {columns};
              for (long j = 0; j < {columns}; ++j) square += (r[j] - mean) * (r[j] - mean);
              float scale = 1 / sqrtf(square / {columns} + 1e-5f);
              for (long j = 0; j < {columns}; ++j)
                y[i * {columns} + j] = (r[j] - mean) * scale * g[j] + b[j]; }}""",
            rows,
            5 * rows * columns,
            constants={"g": random(columns, seed=2), "b": random(columns, seed=3)},
        )

    return make


def rms_norm(rows, columns):
    def make():
        def wanted(x, g):
            return x / np.sqrt(np.square(x).mean(1, keepdims=True) + 1e-5) * g

        return kernel(
            [node("RMSNormalization", "x g", axis=-1)],
            {"x": random(rows, columns)},
            wanted,
            f"""for (long i = begin; i < end; ++i) {{
              const float *r = x + i * {columns};
              float square = 0;
              for (long j = 0; j < {columns}; ++j) square += r[j] * r[j];
              float scale = 1 / sqrtf(square / {columns} + 1e-5f);
              for (long j = 0; j < {columns}; ++j) y[i * {columns} + j] = r[j] * scale * g[j]; }}""",
            rows,
            3 * rows * columns,
            constants={"g": random(columns, seed=2)},
        )

    return make


def instance_norm(images, channels, pixels):
    def make():
        def wanted(x, g, b):
            centred = x - x.mean(2, keepdims=True)
            return centred / np.sqrt(x.var(2, keepdims=True) + 1e-5) * g[:, None] + b[:, None]

        return kernel(
            [node("InstanceNormalization", "x g b", epsilon=1e-5)],
            {"x": random(images, channels, pixels)},
            wanted,
            f"""for (long i = begin; i < end; ++i) {{
              const float *r = x + i * {pixels};
              float mean = 0, square = 0;
              for (long j = 0; j < {pixels}; ++j) mean += r[j];
              mean /= {pixels};
              for (long j = 0; j < {pixels}; ++j) square += (r[j] - mean) * (r[j] - mean);
              float scale = g[i % {channels}] / sqrtf(square / {pixels} + 1e-5f);
              for (long j = 0; j < {pixels}; ++j)
                y[i * {pixels} + j] = (r[j] - mean) * scale + b[i % {channels}]; }}""",
            images * channels,
            5 * images * channels * pixels,
            constants={"g": random(channels, seed=2), "b": random(channels, seed=3)},
        )

    return make


# --- Movement


def transpose(shape, order):
    def make():
        strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
        rank, out = len(order), [shape[d] for d in order]
        loops = "".join(
            f"for (long i{k} = {'begin' if k == 0 else 0}; i{k} < {'end' if k == 0 else out[k]}; ++i{k}) "
            for k in range(rank)
        )
        to = " + ".join(f"i{k} * {math.prod(out[k + 1 :])}" for k in range(rank))
        source = " + ".join(f"i{k} * {strides[order[k]]}" for k in range(rank))
        return kernel(
            [node("Transpose", "x", perm=list(order))],
            {"x": random(*shape)},
            lambda x: x.transpose(order),
            f"{loops} y[{to}] = x[{source}];",
            out[0],
            0,
        )

    return make


def gather_rows(rows, columns, count):
    def make():
        index = np.random.default_rng(2).integers(0, rows, count)
        return kernel(
            [node("Gather", "x i", axis=0)],
            {"x": random(rows, columns), "i": index},
            lambda x, i: x[i],
            f"""for (long r = begin; r < end; ++r)
              for (long j = 0; j < {columns}; ++j) y[r * {columns} + j] = x[i[r] * {columns} + j];""",
            count,
            0,
            moved=4 * columns * (count + min(rows, count)) + 8 * count,
        )

    return make


def gather_columns(rows, columns, count):
    def make():
        index = np.random.default_rng(2).integers(0, columns, count)
        return kernel(
            [node("Gather", "x i", axis=1)],
            {"x": random(rows, columns), "i": index},
            lambda x, i: x[:, i],
            f"""for (long r = begin; r < end; ++r)
              for (long j = 0; j < {count}; ++j) y[r * {count} + j] = x[r * {columns} + i[j]];""",
            rows,
            0,
            moved=4 * rows * (count + columns) + 8 * count,
        )

    return make


def gather_elements(rows, columns, count):
    def make():
        index = np.random.default_rng(2).integers(0, columns, (rows, count))
        return kernel(
            [node("GatherElements", "x i", axis=1)],
            {"x": random(rows, columns), "i": index},
            lambda x, i: np.take_along_axis(x, i, 1),
            f"""for (long r = begin; r < end; ++r)
              for (long j = 0; j < {count}; ++j)
                y[r * {count} + j] = x[r * {columns} + i[r * {count} + j]];""",
            rows,
            0,
        )

    return make


def concat(rows, *widths):
    """Along the last dim."""

    def make():
        names = "abcdefgh"[: len(widths)]
        whole, begin, copies = sum(widths), 0, ""
        for name, width in zip(names, widths):
            copies += f"""for (long j = 0; j < {width}; ++j)
              y[i * {whole} + {begin} + j] = {name}[i * {width} + j];\n"""
            begin += width
        return kernel(
            [node("Concat", " ".join(names), axis=1)],
            {n: random(rows, w, seed=s) for s, (n, w) in enumerate(zip(names, widths))},
            lambda **parts: np.concatenate(list(parts.values()), 1),
            f"for (long i = begin; i < end; ++i) {{ {copies} }}",
            rows,
            0,
        )

    return make


# --- Matmuls


def matmul(rows, columns, depth):
    def make():
        return kernel(
            [node("MatMul", "x w")],
            {"x": random(rows, depth)},
            lambda x, w: x @ w,
            f"""for (long i = begin; i < end; ++i) {{
              float *restrict r = y + i * {columns};
              for (long j = 0; j < {columns}; ++j) r[j] = 0;
              for (long k = 0; k < {depth}; ++k)
                for (long j = 0; j < {columns}; ++j) r[j] += x[i * {depth} + k] * w[k * {columns} + j]; }}""",
            rows,
            rows * columns * depth,
            constants={"w": random(depth, columns, seed=2)},
        )

    return make


def batched(batch, rows, columns, depth):
    """Neither side is constant."""

    def make():
        return kernel(
            [node("MatMul", "x w")],
            {"x": random(batch, rows, depth), "w": random(batch, depth, columns, seed=2)},
            lambda x, w: x @ w,
            f"""for (long i = begin; i < end; ++i) {{
              float *restrict r = y + i * {columns};
              for (long j = 0; j < {columns}; ++j) r[j] = 0;
              for (long k = 0; k < {depth}; ++k)
                for (long j = 0; j < {columns}; ++j)
                  r[j] += x[i * {depth} + k] * w[(i / {rows} * {depth} + k) * {columns} + j]; }}""",
            batch * rows,
            batch * rows * columns * depth,
        )

    return make


def conv(size, channels, features, window, *, stride=1, pad=0, groups=1, dilation=1, transposed=False):
    """Images and results have channels last, as they lie between kernels of a
    model; ONNX's form stands between two transposes. `size`: (images, height,
    width); `window`: (height, width)."""
    images, height, width = size
    kh, kw = window
    pads = pad if isinstance(pad, tuple) else (pad, pad)
    if transposed:
        out = [(n - 1) * stride + k - 2 * p for n, k, p in zip((height, width), window, pads)]
    else:
        out = [
            (n + 2 * p - dilation * (k - 1) - 1) // stride + 1
            for n, k, p in zip((height, width), window, pads)
        ]
    per, each = channels // groups, features // groups

    def make():
        def wanted(x, w):
            if transposed:
                y = np.zeros((images, out[0] + 2 * pads[0], out[1] + 2 * pads[1], features))
                for i in range(kh):
                    for j in range(kw):
                        y[:, i : i + height * stride : stride, j : j + width * stride : stride] += (
                            x @ w[:, :, i, j]
                        )
                return y[:, pads[0] : pads[0] + out[0], pads[1] : pads[1] + out[1]]
            x = np.pad(x, ((0, 0), (pads[0],) * 2, (pads[1],) * 2, (0, 0)))
            y = np.zeros((images, *out, features))
            for i in range(kh):
                for j in range(kw):
                    piece = x[:, i * dilation :, j * dilation :][:, ::stride, ::stride][:, : out[0], : out[1]]
                    piece = piece.reshape(*piece.shape[:3], groups, 1, per)
                    weight = w[:, :, i, j].reshape(groups, each, per).swapaxes(1, 2)
                    y += (piece @ weight).reshape(y.shape)
            return y

        if transposed:
            weights = random(channels, features, kh, kw, seed=2)
            inside = f"""long v = r + {pads[0]} - i, u = c + {pads[1]} - j;
              if (v < 0 || v % {stride} || v / {stride} >= {height}) continue;
              if (u < 0 || u % {stride} || u / {stride} >= {width}) continue;
              v /= {stride}; u /= {stride};"""
            weight = f"w[((k * {features} + f) * {kh} + i) * {kw} + j]"
        else:
            weights = random(features, per, kh, kw, seed=2)
            inside = f"""long v = r * {stride} - {pads[0]} + i * {dilation},
                u = c * {stride} - {pads[1]} + j * {dilation};
              if (v < 0 || v >= {height} || u < 0 || u >= {width}) continue;"""
            weight = f"w[((f * {per} + k) * {kh} + i) * {kw} + j]"
        nest = f"""for (long row = begin; row < end; ++row) for (long c = 0; c < {out[1]}; ++c)
          for (long f = 0; f < {features}; ++f) {{
            long n = row / {out[0]}, r = row % {out[0]}, g = f / {each};
            float sum = 0;
            for (long i = 0; i < {kh}; ++i) for (long j = 0; j < {kw}; ++j) {{
              {inside}
              const float *p = x + ((n * {height} + v) * {width} + u) * {channels} + g * {per};
              for (long k = 0; k < {per}; ++k) sum += p[k] * {weight};
            }}
            y[(row * {out[1]} + c) * {features} + f] = sum; }}"""
        pixels = images * (height * width if transposed else out[0] * out[1])
        attributes = dict(
            kernel_shape=list(window),
            strides=[stride] * 2,
            pads=[*pads, *pads],
            group=groups,
            dilations=[dilation] * 2,
        )
        nodes = [
            node("Transpose", "x", "first", perm=[0, 3, 1, 2]),
            node("ConvTranspose" if transposed else "Conv", "first w", "made", **attributes),
            node("Transpose", "made", perm=[0, 2, 3, 1]),
        ]
        return kernel(
            nodes,
            {"x": random(images, height, width, channels)},
            wanted,
            nest,
            images * out[0],
            pixels * kh * kw * per * features,
            constants={"w": weights},
        )

    return make


def attention(batch, heads, queries, keys, depth, causal=False):
    def make():
        scale = 1 / math.sqrt(depth)

        def wanted(q, k, v):
            s = q @ k.swapaxes(2, 3) * scale
            if causal:
                s[..., np.triu(np.ones((queries, keys), bool), 1)] = -np.inf
            e = np.exp(s - s.max(3, keepdims=True))
            return e / e.sum(3, keepdims=True) @ v

        seen = "r + 1" if causal else f"{keys}"
        pairs = queries * (queries + 1) // 2 if causal else queries * keys
        return kernel(
            [node("Attention", "q k v", is_causal=int(causal))],
            {
                "q": random(batch, heads, queries, depth),
                "k": random(batch, heads, keys, depth, seed=2),
                "v": random(batch, heads, keys, depth, seed=3),
            },
            wanted,
            f"""float s[{keys}];
            for (long i = begin; i < end; ++i) {{
              long h = i / {queries}, r = i % {queries};
              const float *a = q + i * {depth}; (void)r;
              float most = -INFINITY, sum = 0;
              for (long t = 0; t < {seen}; ++t) {{
                float p = 0;
                for (long d = 0; d < {depth}; ++d) p += a[d] * k[(h * {keys} + t) * {depth} + d];
                s[t] = p * {scale}f;
                most = s[t] > most ? s[t] : most; }}
              for (long t = 0; t < {seen}; ++t) sum += s[t] = expf(s[t] - most);
              for (long d = 0; d < {depth}; ++d) y[i * {depth} + d] = 0;
              for (long t = 0; t < {seen}; ++t) for (long d = 0; d < {depth}; ++d)
                y[i * {depth} + d] += s[t] / sum * v[(h * {keys} + t) * {depth} + d]; }}""",
            batch * heads * queries,
            batch * heads * pairs * (2 * depth + EXP + 4),
        )

    return make


SHAPES = [
    Shape(family, name, make)
    for family, rows in {
        "pointwise": {
            "relu(x)*0.5+1 4096x4096": relu(4096, 4096),
            "relu(x)*0.5+1 64x1024": relu(64, 1024),
            "x + z 1024x1024": add(1024, 1024),
            "x + row 4096x768": add_row(4096, 768),
            "x * column 2047x1001": scale_rows(2047, 1001),
            "x * channel + channel 8x64x3136": scale_channels(8, 64, 3136),
            "silu 256x1031": silu(256, 1031),
            "gelu 512x3072": gelu(512, 3072),
        },
        "reduction": {
            "sum of rows 4096x2048": total((4096, 1, 2048), (2,)),
            "sum of rows 512x1024": total((512, 1, 1024), (2,)),
            "mean of rows 16384x32": mean((16384, 1, 32), (2,)),
            "max of rows 100000x7": largest((100000, 1, 7), (2,)),
            "mean of rows 6400x196": mean((6400, 14, 14), (1, 2)),
            "sum of columns 4096x1024": total((4096, 1, 1024), (0,)),
            "sum of columns 65536x16": total((65536, 1, 16), (0,)),
            "sum of the middle 32x256x100": total((32, 256, 100), (1,)),
            "sum of all 4194304": total((1, 1, 4194304), (2,)),
            "index of the largest 1024x1000": arg_max(1024, 1000),
        },
        "softmax": {
            "softmax 4096x2048": softmax(4096, 2048),
            "softmax 1000x1003": softmax(1000, 1003),
            "softmax 1536x128": softmax(1536, 128),
            "softmax 20000x10": softmax(20000, 10),
            "softmax of the middle 16x21x4096": softmax(16, 21, 4096),
        },
        "norm": {
            "layer norm 4096x2048": layer_norm(4096, 2048),
            "layer norm 128x768": layer_norm(128, 768),
            "layer norm 1024x1023": layer_norm(1024, 1023),
            "rms norm 512x4096": rms_norm(512, 4096),
            "instance norm 8x64x1024": instance_norm(8, 64, 1024),
        },
        "transpose": {
            "transpose 4096x4096": transpose((4096, 4096), (1, 0)),
            "transpose 1024x1024": transpose((1024, 1024), (1, 0)),
            "transpose 3000x37": transpose((3000, 37), (1, 0)),
            "heads 8x128x12x64": transpose((8, 128, 12, 64), (0, 2, 1, 3)),
            "channels last 8x64x56x56": transpose((8, 64, 56, 56), (0, 2, 3, 1)),
            "channels first 8x56x56x64": transpose((8, 56, 56, 64), (0, 3, 1, 2)),
            "image to channels first 4x224x224x3": transpose((4, 224, 224, 3), (0, 3, 1, 2)),
        },
        "gather": {
            "rows of 768, 1024 of 30000": gather_rows(30000, 768, 1024),
            "rows of 16, 65536 of 20000": gather_rows(20000, 16, 65536),
            "rows of 3, 200000 of 100000": gather_rows(100000, 3, 200000),
            "columns, 512 of 1024x1024": gather_columns(1024, 1024, 512),
            "elements, 4096x64 of 4096x256": gather_elements(4096, 256, 64),
        },
        "concat": {
            "concat 1024x1024 and 1024x512": concat(1024, 1024, 512),
            "concat 16384 x (64, 32)": concat(16384, 64, 32),
            "concat 8192 x (100, 27, 1)": concat(8192, 100, 27, 1),
            "concat 8 x (50176, 25088)": concat(8, 50176, 25088),
            "concat 30000 x (4, 4, 3, 5)": concat(30000, 4, 4, 3, 5),
        },
        "matmul": {
            "matmul 1024x1024x1024": matmul(1024, 1024, 1024),
            "matmul 512x512x512": matmul(512, 512, 512),
            "matmul 128x3072x768": matmul(128, 3072, 768),
            "matmul 128x768x3072": matmul(128, 768, 3072),
            "matmul 1x4096x4096": matmul(1, 4096, 4096),
            "matmul 8x2048x512": matmul(8, 2048, 512),
            "matmul 99x101x103": matmul(99, 101, 103),
            "matmul 197x1000x384": matmul(197, 1000, 384),
            "matmul 20000x32x64": matmul(20000, 32, 64),
            "matmul of activations 12x128x128x64": batched(12, 128, 128, 64),
            "matmul of activations 4x197x64x197": batched(4, 197, 64, 197),
        },
        "conv": {
            "conv 3x3 56x56 64 to 64": conv((1, 56, 56), 64, 64, (3, 3), pad=1),
            "conv 3x3 /2 28x28 128 to 256": conv((1, 28, 28), 128, 256, (3, 3), stride=2, pad=1),
            "conv 1x1 14x14 256 to 1024": conv((1, 14, 14), 256, 1024, (1, 1)),
            "conv 7x7 /2 224x224 3 to 64": conv((1, 224, 224), 3, 64, (7, 7), stride=2, pad=3),
            "conv 3x3 depthwise 112x112 96": conv((1, 112, 112), 96, 96, (3, 3), pad=1, groups=96),
            "conv 3x3 /2 depthwise 56x56 144": conv((1, 56, 56), 144, 144, (3, 3), stride=2, pad=1, groups=144),
            "conv 3x3 32 groups 28x28 256": conv((1, 28, 28), 256, 256, (3, 3), pad=1, groups=32),
            "conv 3x3 dilated 33x33 128": conv((1, 33, 33), 128, 128, (3, 3), pad=2, dilation=2),
            "conv 1-D 3 x 1500 80 to 384": conv((1, 1, 1500), 80, 384, (1, 3), pad=(0, 1)),
            "conv transposed 4x4 /2 32x32 64": conv((1, 32, 32), 64, 64, (4, 4), stride=2, pad=1, transposed=True),
        },
        "attention": {
            "attention 8x12 128x128x64": attention(8, 12, 128, 128, 64),
            "attention 1x12 512x512x64": attention(1, 12, 512, 512, 64),
            "attention 4x3 197x197x64": attention(4, 3, 197, 197, 64),
            "attention causal 1x16 256x256x64": attention(1, 16, 256, 256, 64, causal=True),
            "attention 1x12 1x512x64": attention(1, 12, 1, 512, 64),
            "attention 2x8 7x1000x64": attention(2, 8, 7, 1000, 64),
        },
    }.items()
    for name, make in rows.items()
]
