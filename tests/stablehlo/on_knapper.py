"""What JAX computes on `knapper`, beside its CPU in the same process.

    python on_knapper.py            # exit status 1 and names where one differs
    KNAPPER_JAX_DEVICE=cuda python on_knapper.py

A process of its own: JAX chooses its platforms once.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "python")]

import knapper.jax  # noqa: E402

knapper.jax.install(threads=2, device=os.environ.get("KNAPPER_JAX_DEVICE", "cpu"))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

random = np.random.default_rng(0)
X = random.standard_normal((4, 5)).astype(np.float32)
SQUARE = X @ X.T + 4 * np.eye(4, dtype=np.float32)
LOWER = np.linalg.cholesky(SQUARE).astype(np.float32)
Z, W = ((random.standard_normal((4, 5)) + 1j * random.standard_normal((4, 5))).astype(np.complex64) for _ in range(2))
TABLE = (np.arange(10000) * (1 - 1j)).astype(np.complex64).reshape(100, 100)
INDICES = np.array([1, 3], np.int32)
EIGHTS = [(X * 3).astype(t) for t in (jnp.float8_e4m3, jnp.float8_e3m4, jnp.float8_e4m3b11fnuz, jnp.float8_e4m3fn, jnp.float8_e5m2)]


def key(seed):
    return jax.random.wrap_key_data(seed)


def largest(z):
    """The largest real part of each row with its place; the function calls one."""
    def either(x, y):
        first = jnp.where(x[0].real == y[0].real, x[1] < y[1], x[0].real > y[0].real)
        return lax.select(first, x[0], y[0]), lax.select(first, x[1], y[1])

    counts = lax.broadcasted_iota(np.int32, z.shape, 1)
    swapped = lax.reduce((counts, z), (np.int32(0), np.complex64(-100)), lambda x, y: either(x[::-1], y[::-1])[::-1], (1,))
    return lax.reduce((z, counts), (np.complex64(-100), np.int32(0)), either, (1,)), swapped


SEED = np.array([0, 7], np.uint32)

CASES = {
    "arithmetic": (lambda x: x * 2 + 1, X),
    "rank 0": (lambda x: x + 1, np.float32(2)),
    "no elements": (lambda x: (x * 2, x.sum(0)), np.zeros((0, 4), np.float32)),
    "no arguments": (lambda: jnp.arange(4.0),),
    "argument not read": (lambda x, y: x, X, X),
    "one array twice": (lambda x: (x, x + 1, x), X),
    "types": (lambda x: [x.astype(t) for t in (jnp.bfloat16, jnp.float16, jnp.int8, jnp.uint32, bool)], X),
    "floats of eight bits": (lambda x, *few: [x.astype(y.dtype) for y in few] + [y.astype(jnp.float32) * 2 for y in few] + list(few), X * 5, *EIGHTS),
    "transposed on the host": (lambda x: x + 1, X.T),
    "strided on the host": (lambda x: x + 1, X[::2, ::2]),
    "random": (lambda s: (jax.random.normal(key(s), (7, 5)), jax.random.permutation(key(s), 11)), SEED),
    "scan": (lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c.sum()), jnp.zeros(5), x), X),
    "gradient": (jax.grad(lambda x: (jnp.tanh(x @ x.T) ** 2).sum()), X),
    "cholesky": (jnp.linalg.cholesky, SQUARE),
    "cholesky of none": (jnp.linalg.cholesky, np.stack([SQUARE, -SQUARE])),
    "triangular solve": (lambda l, b: (
        jax.scipy.linalg.solve_triangular(l, b, lower=True), jax.scipy.linalg.solve_triangular(l, b, lower=True, trans=1),
        lax.linalg.triangular_solve(l, b.T, lower=True, unit_diagonal=True)), LOWER, X),
    "solve": (lambda a, b: (jnp.linalg.solve(a, b), jnp.linalg.inv(a), jnp.linalg.det(a)), SQUARE, X),
    "qr": (jnp.linalg.qr, X.T.copy()),
    "eigenvalues": (lambda a: (jnp.linalg.eigh(a)[0], jnp.linalg.eigvalsh(a.T, UPLO="U")), SQUARE),
    "eigenvalues of the upper triangle": (lambda a: lax.linalg.eigh(jnp.triu(a), lower=False, symmetrize_input=False)[1], SQUARE),
    "eigenvectors": (lambda a: (lambda w, v: (v * w) @ v.T)(*jnp.linalg.eigh(a)), SQUARE),
    "singular values": (lambda a: jnp.linalg.svd(a, compute_uv=False), X),
    "bits of other widths": (lambda x: (lax.bitcast_convert_type(x, jnp.uint8),
                                        lax.bitcast_convert_type(x.astype(jnp.int16).reshape(2, 5, 2), jnp.int32)), X),
    "running log of sums": (lambda x: (lax.cumlogsumexp(x, 1), lax.cumlogsumexp(x, 0, reverse=True)), X),
    "reduction of two": (lambda x, y: lax.reduce((x, y), (np.float32(0), np.float32(1)),
                         lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), (1,)), X, X + 1),
    "reduction of bits": (lambda i: (lax.reduce_xor(i, (0,)), lax.reduce_or(i, (1,))), (X * 9).astype(np.int32)),
    "windows of two": (lambda x: jax.jvp(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "SAME"), (x,), (x * 2,)), X),
    "scatter that subtracts": (lambda x, i: x.at[i].subtract(2.0), X, INDICES),
    "complex arithmetic": (lambda z, w: (z + w, z - w, z * w, z / w, -z, abs(z), jnp.conj(z), z.real, z.imag, z == w, z != z.T.T,
                                         jnp.angle(z), jnp.where(z.real > 0, z, w), 1 / (z * 1e-25), (z * 1e25) / (w * 1e25)), Z, W),
    "complex functions": (lambda z, w: (jnp.exp(z), jnp.log(z), jnp.sqrt(z), lax.rsqrt(z), jnp.sin(z), jnp.cos(z), jnp.tan(z), jnp.tanh(z),
                                        jnp.expm1(z * 1e-3), jnp.log1p(z * 1e-3), jnp.sign(z), z**w, z**2, lax.logistic(z)), Z, W),
    "complex edges": (lambda z: (jnp.sqrt(z), abs(z), z * 1j), np.array([0, -0.0 - 0j, -4, -4 - 0j, 3e38 + 3e38j, complex(np.inf, 1)], np.complex64)),
    "complex powers of zero": (lambda z: (jnp.power(0, z), jnp.power(jnp.complex64(-0.0), z.real), jnp.power(z * 0, z), jnp.power(z, 0)),
                               np.array([1 + 1j, -1 + 2j, 2, 0, -1, 3j, 0.5, 1e-3 + 0.1j, complex(0.0, -0.0), -2 - 1j], np.complex64)),
    "complex quotients of zero": (lambda z: (z / z[-4], z / z[-3], z[-4:, None] / z[-4:], jnp.reciprocal(z[-4:]), z / (z * 0 + complex(np.inf, -np.inf))),
                                  np.array([1, -2, 1j, 1 + 1j, -3 - 2j, complex(2, -0.0), 0, complex(-0.0, 0), complex(0, -0.0), complex(-0.0, -0.0)], np.complex64)),
    "complex tangents at infinity": (lambda z: (jnp.tanh(z), jnp.tan(z * 1j)), np.array([complex(a, b) for a in (np.inf, -np.inf, np.nan, 90, -1, 0) for b in (0, -0.0, 1, 2, np.inf)], np.complex64)),
    "complex movement": (lambda z: (z.T, z[1:, ::2], z.reshape(10, 2), jnp.concatenate([z, z * 2]), jnp.pad(z, 1), z[::-1], z.sum(0), z.mean(),
                                    jnp.cumsum(z, 1), z[jnp.array([2, 0])], z.at[1].add(1j), lax.dynamic_slice(z, (1, 1), (2, 2))), Z),
    "complex products": (lambda z, w: (z @ w.T, z @ w.T.real, jnp.einsum("ij,ik->jk", z, w), z * jnp.arange(5)), Z, W),
    "complex reductions": (lambda z: (z.max(), z.round().min(1), z.prod(0), (z * 0.5).prod(), z[:0].prod(0), z.at[1, 2].set(np.nan).max(1),
        largest(z), lax.reduce(z, np.complex64(1 + 1j), lambda a, b: a * b + jnp.conj(a - a), (0,)),
        lax.reduce(z, np.complex64(0), lambda a, b: a + b + b - b, (0,)),
        lax.reduce((z, z.real), (np.complex64(0), np.float32(0)), lambda a, b: (a[0] + b[0], a[1] + b[1]), (0,))), Z),
    "complex reductions' gradients": (jax.grad(lambda z: jnp.real(z.max(1).sum() + z.prod(0).sum())), Z),
    "complex control": (lambda z: (lax.fori_loop(0, 3, lambda i, c: c * z[0, 0] + i, z), lax.cond(z[0, 0].real > 0, jnp.sin, jnp.conj, z),
                                   lax.scan(lambda c, r: (c + r, c.sum()), jnp.zeros(5, z.dtype), z)), Z),
    "complex running products": (lambda z: (jnp.cumprod(z, 1), lax.cumprod(z, 0, reverse=True), lax.reduce_window(z, np.complex64(1), lax.mul, (2, 3), (1, 2), "VALID"),
        lax.reduce_window(z, np.complex64(0), lambda a, b: a + b * 1, (2, 2), (1, 1), "SAME")), Z),
    "complex sorts": (lambda z: (jnp.sort(jnp.round(z), 1), jnp.argsort(jnp.round(z), 0), jnp.sort(z.at[0, 1].set(np.nan))), Z),
    "long sorts": (lambda f, i: (jnp.sort(f), jnp.argsort(f), lax.sort((f, i, lax.iota(np.int32, 20000)), num_keys=2)),
                   random.integers(-3, 3, 20000).astype(np.float32), random.integers(0, 3, 20000).astype(np.int32)),
    "complex gradient": (jax.grad(lambda x: (abs(jnp.fft.fft(x)) ** 2).sum()), X),
    "complex constants": (lambda z: z * np.arange(20).reshape(4, 5) * (1 + 2j) + np.full((4, 5), 1j, np.complex64) + TABLE[:4, :5], Z),
    "fourier": (lambda z: (jnp.fft.fft(z), jnp.fft.ifft(z, axis=0), jnp.fft.fft2(z), jnp.fft.fftn(z.reshape(2, 2, 5)), jnp.fft.ifft2(z)), Z),
    "fourier of reals": (lambda x, z: (jnp.fft.rfft(x), jnp.fft.rfft2(x), jnp.fft.irfft(z), jnp.fft.irfft(z, 9), jnp.fft.irfft2(z, (4, 7)),
                                       jnp.fft.irfftn(z.reshape(2, 2, 5))), X, Z),
    "long fourier": (lambda x: (jnp.fft.rfft(x), jnp.fft.fft(x[:1021]), jnp.fft.irfft(jnp.fft.rfft(x))), random.standard_normal(3000).astype(np.float32)),
    "eigenvalues of any": (lambda a: lax.sort(abs(jnp.linalg.eigvals(jnp.stack([a, 2 * a])))), SQUARE + np.triu(SQUARE)),
    "eigenvectors of any": (lambda a: (lambda w, v: (v * w) @ jnp.linalg.inv(v))(*jnp.linalg.eig(a)).real, SQUARE + np.triu(SQUARE)),
    "eigenvalues of NaN": (lambda a: jnp.linalg.eigvals(a * jnp.nan), SQUARE),
    "schur": (lambda a: (lambda t, z: z @ t @ z.T)(*jax.scipy.linalg.schur(a)), SQUARE + np.triu(SQUARE)),
    "hessenberg": (lambda a: (lambda h, q: (q @ h @ q.T, jnp.tril(h, -2)))(*jax.scipy.linalg.hessenberg(a, calc_q=True)), SQUARE),
    "pivoted qr": (lambda a: jax.scipy.linalg.qr(a, pivoting=True)[2], X),
    "complex matrices": (lambda z, w: (jnp.linalg.solve(z[:, :4], w), jnp.linalg.cholesky(z @ z.conj().T + jnp.eye(4)), jnp.linalg.inv(z[:, :4]),
                                       lax.linalg.triangular_solve(z[:, :4], w, left_side=True, lower=True, transpose_a=True, conjugate_a=True),
                                       lax.linalg.triangular_solve(z[:, :4], w.T, unit_diagonal=True), jnp.linalg.svd(z, compute_uv=False)), Z, W),
    "complex factorisations": (lambda z: ((lambda q, r: q @ r)(*jnp.linalg.qr(z)), jnp.linalg.eigvalsh(z @ z.conj().T),
                                          (lambda w, v: (v * w) @ v.conj().T)(*jnp.linalg.eigh(z @ z.conj().T))), Z),
    "callback": (lambda x: jax.pure_callback(lambda a: np.sin(np.asarray(a)), jax.ShapeDtypeStruct(x.shape, x.dtype), x) * 2, X),
    "callback of complex": (lambda z: jax.pure_callback(lambda a: np.conj(np.asarray(a)), jax.ShapeDtypeStruct(z.shape, z.dtype), z) + 1, Z),
    "callback of nothing": (lambda: jax.pure_callback(lambda: (np.int32(3), np.ones(2, bool)), (jax.ShapeDtypeStruct((), np.int32), jax.ShapeDtypeStruct((2,), bool))),),
    "callback a row": (lambda x: jax.vmap(lambda r: jax.pure_callback(lambda a: np.asarray(a).sum(), jax.ShapeDtypeStruct((), r.dtype), r, vmap_method="sequential"))(x), X),
    "scatter of a function": (lambda x, i: x.at[i].apply(lambda y: y * y + 1, unique_indices=True), X, INDICES),
}  # fmt: skip


def wrong(function, arguments):
    """What differs, or nothing."""
    outputs = []
    for name in ("cpu", "knapper"):
        with jax.default_device(jax.devices(name)[0]):
            outputs.append(jax.tree.leaves(jax.jit(function)(*arguments)))
    for theirs, ours in zip(*outputs, strict=True):
        if {d.platform for d in ours.devices()} != {"knapper"}:
            return f"computed on {ours.devices()}"
        theirs, ours = np.asarray(theirs), np.asarray(ours)
        if theirs.dtype != ours.dtype or theirs.shape != ours.shape:
            return f"{ours.dtype}{ours.shape} for {theirs.dtype}{theirs.shape}"
        if theirs.dtype.kind == "c":
            theirs, ours = (np.stack([each.real, each.imag]) for each in (theirs, ours))
        if theirs.dtype.kind in "iub":
            if not np.array_equal(theirs, ours):
                return f"{ours} for {theirs}"
        elif not np.allclose(theirs.astype(np.float64), ours.astype(np.float64), rtol=2e-4, atol=2e-5, equal_nan=True):
            return f"{ours} for {theirs}"
    return ""


def donation():
    device = jax.devices("knapper")[0]
    step = jax.jit(lambda x: x * 2 + 1, donate_argnums=0)
    x = jax.device_put(X, device) + 0
    before = x.unsafe_buffer_pointer()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = step(x)
    if not x.is_deleted() or y.unsafe_buffer_pointer() != before:
        return "the donated array's memory is not used again"
    try:
        step(x)
    except (RuntimeError, ValueError) as error:
        return "" if "deleted" in str(error) else f"another error: {error}"
    return "a deleted array was taken"


def refusal():
    try:
        jax.jit(lambda x: x + jnp.fft.fft(x).real)(np.ones(4099, np.float32))
    except Exception as error:
        return "" if "a transform of 4099" in str(error) and "on_knapper.py" in str(error) else f"another error: {error}"
    return "a transform of a long prime length was taken"


def effects():
    """Callbacks run as often as the program says, in its order, also without results."""
    seen = []

    def body(i, x):
        jax.debug.callback(lambda i: seen.append(int(i)), i)
        return x + 1

    def function(x):
        x = lax.fori_loop(0, 3, body, x)
        jax.debug.callback(lambda: seen.append("end"))
        return x, jax.experimental.io_callback(lambda a: np.float32(seen.append("io") or 7), jax.ShapeDtypeStruct((), np.float32), x)

    x, number = jax.jit(function)(X)
    jax.block_until_ready(x)
    return "" if sorted(map(str, seen)) == ["0", "1", "2", "end", "io"] and seen[:3] == [0, 1, 2] and float(number) == 7 else f"{seen}, {number}"


def ordered_effects():
    """In the order of the program and of the calls, through loops and branches."""
    seen = []

    def note(what, x):
        jax.experimental.io_callback(lambda a: seen.append((what, int(a))), None, x, ordered=True)

    def function(n):
        note("begin", n)

        def body(i, c):
            note("iteration", i)
            lax.cond(i > 1, lambda: jax.debug.callback(lambda i: seen.append(("late", int(i))), i, ordered=True), lambda: None)
            return c + i

        total = lax.fori_loop(0, n, body, 0)
        note("end", total)
        return total

    step = jax.jit(function)
    results = [step(np.int32(3)), step(np.int32(2))]
    jax.block_until_ready(results)
    jax.effects_barrier()
    first = [("begin", 3), ("iteration", 0), ("iteration", 1), ("iteration", 2), ("late", 2), ("end", 3)]
    wanted = first + [("begin", 2), ("iteration", 0), ("iteration", 1), ("end", 1)]
    return "" if seen == wanted and [int(r) for r in results] == [3, 1] else f"{seen}"


def costs():
    """flops and bytes of a run, loops of a known number of turns counted so often."""
    x = np.ones((64, 32), np.float32)
    lowered = jax.jit(lambda x: x @ x.T).lower(x)
    with jax.default_device(jax.devices("cpu")[0]):
        wanted = jax.jit(lambda x: x @ x.T).lower(x).cost_analysis()
    if wanted != lowered.cost_analysis() or wanted["flops"] < 2 * 64 * 64 * 32:
        return f"{lowered.cost_analysis()} for {wanted} before it is compiled"
    one = lowered.compile().cost_analysis()
    if not 2 * 64 * 64 * 32 <= one["flops"] <= 3 * 64 * 64 * 32 or one["bytes accessed"] < x.nbytes + 64 * 64 * 4:
        return f"{one}"
    y = np.ones((32, 32), np.float32)
    loop = jax.jit(lambda y: lax.fori_loop(0, 10, lambda _, c: c @ y, y)).lower(y).compile()
    ten = loop.cost_analysis()
    if loop.memory_analysis().argument_size_in_bytes != y.nbytes:
        return f"{loop.memory_analysis()}"
    if not 10 * 2 * 32**3 <= ten["flops"] <= 11 * 2 * 32**3:
        return f"{ten}"
    until = jax.jit(lambda y: lax.while_loop(lambda c: c[0, 0] < 100, lambda c: c @ y, y)).lower(y).compile().cost_analysis()
    if not 2 * 32**3 <= until["flops"] <= 3 * 32**3 or until["bytes accessed"] > 1 << 20:
        return f"{until} of one turn"
    stats = jax.jit(lambda x: x * 2 + 1, donate_argnums=0).lower(x).compile().memory_analysis()
    right = stats.alias_size_in_bytes == stats.argument_size_in_bytes == stats.output_size_in_bytes == x.nbytes
    return "" if right else f"{stats}"


def raising():
    """What a callback raises is the call's error, and the process goes on."""

    def bad(x):
        raise ValueError("a reason of the user's")

    try:
        jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(bad, jax.ShapeDtypeStruct((), np.float32), x))(X))
    except Exception as error:
        return "" if "ValueError: a reason of the user's" in str(error) else f"another error: {error}"
    return "nothing was raised"


def serialised():
    from jax.experimental import serialize_executable

    compiled = jax.jit(lambda x: jnp.tanh(x) @ x.T).lower(X).compile()
    again = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))
    if not np.array_equal(np.asarray(again(X)), np.asarray(compiled(X))):
        return "a loaded executable computes something else"
    stats = compiled.memory_analysis()
    return "" if stats.argument_size_in_bytes == X.nbytes else f"{stats}"


def options():
    """compiler_options are the compiler's own, and none is passed over."""
    with tempfile.TemporaryDirectory() as folder:
        lowered = jax.jit(lambda x: x + 3, compiler_options={"dump_dir": folder, "verify_each": True}).lower(X)
        if not np.array_equal(np.asarray(lowered.compile()(X)), X + 3) or len(list(Path(folder).iterdir())) < 5:
            return "dump_dir writes nothing"
    try:
        lowered.compile(compiler_options={"dump_dirs": folder})
    except Exception as error:
        return "" if "the nearest is 'dump_dir'" in str(error) else f"another error: {error}"
    return "an option that there is not was taken"


def memory():
    device = jax.devices("knapper")[0]
    before = device.memory_stats()["bytes_in_use"]
    x = jax.block_until_ready(jax.device_put(np.ones(1 << 20, np.float32), device) + 1)
    held = device.memory_stats()["bytes_in_use"] - before
    del x
    left = device.memory_stats()["bytes_in_use"] - before
    return "" if held >= 4 << 20 and left < 1 << 20 else f"{held} bytes held, {left} left"


def goes_on():
    """Calls return before long programs end; donation, reads and errors are as if they did not."""
    device = jax.devices("knapper")[0]
    long = jax.jit(lambda x: lax.fori_loop(0, 400, lambda i, y: jnp.tanh(y @ x) * 0.5, x), donate_argnums=0)
    x = np.eye(256, dtype=np.float32)
    jax.block_until_ready(long(jax.device_put(x, device) + 0))
    for _ in range(20):  # other work on the machine may hold the calls up until the runs have ended
        y = jax.block_until_ready(jax.device_put(x, device) + 0)
        before = y.unsafe_buffer_pointer()
        start = time.perf_counter()
        results = []
        for _ in range(3):
            given, y = y, long(y)
            results.append(given.is_deleted())
        asked = time.perf_counter() - start
        was_ready = y.is_ready()
        doubled = y * 2
        wanted = np.asarray(y)
        whole = time.perf_counter() - start
        if not was_ready and asked <= whole / 2:
            break
    if not all(results) or was_ready or asked > whole / 2:
        return f"three calls took {asked:.4f} s, with their end {whole:.4f} s; given away: {results}"
    if y.unsafe_buffer_pointer() != before:
        return "arrays given away while their run goes on are copied"
    if not np.array_equal(np.asarray(doubled), wanted * 2):
        return "what follows reads before it is written"
    again = jax.device_put(x, device) + 0
    for _ in range(3):
        again = long(again)
    shared = jax.device_put(again, device)
    for array in (again, shared):
        if not np.array_equal(np.asarray(array), wanted):
            return "another result"
    own = np.ones((256, 256), np.float32)
    result = long(jnp.asarray(own))
    del own
    if not np.isfinite(np.asarray(result)).all():
        return "the host's array is gone before it is read"
    many = [long(jax.device_put(x, device)) for _ in range(50)]  # more than may wait
    del many
    return ""


def fails_later():
    """The error of a run that goes on is that of whoever reads, and of what follows."""
    x = jax.device_put(np.eye(300, dtype=np.float32), jax.devices("knapper")[0])
    step = jax.jit(lambda x: lax.fori_loop(0, 200, lambda i, y: jnp.tanh(y @ x), x))
    jax.block_until_ready(step(x))
    numbers = jnp.ones(1 << 23)
    sorts = jax.jit(lambda x: lax.cummax(lax.sort(x[:, None] * x[None, :], dimension=1), axis=0)[-1])
    sorts = sorts.lower(numbers).compile()  # so that nothing is compiled while runs wait
    jax.block_until_ready(numbers + 1)
    busy = step(x)
    failed = sorts(numbers)  # 256 TB of intermediate results
    follows = failed + 1
    for read in (np.asarray, jax.block_until_ready, lambda y: y + 1, lambda y: y.unsafe_buffer_pointer()):
        for array in (follows, failed):
            try:
                read(array)
            except Exception as error:
                if "out of memory" not in str(error):
                    return f"another error: {error}"
            else:
                return "a result of a failed run was given"
    jax.block_until_ready(busy)
    return ""


def threads():
    """Several threads run programs on the same arrays."""
    import threading

    done = []
    x = jax.device_put(np.eye(300, dtype=np.float32), jax.devices("knapper")[0])
    step = jax.jit(lambda x: lax.fori_loop(0, 40, lambda i, y: jnp.tanh(y @ x), x))

    def work():
        done.append(float(jax.block_until_ready(step(step(x))).sum()))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return "" if len(set(done)) == 1 and len(done) == 4 else f"{done}"


def dlpack():
    """Arrays go to PyTorch and NumPy and come back without a copy."""
    import torch

    device = jax.devices("knapper")[0]
    where = "cpu" if device.addresses_host else "cuda"
    for dtype in (np.float32, np.int8, np.complex64, bool):
        x = jax.device_put((X * 3).astype(dtype), device) + (0 if dtype is not bool else False)
        tensor = torch.from_dlpack(x)
        at = x.unsafe_buffer_pointer()
        if tensor.data_ptr() != at or tensor.device.type != where or not np.array_equal(tensor.cpu().numpy(), np.asarray(x)):
            return f"{dtype.__name__} is copied or wrong on its way out"
        try:
            if np.from_dlpack(x).ctypes.data != at:
                return f"{dtype.__name__} is copied on its way to NumPy"
        except BufferError:
            if where == "cpu":
                raise
        wanted = np.asarray(x).copy()
        x.delete()
        del x
        others = [jax.block_until_ready(jax.device_put(np.zeros_like(wanted), device)) for _ in range(4)]
        if not np.array_equal(tensor.cpu().numpy(), wanted):
            return "memory that PyTorch has is gone"
    del others
    x = jax.device_put(X, device) + 0
    tensor = torch.from_dlpack(x)
    jax.block_until_ready(jax.jit(lambda x: x * 7, donate_argnums=0)(x))
    if not np.array_equal(tensor.cpu().numpy(), X):
        return "memory that PyTorch has is overwritten by a run"
    for _ in range(20):
        tensor = torch.arange(64.0, device=where).reshape(8, 8)
        if where == "cuda":  # what comes late in PyTorch's stream is waited for
            tensor = tensor + sum(torch.ones(4000, 4000, device=where) @ torch.zeros(4000, 8, device=where))[None, :]
        x = jax.dlpack.from_dlpack(tensor, device=device)
        if x.unsafe_buffer_pointer() != tensor.data_ptr() or x.platform() != "knapper":
            return "copied on its way in"
        if float(jax.jit(jnp.sum)(x)) != 2016:
            return "another sum"
    if where == "cuda":
        y = torch.from_dlpack(x.astype(jnp.bfloat16))
        return "" if y.dtype == torch.bfloat16 and float(y.float().sum()) == 2016 else f"{y}"
    try:
        torch.from_dlpack(x.astype(jnp.bfloat16))
    except BufferError as error:
        return "" if "bitcast_convert_type" in str(error) else f"another error: {error}"
    return "bf16 was handed on"


def trace():
    """jax.profiler shows the kernels, with their names and the lines of time."""
    with tempfile.TemporaryDirectory() as folder:
        function = jax.jit(lambda x: jnp.tanh(x @ x.T).sum(1))
        jax.block_until_ready(function(X))
        with jax.profiler.trace(folder):
            for _ in range(3):
                jax.block_until_ready(function(X))
        jax.block_until_ready(function(X * 2))  # recorded no longer
        planes = [p for file in Path(folder).rglob("*.xplane.pb") for p in jax.profiler.ProfileData.from_file(str(file)).planes]
    ours = [line for p in planes if "knapper" in p.name for line in p.lines]
    if len(ours) != 1:
        return f"{[p.name for p in planes]}"
    events = list(ours[0].events)
    if len(events) % 3 or not events or not any("tanh" in e.name for e in events):
        return f"{[e.name for e in events]}"
    begins = [e.start_ns for e in events]
    if begins != sorted(begins) or not all(0 <= e.duration_ns < 1e9 for e in events):
        return "events are not in order"
    return ""


def main() -> int:
    found = {name: wrong(function, arguments) for name, (function, *arguments) in CASES.items()}
    for check in (donation, refusal, effects, ordered_effects, costs, raising, serialised, options, memory, goes_on, fails_later, threads, dlpack, trace):
        found[check.__name__] = check()
    bad = {name: what for name, what in found.items() if what}
    for name, what in bad.items():
        print(f"{name}: {what}")
    print(f"{len(found) - len(bad)} of {len(found)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
