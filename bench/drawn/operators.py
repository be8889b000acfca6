"""Families of operators: each draws its sizes and attributes and gives a function of tensors.

A family is one function of a `Draw` that returns an `Operator`. Its inputs are described, not
made: `sweep_case.py` draws their values on the device of the run.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from drawn.draw import Draw


@dataclasses.dataclass
class Input:
    """One input. kind: "normal", "positive" (at least 0.1), "index" (int64 below `below`), "bool"
    (half of them true) or "mask" (bool whose first element of a row is true)."""

    shape: tuple[int, ...]
    kind: str = "normal"
    below: int = 0
    scale: float = 1.0


@dataclasses.dataclass
class Operator:
    """A function of tensors, its inputs, and the parameters it holds as constants.

    fuse: whether pointwise operators may stand before and after it.
    picks: the function's output are places in the first input along this axis: equal values are
        as good as equal places.
    exact: the same function with what is rounded besides the values, as places, decided by
        integers. Correctness is judged by it; times are of `function`.
    """

    function: Callable[..., Any]
    inputs: list[Input]
    fuse: bool = True
    picks: int | None = None
    exact: Callable[..., Any] | None = None


FAMILIES: dict[str, Callable[[Draw], Operator]] = {}


def family(function: Callable[[Draw], Operator]) -> Callable[[Draw], Operator]:
    FAMILIES[function.__name__] = function
    return function


def normal(*shape: int, scale: float = 1.0) -> Input:
    return Input(tuple(shape), scale=scale)


def index(below: int, *shape: int) -> Input:
    return Input(tuple(shape), "index", below)


UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "exp": lambda x: torch.exp(torch.clamp(x, -4, 2)),
    "softplus": F.softplus,
    "hardswish": F.hardswish,
    "abs": torch.abs,
    "square": lambda x: torch.clamp(x, -8, 8) ** 2,
    "neg": torch.neg,
    "scale": lambda x: x * 0.37 + 0.5,
    "leaky": lambda x: F.leaky_relu(x, 0.1),
    "elu": F.elu,
    "erf": torch.erf,
    "sin": torch.sin,
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.5),
    "mish": F.mish,
    # Bounds that every dtype has: else float64 clamps where no other does, all clamped elements at once.
    "clamp": lambda x: x.clamp(-0.6875, 1.3125),
}


# ---- elementwise and movement


@family
def pointwise(d: Draw) -> Operator:
    shape = d.shape("shape", (1, 5), least=0)
    names = [d.choice(f"op{i}", list(UNARY)) for i in range(d.choice("count", range(1, 7)))]

    def function(x: torch.Tensor) -> torch.Tensor:
        for name in names:
            x = UNARY[name](x)
        return x

    return Operator(function, [normal(*shape)])


@family
def broadcasting(d: Draw) -> Operator:
    shape = d.shape("shape", (1, 5), least=0)
    other = [dim if d.chance(f"keep{i}", 0.6) else 1 for i, dim in enumerate(shape)]
    other = other[d.choice("dropped", range(len(shape))) :]
    op = d.choice("op", ["add", "sub", "mul", "div", "maximum", "minimum", "where"])
    if op == "where":
        return Operator(
            lambda x, y, c: torch.where(c, x, y),
            [normal(*shape), normal(*other), Input(tuple(other), "bool")],
        )
    kind = "positive" if op == "div" else "normal"
    return Operator(getattr(torch, op), [normal(*shape), Input(tuple(other), kind)])


@family
def permute(d: Draw) -> Operator:
    shape = d.shape("shape", (2, 5))
    order = list(range(len(shape)))
    picked = []
    for i in range(len(shape)):
        picked.append(order.pop(d.choice(f"place{i}", range(len(order)))))
    return Operator(lambda x: x.permute(picked).contiguous(), [normal(*shape)])


@family
def concat(d: Draw) -> Operator:
    shape = d.shape("shape", (1, 4), d.elements // 4)
    axis, count = d.axis("axis", shape), d.choice("count", range(2, 5))
    shapes = []
    for i in range(count):
        other = list(shape)
        other[axis] = d.size(f"size{i}", max(1, shape[axis]))
        shapes.append(other)
    return Operator(lambda *x: torch.cat(x, axis), [normal(*s) for s in shapes])


@family
def slicing(d: Draw) -> Operator:
    shape = d.shape("shape", (1, 4))
    axis = d.axis("axis", shape)
    start = d.choice("start", range(min(shape[axis], 7)))
    step = d.choice("step", [1, 1, 2, 3])
    flip, roll = d.chance("flip", 0.2), d.chance("roll", 0.2)

    def function(x: torch.Tensor) -> torch.Tensor:
        x = x[(slice(None),) * axis + (slice(start, None, step),)]
        if flip:
            x = torch.flip(x, [axis])
        return torch.roll(x, 1, axis) if roll else x * 1

    return Operator(function, [normal(*shape)])


@family
def padding(d: Draw) -> Operator:
    shape = d.shape("shape", (3, 4), d.elements // 2)
    if min(shape[-2:]) < 4:
        shape = [*shape[:-2], max(shape[-2], 4), max(shape[-1], 4)]
    if d.chance("one channel", 0.15):  # a line of places, as sequences of one number have it
        shape[-1], pads = 1, [0, 0, d.choice("low", range(4)), d.choice("high", range(4))]
        mode = d.choice("mode of lines", ["constant", "reflect", "replicate"] if len(shape) == 4 else ["constant"])
        return Operator(lambda x: F.pad(x, pads, mode), [normal(*shape)])
    mode = d.choice("mode", ["constant", "reflect", "replicate"])
    pads = [d.choice(f"pad{i}", range(4)) for i in range(4 if len(shape) == 4 else 2)]
    return Operator(lambda x: F.pad(x, pads, mode), [normal(*shape)])


@family
def triangle(d: Draw) -> Operator:
    shape = d.shape("shape", (2, 4))
    diagonal, upper = d.choice("diagonal", [-3, -1, 0, 1, 2]), d.chance("upper", 0.5)
    return Operator(lambda x: (torch.triu if upper else torch.tril)(x, diagonal), [normal(*shape)])


@family
def repeating(d: Draw) -> Operator:
    shape = d.shape("shape", (1, 4), d.elements // 16)
    counts = [d.choice(f"count{i}", [1, 1, 2, 3]) for i in range(len(shape))]
    return Operator(lambda x: x.repeat(counts), [normal(*shape)])


# ---- reductions


@family
def reduction(d: Draw) -> Operator:
    shape = d.shape("shape", (1, 5))
    dims, keep = d.axes("axes", shape), d.chance("keep", 0.5)
    kind = d.choice(
        "kind", ["sum", "mean", "amax", "amin", "norm", "norm1", "var", "logsumexp", "meansquare"]
    )

    def function(x: torch.Tensor) -> torch.Tensor:
        if kind == "norm":
            return torch.linalg.vector_norm(x, 2, dims, keep)
        if kind == "norm1":
            return x.abs().sum(dims, keep)
        if kind == "var":
            return torch.var(x, dims, keepdim=keep, correction=0)
        if kind == "meansquare":
            return (x * x).mean(dims, keep)
        return getattr(torch, kind)(x, dims, keep)

    return Operator(function, [normal(*shape)])


@family
def argreduce(d: Draw) -> Operator:
    shape = d.shape("shape", (1, 4))
    axis = d.axis("axis", shape)
    function = torch.argmax if d.chance("largest", 0.6) else torch.argmin
    return Operator(lambda x: function(x, axis), [normal(*shape)], fuse=False, picks=axis)


@family
def softmax(d: Draw) -> Operator:
    shape = d.shape("shape", (1, 4))
    axis, log = d.axis("axis", shape), d.chance("log", 0.4)
    return Operator(lambda x: (F.log_softmax if log else F.softmax)(x, axis), [normal(*shape)])


@family
def masked_softmax(d: Draw) -> Operator:
    shape = d.shape("shape", (3, 4))
    mask = Input((1,) * (len(shape) - 2) + tuple(shape[-2:]), "mask")
    return Operator(
        lambda x, m: F.softmax(x.masked_fill(~m, -10000.0), -1), [normal(*shape), mask]
    )


@family
def row_norm(d: Draw) -> Operator:
    shape = d.shape("shape", (2, 4))
    width, rms = shape[-1], d.chance("rms", 0.4)
    if rms:

        def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
            return (wide * scale).to(x.dtype) * w

        return Operator(function, [normal(*shape), normal(width)])
    return Operator(
        lambda x, w, b: F.layer_norm(x, (width,), w, b), [normal(*shape), normal(width), normal(width)]
    )


@family
def group_norm(d: Draw) -> Operator:
    groups, per = d.choice("groups", [1, 2, 8, 32]), d.choice("per", [1, 2, 3, 4, 10, 16])
    rest = d.shape("rest", (1, 2), d.elements // (groups * per * 4))
    if math.prod(rest) * per < 2:
        rest = [*rest[:-1], 2]
    batch, channels = d.size("batch", 4), groups * per
    return Operator(
        lambda x, w, b: F.group_norm(x, groups, w, b),
        [normal(batch, channels, *rest), normal(channels), normal(channels)],
    )


@family
def loss(d: Draw) -> Operator:
    rows = d.size("rows", 4096)
    classes = d.size("classes", max(2, d.elements // rows), 2)
    if d.chance("binary", 0.3):
        return Operator(
            lambda x, t: F.binary_cross_entropy_with_logits(x, t.sigmoid()),
            [normal(rows, classes), normal(rows, classes)],
        )
    return Operator(
        lambda x, t: F.nll_loss(F.log_softmax(x, -1), t), [normal(rows, classes), index(classes, rows)]
    )


# ---- irregular


@family
def cumulative(d: Draw) -> Operator:
    shape = d.shape("shape", (1, 4))
    axis = d.axis("axis", shape)
    # Sums that do not cancel: the error of a sum near zero says nothing.
    return Operator(lambda x: torch.cumsum(x, axis), [Input(tuple(shape), "positive")])


@family
def topk(d: Draw) -> Operator:
    shape = d.shape("shape", (1, 3))
    axis = d.axis("axis", shape) if d.chance("any axis", 0.2) else len(shape) - 1
    k = d.size("k", min(shape[axis], 512))
    largest = d.chance("largest", 0.8)
    return Operator(lambda x: torch.topk(x, k, axis, largest)[0], [normal(*shape)])


@family
def sorting(d: Draw) -> Operator:
    shape = d.shape("shape", (1, 3), d.elements // 4)
    descending = d.chance("descending", 0.5)
    return Operator(lambda x: torch.sort(x, -1, descending)[0], [normal(*shape)])


@family
def embedding(d: Draw) -> Operator:
    width = d.size("width", 8192)
    rows = d.size("rows", max(1, min(300000, d.elements // width)))
    wanted = d.shape("wanted", (1, 3), max(64, d.elements // width))
    return Operator(lambda w, i: F.embedding(i, w), [normal(rows, width), index(rows, *wanted)])


@family
def gather(d: Draw) -> Operator:
    shape = d.shape("shape", (1, 4))
    axis = d.axis("axis", shape)
    other = list(shape)
    other[axis] = d.size("size", max(1, min(2 * shape[axis], d.elements // max(1, math.prod(shape) // shape[axis]))))
    return Operator(
        lambda x, i: torch.gather(x, axis, i), [normal(*shape), index(shape[axis], *other)]
    )


@family
def scatter_add(d: Draw) -> Operator:
    width = d.size("width", 512)
    rows = d.size("rows", max(1, min(100000, d.elements // width)))
    sources = d.size("sources", max(1, min(100000, d.elements // width)))

    def function(x: torch.Tensor, i: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return x.scatter_add(0, i[:, None].expand(-1, width), s)

    return Operator(function, [normal(rows, width), index(rows, sources), normal(sources, width)])


@family
def one_hot(d: Draw) -> Operator:
    shape = d.shape("shape", (1, 3), 4096)
    classes = d.size("classes", max(2, min(4096, d.elements // math.prod(shape))), 2)
    return Operator(lambda i: F.one_hot(i, classes).to(torch.float32), [index(classes, *shape)], fuse=False)


# ---- matmuls


@family
def matmul(d: Draw) -> Operator:
    flops = d.elements * 512
    m = d.size("m", 8192)
    n = d.size("n", max(1, min(16384, flops // m)))
    k = d.size("k", max(1, min(16384, flops // (m * n), d.elements // max(m, n))))
    transposed = d.chance("transposed", 0.4)
    weight = (n, k) if transposed else (k, n)
    return Operator(
        lambda x, w: x @ (w.t() if transposed else w), [normal(m, k), normal(*weight, scale=k**-0.5)]
    )


@family
def linear(d: Draw) -> Operator:
    lead = d.shape("lead", (1, 2), 4096)
    k = d.size("k", max(1, min(16384, d.elements // math.prod(lead))))
    n = d.size("n", max(1, min(16384, d.elements * 512 // (math.prod(lead) * k), 2 * d.elements // k)))
    act = d.choice("activation", ["", "gelu", "relu", "silu", "gelu_tanh"])

    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, w, b)
        return UNARY[act](y) if act else y

    return Operator(function, [normal(*lead, k), normal(n, k, scale=k**-0.5), normal(n)])


@family
def batched(d: Draw) -> Operator:
    lead = d.shape("lead", (1, 2), 512)
    each = d.elements // math.prod(lead)
    m, n = d.size("m", min(2048, max(1, each // 8))), d.size("n", 2048)
    k = d.size("k", max(1, min(2048, each // max(m, n))))
    if m * n > each:
        n = max(1, each // m)
    left, right = d.chance("left", 0.3), d.chance("right", 0.4)
    a, b = ((k, m) if left else (m, k)), ((n, k) if right else (k, n))
    return Operator(
        lambda x, y: (x.transpose(-1, -2) if left else x) @ (y.transpose(-1, -2) if right else y),
        [normal(*lead, *a), normal(*lead, *b, scale=k**-0.5)],
    )


@family
def convolution(d: Draw) -> Operator:
    rank = d.choice("rank", [1, 2, 2, 2, 3])
    kernel = [d.choice(f"kernel{i}", [1, 1, 3, 3, 3, 5, 7]) for i in range(rank)]
    stride, dilation = d.choice("stride", [1, 1, 1, 2, 4]), d.choice("dilation", [1, 1, 1, 2])
    groups = d.choice("groups", [1, 1, 1, 2, 4, 32])
    cin = groups * d.size("cin", max(1, 512 // groups))
    cout = groups * d.size("cout", max(1, 512 // groups))
    image = d.shape("image", (rank, rank), max(64, min(d.elements // cin, d.elements * 512 // (cin * cout * math.prod(kernel)))))
    image = [max(s, dilation * (k - 1) + 1) for s, k in zip(image, kernel)]
    batch = d.size("batch", max(1, min(64, d.elements // (max(cin, cout) * math.prod(image)))))
    pad = [d.choice(f"pad{i}", range(k // 2 + 1)) for i, k in enumerate(kernel)]
    fan = cin // groups * math.prod(kernel)
    function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    return Operator(
        lambda x, w, b: function(x, w, b, stride, pad, dilation, groups),
        [normal(batch, cin, *image), normal(cout, cin // groups, *kernel, scale=fan**-0.5), normal(cout)],
    )


@family
def depthwise(d: Draw) -> Operator:
    kernel, stride = d.choice("kernel", [3, 3, 5, 7]), d.choice("stride", [1, 1, 2])
    channels = d.size("channels", 1536)
    image = d.shape("image", (2, 2), max(64, d.elements // channels))
    image = [max(s, kernel) for s in image]
    batch = d.size("batch", max(1, min(64, d.elements // (channels * math.prod(image)))))
    return Operator(
        lambda x, w: F.conv2d(x, w, None, stride, kernel // 2, 1, channels),
        [normal(batch, channels, *image), normal(channels, 1, kernel, kernel, scale=1 / kernel)],
    )


@family
def transposed_convolution(d: Draw) -> Operator:
    kernel, stride = d.choice("kernel", [2, 3, 4, 5]), d.choice("stride", [1, 2, 2, 3])
    cin, cout = d.size("cin", 256), d.size("cout", 256)
    image = d.shape("image", (2, 2), max(64, min(d.elements // (max(cin, cout) * stride**2), d.elements * 64 // (cin * cout * kernel**2))))
    # A result has a pixel at least.
    pad = min(d.choice("pad", range(2)), ((min(image) - 1) * stride + kernel - 1) // 2)
    return Operator(
        lambda x, w: F.conv_transpose2d(x, w, None, stride, pad),
        [normal(1, cin, *image), normal(cin, cout, kernel, kernel, scale=(cin * kernel) ** -0.5)],
    )


@family
def pooling(d: Draw) -> Operator:
    kernel, stride = d.choice("kernel", [2, 3, 3, 5, 7]), d.choice("stride", [1, 2, 2, 3])
    channels = d.size("channels", 1024)
    image = d.shape("image", (2, 2), max(64, d.elements // channels))
    image = [max(s, kernel) for s in image]
    kind, ceil = d.choice("kind", ["max", "avg", "global"]), d.chance("ceil", 0.2)
    pad = d.choice("pad", range(kernel // 2 + 1))

    # As exporters write a pool of the whole image: by the number of channels.
    if ceil and d.chance("beyond", 0.3):
        kernel = stride = max(image) + d.choice("more", [0, 1, 7, 1000])
        pad = min(pad, kernel // 2)

    def function(x: torch.Tensor) -> torch.Tensor:
        if kind == "max":
            return F.max_pool2d(x, kernel, stride, pad, 1, ceil)
        if kind == "avg":
            return F.avg_pool2d(x, kernel, stride, pad, ceil)
        return F.adaptive_avg_pool2d(x, 1)

    return Operator(function, [normal(1, channels, *image)])


@family
def resizing(d: Draw) -> Operator:
    channels = d.size("channels", 512)
    image = d.shape("image", (2, 2), max(64, d.elements // (4 * channels)))
    mode = d.choice("mode", ["nearest", "bilinear", "bicubic"])
    if d.chance("by size", 0.5):
        out = [d.size("height", 2 * image[0]), d.size("width", 2 * image[1])]
        kinds = {} if mode == "nearest" else {"align_corners": d.chance("corners", 0.3)}

        def exact(x: torch.Tensor) -> torch.Tensor:
            # torch multiplies by a rounded scale, in float64 too.
            rows, columns = (torch.arange(to, device=x.device) * size // to for size, to in zip(x.shape[2:], out))
            return x[:, :, rows][..., columns]

        return Operator(
            lambda x: F.interpolate(x, out, mode=mode, **kinds), [normal(1, channels, *image)],
            exact=exact if mode == "nearest" else None,
        )  # fmt: skip
    factor = d.choice("factor", [2, 3])
    return Operator(lambda x: F.interpolate(x, scale_factor=factor, mode=mode), [normal(1, channels, *image)])


# ---- attention and recurrence


@family
def attention(d: Draw) -> Operator:
    batch, heads = d.size("batch", 16), d.size("heads", 32)
    head = d.choice("head", [16, 24, 32, 40, 48, 64, 64, 64, 72, 80, 96, 128, 128, 192, 256])
    shared = d.choice("shared", [1, 1, 2, 4])
    most = max(1, min(4096, d.elements // (batch * heads * head * shared)))
    queries, keys = d.size("queries", most), d.size("keys", most)
    kind = d.choice("mask", ["none", "causal", "bool", "added", "padding"])
    if kind == "causal":
        keys = queries
    q, kv = (batch, heads * shared, queries, head), (batch, heads, keys, head)
    inputs = [normal(*q), normal(*kv), normal(*kv)]
    if kind == "bool":
        inputs.append(Input((queries, keys), "mask"))
    elif kind == "added":
        inputs.append(normal(1, 1, queries, keys))
    elif kind == "padding":
        inputs.append(Input((batch, 1, 1, keys), "mask"))

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any = None) -> torch.Tensor:
        if shared > 1:
            k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=kind == "causal")

    return Operator(function, inputs)


@family
def rotary(d: Draw) -> Operator:
    batch, heads = d.size("batch", 16), d.size("heads", 32)
    half = d.choice("half", [8, 16, 20, 32, 40, 48, 64, 128])
    length = d.size("length", max(1, min(8192, d.elements // (batch * heads * half * 2))))
    interleaved = d.chance("interleaved", 0.4)

    def function(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        if interleaved:
            a, b = x[..., ::2], x[..., 1::2]
            return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    return Operator(function, [normal(batch, heads, length, 2 * half), normal(length, half), normal(length, half)])


@family
def gated(d: Draw) -> Operator:
    lead = d.shape("lead", (1, 2), 16384)
    width = d.size("width", max(1, min(28672, d.elements // (2 * math.prod(lead)))))
    act, apart = d.choice("activation", ["silu", "gelu", "sigmoid", "gelu_tanh"]), d.chance("apart", 0.5)
    if apart:
        return Operator(lambda x, g: x * UNARY[act](g), [normal(*lead, width), normal(*lead, width)])

    def function(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return a * UNARY[act](b)

    return Operator(function, [normal(*lead, 2 * width)])


@family
def contraction(d: Draw) -> Operator:
    form = d.choice("form", ["bik,bkj->bij", "bhid,bhjd->bhij", "bthd,hdo->bto", "ik,jk->ij", "bij,bj->bi", "bcn,bcm->bnm"])
    letters = sorted(set(form) - set(",->"))
    room, sizes = 28.0 if d.elements > 1 << 22 else 22.0, {}
    for letter in letters:
        sizes[letter] = d.size(letter, 2 ** max(1, min(11, int(room / (len(letters) - len(sizes)) + 1))))
        room -= math.log2(sizes[letter])
    terms = form.split("->")[0].split(",")
    return Operator(
        lambda x, y: torch.einsum(form, x, y), [normal(*(sizes[c] for c in t)) for t in terms]
    )


def extent(shape: Sequence[int]) -> int:
    return math.prod(shape)
