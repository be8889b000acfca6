"""Models in plain JAX for `bench/jax_speed.py`: a function each, which gives the
forward function, its parameters and an input."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

random = np.random.default_rng(0)


def weights(*shape):
    return (random.standard_normal(shape) / math.sqrt(shape[0] if len(shape) > 1 else 1)).astype(np.float32)


def norm(p, x):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * p[0] + p[1]


def mlp():
    p = [(weights(a, b), weights(b)) for a, b in ((784, 1024), (1024, 1024), (1024, 10))]

    def forward(p, x):
        for w, b in p[:-1]:
            x = jax.nn.relu(x @ w + b)
        return x @ p[-1][0] + p[-1][1]

    return forward, p, weights(128, 784)


def block_parameters(width):
    return {
        "n1": (np.ones(width, np.float32), weights(width)),
        "n2": (np.ones(width, np.float32), weights(width)),
        "qkv": weights(width, 3 * width),
        "out": weights(width, width),
        "up": weights(width, 4 * width),
        "down": weights(4 * width, width),
    }


def block(p, x, causal):
    batch, length, width = x.shape
    q, k, v = jnp.split(norm(p["n1"], x) @ p["qkv"], 3, -1)
    heads = [each.reshape(batch, length, -1, 64) for each in (q, k, v)]
    a = jax.nn.dot_product_attention(*heads, is_causal=causal)
    x = x + a.reshape(batch, length, width) @ p["out"]
    return x + jax.nn.gelu(norm(p["n2"], x) @ p["up"]) @ p["down"]


def transformer(causal, layers, batch, length, width):
    p = [block_parameters(width) for _ in range(layers)]

    def forward(p, x):
        for each in p:
            x = block(each, x, causal)
        return x

    return forward, p, weights(batch, length, width)


def gpt(layers=4, batch=2, length=128, width=256, words=2000):
    p = {"layers": [block_parameters(width) for _ in range(layers)], "words": weights(words, width), "places": weights(length, width)}

    def forward(p, tokens):
        x = p["words"][tokens] + p["places"]
        for each in p["layers"]:
            x = block(each, x, True)
        return x @ p["words"].T

    return forward, p, random.integers(0, words, (batch, length)).astype(np.int32)


def convolution(x, w, stride=1, groups=1):
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


def resnet():
    p = {"stem": weights(3, 3, 3, 32), "blocks": [], "head": weights(128, 10)}
    for a, b in ((32, 32), (32, 64), (64, 128)):
        p["blocks"].append((weights(3, 3, a, b) / 4, weights(3, 3, b, b) / 8, weights(1, 1, a, b)))

    def forward(p, x):
        x = jax.nn.relu(convolution(x, p["stem"]))
        for first, second, short in p["blocks"]:
            y = jax.nn.relu(convolution(x, first, 2))
            x = jax.nn.relu(convolution(y, second) + convolution(x, short, 2))
        return x.mean((1, 2)) @ p["head"]

    return forward, p, weights(8, 32, 32, 3)


def lstm():
    p = (weights(128, 512), weights(128, 512), weights(512))

    def forward(p, x):
        def step(state, x):
            h, c = state
            i, f, g, o = jnp.split(x @ p[0] + h @ p[1] + p[2], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((x.shape[1], 128))
        return lax.scan(step, (zero, zero), x)[1]

    return forward, p, weights(64, 16, 128)


def vae():
    p = [weights(784, 400), weights(400, 40), weights(20, 400), weights(400, 784)]

    def forward(p, x):
        mean, scale = jnp.split(jnp.tanh(x @ p[0]) @ p[1], 2, -1)
        noise = jax.random.normal(jax.random.key(0), mean.shape)
        return jax.nn.sigmoid(jnp.tanh((mean + jnp.exp(scale / 2) * noise) @ p[2]) @ p[3])

    return forward, p, weights(64, 784)


def mixer():
    p = [(np.ones(128, np.float32), weights(128), weights(64, 128), weights(128, 64), weights(128, 512), weights(512, 128)) for _ in range(4)]

    def forward(p, x):
        for scale, shift, up, down, wide, narrow in p:
            y = norm((scale, shift), x).swapaxes(1, 2)
            x = x + (jax.nn.gelu(y @ up) @ down).swapaxes(1, 2)
            x = x + jax.nn.gelu(norm((scale, shift), x) @ wide) @ narrow
        return x

    return forward, p, weights(8, 64, 128)


def graph():
    p = [weights(64, 64) for _ in range(3)]
    edges = random.integers(0, 1000, (2, 8000)).astype(np.int32)

    def forward(p, x):
        for w in p:
            x = jax.nn.relu(jax.ops.segment_sum((x @ w)[edges[0]], edges[1], 1000) / 8)
        return x

    return forward, p, weights(1000, 64)


def gaussian_process():
    def forward(p, x):
        distance = ((x[:, None] - x[None]) ** 2).sum(-1)
        k = jnp.exp(-distance / p[0] ** 2) + 0.1 * jnp.eye(len(x))
        factor = jnp.linalg.cholesky(k)
        return jax.scipy.linalg.cho_solve((factor, True), jnp.sin(x[:, :1]))

    return forward, [np.float32(1.5)], weights(100, 4) * 3


def rms(p, x):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * p


def rotary(x):
    length, half = x.shape[1], x.shape[-1] // 2
    angles = jnp.arange(length)[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = (each[:, None].astype(x.dtype) for each in (jnp.cos(angles), jnp.sin(angles)))
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def decoder(gate, cap, layers=3, batch=2, length=128, width=256, heads=4, shared=2, inner=688):
    """Blocks of Llama's kind: grouped queries, rotary positions, gated MLPs."""
    size = width // heads
    p = [
        {
            "n1": np.ones(width, np.float32), "n2": np.ones(width, np.float32), "q": weights(width, width),
            "kv": weights(width, 2 * shared * size), "out": weights(width, width),
            "gate": weights(width, inner), "up": weights(width, inner), "down": weights(inner, width),
        }
        for _ in range(layers)
    ]  # fmt: skip

    def attention(q, k, v):
        if not cap:
            return jax.nn.dot_product_attention(q, k, v, is_causal=True)
        k, v = (jnp.repeat(each, heads // shared, 2) for each in (k, v))
        scores = cap * jnp.tanh(jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(size) / cap)
        seen = jnp.tril(jnp.ones((length, length), bool))
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(seen, scores, -1e30), -1), v)

    def forward(p, x):
        for each in p:
            y = rms(each["n1"], x)
            q = (y @ each["q"]).reshape(batch, length, heads, size)
            k, v = jnp.split((y @ each["kv"]).reshape(batch, length, 2 * shared, size), 2, 2)
            x = x + attention(rotary(q), rotary(k), v).reshape(x.shape) @ each["out"]
            y = rms(each["n2"], x)
            x = x + (gate(y @ each["gate"]) * (y @ each["up"])) @ each["down"]
        return x

    return forward, p, weights(batch, length, width)


def vit():
    p = {"patch": weights(8, 8, 3, 192) / 14, "places": weights(1, 64, 192), "layers": [block_parameters(192) for _ in range(3)]}

    def forward(p, x):
        x = lax.conv_general_dilated(x, p["patch"], (8, 8), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = x.reshape(len(x), 64, 192) + p["places"]
        for each in p["layers"]:
            x = block(each, x, False)
        return x.mean(1)

    return forward, p, weights(4, 64, 64, 3)


def unet():
    p = [weights(3, 3, a, b) / math.sqrt(9 * a) * math.sqrt(3) for a, b in ((3, 24), (24, 48), (48, 96), (96 + 48, 48), (48 + 24, 24), (24, 3))]

    def forward(p, x):
        a = jax.nn.silu(convolution(x, p[0]))
        b = jax.nn.silu(convolution(a, p[1], 2))
        c = jax.nn.silu(convolution(b, p[2], 2))
        up = lambda y: jnp.repeat(jnp.repeat(y, 2, 1), 2, 2)  # noqa: E731
        b = jax.nn.silu(convolution(jnp.concatenate([up(c), b], -1), p[3]))
        a = jax.nn.silu(convolution(jnp.concatenate([up(b), a], -1), p[4]))
        return convolution(a, p[5])

    return forward, p, weights(4, 32, 32, 3)


def mamba():
    width, states = 128, 16
    p = (weights(width, 2 * width), weights(width, width) / 4, weights(width, 2 * states), -np.exp(weights(width, states) / 8), weights(width, width))

    def forward(p, x):
        x, gate = jnp.split(x @ p[0], 2, -1)
        step = jax.nn.softplus(x @ p[1])
        into, out = jnp.split(x @ p[2], 2, -1)
        decay = jnp.exp(step[..., None] * p[3])
        entry = (step * x)[..., None] * into[:, :, None]

        def one(h, each):
            decay, entry, out = each
            h = h * decay + entry
            return h, (h * out[:, None]).sum(-1)

        first = jnp.zeros((x.shape[1], width, states))
        return (lax.scan(one, first, (decay, entry, out))[1] * jax.nn.silu(gate)) @ p[4]

    return forward, p, weights(64, 4, width)


def gru():
    p = (weights(128, 384), weights(128, 384), weights(384))

    def forward(p, x):
        def step(h, x):
            a, b = x @ p[0] + p[2], h @ p[1]
            r, z = (jax.nn.sigmoid(a[:, s] + b[:, s]) for s in (slice(0, 128), slice(128, 256)))
            h = (1 - z) * jnp.tanh(a[:, 256:] + r * b[:, 256:]) + z * h
            return h, h

        return lax.scan(step, jnp.zeros((x.shape[1], 128)), x)[1]

    return forward, p, weights(64, 16, 128)


def ode():
    """Runge and Kutta's method by `scan`, of a small network."""
    p = (weights(64, 256), weights(256, 64))

    def forward(p, x):
        def slope(x):
            return jnp.tanh(x @ p[0]) @ p[1]

        def step(x, _):
            a = slope(x)
            b = slope(x + 0.05 * a)
            c = slope(x + 0.05 * b)
            d = slope(x + 0.1 * c)
            return x + 0.1 / 6 * (a + 2 * b + 2 * c + d), None

        return lax.scan(step, x, None, length=20)[0]

    return forward, p, weights(64, 64)


def mcmc():
    """A step of Hamiltonian Monte Carlo for a logistic regression."""
    x = weights(1000, 20)
    y = (x[:, 0] > 0).astype(np.float32)

    def forward(p, x):
        def energy(w):
            logits = x @ w
            return jnp.sum(jax.nn.softplus(logits) - y * logits) + 0.5 * jnp.sum(w * w)

        key, accept = jax.random.split(jax.random.key(3))
        start = jax.random.normal(key, p[0].shape)
        momentum, w = start, p[0]
        for _ in range(10):
            momentum = momentum - 0.005 * jax.grad(energy)(w)
            w = w + 0.01 * momentum
            momentum = momentum - 0.005 * jax.grad(energy)(w)
        change = energy(p[0]) + 0.5 * jnp.sum(start**2) - energy(w) - 0.5 * jnp.sum(momentum**2)
        return jnp.where(jnp.log(jax.random.uniform(accept)) < change, w, p[0])

    return forward, [weights(20)], x


def ensemble():
    """Eight small networks beside each other, by `vmap`."""
    p = [(np.stack([weights(a, b) for _ in range(8)]), np.stack([weights(b) for _ in range(8)])) for a, b in ((64, 256), (256, 256), (256, 1))]

    def one(p, x):
        for w, b in p[:-1]:
            x = jax.nn.gelu(x @ w + b)
        return x @ p[-1][0] + p[-1][1]

    return jax.vmap(one, (0, None)), p, weights(128, 64)


def dilated():
    """Causal convolutions of growing dilation over a sequence."""
    p = [weights(3, 64, 64) / 8 for _ in range(5)]

    def forward(p, x):
        for i, w in enumerate(p):
            y = lax.conv_general_dilated(x, w, (1,), [(2 * 2**i, 0)], rhs_dilation=(2**i,), dimension_numbers=("NWC", "WIO", "NWC"))
            x = x + jax.nn.relu(y)
        return x

    return forward, p, weights(8, 256, 64)


def experts():
    """The best two of eight networks for each row, as sums with gates."""
    p = (weights(128, 8), np.stack([weights(128, 256) for _ in range(8)]), np.stack([weights(256, 128) for _ in range(8)]))

    def forward(p, x):
        best, which = lax.top_k(x @ p[0], 2)
        gates = (jax.nn.one_hot(which, 8) * jax.nn.softmax(best)[..., None]).sum(1)
        y = jnp.einsum("bd,edh->beh", x, p[1])
        return jnp.einsum("beh,ehd,be->bd", jax.nn.silu(y), p[2], gates)

    return forward, p, weights(128, 128)


def bf16(model):
    """The model with its floats in bf16."""
    forward, p, x = model
    p, x = jax.tree.map(lambda each: each.astype(jnp.bfloat16) if each.dtype == np.float32 else each, (p, x))
    return forward, p, x


# What a GPU is for, in bf16.
LARGE = {
    "gpt2 8x1024": lambda: bf16(gpt(12, 8, 1024, 768, 50257)),
    "bert 32x128": lambda: bf16(transformer(False, 12, 32, 128, 768)),
    "llama block 4x2048": lambda: bf16(decoder(jax.nn.silu, 0, 1, 4, 2048, 2048, 32, 8, 8192)),
}

MODELS = {
    "mlp": mlp,
    "bert": lambda: transformer(False, 4, 4, 128, 256),
    "gpt": gpt,
    "resnet": resnet,
    "lstm": lstm,
    "vae": vae,
    "mixer": mixer,
    "graph": graph,
    "gaussian process": gaussian_process,
    "llama": lambda: decoder(jax.nn.silu, 0),
    "gemma": lambda: decoder(jax.nn.gelu, 50.0),
    "vit": vit,
    "unet": unet,
    "mamba": mamba,
    "gru": gru,
    "ode": ode,
    "mcmc": mcmc,
    "ensemble": ensemble,
    "dilated": dilated,
    "experts": experts,
}
