"""Recurrent cells as libraries of JAX write them: what JAX computes on the CPU, and one kernel for all steps on a GPU."""

import itertools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import knapper

STEPS, ROWS, UNITS = 12, 3, 32


SEEDS = itertools.count(1)


def array(*dims):
    return (np.random.default_rng(next(SEEDS)).standard_normal(dims) * 0.3).astype(np.float32)


def zeros(dtype=jnp.float32):
    return jnp.zeros((ROWS, UNITS), dtype)


def lstm(gates, c):
    i, f, g, o = gates
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def one_matmul(p, xs):
    """The gates are columns of one matrix."""

    def step(state, x):
        h, c = lstm(jnp.split(x @ p[0] + state[0] @ p[1] + p[2], 4, -1), state[1])
        return (h, c), h

    return lax.scan(step, (zeros(), zeros()), xs)


def matmul_a_gate(p, xs):
    """flax.linen.LSTMCell and GRUCell."""

    def step(state, x):
        h, c = lstm([x @ w + h_w for w, h_w in zip(p[0], [state[0] @ u + b for u, b in zip(p[1], p[2])])], state[1])
        return (h, c), h

    return lax.scan(step, (zeros(), zeros()), xs)


def side_by_side(p, xs):
    """haiku.LSTM: the input and the state are one row."""

    def step(state, x):
        h, c = lstm(jnp.split(jnp.concatenate([x, state[0]], -1) @ p[0] + p[1], 4, -1), state[1])
        return (h, c), h

    return lax.scan(step, (zeros(), zeros()), xs)


def weights_left(p, xs):
    """equinox.nn.GRUCell under vmap."""

    def one(xs):
        def step(h, x):
            i, g = jnp.split(p[0] @ x + p[1], 3), jnp.split(p[2] @ h, 3)
            r, z = jax.nn.sigmoid(i[0] + g[0]), jax.nn.sigmoid(i[1] + g[1])
            n = jnp.tanh(i[2] + r * (g[2] + p[3]))
            h = n + z * (h - n)
            return h, h

        return lax.scan(step, jnp.zeros(UNITS), xs)

    return jax.vmap(one)(jnp.swapaxes(xs, 0, 1))


def masked(p, xs):
    """Rows that have ended keep their state; backwards."""
    lengths = jnp.array([5, 12, 1])

    def step(h, given):
        x, at = given
        h = jnp.where((at < lengths)[:, None], jnp.tanh(x @ p[0] + h @ p[1]), h)
        return h, h

    return lax.scan(step, zeros(), (xs, jnp.arange(STEPS)), reverse=True)


def narrow_input(p, xs):
    """A few features: the matmul of all steps is before the loop on a GPU only."""
    return one_matmul(p, xs[..., :2])


n = UNITS
CELLS = {
    one_matmul: (array(n, 4 * n), array(n, 4 * n), array(4 * n)),
    narrow_input: (array(2, 4 * n), array(n, 4 * n), array(4 * n)),
    matmul_a_gate: ([array(n, n) for _ in range(4)], [array(n, n) for _ in range(4)], [array(n) for _ in range(4)]),
    side_by_side: (array(2 * n, 4 * n), array(4 * n)),
    weights_left: (array(3 * n, n), array(3 * n), array(3 * n, n), array(n)),
    masked: (array(n, n), array(n, n)),
}


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.__name__)
def test_all_steps_are_one_kernel(cell):
    xs = array(STEPS, ROWS, UNITS)
    exported = jax.export.export(jax.jit(cell))(CELLS[cell], xs)
    inputs = [*jax.tree.leaves(CELLS[cell]), xs]
    given = knapper.compile(exported, cache=False, threads=1)(*inputs)
    wanted = jax.tree.leaves(jax.jit(cell)(CELLS[cell], xs))
    assert len(given) == len(wanted)
    for mine, other in zip(given, wanted):
        np.testing.assert_allclose(np.asarray(mine), other, rtol=2e-5, atol=2e-6)
    kernels = knapper.compile(exported, cache=False, target="cuda:sm_90a", output=None).describe()["kernels"]
    assert sum("recurrence" in str(kernel) for kernel in kernels) == 1
    assert len(kernels) <= 6
