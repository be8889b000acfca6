"""Further lines: layers, arithmetic on sizes, indices of several kinds."""

from __future__ import annotations

from collections.abc import Callable

from drawn.line_draw import Skip
from random_functions.functions import FLOATS, Draw


def sizes(d: Draw) -> str:
    """Numbers of the program, not of a tensor, that meet one."""
    t = d.ranked(1)
    n, m = d.size(t, d.dim(t)), d.size(t, d.dim(t))
    number = d.one([n, f"({n} + 1)", f"({n} * {m})", f"({n} // 2)", f"({n} % 3)", f"max({n}, {m})", f"min({n}, 3)", f"{t}.numel()", f"({n} - {m})", f"({n} / 2)"])
    return d.one([
        f"{t} + {number}",
        f"{t} * {number}",
        f"{number} - {t}",
        f"{t} / {number}",
        f"{t} // ({number} + 1)",
        f"{t} < {number}",
        f"torch.full((2,), {number})",
        f"torch.arange({number}) * 2",
        f"torch.arange(0, {n}, 2)",
        f"{t}.new_zeros({n} + 1)",
        f"torch.ones({n}, {m})",
        f"torch.where({t} > 0, {t}, {number})",
        f"F.pad({t}, (0, {n} % 3))",
        f"{t}.reshape({t}.numel())",
        f"torch.tensor({number})",
        f"{t}.sum() / {t}.shape[0]",
        f"{t}.clamp(max={number})",
        f"{t}.float().mean() * {number} ** 0.5",
    ])  # fmt: skip


def layer(d: Draw) -> str:
    t = d.float(2)
    value = d.values[t]
    c = value.shape[1]
    dtype = str(value.dtype)
    return d.one([
        f"F.batch_norm({t}, None, None, training=True)",
        f"F.batch_norm({t}, torch.zeros({c}, dtype={dtype}), torch.ones({c}, dtype={dtype}))",
        f"F.instance_norm({t})",
        f"F.rms_norm({t}, [{d.size(t, -1)}])",
        f"F.conv1d({t}, torch.ones(2, {c}, 2, dtype={dtype}), padding={d.one([0, 1])}, stride={d.one([1, 2])})",
        f"F.conv_transpose1d({t}, torch.ones({c}, 2, 3, dtype={dtype}), stride={d.one([1, 2])})",
        f"F.max_pool1d({t}, {d.one([1, 2])})",
        f"F.avg_pool1d({t}, {d.one([1, 2])})",
        f"F.adaptive_avg_pool1d({t}, {d.one([1, 2])})",
        f"F.linear({t}, torch.ones(3, {d.size(t, -1)}, dtype={dtype}), torch.ones(3, dtype={dtype}))",
        f"F.cosine_similarity({t}, {t}.flip(0), dim={d.dim(t)})",
        f"F.interpolate({t}, scale_factor=2)",
        f"F.pixel_shuffle({t}, 2)",
        f"F.local_response_norm({t}, 2)",
        f"F.lp_pool1d({t}, 2, 2)",
        f"F.unfold({t}, 2)",
        f"F.prelu({t}, torch.full(({c},), 0.3, dtype={dtype}))",
    ])  # fmt: skip


def sums(d: Draw) -> str:
    t = d.number(1)
    dim = d.dim(t)
    return d.one([
        f"torch.cumulative_trapezoid({t}, dim={dim})",
        f"torch.trapezoid({t}, dim={dim})",
        f"torch.histc({t}.float(), 4, -2, 2)",
        f"torch.bincount({d.int()}.long().reshape(-1).abs() % 7, minlength=7)",
        f"torch.renorm({t}, 2, {dim}, 1.5)",
        f"torch.tensordot({t}, {t}, dims=([{dim}], [{dim}]))",
        f"torch.kron({t}, {d.number()})",
        f"torch.nansum({t}, {dim})",
        f"torch.std_mean({t}, {dim})[0]",
        f"torch.linalg.vector_norm({t}, {d.one([0, 1, 2, 3])}, {dim})",
        f"torch.dist({t}, {d.like(t)}, 2)",
        f"torch.cov({t})",
        f"torch.mode({t}, {dim})[0]",
        f"torch.isclose({t}, {d.like(t)})",
        f"torch.isin({t}, torch.tensor([0, 1, 2]))",
        f"torch.quantile({t}, 0.5, dim={dim})",
        f"torch.cross({t}, {t}.flip({dim}), dim={dim})",
    ])  # fmt: skip


def parts(d: Draw) -> str:
    t = d.ranked(1)
    size = d.values[t].shape[0]
    if size == 0:
        raise Skip
    other = d.tensor()
    mask = d.tensor(lambda m: str(m.dtype) == "torch.bool" and m.shape == d.values[t].shape)
    return d.one([
        f"{t}[torch.tensor([0, -1])]",
        f"{t}[..., torch.tensor([0, 0, -1])]",
        f"{t}[[0, -1], ..., None]",
        f"torch.index_put({t}, (torch.tensor([0, 0]),), torch.ones_like({t})[0], accumulate={d.one([True, False])})",
        f"{t}.index_fill({d.dim(t)}, torch.tensor([0]), {d.scalar()})",
        f"{t}.masked_scatter({mask}, {t})",
        f"torch.where({mask}, {t}, {d.like(t)})",
        f"torch.tile({t}, (2,))",
        f"torch.block_diag({t}, {other})",
        f"torch.broadcast_tensors({t}, {d.like(t)})[{d.one([0, 1])}]",
        f"torch.meshgrid({t}.reshape(-1)[:5], {other}.reshape(-1)[:4], indexing='ij')[{d.one([0, 1])}]",
        f"torch.rot90({t})",
        f"torch.tensor_split({t}, 2)[{d.one([0, 1])}]",
        f"torch.hstack([{t}, {t}])",
        f"torch.take({t}, torch.tensor([0, -1]))",
        f"{t}.view(torch.{d.one(['int32', 'int16', 'uint8', 'float32', 'int64'])})",
        f"{t}.as_strided(({d.random.randint(1, size)},), ({d.one([0, 1])},))",
        f"torch.diag_embed({t})",
        f"torch.vander({t}.reshape(-1)[:4], 3)",
        f"torch.tril_indices({min(size, 9)}, 3)",
        f"~{d.one([mask, d.tensor(lambda o: not o.is_floating_point())])}",
    ])  # fmt: skip


def both(d: Draw) -> str:
    """Chains of which fusion makes one kernel."""
    t = d.float()
    other = d.like(t)
    return d.one([
        f"({t} * {other} + {t}).sigmoid() * {t}",
        f"({t} - {t}.mean()) / ({t}.abs().max() + 1)",
        f"torch.softmax({t}.float() * 0.5, -1).to({t}.dtype)",
        f"({t} > {other}).float().sum(-1)",
        f"({t} * {t}).sum(-1, keepdim=True).sqrt() + {other}",
        f"({t}.transpose(0, -1) * 2).transpose(0, -1).contiguous() + {other}",
        f"torch.cat([{t}, {t} * 2], -1).reshape(-1, 2).sum(0)",
        f"({t}.unsqueeze(-1) * {t}.unsqueeze(-2)).sum(-1)",
        f"({t}.cumsum(-1) - {t}).to(torch.{d.one(FLOATS)})",
        f"({t} @ {t}.mT).relu() + 1",
        f"torch.exp(-{t}.abs()).expand(2, *{t}.shape).sum(0)",
    ])  # fmt: skip


RULES: list[tuple[Callable[[Draw], str], int]] = [(sizes, 5), (layer, 4), (sums, 3), (parts, 5), (both, 5)]
