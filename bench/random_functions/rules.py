"""Lines that a random function may have: each rule writes an expression of values that there are."""

from __future__ import annotations

from collections.abc import Callable

from drawn.line_draw import Skip
from random_functions.functions import FLOATS, INTS, Draw

UNARY = (
    "abs ceil floor round trunc frac neg sign sgn exp exp2 expm1 log log1p log2 log10 sqrt rsqrt square reciprocal "
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf erfc relu isnan isinf isfinite isneginf "
    "isposinf logical_not nan_to_num deg2rad rad2deg positive signbit sinc lgamma digamma i0 logit"
).split()
ACTIVATIONS = (
    "gelu silu mish elu selu celu leaky_relu hardswish hardsigmoid hardtanh softplus softsign tanhshrink logsigmoid "
    "relu6 hardshrink softshrink"
).split()
BINARY = (
    "add sub mul div maximum minimum fmax fmin pow remainder fmod floor_divide true_divide atan2 hypot copysign eq ne lt "
    "le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor rsub xlogy heaviside logaddexp "
    "logaddexp2 nextafter gcd lcm bitwise_left_shift bitwise_right_shift"
).split()
IN_PLACE = (
    "add_ sub_ mul_ div_ copy_ maximum clamp_min_ remainder_ bitwise_and_ logical_or_ eq_ lt_ floor_divide_ fmod_ atan2_"
).split()
REDUCTIONS = "sum mean prod amax amin var std logsumexp any all argmax argmin count_nonzero nansum nanmean median".split()


def unary(d: Draw) -> str:
    return f"torch.{d.one(UNARY)}({d.tensor()})"


def activation(d: Draw) -> str:
    return f"F.{d.one(ACTIVATIONS)}({d.float()})"


def binary(d: Draw) -> str:
    a = d.tensor()
    b = d.scalar() if d.random.random() < 0.25 else d.like(a)
    if d.random.random() < 0.1:
        a, b = b, a
    if not a[0] in "xv":
        return d.one([f"{a} - {b}", f"{a} / {b}", f"{a} ** {b}", f"{a} * {b}", f"{a} + {b}", f"{a} < {b}", f"{a} % {b}"])
    op = d.one(BINARY)
    # Torch traces another dtype for a power of bool than it computes.
    return f"torch.{op}({a}, {'2' if op == 'pow' and b == 'True' else b})"


def alpha(d: Draw) -> str:
    a = d.number()
    return f"torch.{d.one(['add', 'sub'])}({a}, {d.like(a)}, alpha={d.one([2, -1, 3, 0.5])})"


def rounding(d: Draw) -> str:
    a = d.number()
    b = d.one([d.like(a), d.scalar()])
    mode = d.one(["floor", "trunc"])
    if mode == "trunc" and not d.values[a].is_floating_point():
        b = d.one([2, 3, -7])  # by -1 the smallest integer ends eager's process
    return f"torch.div({a}, {b}, rounding_mode={mode!r})"


def ternary(d: Draw) -> str:
    a = d.tensor()
    b, c = d.like(a), d.like(a)
    return d.one([
        f"torch.where({d.like(a, lambda t: str(t.dtype) == 'torch.bool')}, {a}, {d.one([b, d.scalar()])})",
        f"torch.clamp({a}, {d.one([-1, 0, 0.25])}, {d.one([1, 2.5, 'None'])})",
        f"torch.clamp({a}, min={b}, max={c})",
        f"torch.lerp({a}, {b}, {d.one([0.3, c])})",
        f"torch.addcmul({a}, {b}, {c}, value={d.one([1, 2, -0.5])})",
        f"torch.addcdiv({a}, {b}, {c})",
        f"{a}.masked_fill({b} > 0, {d.scalar()})",
    ])  # fmt: skip


def cast(d: Draw) -> str:
    t = d.tensor()
    dtype = d.one((*FLOATS, *INTS, "bool"), [6, 2, 2, 2, 4, 2, 1, 1, 1, 1])
    if d.values[t].is_floating_point() and dtype in INTS:  # what the type can hold
        least = 0 if dtype == "uint8" else -100
        return f"torch.nan_to_num({t}, 0.0, 99.0, {least}.0).clamp({least}, 99).to(torch.{dtype})"
    return f"{t}.to(torch.{dtype})"


def view(d: Draw) -> str:
    t = d.tensor()
    value = d.values[t]
    rank = value.dim()
    forms = [f"{t}.unsqueeze({d.random.randrange(-rank - 1, rank + 1)})", f"{t}.reshape(-1)", f"{t}[None]", f"{t}[..., None]"]
    if rank:
        a, b = d.dim(t), d.dim(t)
        size = value.shape[a]
        forms += [
            f"{t}.transpose({a}, {b})",
            f"{t}.squeeze({a})",
            f"{t}.flatten({min(a % rank, b % rank)}, {max(a % rank, b % rank)})",
            f"{t}.permute({', '.join(map(str, d.random.sample(range(rank), rank)))})",
            f"{t}.flip({a})",
            f"{t}.roll({d.one([1, -2, 3])}, {a})",
            f"{t}.unbind({a})[{d.one([0, -1])}]",
            f"{t}.movedim({a}, {b})",
            f"{t}.reshape({d.size(t, 0)}, -1)",
            f"{t}.view(-1, {d.size(t, -1)})",
            f"{t}.contiguous()",
            f"{t}.detach()",
        ]
        if size:
            start = d.random.randrange(size)
            forms += [
                f"{t}.select({a}, {start})",
                f"{t}.narrow({a}, {start}, {d.random.randint(0, size - start)})",
                f"{t}.unfold({a}, {min(size, d.one([1, 2, 3]))}, {d.one([1, 2])})",
                f"{t}.repeat_interleave({d.one([2, 3])}, {a})",
                f"torch.split({t}, {d.one([1, 2, 3])}, {a})[{d.one([0, -1])}]",
                f"torch.chunk({t}, {d.one([2, 3])}, {a})[{d.one([0, -1])}]",
            ]
        if rank >= 2:
            forms += [
                f"torch.diagonal({t}, {d.one([0, 1, -1])}, {a}, {b})",
                f"{d.one(['torch.tril', 'torch.triu'])}({t}, {d.one([0, 1, -1])})",
                f"{t}.mT",
            ]
    return d.one(forms)


def index(d: Draw) -> str:
    t = d.ranked(1)
    rank = d.values[t].dim()
    parts = []
    for place in range(d.random.randint(1, rank)):
        size = d.values[t].shape[place]
        start, stop = sorted((d.random.randint(-1, size), d.random.randint(0, size + 2)))
        parts.append(
            d.one([
                ":", f"{start}:{stop}", f"{start}:", f":{stop}", f"::{d.one([2, 3])}", f"{start}:{stop}:2", "None", "...",
                str(d.random.randint(-size, max(0, size - 1))), f":{d.size(t, place)} - 1", f":{d.size(t, place)} // 2",
            ])
        )  # fmt: skip
    return f"{t}[{', '.join(parts)}]"


def expand(d: Draw) -> str:
    t = d.tensor()
    value = d.values[t]
    sizes = [str(d.one([2, 3])) if size == 1 else d.one(["-1", d.size(t, i)]) for i, size in enumerate(value.shape)]
    lead = [str(d.one([1, 2, 3]))] if d.random.random() < 0.4 or not sizes else []
    return d.one([f"{t}.expand({', '.join(lead + sizes)})", f"{t}.repeat({', '.join(lead + [str(d.one([1, 1, 2])) for _ in sizes])})"])


def cat(d: Draw) -> str:
    t = d.ranked(1)
    shape = d.values[t].shape
    dim = d.dim(t) % len(shape)
    fits = lambda o: o.dim() == len(shape) and all(a == b for i, (a, b) in enumerate(zip(o.shape, shape)) if i != dim)  # noqa: E731
    return d.one([
        f"torch.cat([{t}, {d.tensor(fits)}], {dim})",
        f"torch.cat([{d.tensor(fits)}, {t}, {d.tensor(fits)}], {dim})",
        f"torch.stack([{t}, {d.tensor(lambda o: o.shape == shape)}], {d.random.randint(-1, len(shape))})",
    ])  # fmt: skip


def pad(d: Draw) -> str:
    t = d.ranked(1)
    rank = d.values[t].dim()
    amounts = [d.one([0, 1, 2, -1]) for _ in range(2 * d.random.randint(1, min(2, rank)))]
    mode = d.one(["constant", "reflect", "replicate", "circular"], [5, 1, 1, 1])
    return f"F.pad({t}, {amounts}, mode={mode!r}{', value=' + d.scalar() if mode == 'constant' else ''})"


def reduction(d: Draw) -> str:
    t = d.tensor()
    op = d.one(REDUCTIONS)
    if d.values[t].dim() == 0 or d.random.random() < 0.2:
        return f"{t}.logsumexp(0)" if op == "logsumexp" else f"torch.{op}({t})"
    dims: object = d.dim(t)
    if op in "sum mean amax amin var std logsumexp nansum any all".split() and d.random.random() < 0.3:
        rank = d.values[t].dim()
        dims = tuple(d.random.sample(range(rank), d.random.randint(1, rank)))
    keep = "" if op == "count_nonzero" else f", keepdim={d.one([True, False])}"
    dtype = f", dtype=torch.{d.one(FLOATS[:2])}" if op in ("sum", "mean", "prod") and d.random.random() < 0.2 else ""
    return f"torch.{op}({t}, dim={dims}{keep}{dtype}){'[0]' if op == 'median' else ''}"


def line_wise(d: Draw) -> str:
    t = d.float(1)
    dim = d.dim(t)
    return d.one([
        f"torch.softmax({t}, {dim})",
        f"torch.log_softmax({t}, {dim})",
        f"torch.cumsum({t}, {dim})",
        f"torch.cumprod({t}, {dim})",
        f"torch.logcumsumexp({t}, {dim})",
        f"torch.cummax({t}, {dim})[0]",
        f"torch.norm({t}, {d.one([1, 2, 3, float('inf')])!r}, {dim})".replace("inf", "float('inf')"),
        f"F.normalize({t}, dim={dim})",
        f"F.layer_norm({t}, [{d.size(t, -1)}])",
        f"torch.var_mean({t}, {dim}, correction={d.one([0, 1])})[{d.one([0, 1])}]",
        f"F.glu({t}, {dim})",
        f"torch.diff({t}, dim={dim})",
    ])  # fmt: skip


def order(d: Draw) -> str:
    t = d.ranked(1)
    dim = d.dim(t)
    size = d.values[t].shape[dim]
    return d.one([
        f"torch.sort({t}, {dim}, stable=True, descending={d.one([True, False])})[{d.one([0, 1])}]".replace(f"{dim}, stable", f"dim={dim}, stable"),
        f"torch.topk({t}, {d.random.randint(0, min(3, size))}, {dim}, largest={d.one([True, False])})[0]",
        f"torch.max({t}, {dim})[{d.one([0, 1])}]",
        f"torch.min({t}, {dim})[{d.one([0, 1])}]",
        f"torch.kthvalue({t}, 1, {dim})[0]",
        f"torch.aminmax({t}, dim={dim})[{d.one([0, 1])}]",
        f"torch.cumsum({t}, {dim}, dtype=torch.{d.one(['int64', 'float32'])})",
        f"torch.bucketize({t}, torch.tensor([-1.0, 0.0, 1.5]))",
    ])  # fmt: skip


def gather(d: Draw) -> str:
    t = d.ranked(1)
    dim = d.dim(t)
    size = d.values[t].shape[dim]
    if size == 0:
        raise Skip
    at = f"({d.int()}.long() % {d.size(t, dim)})"
    flat = f"({d.int()}.long().reshape(-1) % {d.size(t, dim)})"
    return d.one([
        f"torch.index_select({t}, {dim}, {flat})",
        f"{t}[{at}]" if dim % d.values[t].dim() == 0 else f"torch.index_select({t}, {dim}, {flat})",
        f"torch.gather({t}, {dim}, {at})",
        f"torch.take_along_dim({t}, {at}, {dim})",
        f"F.embedding({at}, {t})",
        f"torch.scatter({t}, {dim}, {at}, {d.scalar()})",
        f"torch.scatter_add({t}, {dim}, {at}, {d.like(t)})",
        f"torch.index_add({t}, {dim}, {flat}, {d.like(t)})",
        f"F.one_hot({at}, {max(1, size)})",
        f"torch.scatter_reduce({t}, {dim}, {at}, {d.like(t)}, {d.one(['amax', 'amin', 'sum'])!r}, include_self={d.one([True, False])})",
        f"torch.select_scatter({t}, {d.like(t)}, {dim}, 0)",
        f"torch.slice_scatter({t}, {d.like(t)}, {dim})",
    ])  # fmt: skip


def matmul(d: Draw) -> str:
    a = d.number(1)
    inner = d.values[a].shape[-1]
    b = d.tensor(lambda t: t.dim() >= 1 and t.dtype == d.values[a].dtype and inner in t.shape[-2:])
    left, right = d.one([(a, b), (a, f"{b}.mT"), (a, f"{b}.transpose(0, -1)")])
    return d.one([
        f"{left} @ {right}",
        f"torch.matmul({left}, {right})",
        f"F.linear({left}, {b})",
        f"torch.bmm({left}, {right})",
        f"torch.outer({a}.reshape(-1)[:9], {b}.reshape(-1)[:9])",
        f"torch.einsum('...i,...i->...', {a}, {a})",
        f"torch.cdist({a}, {a})",
    ])  # fmt: skip


def addmm(d: Draw) -> str:
    a = d.float(2)
    c = d.float()
    return f"torch.{d.one(['addmm', 'baddbmm'])}({c}, {a}, {a}.mT, beta={d.one([1, 0.5, 0])}, alpha={d.one([1, 2])})"


def image(d: Draw) -> str:
    t = d.float(3)
    form = d.one(["conv", "max", "avg", "adaptive", "resize", "norm"])
    if form == "conv":
        channels = d.values[t].shape[-3]
        groups = d.one([1, channels]) or 1
        weight = d.tensor(lambda w: w.dtype == d.values[t].dtype and w.numel() >= channels // groups * 4)
        w = f"{weight}.reshape(-1)[:{channels // groups * 4}].reshape(1, {channels // groups}, 2, 2).repeat({groups}, 1, 1, 1)"
        return f"F.conv2d({t}, {w}, padding={d.one([0, 1])}, stride={d.one([1, 2])}, dilation={d.one([1, 1, 2])}, groups={groups})"
    return {
        "max": f"F.max_pool2d({t}, {d.one([2, 3])}, {d.one([1, 2])}, {d.one([0, 1])})",
        "avg": f"F.avg_pool2d({t}, {d.one([2, 3])}, {d.one([1, 2])}, {d.one([0, 1])}, count_include_pad={d.one([True, False])})",
        "adaptive": f"F.adaptive_avg_pool2d({t}, {d.one([1, 2, 3])})",
        "resize": f"F.interpolate({t}, scale_factor=2, mode={d.one(['nearest', 'bilinear'])!r})",
        "norm": f"F.group_norm({t}, {d.one([1, 2])})",
    }[form]


def attention(d: Draw) -> str:
    t = d.float(3)
    return f"F.scaled_dot_product_attention({t}, {t}, {d.tensor(lambda o: o.shape == d.values[t].shape and o.dtype == d.values[t].dtype)}, is_causal={d.one([True, False])})"


def loss(d: Draw) -> str:
    t = d.float(1)
    other = d.tensor(lambda o: o.shape == d.values[t].shape)
    return d.one([
        f"F.mse_loss({t}, {other})",
        f"F.smooth_l1_loss({t}, {other}, reduction='none')",
        f"F.huber_loss({t}, {other})",
        f"F.binary_cross_entropy_with_logits({t}, {other}.sigmoid())",
        f"F.kl_div({t}, {other}, reduction='sum')",
        f"F.cross_entropy({t}, ({d.int()}.long().abs() % 2))",
    ])  # fmt: skip


def create(d: Draw) -> str:
    t = d.tensor()
    size = d.size(t, d.dim(t)) if d.values[t].dim() else "3"
    return d.one([
        f"torch.arange({size})",
        f"torch.arange({size}, dtype=torch.float32) * 0.5",
        f"torch.full(({size}, 2), {d.scalar()})",
        f"torch.zeros_like({t})",
        f"torch.ones_like({t}, dtype=torch.{d.one(FLOATS)})",
        f"{t}.new_full(({size},), {d.scalar()})",
        f"torch.eye({size})",
        f"torch.linspace(0, 1, {size})",
        "torch.tensor([1.0, 2.0, -3.0])",
        f"torch.full_like({t}, {d.scalar()})",
    ])  # fmt: skip


def write(d: Draw) -> str:
    """A line that changes a value in place; it has no name of its own."""
    t = d.tensor()
    other = d.one([d.scalar(), d.like(t)])
    place = d.one([t, f"{t}[0]", f"{t}[..., ::2]", f"{t}[..., 1:]", f"{t}.reshape(-1)", f"{t}.transpose(0, -1)", f"{t}.view(-1)"], [4, 1, 1, 1, 1, 1, 1])
    forms = [
        f"{place}.{d.one(IN_PLACE)}({other})",
        f"{place}.fill_({d.scalar()})",
        f"{place}.{d.one('relu_ neg_ abs_ sigmoid_ exp_ zero_ floor_ square_'.split())}()",
        f"{t} += {other}",
        f"{t} *= {other}",
        f"{place}.masked_fill_({t} > 0, {d.scalar()})",
    ]
    if d.values[t].dim():
        dim, size = d.dim(t), d.values[t].shape[0]
        forms += [
            f"{t}[{d.random.randint(0, max(0, size - 1))}] = {other}",
            f"{t}[{t} > 0] = {d.scalar()}",
            f"{t}.clamp_({d.one([-1, 0])}, {d.one([1, 2])})",
            f"{t}.index_fill_({dim}, torch.tensor([0]), {d.scalar()})",
            f"{t}.scatter_({dim}, torch.zeros_like({t}, dtype=torch.int64), {d.scalar()})",
            f"{t}.cumsum_({dim})",
            f"{t}.index_add_({dim}, torch.tensor([0, 0]), torch.ones_like({t}).narrow({dim}, 0, 1).repeat_interleave(2, {dim}))",
            f"{t}[{d.size(t, 0)} // 2 :] *= {d.scalar()}",
        ]
        if t.startswith("v"):  # Dynamo takes no input that is made a view
            forms += [f"{t}.transpose_({dim}, {d.dim(t)})", f"{t}.unsqueeze_({dim})", f"{t}.t_()"]
    return "!" + d.one(forms)


RULES: list[tuple[Callable[[Draw], str], int]] = [
    (unary, 10), (activation, 3), (binary, 14), (alpha, 1), (rounding, 2), (ternary, 4), (cast, 5), (view, 12),
    (index, 6), (expand, 3), (cat, 3), (pad, 2), (reduction, 7), (line_wise, 4), (order, 3), (gather, 5), (matmul, 4),
    (addmm, 1), (image, 3), (attention, 1), (loss, 1), (create, 2), (write, 7),
]  # fmt: skip
