"""Programs of `jax.export` with symbolic sizes: one module for all sizes, checks that name them."""

import jax
import jax.numpy as jnp
import knapper
import numpy as np
import pytest
from jax import export

RANDOM = np.random.default_rng(0)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def norm(x, scale):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale


def convolution(x, w):
    y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.nn.relu(y).mean((1, 2))


def pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def attention(q, k, v):
    scores = jnp.einsum("bshd,bthd->bhst", q, k) / np.sqrt(8)
    mask = jnp.arange(q.shape[1])[:, None] >= jnp.arange(k.shape[1])[None]
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)


def recurrent(x, w):
    def step(h, x):
        h = jnp.tanh(x @ w + h)
        return h, h.sum(-1)

    return jax.lax.scan(step, jnp.zeros((x.shape[0], 8), x.dtype), jnp.swapaxes(x, 0, 1))[0]


# Function, its shapes by size names, sizes to run with.
CASES = {
    "softmax of a layer": (lambda x, w: jax.nn.softmax(jnp.tanh(x @ w)), ["b, 16", (16, 4)], [dict(b=1), dict(b=7)]),
    "norm": (norm, ["b, t, 12", (12,)], [dict(b=2, t=5), dict(b=1, t=1)]),
    "gelu": (lambda x: jax.nn.gelu(x) + jax.nn.silu(x), ["b, 3"], [dict(b=5)]),
    "convolution": (convolution, ["b, 6, 5, 3", (3, 3, 3, 4)], [dict(b=1), dict(b=4)]),
    "pool": (pool, ["b, 8, 6, 3"], [dict(b=1), dict(b=3)]),
    "attention": (attention, ["b, t, 2, 8"] * 3, [dict(b=2, t=5), dict(b=1, t=9)]),
    "embedding": (lambda ids, table: table[ids] * 2, [("b, t", np.int32), (11, 6)], [dict(b=2, t=3), dict(b=1, t=7)]),
    "edges": (lambda x: (jnp.pad(x, ((1, 2), (0, 0))), x[1:], x[:-1], jnp.flip(x, 0), jnp.concatenate([x, x], 0)), ["b, 3"], [dict(b=2), dict(b=6)]),
    "reshapes": (lambda x: (x.reshape(-1, 3), x.reshape(x.shape[0], 2, 6), x.T), ["b, 12"], [dict(b=1), dict(b=5)]),
    "outer": (lambda x, y: (x[:, None] * y[None], x[:, None] >= y[None]), ["s", "t"], [dict(s=3, t=4), dict(s=1, t=1)]),
    "counting": (lambda x: x + jnp.arange(x.shape[0])[:, None] * x.shape[0], ["b, 3"], [dict(b=4)]),
    "reductions": (lambda x: (x.sum(), x.max(0), x.mean(), jnp.sort(x, 0)), ["b, 3"], [dict(b=4), dict(b=9)]),
    "recurrent": (recurrent, ["b, 6, 8", (8, 8)], [dict(b=3), dict(b=1)]),
    "integers": (lambda x: (x // 2, x % 3, x.astype(np.float32)), [("b", np.int32)], [dict(b=6)]),
}  # fmt: skip


def arguments(shapes, sizes):
    made = []
    for given in shapes:
        shape, dtype = given if isinstance(given, tuple) and isinstance(given[0], str) else (given, np.float32)
        if isinstance(shape, str):
            shape = [sizes.get(each, each) for each in shape.split(", ")]
        shape = tuple(map(int, shape))
        made.append(RANDOM.integers(0, 9, shape).astype(dtype) if dtype == np.int32 else floats(*shape))
    return made


def exported(function, shapes, constraints=()):
    scope = export.SymbolicScope(constraints)
    specs = []
    for given in shapes:
        shape, dtype = given if isinstance(given, tuple) and isinstance(given[0], str) else (given, np.float32)
        if isinstance(shape, str):
            shape = export.symbolic_shape(shape, scope=scope)
        specs.append(jax.ShapeDtypeStruct(shape, dtype))
    return export.export(jax.jit(function), platforms=["cpu"])(*specs)


@pytest.mark.parametrize("name", CASES)
def test_one_module_for_all_sizes(name):
    function, shapes, calls = CASES[name]
    module = knapper.compile(exported(function, shapes), cache=False)
    for sizes in calls:
        given = arguments(shapes, sizes)
        wanted = jax.tree.leaves(function(*given))
        outputs = module(*given)
        for i, want in enumerate(wanted):
            np.testing.assert_allclose(np.asarray(outputs[i]), np.asarray(want), rtol=2e-5, atol=2e-5)


def test_sizes_keep_their_names():
    function, shapes, _ = CASES["attention"]
    module = knapper.compile(exported(function, shapes), cache=False)
    assert "f32[b, t, 2, 8]" in str(module)


@pytest.mark.parametrize("rows, columns, says", [(1, 3, "s>=2"), (4, 70, "t<=64"), (4, 5, "")])
def test_assertions_are_checked_at_the_run(rows, columns, says):
    program = exported(lambda x, y: x @ y, ["s, t", "t, 3"], ["s>=2", "t<=64"])
    module = knapper.compile(program, cache=False)
    x, y = floats(rows, columns), floats(columns, 3)
    if not says:
        np.testing.assert_allclose(np.asarray(module(x, y)[0]), x @ y, rtol=1e-5, atol=1e-5)
        return
    with pytest.raises(knapper.UserError, match=says):
        module(x, y)


def test_sizes_that_should_be_equal():
    module = knapper.compile(exported(lambda x, y: x + y, ["b, 3", "b, 3"]), cache=False)
    with pytest.raises(knapper.UserError, match="b"):
        module(floats(2, 3), floats(4, 3))
