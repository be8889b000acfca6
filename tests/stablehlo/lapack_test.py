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
        lax.linalg.triangular_solve(a, b if left else b.mT, left_side=left, lower=lower, transpose_a=transpose, unit_diagonal=unit)
        for left in (False, True) for lower in (False, True) for transpose in (False, True) for unit in (False, True)
    ]  # fmt: skip


def eig(a):
    w, v = jnp.linalg.eig(a)
    left = lax.linalg.eig(a, compute_left_eigenvectors=True, compute_right_eigenvectors=False)[1]
    order = jnp.argsort(w.real + w.imag / 64)  # of no meaning, but a fixed one
    of = jnp.take_along_axis
    size = abs(v.mT.conj() @ v)
    return of(w, order, 1), of(jnp.linalg.eigvals(a), order, 1), a @ v - v * w[:, None], left.mT.conj() @ a - w[..., None] * left.mT.conj(), jnp.diagonal(size, 0, 1, 2)


def schur(a):
    t, z = lax.linalg.schur(a)
    return z @ t @ z.mT, z @ z.mT, jnp.tril(t, -2), jnp.trace(t, 0, 1, 2), lax.linalg.schur(a, compute_schur_vectors=False)[0] - t


def hessenberg(a):
    h, taus = lax.linalg.hessenberg(a)
    return h, taus, *(jax.scipy.linalg.hessenberg(each, calc_q=True) for each in a)


def pivoted(a):
    return [jax.scipy.linalg.qr(each, mode=mode, pivoting=True) for each in a for mode in ("economic", "r")]


CASES = {
    "geev": (eig, A),
    "geev of a rotation and zeros": (eig, np.stack([np.diag([1.0, 1], 3) - np.diag([1.0, 1], -3), np.zeros((5, 5))])),
    "geev of NaN": (lambda a: jnp.linalg.eig(a * jnp.nan), A),
    "gees": (schur, A),
    "gehrd": (hessenberg, A),
    "geqp3": (pivoted, A),
    "geqp3 of rectangles": (pivoted, TALL),
    "geqp3 of wide ones": (pivoted, TALL.mT),
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
        # JAX does not promise to keep this one.
        unstable = [jax.export.DisabledSafetyCheck.custom_call(f"lapack_{letter}geqp3_ffi") for letter in "sd"]
        exported = jax.export.export(jax.jit(function), disabled_checks=unstable)(*arguments)
    assert "lapack_" in lowered.as_text()
    for program in (lowered.as_text().encode(), exported):
        outputs = knapper.compile(program, cache=False)(*arguments)
        for i, each in enumerate(wanted):
            ours, theirs = np.asarray(outputs[i]), np.asarray(each)
            if theirs.dtype.kind == "c":  # its parts side by side
                ours = np.ascontiguousarray(ours).view(theirs.dtype)[..., 0]
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-3 if dtype is np.float32 else 1e-9, atol=1e-4 if dtype is np.float32 else 1e-10)


@pytest.mark.parametrize("length", [1, 2, 3, 40, 150])
def test_schur_forms(length):
    """Of matrices that take many steps, ones with repeated eigenvalues among them."""
    jordan = np.eye(length) * 2 + np.eye(length, k=1)
    cycle = np.roll(np.eye(length), 1, 0)
    a = np.stack([random.standard_normal((length, length)), jordan, cycle, np.triu(np.ones((length, length))) * 1e8])
    with jax.enable_x64(True):
        text = jax.jit(lambda a: (*lax.linalg.schur(a), *lax.linalg.eig(a, compute_left_eigenvectors=False))).lower(a).as_text()
    outputs = knapper.compile(text.encode(), cache=False)(a)
    t, z, w = (np.asarray(outputs[i]) for i in range(3))
    scale = np.abs(a).max((1, 2), keepdims=True) * length
    np.testing.assert_allclose(z @ t @ z.mT / scale, a / scale, atol=1e-14)
    np.testing.assert_allclose(z @ z.mT, np.broadcast_to(np.eye(length), a.shape), atol=1e-13)
    below = np.diagonal(t, -1, 1, 2)
    assert not np.tril(t, -2).any() and not (below[:, 1:] * below[:, :-1]).any()
    w = w[..., 0] + 1j * w[..., 1]
    vectors = np.asarray(outputs[3])[..., 0] + 1j * np.asarray(outputs[3])[..., 1]
    np.testing.assert_allclose((a @ vectors - vectors * w[:, None]) / scale, 0, atol=1e-13)
    np.testing.assert_allclose(np.sort_complex(w[0]), np.sort_complex(np.linalg.eigvals(a[0])), rtol=1e-10)


def test_what_is_refused():
    text = jax.jit(jnp.linalg.svd).lower(TALL.astype(np.float32)).as_text()
    with pytest.raises(knapper.UserError, match=r"custom_call.*: all singular vectors of matrices that are not square.*full_matrices=False"):
        knapper.compile(text.encode(), cache=False)
