"""Jitted functions: what JAX computes on the CPU, and what we do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_models import check


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X = normal(4, 5)
INDICES = np.array([1, 2, 0, 3], np.int32)
INTEGERS = np.array([7, -7, 5, -(2**31), -(2**31), 0, 9], np.int32)
DIVISORS = np.array([2, 2, 0, -1, 0, 0, 40], np.int32)
EDGES = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.5, 3e38], np.float32)


def conv(x, w, groups=1, strides=(2, 2)):
    return lax.conv_general_dilated(
        x, w, strides, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )  # fmt: skip


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def doubled_past(limit, x):
    """Compares a loop's second result, a float behind an integer."""
    _, y = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x))
    return jnp.broadcast_to(y, (3,)) > limit


# A case an op or a form of it: name, function, arguments.
OPS = {
    "a float behind an integer of a loop": (lambda x: doubled_past(1.0, x), X[0, 0]),
    "arithmetic": (lambda x, y: (x + y, x - y, x * y, x / y, -x, abs(x)), X, X + 3),
    "exponentials": (lambda x: (jnp.exp(x), jnp.expm1(x), jnp.tanh(x), jax.nn.sigmoid(x)), X),
    "logarithms": (lambda x: (jnp.log(x), jnp.log1p(x), jnp.sqrt(x), lax.rsqrt(x)), abs(X)),
    "angles": (lambda x, y: (jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.arctan2(x, y)), X, X + 1),
    "powers": (lambda x, y: (jnp.power(abs(x), y), jnp.cbrt(x), x**3), X, X + 1),
    "rounding": (lambda x: (jnp.floor(x), jnp.ceil(x), jnp.round(x), lax.round(x)), X * 3),
    "round away": (lax.round, np.array([0.5, -0.5, 0.49999997, 2.5, -3.5, 8388609], np.float32)),
    "gelu": (lambda x: (jax.nn.gelu(x), jax.nn.gelu(x, approximate=False)), X),
    "edges": (lambda x: (jnp.sign(x), jnp.maximum(x, 0), jnp.minimum(x, -x), jnp.clip(x, -1, 1), jnp.isfinite(x)), EDGES),
    "to integers": (lambda x: (x.astype(jnp.int32), x.astype(jnp.uint8), x.astype(bool)), EDGES),
    "infinity times a truth in float16": (lambda x: x.astype(jnp.float16) * (x > 1).astype(jnp.float16), EDGES),
    "infinity times a truth": (lambda x: (jnp.inf * (x > 0), (x > 1) * (x - x), jnp.full((8, 3), jnp.inf) * (x > 0)[:, None]), EDGES),
    "compare": (lambda x, y: (x < y, x <= y, x == y, x != y, jnp.where(x > y, x, y)), X, X.round()),
    "division": (lambda a, b: (lax.div(a, b), lax.rem(a, b)), INTEGERS, DIVISORS),
    "unsigned division": (lambda a, b: (lax.div(a, b), lax.rem(a, b)), np.array([7, 9], np.uint32), np.array([0, 4], np.uint32)),
    "shifts": (lambda a, b: (lax.shift_left(a, b), lax.shift_right_logical(a, b), lax.shift_right_arithmetic(a, b)),
               INTEGERS, np.array([1, 31, 32, 40, 2, -1, 0], np.int32)),
    "bits": (lambda a: (lax.population_count(a), lax.clz(a), ~a, a ^ 5, a & 6, a | 9), INTEGERS),
    "wide bits": (lambda a: (lax.population_count(a), lax.clz(a)), np.array([0, 1, 255, 129], np.uint8)),
    "booleans": (lambda p, q: (p & q, p | q, p ^ q, ~p, jnp.any(p), jnp.all(q)), X > 0, X > 1),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.int32), X),
    "reduce precision": (lambda x: (lax.reduce_precision(x, 8, 7), lax.reduce_precision(x, 5, 10)), X * 1e5),
    "broadcast": (lambda x: (jnp.broadcast_to(x[:, None], (4, 3, 5)), lax.broadcast_in_dim(x, (5, 2, 4), (2, 0))), X),
    "movement": (lambda x: (x.T, x.reshape(2, 10), x[1:4:2, ::2], x[::-1], jnp.concatenate([x, x], 1)), X),
    "pad": (lambda x: (lax.pad(x, 7.0, ((1, 2, 1), (-1, 1, 2))), lax.pad(x, 0.0, ((-1, -1, 0), (0, 0, 3)))), X),
    "iota": (lambda x: x + lax.broadcasted_iota(jnp.float32, (4, 5), 1), X),
    "dynamic": (lambda x, i: (lax.dynamic_slice(x, (i, i), (2, 3)), lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i, i))), X, np.int32(9)),
    "dynamic before": (lambda x, i: (lax.dynamic_slice(x, (i, 0), (2, 5)), lax.dynamic_update_slice(x, jnp.ones((4, 2)), (0, i))), X, np.int32(-20)),
    "matmuls": (lambda x, y: (x @ y, jnp.einsum("ij,kj->ik", x, x), jnp.vdot(x, x)), X, X.T),
    "batched matmul": (lambda x: jnp.einsum("bhsd,bhtd->bhst", x, x), normal(2, 3, 4, 8)),
    "reductions": (lambda x: (x.sum(0), x.prod(1), x.max(), x.min(0), x.mean(1), x.var()), X),
    "reductions of NaN": (lambda x: (x.max(), x.min(), jnp.argmax(x), jnp.argmin(x)), EDGES),
    "argmax": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), X.round()),
    "argmax of booleans": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), X > 0),
    "total order": (lambda x, y: (jnp.searchsorted(jnp.sort(x), y), jnp.digitize(y, x[:2])), EDGES, EDGES[::-1].copy()),
    "integer reductions": (lambda x: (x.sum(), x.max(), x.min(), jnp.argmax(x)), INTEGERS),
    "cumulative": (lambda x: (jnp.cumsum(x, 1), lax.cummax(x, 0), lax.cumprod(x, 0), lax.cumsum(x, 1, reverse=True)), X),
    "gather": (lambda x, i: (jnp.take(x, i, axis=0), x[i], x[:, i], jnp.take_along_axis(x, i[:, None], 1), x[i, i]), X, INDICES),
    "gather outside": (lambda x, i: (x[i], x.at[i].get(mode="clip"), x.at[i].get(mode="fill", fill_value=9)), X, INDICES * 3),
    "gather windows": (lambda x, i: jax.vmap(lambda i: lax.dynamic_slice(x, (i, i + 1), (2, 3)))(i), X, INDICES),
    "gather batched": (lambda x, i: jax.vmap(lambda x, i: x[i])(x, i), X, INDICES),
    "scatter": (lambda x, i: (x.at[i].add(1.0), x.at[i].set(2.0), x.at[1].set(3.0), x.at[:, i].max(0.5), x.at[i].multiply(2.0)), X, INDICES),
    "scatter repeated": (lambda x, i: (x.at[i].add(1.0), x.at[i].min(0.0)), X, INDICES // 2),
    "scatter outside": (lambda x, i: (x.at[i].add(1.0), x.at[i].set(9.0), x.at[i, i].set(1.0)), X, INDICES * 2),
    "scatter windows": (lambda x, i: jax.grad(lambda x: (jax.vmap(lambda i: lax.dynamic_slice(x, (i, 0), (2, 3)))(i) ** 2).sum())(x), X, INDICES),
    "sort": (lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0), lax.top_k(x, 2), jnp.sort(x, 0, descending=True)), X),
    "sort by two": (lambda x, y: lax.sort((x, y, x + y), num_keys=2), X.round(), X),
    "sort of NaN": (jnp.sort, EDGES),
    "nearly the first": (lambda x: (lax.approx_max_k(x, 2), lax.approx_min_k(x, 3, reduction_dimension=0), lax.approx_max_k(x, 2, aggregate_to_topk=False)), X),
    "pool": (lambda x: (max_pool(x), lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "VALID")), normal(2, 7, 7, 3)),
    "smallest of windows": (lambda x: lax.reduce_window(x, jnp.inf, lax.min, (1, 2), (1, 2), "SAME"), X),
    "windows of one in steps": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2), (2, 1), "VALID"), X),
    "apart as a running sum's are not": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, x.shape[1]), (1, 1), [(0, 0), (x.shape[1] - 1, 0)], window_dilation=(1, 2)), X),
    "windows with fewer elements than there are": (lambda x: tuple(lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), [pad, (0, 0)]) for pad in ((0, -1), (-1, 0))), X),
    "windows from a number": (lambda x: lax.reduce_window(x, 2.0, lax.mul, (2, 2), (1, 1), "SAME"), X),
    "gradient of a pool": (lambda x: jax.grad(lambda x: (max_pool(x) ** 2).sum())(x), normal(2, 7, 7, 3)),
    "ties of a pool": (lambda x: jax.grad(lambda x: max_pool(x).sum())(x), np.zeros((1, 6, 6, 2), np.float32)),
    "convolution": (conv, normal(2, 9, 9, 3), normal(3, 3, 3, 8)),
    "one dim": (lambda x, w: lax.conv(x, w, (1,), "SAME"), normal(2, 3, 9), normal(4, 3, 3)),
    "windows that fit nowhere": (
        lambda x, w: [lax.conv_general_dilated(x, w, (2,), pads, (spread,), (2,)) for pads, spread in (([(0, 0)], 1), ([(1, 1)], 1), ([(-2, 1)], 2))],
        normal(2, 3, 2), normal(4, 3, 5),
    ),
    "dilated": (lambda x, w: lax.conv_general_dilated(x, w, (1, 1), ((2, 1), (0, 3)), (2, 1), (1, 2)), normal(1, 3, 6, 6), normal(4, 3, 3, 2)),
    "calls": (lambda x: jax.jit(jnp.sin)(x) + jax.checkpoint(jnp.cos)(x), X),
    "scan": (lambda x: lax.scan(lambda c, t: (c + t, c * t), jnp.zeros(5), x), X),
    "while": (lambda x: lax.while_loop(lambda c: jnp.sum(c) < 100.0, lambda c: c * x + c, x), abs(X)),
    "fori": (lambda x, n: lax.fori_loop(0, n, lambda i, c: c + x[i % 4], jnp.zeros(5)), X, np.int32(7)),
    "no turns": (lambda x: lax.fori_loop(3, 3, lambda i, c: c * 2, x), X),
    "counter as data": (lambda x: lax.fori_loop(2, 5, lambda i, c: c * 2 + i, x), X),
    "counter as a place": (lambda x: lax.fori_loop(1, 9, lambda i, c: c + lax.dynamic_slice(x, (i, i), (2, 2)), X[:2, :2]), X),
    "scan from the end": (lambda x: lax.scan(lambda c, t: (c + t, c * t), jnp.zeros(5), x, reverse=True), X),
    "loops in loops": (lambda x: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 2, lambda j, d: d + x[i, j], c), x), X),
    "gradient of a scan": (lambda x: jax.grad(lambda x: lax.scan(lambda c, t: (jnp.sin(c * t), c), jnp.ones(5), x)[1].sum())(x), X),
    "cond": (lambda x, p: lax.cond(p, lambda: x * 2, lambda: x + 1), X, np.array(True)),
    "switch": (lambda x, i: lax.switch(i, [lambda: x, lambda: x * 2, lambda: x - 3]), X, np.int32(5)),
    "loop in a branch": (lambda x, p: lax.cond(p, lambda: lax.fori_loop(0, 3, lambda i, c: c + x, x), lambda: x), X, np.array(True)),
    "random bits": (lambda k: jax.random.randint(jax.random.wrap_key_data(k), (7,), 0, 100), np.array([1, 2], np.uint32)),
    "bits of a generator": (lambda k: jax.random.bits(jax.random.wrap_key_data(k, impl="rbg"), (3, 5)), np.array([1, 2, 3, 4], np.uint32)),
    "segments": (lambda x, i: jax.ops.segment_sum(x, i, 3), X, INDICES),
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_op(name):
    function, *arguments = OPS[name]
    check(function, *arguments, rtol=2e-5, atol=2e-5)


def test_bfloat16():
    x = jnp.asarray(X, jnp.bfloat16)
    check(lambda x: (x @ x.T, jax.nn.softmax(x), x.sum(1)), x, rtol=1e-2, atol=1e-2)


def test_mlp():
    def mlp(parameters, x):
        for w, b in parameters:
            x = jnp.maximum(x @ w + b, 0)
        return x

    sizes = (5, 16, 16, 3)
    parameters = [(normal(m, n), normal(n)) for m, n in zip(sizes, sizes[1:])]
    check(mlp, parameters, normal(8, 5), rtol=1e-4, atol=1e-4)


def block(parameters, x):
    """Attention, then two layers, each after a norm."""

    def norm(x):
        mean = x.mean(-1, keepdims=True)
        variance = jnp.square(x - mean).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1e-5)

    batch, length, width = x.shape
    heads = (norm(x) @ parameters["qkv"]).reshape(batch, length, 3, 4, width // 4)
    q, k, v = (heads[:, :, i] for i in range(3))
    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + mixed.reshape(x.shape) @ parameters["out"]
    return x + jax.nn.gelu(norm(x) @ parameters["up"]) @ parameters["down"]


BLOCK = {
    "qkv": normal(32, 96) * 0.2,
    "out": normal(32, 32) * 0.2,
    "up": normal(32, 64) * 0.2,
    "down": normal(64, 32) * 0.2,
}


def test_transformer_block():
    check(block, BLOCK, normal(2, 8, 32), rtol=1e-4, atol=1e-4)


def test_gradient_of_a_transformer_block():
    def loss(parameters, x):
        return jnp.square(block(parameters, x)).mean()

    check(jax.grad(loss), BLOCK, normal(2, 8, 32), rtol=1e-3, atol=1e-4)


def network(parameters, x):
    x = jnp.maximum(conv(x, parameters["first"]), 0)
    x = max_pool(jnp.maximum(conv(x, parameters["depthwise"], groups=8, strides=(1, 1)), 0))
    return x.mean((1, 2)) @ parameters["last"]


NETWORK = {
    "first": normal(3, 3, 3, 8),
    "depthwise": normal(3, 3, 1, 8),
    "last": normal(8, 10),
}


def test_convolutional_network():
    check(network, NETWORK, normal(2, 16, 16, 3), rtol=1e-4, atol=1e-4)


def test_gradient_of_a_convolutional_network():
    def loss(parameters, x):
        return jax.nn.log_softmax(network(parameters, x))[:, 3].mean()

    check(jax.grad(loss), NETWORK, normal(2, 16, 16, 3), rtol=1e-3, atol=1e-4)


def test_a_step_of_training():
    def loss(p, x, y):
        return jnp.square(jnp.tanh(x @ p["a"] + p["b"]) @ p["c"] - y).mean()

    def step(p, x, y):
        value, gradient = jax.value_and_grad(loss)(p, x, y)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, p, gradient)

    parameters = {"a": normal(5, 16), "b": normal(16), "c": normal(16, 3)}
    check(step, parameters, normal(8, 5), normal(8, 3), rtol=1e-4)


def test_large_constants():
    weights = normal(200, 200)
    mask = normal(800, 800) > 0
    check(lambda x: x @ jnp.asarray(weights), X[:, :1] + normal(1, 200), rtol=1e-4, atol=1e-4)
    check(lambda x: jnp.where(jnp.asarray(mask), x, 0), normal(800, 800))
