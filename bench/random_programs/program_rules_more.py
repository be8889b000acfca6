"""Lines of random programs: indices, matmuls, convolutions, control flow, matrices, random numbers."""

from __future__ import annotations

from drawn.line_draw import Skip
from random_programs.program_data import Draw
from random_programs.program_rules import Rule


def gathered(d: Draw) -> str:
    x = d.ranked(1)
    axis = d.axis(x, filled=True)
    n = d.shape(x)[axis]
    rank = len(d.shape(x))
    at = d.one([d.int() if any(v.dtype.name in ("int32", "int8") for v in d.values.values()) else "jnp.arange(2)",
        f"jnp.array({[d.random.randint(-n, n - 1) for _ in range(d.one([1, 2, 5]))]})"])
    small = [max(1, s - d.one([0, 0, 1])) for s in d.shape(x)]
    known = any(v.dtype.name == "int32" and v.shape and v.size for v in d.values.values())
    # Of one type with 64 bits too, which numbers alone would be of.
    starts = ", ".join(d.one(["jnp.int32(0)", "jnp.int32(1)", "jnp.int32(-1)", "jnp.int32(5)", f"{d.int()}.ravel()[0].astype(jnp.int32)" if known else "jnp.int32(0)"]) for _ in small)
    return d.one([
        f"jnp.take({x}, {at}, axis={axis})", f"jnp.take({x}, {at}, axis={axis}, mode='clip')", f"{x}[{at}]", f"jnp.take({x}, {at}, axis={axis}, mode='wrap')",
        f"lax.dynamic_slice({x}, [{starts}], {small})", f"jnp.take_along_axis({x}, jnp.argsort({x}, {axis}), {axis})" if d.kind(x) != "c" else f"{x} * 2",
        f"lax.dynamic_index_in_dim({x}, {d.one([0, 1, -1])}, {axis % rank})", f"{x}.at[{at}].get(mode='fill', fill_value=0)",
        f"jnp.compress(jnp.arange({n}) % 2 == 0, {x}, axis={axis})",
    ])  # fmt: skip


def scattered(d: Draw) -> str:
    x = d.arithmetic(1)
    n = d.shape(x)[0]
    if n == 0:
        raise Skip
    at = d.one([f"jnp.array({[d.random.randint(-n, n) for _ in range(d.one([1, 2, 4]))]})", str(d.random.randint(0, n - 1)), "1:", "::2", "(jnp.arange(3) * 5 % 4)"])
    how = d.one(["set", "add", "multiply", "max", "min", "subtract"] if d.kind(x) != "c" else ["set", "add"])
    mode = d.one(["", "", ", mode='drop'", ", mode='clip'"])
    value = d.one([d.whole(), f"{x}[0]", "2"])
    rest = ", ".join(str(s) for s in d.shape(x))
    number = f"{x}.ravel()"
    ids = d.one([f"jnp.arange({n}) % 3", f"jnp.arange({n}) * 7 % 5"])
    choices = [f"{x}.at[{at}].{how}({value}{mode})"] * 4 + [
        f"jax.ops.segment_sum({x}, {ids}, num_segments={d.one([3, 4])})",
        f"lax.dynamic_update_slice({x}, {x}[:1] * 2, [{', '.join(d.one(['0', '1', '9']) for _ in d.shape(x))}])",
        f"jnp.zeros(({rest},), {x}.dtype).at[jnp.arange({n}) % {n}].add({x})", f"jnp.zeros(7, {x}.dtype).at[jnp.arange({number}.size) * 3 % 8].add({number})",
    ]
    if d.kind(x) != "c":
        choices += [f"jax.ops.segment_max({x}, {ids}, num_segments={d.one([3, 4])})"]
    if d.kind(x) == "i":
        choices += [f"jnp.bincount(jnp.abs({x}.ravel()) % 6, length=6)"]
    if d.kind(x) == "f":
        choices += [f"jnp.histogram(jnp.nan_to_num({x}), bins=4, range=(-2.0, 2.0))[0]"]
    return d.one(choices)


def multiplied(d: Draw) -> str:
    x = d.arithmetic(1)
    k = d.shape(x)[-1]
    y = d.any(lambda t: t.shape and t.shape[-1] == k and t.dtype != bool and len(t.shape) < 4)
    precise = d.one(["", ", precision='highest'", ", preferred_element_type=jnp.float32" if d.kind(x) == "f" and d.dtype(x) != "float64" and d.dtype(y) != "float64" and d.kind(y) == "f" else ""])
    rank, other = len(d.shape(x)), len(d.shape(y))
    choices = [f"jnp.inner({x}, {y})", f"jnp.tensordot({x}, {y}, (({rank - 1},), ({other - 1},)){precise})", f"jnp.outer({x}, {y}[..., :2])"]
    if other >= 2:
        choices += [f"jnp.matmul({x}, jnp.swapaxes({y}, -1, -2){precise})"] * 3
    if rank >= 2:
        choices += [
            f"jnp.einsum('...ij,...ik->...jk', {x}, {x}{precise})", f"jnp.einsum('...ij->...i', {x})", f"jnp.matmul({x}, jnp.swapaxes({x}, -1, -2))",
            f"jnp.einsum('...ij,...ij->...i', {x}, {x})",
            f"lax.dot_general({x}, {x}, ((({rank - 1},), ({rank - 1},)), ((0,), (0,))))", f"jnp.kron({x}[..., :2], {x}[..., :2])",
        ]  # fmt: skip
    if rank == other == 1:
        choices += [f"jnp.dot({x}, {y})", f"jnp.convolve({x}, {y}[:3], mode='{d.one(['same', 'full', 'valid'])}')" if k else f"{x} * 2", f"jnp.vdot({x}, {y})"]
    return d.one(choices)


def convolved(d: Draw) -> str:
    x = d.any(lambda t: len(t.shape) in (2, 3, 4) and t.size and t.dtype.name in ("float32", "bfloat16", "float16", "float64"))
    shape = d.shape(x)
    if len(shape) == 2:
        x, shape = f"{x}[None]", (1, *shape)
    channels, spatial = shape[1], len(shape) - 2
    groups = d.one([1, 1, channels])
    wide = d.one([1, 2, 3])
    out = groups * d.one([1, 2])
    window = [d.one([1, 2, 3]) for _ in range(spatial)]
    kernel = f"(jnp.arange({out * (channels // groups) * _product(window)}).reshape({(out, channels // groups, *window)}) % 5 - 2).astype({x}.dtype)"
    padding = d.one(["'SAME'", "'VALID'", str([(1, 0)] * spatial), str([(2, 1)] * spatial)])
    strides = [d.one([1, 1, 2]) for _ in range(spatial)]
    more = d.one(["", f", rhs_dilation={[2] * spatial}", f", lhs_dilation={[2] * spatial}"]) if not padding.startswith("'") else ""
    # JAX's CPU multiplies every channel by every filter, zeros in between: an infinite one is a NaN of all groups.
    finite = x if groups == 1 else f"jnp.where(jnp.isfinite({x}), {x}, 1)"
    pool = (1, 1, *window)
    strided = (1, 1, *strides)
    name = d.one(["'SAME'", "'VALID'"])
    return d.one([
        f"lax.conv_general_dilated({finite}, {kernel}, {strides}, {padding}{more}, feature_group_count={groups})",
        f"lax.conv_general_dilated({finite}, {kernel}, {strides}, {padding}{more}, feature_group_count={groups})",
        f"lax.reduce_window({x}, jnp.array(-jnp.inf, {x}.dtype), lax.max, {pool}, {strided}, {name})",
        f"lax.reduce_window({x}, jnp.array(0, {x}.dtype), lax.add, {pool}, {strided}, {name})",
        f"lax.conv_transpose({x}, jnp.swapaxes({kernel}, 0, 1), {strides}, 'SAME', dimension_numbers={_numbers(spatial)})" if groups == 1 else f"{x} * {wide}",
        f"jax.image.resize({x}, {tuple([*shape[:2], *[n + wide for n in shape[2:]]])}, '{d.one(['nearest', 'linear', 'cubic'])}')",
    ])  # fmt: skip


def _product(numbers: list[int]) -> int:
    made = 1
    for n in numbers:
        made *= n
    return made


def _numbers(spatial: int) -> tuple[str, str, str]:
    letters = "HW"[:spatial]
    return ("NC" + letters, "OI" + letters, "NC" + letters)


def attended(d: Draw) -> str:
    x = d.any(lambda t: len(t.shape) >= 2 and t.size and t.dtype.name in ("float32", "bfloat16", "float16"))
    x4 = f"jnp.broadcast_to({x}.reshape(1, -1, 1, {d.shape(x)[-1]}), (1, {_product(list(d.shape(x))) // d.shape(x)[-1]}, 2, {d.shape(x)[-1]}))"
    return d.one([
        f"jax.nn.dot_product_attention({x4}, {x4} * 0.5, {x4}{d.one(['', ', is_causal=True', ', scale=0.3'])})",
        f"jax.nn.softmax(jnp.matmul({x}, jnp.swapaxes({x}, -1, -2)) * 0.2, -1)",
        f"jax.nn.softmax({x}, where={x} > -1, initial=0.0)", f"jax.nn.glu({x}, {d.axis(x)})", f"jax.nn.logmeanexp({x}, -1)",
    ])  # fmt: skip


def looped(d: Draw) -> str:
    x = d.arithmetic(1)
    n = d.one([1, 2, 3, 5, 8])
    real = d.kind(x) == "f"
    dtype = f"{x}.dtype"
    scale = "jnp.array(0.5, " + dtype + ")" if real else "jnp.array(1, " + dtype + ")"
    choices = [
        f"lax.scan(lambda c, a: (c + a * {scale}, c * a), jnp.zeros({x}.shape[1:], {dtype}), {x}{d.one(['', ', reverse=True', ', unroll=2'])})[{d.one([0, 1])}]",
        f"lax.fori_loop(0, {n}, lambda i, c: c * {scale} + i.astype({dtype}), {x})", f"lax.scan(lambda c, _: (c * {scale} + 1, None), {x}, None, length={n})[0]",
        f"lax.map(lambda a: a * a + 1, {x})", f"jax.vmap(lambda a: a.sum() * a)({x})",
        f"lax.fori_loop(0, {n}, lambda i, c: c.at[i % {max(1, d.shape(x)[0])}].add(c[0]), {x})" if d.shape(x)[0] else f"{x} * 2",
        f"lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), ({x}, {x}), axis=0)[1]" if d.shape(x)[0] else f"{x} * 2",
    ]
    if d.kind(x) != "c":
        choices += [
            f"lax.while_loop(lambda s: s[0] < {n}, lambda s: (s[0] + 1, s[1] * {scale} + 1), (0, {x}))[1]", f"lax.cond({x}.sum() > 0, lambda a: a * 2, lambda a: a - 1, {x})",
            f"lax.switch(jnp.int32({n}) % 3, [lambda a: a, lambda a: a + a, lambda a: -a], {x})",
            f"lax.while_loop(lambda a: (jnp.abs(a).max(initial=0) > 4).astype(bool), lambda a: a // 2, {x})" if d.kind(x) == "i" and not d.dtype(x).startswith("u") else f"lax.cond({x}.size > 2, lambda: {x}, lambda: {x} + 1)",
            f"jax.vmap(lambda a: lax.cond(a.sum() > 0, lambda b: b * 2, lambda b: b + 1, a))({x})",
            f"lax.scan(lambda c, a: (jnp.maximum(c, a), (c, a > c)), {x}[0], {x})[1][0]" if d.shape(x)[0] else f"{x} * 2",
        ]
    if real:
        choices += [
            f"lax.scan(lambda h, a: ((g := jnp.tanh(h * {scale} + a)), g), jnp.zeros({x}.shape[1:], {dtype}), {x})[1]",
            f"lax.custom_linear_solve(lambda a: a * 2, {x}, lambda _, b: b / 2)",
            f"lax.while_loop(lambda s: (s[0] < 9) & (jnp.abs(s[1]).max(initial=0) > 0.5), lambda s: (s[0] + 1, s[1] * {scale}), (0, {x}))[{d.one([0, 1])}]",
        ]  # fmt: skip
    return d.one(choices)


def solved(d: Draw) -> str:
    x = d.float(2)
    a = d.matrix(x)
    rank, m = len(d.shape(x)), d.shape(x)[-2]
    n = d.shape(x)[-1]
    x = f"jnp.clip(jnp.nan_to_num({x}), -9, 9)"  # which elements infinities spoil is the library's
    lower, transposed = d.one(["True", "False"]), d.one(["0", "1"])
    return d.one([
        f"jnp.linalg.cholesky({a})", f"jnp.linalg.solve({a}, jnp.swapaxes({x}, -1, -2))", f"jnp.linalg.inv({a})", f"jnp.linalg.det({a})", f"jnp.linalg.slogdet({a})[1]",
        f"jax.scipy.linalg.solve_triangular({a}, jnp.swapaxes({x}, -1, -2), lower={lower}, trans={transposed})", f"jnp.linalg.eigvalsh({a})",
        f"jnp.linalg.svd({x}, compute_uv=False)",
        f"jnp.abs(jnp.linalg.qr({x} + jnp.eye({m}, {n}))[1])", f"jnp.triu({x}, {d.one([-1, 0, 1])})", f"jnp.tril({x})", f"jnp.trace({x}, axis1=-2, axis2=-1)",
        f"jnp.diagonal({x}, axis1=-2, axis2=-1)",
        f"lax.linalg.triangular_solve({a}, {x}, lower={lower}, transpose_a={d.one(['True', 'False'])})", f"jax.scipy.linalg.expm({a} / {4 * n})",
        f"jnp.linalg.matrix_power({a} / {2 * n}, 3)",
        f"jax.scipy.linalg.cho_solve((jnp.linalg.cholesky({a}), True), jnp.swapaxes({x}, -1, -2))", f"jnp.linalg.pinv({a})", f"jnp.linalg.eigh({a})[0]",
        f"jnp.cov({x})" if rank == 2 else f"jnp.tril({x})",
    ])  # fmt: skip


def spectral(d: Draw) -> str:
    x = d.inexact(1)
    if d.dtype(x) not in ("float32", "float64", "complex64") or 0 in d.shape(x):
        raise Skip
    axis = d.axis(x)
    choices = [f"jnp.fft.fft({x}, axis={axis})", f"jnp.fft.ifft({x}, axis={axis})", f"jnp.fft.fftshift({x})", f"jnp.fft.irfft({x}, axis={axis})",
        f"jnp.fft.fft({x}, n={d.one([3, 4, 7])}, axis={axis})"]
    if d.kind(x) == "f":
        choices += [f"jnp.fft.rfft({x}, axis={axis})"] * 2
    if len(d.shape(x)) > 1:
        choices += [f"jnp.fft.fft2({x})", f"jnp.fft.fftn({x})"]
    return d.one(choices)


def randomly(d: Draw) -> str:
    x = d.ranked(0)
    shape = d.one([f"{x}.shape", "(3, 5)", "()", "(7,)", "(0, 2)"])
    key = f"jax.random.key({d.random.randrange(1000)})"
    if d.random.random() < 0.4:
        key = d.one([f"jax.random.fold_in({key}, {d.one([1, 7])})", f"jax.random.split({key}, 3)[1]"])
    drawn = d.one([
        f"jax.random.normal({key}, {shape}, jnp.dtype('float32'))", f"jax.random.uniform({key}, {shape}, jnp.dtype('float32'), -1.0, 2.0)",
        f"jax.random.bernoulli({key}, jnp.dtype('float32').type(0.3), {shape})",
        f"jax.random.randint({key}, {shape}, -3, 9, jnp.int32)", f"jax.random.bits({key}, {shape}, jnp.uint32)",
        f"jax.random.permutation({key}, jnp.arange({d.one([1, 5, 9])}, dtype=jnp.int32))", f"jax.random.categorical({key}, jnp.zeros((3, 4), jnp.dtype('float32')))",
        f"jax.random.exponential({key}, {shape}, jnp.dtype('float32'))", f"jax.random.gumbel({key}, {shape}, jnp.dtype('float32'))",
        f"jax.random.truncated_normal({key}, -1.0, 1.0, {shape}, jnp.dtype('float32'))",
        f"jax.random.gamma({key}, jnp.dtype('float32').type(1.5), {shape}, jnp.dtype('float32'))",
        f"jax.random.poisson({key}, jnp.dtype('float32').type(2.5), (4,), jnp.int32)", f"jax.random.normal({key}, {shape}, jnp.dtype('bfloat16'))",
        f"jax.random.laplace({key}, {shape}, jnp.dtype('float32'))", f"jax.random.choice({key}, jnp.arange(7, dtype=jnp.int32), (3,), replace=False)",
        f"jax.random.uniform({key}, {shape}, jnp.dtype('float16'))",
    ])  # fmt: skip
    return drawn


def complex_made(d: Draw) -> str:
    x = d.any(lambda t: t.dtype.name == "float32")
    return d.one([f"lax.complex({x}, {d.one([x, x + ' * 2'])})", f"{x} * (1 - 2j)", f"jnp.exp(1j * {x})", f"jnp.abs(lax.complex({x}, {x}))", f"({x} + 1j).conj()"])


RULES: list[tuple[Rule, float]] = [
    (gathered, 6), (scattered, 6), (multiplied, 8), (convolved, 4), (attended, 2), (looped, 7), (solved, 3), (spectral, 2), (randomly, 4), (complex_made, 1.5),
]  # fmt: skip
