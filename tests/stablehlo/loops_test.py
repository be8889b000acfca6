"""Scans drawn at random, forward and their gradients: matmuls of all steps, sums behind the loop, rows in both orders."""

import functools
import random
import subprocess
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import knapper


@functools.cache
def commit() -> str:
    given = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    return given.stdout.strip() or "no commit"


def drawn_scan(rng):
    """A function of the parameters and a sequence, and its arguments."""
    steps, rows, width = rng.choice([1, 2, 5, 9]), rng.choice([1, 3, 150]), rng.choice([1, 4, 7])
    array = lambda *dims: (rng.standard_normal(dims) * 0.5).astype(np.float32)
    parameters = {"w": array(width, width), "v": array(width, width), "u": array(width, 3 * width), "b": array(width)}
    draws = [int(rng.integers(0, 6)) for _ in range(int(rng.integers(2, 7)))]
    reverse, stacked, nested = (bool(rng.integers(0, 2)) for _ in range(3))
    carried_weights = bool(rng.integers(0, 2))

    def value(p, h, x, draw):
        if draw == 0:
            return h + x @ p["w"]
        if draw == 1:
            return jnp.tanh(h @ p["v"] + p["b"])
        if draw == 2:
            r, z, n = jnp.split(jax.nn.sigmoid(x) @ p["u"], 3, -1)
            return (1 - jax.nn.sigmoid(z)) * jnp.tanh(n + r * h) + jax.nn.sigmoid(z) * h
        if draw == 3:
            return h * jax.nn.softmax((x @ p["w"].T) @ p["w"], -1)
        if draw == 4:
            return h - (x @ x.T) @ h * 0.1
        return h + (p["w"] @ x.T).T * jnp.exp(-h * h)

    def function(p, xs):
        def step(state, x):
            h, total, weights = state
            q = p | {"w": weights} if carried_weights else p
            for draw in draws:
                h = jnp.tanh(value(q, h, x, draw))  # else roundings grow with the steps
            if nested:
                h = lax.fori_loop(0, 3, lambda i, each: each * 0.5 + x[:, :1] * i, h)
            return (h, total + x.T @ h, weights), (h, x * 2) if stacked else None

        state = jnp.zeros((rows, width)), jnp.zeros((width, width)), p["w"]
        state, seen = lax.scan(step, state, xs, reverse=reverse)
        return state, seen

    return function, parameters, array(steps, rows, width)


def gradient(function):
    def loss(p, xs):
        return sum((leaf**2).mean() for leaf in jax.tree.leaves(function(p, xs)))

    return lambda p, xs: jax.grad(loss, argnums=(0, 1))(p, xs)


def agree(function, *arguments):
    exported = jax.export.export(jax.jit(function))(*arguments)
    wanted = jax.tree.leaves(jax.jit(function)(*arguments))
    leaves = jax.tree.leaves(arguments)
    given = knapper.compile(exported, cache=False, threads=1)(*[leaves[i] for i in exported.module_kept_var_idx])
    assert len(wanted) == len(given)
    for i, each in enumerate(wanted):
        np.testing.assert_allclose(np.asarray(given[i]), each, rtol=2e-4, atol=2e-5 * max(1.0, float(np.abs(each).max(initial=0))))


@pytest.mark.parametrize("draw", range(16))
def test_scans_and_their_gradients(draw):
    function, parameters, xs = drawn_scan(np.random.default_rng(random.Random(f"{commit()} {draw}").getrandbits(64)))
    agree(function, parameters, xs)
    agree(gradient(function), parameters, xs)


def test_matmuls_of_all_steps_are_one():
    """A recurrent network's input projection, and the gradient of each weight: none in a step."""

    def function(p, xs):
        return lax.scan(lambda h, x: (jnp.tanh(x @ p[0] + h @ p[1]),) * 2, jnp.zeros((3, 8)), xs)[1]

    rng = np.random.default_rng(0)
    p = [rng.standard_normal((8, 8)).astype(np.float32) for _ in range(2)]
    xs = rng.standard_normal((10, 3, 8)).astype(np.float32)
    step = lambda p, xs: jax.grad(lambda p: (function(p, xs) ** 2).mean())(p)
    agree(step, p, xs)
    launches = lambda f: knapper.compile(jax.export.export(jax.jit(f))(p, xs), cache=False).describe()["kernels"]
    assert len(launches(step)) < 14
