"""Models in plain JAX, on `knapper` beside JAX's own CPU: forward and a step of training.

    .venv/bin/python bench/jax_speed.py [NAME...] [--rounds 7]

Both platforms are in this process and run in turns; outputs are compared first, and
the run fails where one differs. A line each: milliseconds, how often knapper is
faster, seconds of compilation. Last the time of a call of a small function.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python")]
os.environ.setdefault("JAX_PLATFORMS", "knapper,cpu")
os.environ.setdefault("XDG_CACHE_HOME", tempfile.mkdtemp())  # compiles are timed

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

import knapper.jax  # noqa: E402

TOLERANCE = 2e-4
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


def gpt():
    p = {"layers": [block_parameters(256) for _ in range(4)], "words": weights(2000, 256), "places": weights(128, 256)}

    def forward(p, tokens):
        x = p["words"][tokens] + p["places"]
        for each in p["layers"]:
            x = block(each, x, True)
        return x @ p["words"].T

    return forward, p, random.integers(0, 2000, (2, 128)).astype(np.int32)


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
}


def training(forward):
    def loss(p, x):
        return (forward(p, x).astype(jnp.float32) ** 2).mean()

    def step(p, x):
        value, slopes = jax.value_and_grad(loss)(p, x)
        return value, jax.tree.map(lambda w, g: w - 0.01 * g, p, slopes)

    return step


def difference(ours, theirs):
    most = 0.0
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return math.inf
        scale = max(float(np.abs(b).max(initial=0)), 1e-6)
        most = max(most, float(np.abs(a - b).max(initial=0)) / scale)
    return most


def measure(function, arguments, rounds, calls=None):
    """Median milliseconds of a call, seconds of the first one, and the outputs, by platform."""
    times, first, outputs, ready = {}, {}, {}, {}
    for name in ("knapper", "cpu"):
        device = jax.devices(name)[0]
        placed = jax.device_put(arguments, device)
        jitted = jax.jit(function)
        start = time.perf_counter()
        outputs[name] = jax.block_until_ready(jitted(*placed))
        first[name] = time.perf_counter() - start
        ready[name] = (jitted, placed)
        times[name] = []
    for _ in range(rounds):
        for name, (jitted, placed) in ready.items():
            start = time.perf_counter()
            jax.block_until_ready(jitted(*placed))
            once = time.perf_counter() - start
            repeats = calls or max(1, min(200, int(0.05 / max(once, 1e-6))))
            start = time.perf_counter()
            for _ in range(repeats):
                result = jitted(*placed)
            jax.block_until_ready(result)
            times[name].append((time.perf_counter() - start) / repeats * 1e3)
    return {n: statistics.median(t) for n, t in times.items()}, first, outputs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", choices=[[], *MODELS])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    knapper.jax.install()
    wrong, ratios = [], {"forward": [], "training": []}
    for name in arguments.names or MODELS:
        forward, p, x = MODELS[name]()
        for kind, function in (("forward", forward), ("training", training(forward))):
            times, first, outputs = measure(function, (p, x), arguments.rounds)
            apart = difference(outputs["knapper"], outputs["cpu"])
            ratio = times["cpu"] / times["knapper"]
            ratios[kind].append(ratio)
            print(
                f"{name:18} {kind:9} knapper {times['knapper']:9.3f} ms, JAX {times['cpu']:9.3f} ms, {ratio:6.2f}x; "
                f"first call {first['knapper']:5.2f} s and {first['cpu']:5.2f} s; difference {apart:.1e}",
                flush=True,
            )
            if not apart <= TOLERANCE:
                wrong.append(f"{name} {kind}")
    for kind, each in ratios.items():
        print(f"{kind}: geometric mean {statistics.geometric_mean(each):.2f}x, least {min(each):.2f}x")
    small, _, _ = measure(lambda *x: sum(x), [np.ones(8, np.float32)] * 10, arguments.rounds, calls=2000)
    print(f"a call with ten arrays: knapper {small['knapper'] * 1e3:.1f} us, JAX {small['cpu'] * 1e3:.1f} us")
    if wrong:
        print("outputs differ: " + ", ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
