"""Random modules: two to six blocks of a grammar, over a sequence or an image.

A sequence module goes from [batch, length, width] (or token ids) through norms, attentions with
every kind of mask and head layout, MLPs, gates, convolutions, recurrences and routers; an image
module from [batch, channels, height, width] through convolutions, pools, norms and resizes.
Weights are drawn by the caller after the module is made.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from drawn.draw import Draw
from drawn.operators import Input, UNARY, index, normal

ACTIVATIONS = ["gelu", "gelu_tanh", "relu", "silu", "square"]


class RMSNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


def _norm(d: Draw, name: str, width: int) -> nn.Module:
    return RMSNorm(width) if d.chance(f"{name}.rms", 0.5) else nn.LayerNorm(width)


class Attention(nn.Module):
    """Self-attention with the variants of published models, written out as they write it."""

    def __init__(self, d: Draw, name: str, width: int):
        super().__init__()
        self.head = d.choice(f"{name}.head", [16, 32, 40, 64, 80, 96, 128])
        self.heads = d.choice(f"{name}.heads", [1, 2, 4, 8])
        self.kv = d.choice(f"{name}.kv", [h for h in (1, 2, 4, 8) if self.heads % h == 0])
        self.mask = d.choice(f"{name}.mask", ["none", "causal", "where", "window", "alibi", "padding"])
        self.rope = d.choice(f"{name}.rope", ["none", "none", "half", "interleaved", "partial"])
        self.spelling = d.choice(f"{name}.spelling", ["sdpa", "written", "float32"])
        self.cap = d.chance(f"{name}.cap", 0.1)
        self.bias = d.chance(f"{name}.bias", 0.5)
        self.fused = d.chance(f"{name}.fused", 0.3)
        inner, inner_kv = self.heads * self.head, self.kv * self.head
        if self.fused:
            self.qkv = nn.Linear(width, inner + 2 * inner_kv, self.bias)
        else:
            self.q = nn.Linear(width, inner, self.bias)
            self.k = nn.Linear(width, inner_kv, self.bias)
            self.v = nn.Linear(width, inner_kv, self.bias)
        self.o = nn.Linear(inner, width, self.bias)
        self.norms = d.chance(f"{name}.qknorm", 0.15)
        if self.norms:
            self.qn, self.kn = RMSNorm(self.head), RMSNorm(self.head)

    def rotate(self, x: Tensor) -> Tensor:
        if self.rope == "none":
            return x
        part = self.head // 4 if self.rope == "partial" else self.head
        at = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
        frequency = 10000.0 ** (-torch.arange(0, part, 2, device=x.device, dtype=torch.float32) / part)
        angle = at[:, None] * frequency
        rotated, kept = x[..., :part], x[..., part:]
        if self.rope == "interleaved":
            cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
            a, b = rotated[..., ::2], rotated[..., 1::2]
            rotated = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        else:
            both = torch.cat((angle, angle), -1)
            cos, sin = both.cos().to(x.dtype), both.sin().to(x.dtype)
            a, b = rotated.chunk(2, -1)
            rotated = rotated * cos + torch.cat((-b, a), -1) * sin
        return torch.cat((rotated, kept), -1) if self.rope == "partial" else rotated

    def bias_of(self, x: Tensor, length: int) -> Tensor | None:
        """What is added to the scores [.., length, length]."""
        if self.mask in ("none", "causal"):
            return None
        at = torch.arange(length, device=x.device)
        low = torch.finfo(x.dtype).min
        if self.mask == "where":
            seen = at[None, :] <= at[:, None]
        elif self.mask == "window":
            seen = (at[None, :] <= at[:, None]) & (at[None, :] > at[:, None] - 7)
        elif self.mask == "alibi":
            slopes = 2.0 ** (-8.0 * torch.arange(1, self.heads + 1, device=x.device) / self.heads)
            distance = (at[None, :] - at[:, None]).to(torch.float32)
            return (slopes[:, None, None] * distance).to(x.dtype)[None]
        else:
            seen = (at < (length + 1) // 2 + 1)[None, :].expand(length, length)
        zero = torch.zeros((), dtype=x.dtype, device=x.device)
        return torch.where(seen, zero, zero + low)[None, None]

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        if self.fused:
            sizes = [self.heads * self.head, self.kv * self.head, self.kv * self.head]
            q, k, v = self.qkv(x).split(sizes, -1)
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        q = q.view(batch, length, self.heads, self.head).transpose(1, 2)
        k = k.view(batch, length, self.kv, self.head).transpose(1, 2)
        v = v.view(batch, length, self.kv, self.head).transpose(1, 2)
        if self.norms:
            q, k = self.qn(q), self.kn(k)
        q, k = self.rotate(q), self.rotate(k)
        if self.kv != self.heads:
            many = self.heads // self.kv
            k = k[:, :, None].expand(batch, self.kv, many, length, self.head).reshape(q.shape)
            v = v[:, :, None].expand(batch, self.kv, many, length, self.head).reshape(q.shape)
        bias = self.bias_of(x, length)
        if self.spelling == "sdpa" and not self.cap:
            y = F.scaled_dot_product_attention(q, k, v, bias, is_causal=self.mask == "causal")
        else:
            scores = q @ k.transpose(-1, -2) / math.sqrt(self.head)
            if self.cap:
                scores = torch.tanh(scores / 30) * 30
            if self.mask == "causal":
                keep = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
                scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
            if bias is not None:
                scores = scores + bias
            wide = torch.promote_types(x.dtype, torch.float32)
            if self.spelling == "float32":
                p = F.softmax(scores, -1, dtype=wide).to(x.dtype)
            else:
                p = F.softmax(scores, -1)
            y = p @ v
        return self.o(y.transpose(1, 2).reshape(batch, length, self.heads * self.head))


class Mlp(nn.Module):
    def __init__(self, d: Draw, name: str, width: int):
        super().__init__()
        self.act = d.choice(f"{name}.activation", ACTIVATIONS)
        self.gate = d.chance(f"{name}.gated", 0.5)
        inner, bias = d.size(f"{name}.inner", 4 * width), d.chance(f"{name}.bias", 0.5)
        self.up, self.down = nn.Linear(width, inner, bias), nn.Linear(inner, width, bias)
        if self.gate:
            self.side = nn.Linear(width, inner, bias)

    def forward(self, x: Tensor) -> Tensor:
        y = UNARY[self.act](self.up(x))
        return self.down(y * self.side(x) if self.gate else y)


class Mixer(nn.Module):
    """A causal depthwise convolution over the length, as state-space models have before the scan."""

    def __init__(self, d: Draw, name: str, width: int):
        super().__init__()
        self.kernel = d.choice(f"{name}.kernel", [2, 3, 4])
        self.conv = nn.Conv1d(width, width, self.kernel, groups=width, padding=self.kernel - 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.conv(x.transpose(1, 2))[..., : x.shape[1]]).transpose(1, 2)


class Router(nn.Module):
    """The k best of a few experts, all of which are computed."""

    def __init__(self, d: Draw, name: str, width: int):
        super().__init__()
        self.experts, self.k = d.choice(f"{name}.experts", [2, 4, 8]), d.choice(f"{name}.k", [1, 2])
        self.gate = nn.Linear(width, self.experts, False)
        self.each = nn.ModuleList(nn.Linear(width, width) for _ in range(self.experts))

    def forward(self, x: Tensor) -> Tensor:
        weights = F.softmax(self.gate(x), -1)
        best, places = torch.topk(weights, self.k, -1)
        dense = torch.zeros_like(weights).scatter(-1, places, best)
        return sum(dense[..., i : i + 1] * layer(x) for i, layer in enumerate(self.each))


class Recurrent(nn.Module):
    def __init__(self, d: Draw, name: str, width: int):
        super().__init__()
        kind = nn.LSTM if d.chance(f"{name}.lstm", 0.5) else nn.GRU
        self.cell = kind(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.cell(x)[0]


class Cumulative(nn.Module):
    """The running mean over the length."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cumsum(x, 1) / torch.arange(1, x.shape[1] + 1, device=x.device).to(x.dtype)[:, None]


class Residual(nn.Module):
    def __init__(self, norm: nn.Module, inner: nn.Module, after: bool):
        super().__init__()
        self.norm, self.inner, self.after = norm, inner, after

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.inner(x)) if self.after else x + self.inner(self.norm(x))


SEQUENCE = {"attention": Attention, "mlp": Mlp, "mixer": Mixer, "router": Router, "recurrent": Recurrent}


class Sequence(nn.Module):
    def __init__(self, d: Draw, depth: int):
        super().__init__()
        width = d.choice("width", [32, 48, 64, 80, 96, 128, 192, 256, 320, 384, 512, 768])
        self.ids = d.chance("ids", 0.3)
        if self.ids:
            self.embed = nn.Embedding(d.size("vocabulary", 5000, 2), width)
        blocks = []
        for i in range(depth):
            kind = d.choice(f"block{i}", ["attention"] * 4 + ["mlp"] * 3 + ["mixer", "router", "recurrent", "cumulative"])
            inner = Cumulative() if kind == "cumulative" else SEQUENCE[kind](d, f"block{i}", width)
            blocks.append(Residual(_norm(d, f"norm{i}", width), inner, d.chance(f"after{i}", 0.3)))
        self.blocks = nn.Sequential(*blocks)
        self.end = d.choice("end", ["all", "mean", "first", "last", "head"])
        if self.end == "head":
            self.head = nn.Linear(width, d.size("classes", 5000), False)
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.embed(x) if self.ids else x)
        if self.end == "mean":
            return x.mean(1)
        if self.end == "first":
            return x[:, 0]
        if self.end == "last":
            return x[:, -1]
        return self.head(x) if self.end == "head" else x


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        inner = max(1, channels // 4)
        self.down, self.up = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))


class Image(nn.Module):
    def __init__(self, d: Draw, depth: int):
        super().__init__()
        channels = d.choice("channels", [1, 3, 3, 4, 16])
        self.channels, layers = channels, []
        for i in range(depth):
            kind = d.choice(
                f"block{i}",
                ["conv", "conv", "conv", "depthwise", "grouped", "pool", "norm", "squeeze", "resize", "transposed"],
            )
            act = d.choice(f"block{i}.activation", ["relu", "silu", "hardswish", "none"])
            if kind == "conv":
                out = d.choice(f"block{i}.out", [8, 16, 24, 32, 40, 64, 96, 128, 160])
                kernel = d.choice(f"block{i}.kernel", [1, 3, 3, 5, 7])
                layers.append(nn.Conv2d(channels, out, kernel, d.choice(f"block{i}.stride", [1, 1, 2]), kernel // 2))
                channels = out
                layers.append(nn.BatchNorm2d(channels))
            elif kind == "depthwise":
                kernel = d.choice(f"block{i}.kernel", [3, 5, 7])
                layers.append(nn.Conv2d(channels, channels, kernel, d.choice(f"block{i}.stride", [1, 2]), kernel // 2, groups=channels))
            elif kind == "grouped":
                groups = next(g for g in (8, 4, 2, 1) if channels % g == 0)
                layers.append(nn.Conv2d(channels, channels, 3, 1, 1, groups=groups))
            elif kind == "pool":
                layers.append(nn.MaxPool2d(3, 2, 1) if d.chance(f"block{i}.max", 0.5) else nn.AvgPool2d(2, 2, ceil_mode=True))
            elif kind == "norm":
                groups = next(g for g in (8, 4, 2, 1) if channels % g == 0)
                layers.append(nn.GroupNorm(groups, channels))
            elif kind == "squeeze":
                layers.append(SqueezeExcite(channels))
            elif kind == "resize":
                layers.append(nn.Upsample(scale_factor=2, mode=d.choice(f"block{i}.mode", ["nearest", "bilinear"])))
            else:
                out = d.choice(f"block{i}.out", [8, 16, 32, 64])
                layers.append(nn.ConvTranspose2d(channels, out, 2, 2))
                channels = out
            if act != "none":
                layers.append({"relu": nn.ReLU, "silu": nn.SiLU, "hardswish": nn.Hardswish}[act]())
        self.layers = nn.Sequential(*layers)
        self.pool = d.chance("pool", 0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(x)
        return F.adaptive_avg_pool2d(x, 1).flatten(1) if self.pool else x


def module(d: Draw) -> tuple[nn.Module, list[Input]]:
    """A random module in evaluation mode, and its one input."""
    depth = d.choice("depth", [2, 3, 4, 5, 6])
    most = max(2, d.elements >> 14)
    if d.chance("image", 0.35):
        image = Image(d, depth)
        side = [d.size(f"side{i}", 160 if most > 64 else 48, 16) for i in range(2)]
        return image.eval(), [normal(d.size("batch", min(most, 16)), image.channels, *side)]
    sequence = Sequence(d, depth)
    batch = d.size("batch", min(most, 16))
    length = d.size("length", min(1024, max(4, d.elements // (sequence.width * batch * 4))), 2)
    if sequence.ids:
        return sequence.eval(), [index(sequence.embed.num_embeddings, batch, length)]
    return sequence.eval(), [normal(batch, length, sequence.width)]
