"""LAPACK's routines by the names that JAX calls on CPUs, as text and as artefacts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import knapper

random = np.random.default_rng(0)
A = random.standard_normal((2, 5, 5))
TALL = random.standard_normal((2, 6, 3))
POSITIVE = A @ A.mT + np.eye(5)
B = random.standard_normal((2, 5, 3))


def triangles(a, b):
    return [
        lax.linalg.triangular_solve(a, b if left else b.mT, left_side=left, lower=lower, transpose_a=turned, unit_diagonal=unit)
        for left in (False, True) for lower in (False, True) for turned in (False, True) for unit in (False, True)
    ]  # fmt: skip


CASES = {
    "potrf": (lambda a: (jnp.linalg.cholesky(a), jnp.linalg.cholesky(a, upper=True), jnp.linalg.cholesky(-a)), POSITIVE),
    "trsm": (triangles, A + 4 * np.eye(5), B),
    "getrf": (lambda a: (lax.linalg.lu(a), jnp.linalg.solve(a, a[..., :1]), jnp.linalg.det(a), jnp.linalg.slogdet(a)), A),
    "getrf of rectangles": (lax.linalg.lu, TALL),
    "geqrf and orgqr": (lambda a: (abs(jnp.linalg.qr(a)[1]), (lambda q, r: q @ r)(*jnp.linalg.qr(a))), TALL),
    "syevd": (lambda a: (jnp.linalg.eigvalsh(a), jnp.linalg.eigvalsh(a, UPLO="U"), (lambda w, v: (v * w[..., None, :]) @ v.mT)(*jnp.linalg.eigh(a))), POSITIVE),
    "syevd of NaN": (lambda a: jnp.linalg.eigh(a * jnp.nan), POSITIVE),
    "gesdd": (lambda a: (jnp.linalg.svd(a, compute_uv=False), (lambda u, s, v: (u * s[..., None, :]) @ v)(*jnp.linalg.svd(a, full_matrices=False))), TALL),
    "gesdd of squares": (lambda a: (lambda u, s, v: (u * s[..., None, :]) @ v)(*jnp.linalg.svd(a)), A),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_routine(name, dtype):
    function, *arguments = CASES[name]
    arguments = [each.astype(dtype) for each in arguments]
    with jax.enable_x64(True):
        lowered = jax.jit(function).lower(*arguments)
        wanted = jax.tree_util.tree_leaves(jax.jit(function)(*arguments))
        exported = jax.export.export(jax.jit(function))(*arguments)
    assert "lapack_" in lowered.as_text()
    for program in (lowered.as_text().encode(), exported):
        outputs = knapper.compile(program, cache=False)(*arguments)
        for i, each in enumerate(wanted):
            ours, theirs = np.asarray(outputs[i]), np.asarray(each)
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-3 if dtype is np.float32 else 1e-9, atol=1e-4 if dtype is np.float32 else 1e-10)


def test_what_is_refused():
    text = jax.jit(jnp.linalg.svd).lower(TALL.astype(np.float32)).as_text()
    with pytest.raises(knapper.UserError, match=r"custom_call.*: all singular vectors of matrices that are not square.*full_matrices=False"):
        knapper.compile(text.encode(), cache=False)
