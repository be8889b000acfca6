"""JAX's attention in its spellings: right, and one kernel of attention."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_models import kept, program

import knapper

random = np.random.default_rng(7)
BATCH, QUERIES, KEYS, DEPTH = 2, 12, 20, 16


def arrays(heads, shared, dtype, keys=KEYS, queries=QUERIES):
    shapes = (BATCH, queries, heads, DEPTH), (BATCH, keys, shared, DEPTH), (BATCH, keys, shared, DEPTH)
    return [jnp.asarray(random.standard_normal(shape), dtype) for shape in shapes]


def mask(*shape):
    some = random.random(shape) < 0.7
    some[..., 0] = True  # a row without a key is another matter
    return some


def bias(*shape):
    return random.standard_normal(shape).astype(np.float32)


LENGTHS = np.array([7, 20], np.int32)
# Options of jax.nn.dot_product_attention, by the number of heads of queries.
OPTIONS = {
    "plain": lambda heads: {},
    "causal": lambda heads: {"is_causal": True},
    "scale": lambda heads: {"scale": 0.3},
    "mask of rows": lambda heads: {"mask": mask(BATCH, 1, 1, KEYS)},
    "mask of all": lambda heads: {"mask": mask(1, 1, QUERIES, KEYS)},
    "mask of heads": lambda heads: {"mask": mask(BATCH, heads, QUERIES, KEYS)},
    "mask of heads alone": lambda heads: {"mask": mask(1, heads, 1, KEYS)},
    "bias of all": lambda heads: {"bias": bias(1, 1, QUERIES, KEYS)},
    "bias of heads": lambda heads: {"bias": bias(1, heads, QUERIES, KEYS)},
    "bias, mask and causal": lambda heads: {"bias": bias(BATCH, heads, QUERIES, KEYS), "mask": mask(BATCH, 1, QUERIES, KEYS), "is_causal": True},
    "lengths": lambda heads: {"key_value_seq_lengths": LENGTHS},
    "window": lambda heads: {"local_window_size": (3, 9)},
    "causal window": lambda heads: {"local_window_size": (4, 0), "is_causal": True},
}  # fmt: skip


def run(function, *arguments):
    """What JAX gives, what Knapper gives, and the names of its kernels."""
    wanted = np.asarray(jax.jit(function)(*arguments)).astype(np.float64)
    exported = program(function, *arguments)
    module = knapper.compile(exported.mlir_module_serialized, cache=False, threads=2)
    given = module(*[np.asarray(each) for each in kept(exported, arguments)])[0]
    names = {choice["kernel"] for launch in module.describe()["launches"] for choice in launch["choices"]}
    return wanted, np.asarray(given).astype(np.float64), names


def attends(names):
    return any("attention" in name for name in names) and not any("matmul" in name for name in names)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("heads, shared", [(4, 4), (6, 2), (4, 1)])
@pytest.mark.parametrize("name", OPTIONS)
def test_dot_matmul_attention(name, heads, shared, dtype):
    options = OPTIONS[name](heads)
    wanted, given, names = run(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, **options), *arrays(heads, shared, dtype))
    assert np.abs(given - wanted).max() < (1e-5 if dtype == "float32" else 0.03)
    assert attends(names), names


@pytest.mark.parametrize("queries, heads, shared", [(1, 8, 2), (3, 12, 4), (8, 64, 8), (2, 2, 2), (5, 5, 1)])
def test_few_queries(queries, heads, shared):
    """Where the heads of a group are as many as the queries, or more."""
    length = np.int32(KEYS - queries)

    def decode(q, k, v):
        seen = jnp.arange(KEYS)[None, :] <= jnp.arange(queries)[:, None] + length
        return jax.nn.dot_product_attention(q, k, v, mask=seen[None, None])

    wanted, given, names = run(decode, *arrays(heads, shared, "float32", queries=queries))
    assert np.abs(given - wanted).max() < 1e-5
    assert attends(names), names


def einsums(q, k, v, scores, result):
    weights = jax.nn.softmax(jnp.einsum(scores, q, k) / 4, -1)
    return jnp.einsum(result, weights, v)


@pytest.mark.parametrize("scores, result", [
    ("bthd,bshd->bhts", "bhts,bshd->bthd"), ("bthd,bshd->bhts", "bhts,bshd->bhtd"), ("bthd,bshd->hbts", "hbts,bshd->bthd"),
    ("bthd,bshd->bths", "bths,bshd->bthd"),
])  # fmt: skip
def test_einsums(scores, result):
    wanted, given, _ = run(lambda q, k, v: einsums(q, k, v, scores, result), *arrays(4, 4, "float32"))
    assert np.abs(given - wanted).max() < 1e-5


def grouped(q, k, v, order):
    """Groups as a dim of their own, the other way round than JAX has them."""
    q = q.reshape(BATCH, QUERIES, 2, 3, DEPTH)
    weights = jax.nn.softmax(jnp.einsum(f"btkgd,bskd->{order}", q, k) / 4, -1)
    return jnp.einsum(f"{order},bskd->btkgd", weights, v).reshape(BATCH, QUERIES, 6, DEPTH)


@pytest.mark.parametrize("order", ["bkgts", "bktgs", "kgbts", "gbkts"])
def test_groups_of_heads(order):
    wanted, given, _ = run(lambda q, k, v: grouped(q, k, v, order), *arrays(6, 2, "float32"))
    assert np.abs(given - wanted).max() < 1e-5


def test_a_row_without_a_key_is_the_mean():
    """JAX's fill is a finite number."""
    some = mask(BATCH, 1, QUERIES, KEYS)
    some[:, :, 3] = False
    wanted, given, _ = run(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, mask=some), *arrays(6, 2, "float32"))
    assert np.abs(given - wanted).max() < 1e-5


def test_softmax_of_jax():
    """The maximum begins at -inf; dims of size 1 are moved."""
    wanted, given, names = run(lambda x: jax.nn.softmax(x[:, None] * 2, -1), jnp.asarray(random.standard_normal((5, 300)), np.float32))
    assert np.abs(given - wanted).max() < 1e-6
    assert len(names) == 1, names


F = -2.38e38
LEFT = np.arange(KEYS)[None, :] >= np.array([3, 0])[:, None]  # keys behind a padding on the left
CAUSAL = np.tril(np.ones((QUERIES, KEYS), bool))
ROWS = np.arange(QUERIES) != 5


def scores(q, k):
    return jnp.einsum("bthd,bshd->bhts", q, k) / 4


# Masks where some row has no key: by a finite fill it is the mean of those whose fill is the largest.
FILLS = {
    "one fill twice": lambda s: jnp.where(ROWS[None, None, :, None], jnp.where(LEFT[:, None, None, :], s, F), F),
    "the least number twice": lambda s: jnp.where(CAUSAL, jnp.where(LEFT[:, None, None, :], s, np.finfo(np.float32).min), np.finfo(np.float32).min),
    "two fills": lambda s: jnp.where(CAUSAL, jnp.where(LEFT[:, None, None, :], s, -1e33), -2e33),
    "a fill over a bias of -inf": lambda s: jnp.where(CAUSAL, s + jnp.where(LEFT[:, None, None, :], 0, -np.inf), F),
    "a fill over a large bias": lambda s: jnp.where(CAUSAL, s + jnp.where(LEFT[:, None, None, :], 0, np.finfo(np.float32).min), F),
    "a fill over -inf": lambda s: jnp.where(ROWS[None, None, :, None], jnp.where(CAUSAL, s, -np.inf), F),
    "a bias behind a fill": lambda s: jnp.where(LEFT[:, None, None, :], s, -1e33) + np.linspace(-1, 1, KEYS, dtype=np.float32),
}  # fmt: skip


@pytest.mark.parametrize("name", FILLS)
def test_rows_without_a_key(name):
    wanted, given, names = run(
        lambda q, k, v: jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(FILLS[name](scores(q, k)), -1), v), *arrays(4, 4, "float32")
    )
    np.testing.assert_allclose(given, wanted, atol=1e-5)
    assert attends(names), names
