"""Lines of random programs: of elements, shapes, reductions."""

from __future__ import annotations

from collections.abc import Callable

from drawn.line_draw import Skip
from random_programs.program_data import FLOATS, INTS, Draw

Rule = Callable[[Draw], str]

# Functions of one float anywhere, of floats in (0, ...), of floats in (-1, 1).
ANYWHERE = """jnp.tanh jnp.sin jnp.cos jnp.arctan jnp.arcsinh jnp.abs jnp.negative jnp.square jnp.sign jnp.floor jnp.ceil jnp.round jnp.trunc jnp.cbrt
jnp.isfinite jnp.isnan jnp.isinf jnp.signbit jnp.nan_to_num jnp.sinc jnp.rint jnp.deg2rad jnp.exp2 jnp.expm1 jnp.sinh jnp.cosh lax.erf lax.erfc lax.logistic
jax.nn.relu jax.nn.gelu jax.nn.silu jax.nn.softplus jax.nn.sigmoid jax.nn.elu jax.nn.selu jax.nn.celu jax.nn.leaky_relu jax.nn.hard_tanh jax.nn.hard_swish
jax.nn.mish jax.nn.log_sigmoid jax.nn.relu6 jax.nn.hard_sigmoid jax.nn.squareplus jax.nn.soft_sign jax.scipy.special.ndtr jax.scipy.special.erf jax.scipy.stats.norm.pdf
jax.scipy.stats.norm.logpdf jax.scipy.special.expit jax.scipy.special.i0e jax.scipy.special.i1e jax.scipy.special.log_ndtr jnp.exp jnp.tan""".split()
POSITIVE = """jnp.log jnp.log2 jnp.log10 jnp.log1p jnp.sqrt lax.rsqrt jnp.reciprocal lax.lgamma lax.digamma jax.scipy.special.gammaln jax.scipy.special.entr
jnp.arccosh""".split()
NARROW = "jnp.arcsin jnp.arccos jnp.arctanh lax.erf_inv jnp.arctanh".split()
COMPLEX = """jnp.exp jnp.sin jnp.cos jnp.tanh jnp.abs jnp.angle jnp.conj jnp.real jnp.imag jnp.sqrt jnp.square jnp.negative jnp.log jnp.sinh jnp.cosh jnp.reciprocal
jnp.isfinite jnp.log1p jnp.expm1 jnp.sign""".split()
OF_INTS = "jnp.abs jnp.negative jnp.bitwise_not lax.population_count lax.clz jnp.square jnp.sign jnp.invert".split()
OF_PAIRS = "jnp.add jnp.subtract jnp.multiply jnp.maximum jnp.minimum".split()
OF_FLOAT_PAIRS = "jnp.arctan2 jnp.hypot jnp.logaddexp jnp.logaddexp2 jnp.fmax jnp.fmin jnp.copysign jnp.heaviside jnp.nextafter jnp.float_power jax.scipy.special.xlogy".split()
OF_INT_PAIRS = "jnp.floor_divide jnp.remainder jnp.bitwise_and jnp.bitwise_or jnp.bitwise_xor jnp.fmod jnp.gcd jnp.left_shift jnp.right_shift lax.div lax.rem".split()
COMPARISONS = "jnp.less jnp.less_equal jnp.greater jnp.greater_equal jnp.equal jnp.not_equal jnp.isclose".split()


def unary(d: Draw) -> str:
    x = d.any()
    kind = d.kind(x)
    if kind == "b":
        return f"jnp.logical_not({x})"
    if kind == "i":
        return f"{d.one(OF_INTS)}({x})"
    if kind == "c":
        return f"{d.one(COMPLEX)}({x})"
    domain = d.one([0, 1, 2], [6, 2, 1])
    if domain == 0:
        return f"{d.one(ANYWHERE)}({x})"
    if domain == 1:
        name = d.one(POSITIVE)
        return f"{name}({d.one([x, f'jnp.abs({x})', f'jnp.abs({x}) + 1'], [1, 2, 3])})"
    return f"{d.one(NARROW)}({d.one([x, f'jnp.tanh({x})', f'jnp.clip({x}, -0.9, 0.9)'])})"


def binary(d: Draw) -> str:
    x = d.arithmetic()
    y = d.like(x, "fic")
    if d.random.random() < 0.3:
        y = d.whole() if d.kind(x) == "i" else d.scalar()
    if d.random.random() < 0.5:
        x, y = y, x
    names = [v for v in (x, y) if v in d.values]
    kinds = {d.kind(v) for v in names}
    if kinds == {"f"} and d.random.random() < 0.4:
        return f"{d.one(OF_FLOAT_PAIRS + ['jnp.divide', 'jnp.power', 'jnp.remainder', 'jnp.floor_divide', 'jnp.fmod'])}({x}, {y})"
    if kinds == {"i"} and d.random.random() < 0.5:
        name = d.one(OF_INT_PAIRS)
        if name.startswith("lax."):  # these take no numbers of another type
            x, y = (v if v in d.values else f"jnp.full_like({names[0]}, {v})" for v in (x, y))
        return f"{name}({x}, {y})"
    if "c" in kinds:
        return f"{d.one(OF_PAIRS[:3] + ['jnp.divide', 'jnp.power'], [3, 3, 3, 2, 1])}({x}, {y})"
    return f"{d.one(OF_PAIRS + ['jnp.divide'])}({x}, {y})"


def compared(d: Draw) -> str:
    x = d.number()
    return f"{d.one(COMPARISONS)}({x}, {d.one([d.like(x), d.whole()])})"


def logical(d: Draw) -> str:
    x = d.bool()
    return f"{d.one(['jnp.logical_and', 'jnp.logical_or', 'jnp.logical_xor', 'jnp.add', 'jnp.multiply', 'jnp.maximum'])}({x}, {d.like(x, 'b')})"


def chosen(d: Draw) -> str:
    x = d.arithmetic()
    y = d.one([d.like(x, "fi"), d.whole()])
    condition = d.one([f"{d.like(x, 'b')}" if any(v.dtype == bool for v in d.values.values()) else f"{x} != 0", f"{x} != 1"])
    return d.one([f"jnp.where({condition}, {x}, {y})", f"jnp.select([{condition}, {x} == 0], [{x}, {x} * 2], 1)"])


def clipped(d: Draw) -> str:
    x = d.number()
    return f"jnp.clip({x}, {d.one(['-1', '0', '-2'])}, {d.one(['1', '2', '3'])})" if d.random.random() < 0.7 else f"lax.clamp({x}.min(), {x}, {x}.max())"


def converted(d: Draw) -> str:
    x = d.any()
    floats = [*FLOATS[:3], *(["float64"] if d.x64 else [])]
    if d.kind(x) == "c":
        return f"{x}.{d.one(['real', 'imag'])}"
    if d.kind(x) == "f" and d.random.random() < 0.15:
        return f"({x} + 1j * {d.one([x, d.like(x, 'f')])}).astype(jnp.complex64)"
    to = d.one([*floats, *INTS[: 6 if d.x64 else 5], "bool_"], [4] * len(floats) + [1] * (6 if d.x64 else 5) + [1])
    if d.kind(x) == "f" and to in INTS:  # what they hold; of the rest XLA says nothing
        low = 0 if to.startswith("u") else -100
        return f"jnp.clip(jnp.nan_to_num({x}), {low}, 100).astype(jnp.{to})"
    return f"{x}.astype(jnp.{to})"


def powers(d: Draw) -> str:
    x = d.arithmetic()
    if d.kind(x) == "f" and d.random.random() < 0.3:
        return f"(jnp.abs({x}) + 0.5) ** {d.one([d.like(x, 'f'), '0.5', '-1.5', '1.7'])}"
    return f"{d.one(['lax.integer_pow', 'jnp.power'])}({x}, {d.one(['2', '3', '4', '5'] + (['-1', '-2'] if d.kind(x) != 'i' else []))})"


def bits(d: Draw) -> str:
    x = d.any(lambda t: t.dtype.name in ("int32", "uint32", "int16", "int8", "uint8"))
    other = {"int32": "uint32", "uint32": "int32", "int16": "uint16", "int8": "uint8", "uint8": "int8"}[d.dtype(x)]
    return d.one([
        f"lax.bitcast_convert_type({x}, jnp.{other})", f"lax.shift_right_logical({x}, jnp.ones_like({x}))", f"lax.shift_left({x}, jnp.full_like({x}, 3))",
        f"lax.shift_right_arithmetic({x}, jnp.ones_like({x}))",
        f"lax.bitcast_convert_type({x}, jnp.int8)" if d.dtype(x) == "int32" else f"{x} & 7",
    ])  # fmt: skip


def odds(d: Draw) -> str:
    x = d.float()
    y, z = d.like(x, "f"), d.like(x, "f")
    return d.one([
        f"jnp.modf({x})[{d.one([0, 1])}]", f"jnp.frexp({x})[{d.one([0, 1])}]", f"jnp.ldexp({x}, {d.one([-2, 1, 3])})", f"jnp.divmod({x}, {y})[{d.one([0, 1])}]",
        f"jax.scipy.special.betainc(jnp.abs({x}) + 0.5, jnp.abs({y}) + 0.5, jax.nn.sigmoid({z}))", f"jax.scipy.special.gammainc(jnp.abs({x}) + 0.5, jnp.abs({y}))",
        f"jnp.polyval(jnp.array([0.5, -1.0, 2.0], {x}.dtype), {x})", f"lax.reduce_precision({x}, 8, 5)", f"jnp.interp({x}, jnp.arange(4.0), jnp.array([1.0, 0, 2, 5]))",
        f"jnp.unwrap({x})" if d.shape(x) and d.shape(x)[-1] else f"{x} * 2", f"jax.scipy.special.logit(jax.nn.sigmoid({x}))", f"lax.stop_gradient({x})",
        f"jnp.where({x} > 0, {x}, jnp.nan)",
        f"jnp.piecewise({x}, [{x} < 0, {x} > 1], [-1, lambda a: a * a, 0.5])", f"jax.scipy.special.zeta(jnp.abs({x}) + 1.5, jnp.abs({y}) + 0.5)",
        f"jax.scipy.special.polygamma(1, jnp.abs({x}) + 0.5)",
        f"lax.rsqrt({x} * {x} + 1e-6)", f"{x} * {y} + {z}", f"jnp.log(jnp.exp({x}) + jnp.exp({y}))", f"jax.scipy.special.beta(jnp.abs({x}) + 0.5, jnp.abs({y}) + 0.5)",
        f"jax.scipy.stats.gamma.logpdf(jnp.abs({x}), jnp.abs({y}) + 0.5)", f"jax.scipy.stats.t.logpdf({x}, jnp.abs({y}) + 1)",
    ])  # fmt: skip


def reshaped(d: Draw) -> str:
    x = d.any()
    shape = d.shape(x)
    size = 1
    for n in shape:
        size *= n
    splits = [n for n in range(1, size + 1) if size % n == 0] if size else [0]
    first = d.one(splits)
    to = d.one([[first, -1], [-1], [1, *shape], [*shape, 1], [first, 1, -1], list(reversed(shape))])
    if size == 0:
        to = d.one([[1, *shape], [*shape, 1], list(reversed(shape)), [0, 3]])
    return f"{x}.reshape({tuple(to)})"


def moved_dims(d: Draw) -> str:
    x = d.ranked(1)
    rank = len(d.shape(x))
    order = list(range(rank))
    d.random.shuffle(order)
    return d.one([
        f"jnp.transpose({x}, {tuple(order)})", f"jnp.swapaxes({x}, {d.axis(x)}, {d.axis(x)})", f"jnp.moveaxis({x}, {d.axis(x)}, {d.axis(x)})", f"{x}.T",
        f"jnp.flip({x}, {d.axis(x)})", f"jnp.roll({x}, {d.one([1, -2, 3])}, {d.axis(x)})", f"jnp.expand_dims({x}, {d.axis(x)})", f"jnp.squeeze({x})", f"jnp.ravel({x})",
        f"jnp.repeat({x}, {d.one([2, 3])}, axis={d.axis(x)})", f"jnp.tile({x}, {d.one([2, (2, 1), (1, 3)])})", f"jnp.broadcast_to({x}, ({d.one([1, 2, 3])}, *{x}.shape))",
        f"jnp.rot90({x})" if rank > 1 else f"{x}[::-1]", f"lax.rev({x}, ({d.random.randrange(rank)},))",
    ])  # fmt: skip


def padded(d: Draw) -> str:
    x = d.ranked(1)
    rank = len(d.shape(x))
    if d.random.random() < 0.5:
        mode = d.one(["constant", "edge", "reflect", "symmetric", "wrap"])
        return f"jnp.pad({x}, {d.one([1, (1, 2), (0, 1), 2])}, mode='{mode}')"
    edges = [(d.one([0, 1, 2, -1]), d.one([0, 1, 3, -1]), d.one([0, 0, 1, 2])) for _ in range(rank)]
    return f"lax.pad({x}, jnp.zeros((), {x}.dtype), {edges})"


def sliced(d: Draw) -> str:
    x = d.ranked(1)
    parts = []
    for n in d.shape(x):
        low = d.random.randint(0, max(0, n - 1))
        parts.append(d.one([":", f"{low}:", f":{n - low}", "::2", "::-1",
            f"{low}:{low + 2}", "1:-1", "None, :"] + ([str(low), str(low - n)] if n else []), [4, 2, 2, 1, 1, 2, 1, 1] + [1, 1] * bool(n)))
    return f"{x}[{', '.join(parts)}]"


def joined(d: Draw) -> str:
    x = d.ranked(1)
    axis = d.axis(x)
    shape = d.shape(x)
    at = axis % len(shape)
    others = d.any(lambda t: len(t.shape) == len(shape) and all(a == b or i == at for i, (a, b) in enumerate(zip(t.shape, shape))))
    return d.one([
        f"jnp.concatenate([{x}, {others}], {axis})", f"jnp.stack([{x}, {x}], {axis})", f"jnp.concatenate([{others}, {x}, {x}], {axis})",
        f"jnp.split({x}, {[1]}, {axis})[{d.one([0, 1])}]", f"jnp.array_split({x}, 2, {axis})[0]", f"jnp.append({x}, {others}, {axis})",
    ])  # fmt: skip


def reduced(d: Draw) -> str:
    x = d.any()
    kind = d.kind(x)
    names = {"b": ["any", "all", "sum"], "i": ["sum", "prod", "max", "min", "mean", "any"], "f": ["sum", "mean", "max", "min", "prod", "var", "std", "nansum", "ptp"], "c": ["sum", "mean", "prod", "var"]}[kind]
    rank = len(d.shape(x))
    axes = d.one(["None"] + ([str(d.axis(x))] * 3 if rank else []) + ([str((0, rank - 1))] if rank > 1 else []))
    more = d.one(["", ", keepdims=True"])
    if kind == "f" and d.random.random() < 0.25:
        return d.one([f"jax.nn.logsumexp({x}, axis={axes}{more})", f"jnp.linalg.norm({x}, axis={axes if not axes.startswith('(') else 'None'}{more})",
            f"jnp.nanmax({x}, axis={axes}{more})", f"jnp.median({x}, axis={axes}{more})", f"jnp.average({x}, axis={axes})", f"jnp.count_nonzero({x}, axis={axes}{more})",
        f"jnp.quantile({x}, 0.3, axis={axes})"])
    return f"jnp.{d.one(names)}({x}, axis={axes}{more})"


def along(d: Draw) -> str:
    """The shape stays: norms and running reductions."""
    x = d.number(1)
    axis = d.axis(x)
    if d.kind(x) == "i" or d.random.random() < 0.5:
        return d.one([f"jnp.cumsum({x}, {axis})", f"jnp.cumprod({x}, {axis})", f"lax.cummax({x}, {axis % len(d.shape(x))})",
            f"lax.cummin({x}, {axis % len(d.shape(x))}, reverse=True)", f"jnp.diff({x}, axis={axis})", f"lax.cumsum({x}, {axis % len(d.shape(x))}, reverse=True)",
        f"jnp.cumsum({x})"])
    return d.one([
        f"jax.nn.softmax({x}, {axis})", f"jax.nn.log_softmax({x}, {axis})", f"jax.nn.standardize({x}, {axis})", f"lax.cumlogsumexp({x}, {axis % len(d.shape(x))})",
        f"({x} - {x}.mean({axis}, keepdims=True)) * lax.rsqrt({x}.var({axis}, keepdims=True) + 1e-5)", f"{x} * lax.rsqrt(jnp.mean({x} * {x}, {axis}, keepdims=True) + 1e-6)",
        f"{x} / (jnp.linalg.norm({x}, axis={axis}, keepdims=True) + 1)", f"jnp.gradient({x}, axis={axis})",
        f"lax.associative_scan(jnp.{d.one(['add', 'maximum', 'multiply'])}, {x}, axis={axis})",
    ])  # fmt: skip


def ordered(d: Draw) -> str:
    x = d.number(1)
    axis = d.axis(x, filled=True)
    n = d.shape(x)[-1]
    # Where NaN goes hangs on its sign, which that of an invalid operation has from the code.
    number = f"jnp.nan_to_num({x})" if d.kind(x) == "f" else x
    return d.one([
        f"jnp.sort({x}, {axis})", f"jnp.sort({x}, {axis}, descending=True)", f"jnp.argsort({x}, {axis})", f"jnp.argmax({x}, {axis})", f"jnp.argmin({x}, {axis})",
        f"jnp.argsort({x}, {axis}, descending=True)",
        f"lax.top_k({number}, {min(n, d.one([1, 2, 3]))})[{d.one([0, 1])}]" if n else f"{x} * 2", f"jnp.searchsorted(jnp.sort({x}.ravel()), {x})",
        f"lax.sort(({x}, {x} * 2), dimension={axis % len(d.shape(x))}, num_keys=1)[1]",
        f"jnp.partition({number}, 0, {axis})", f"jnp.digitize({x}, jnp.array([-1, 0, 1, 2], {x}.dtype))",
        f"jnp.nanargmax(jnp.nan_to_num({x}), {axis})" if d.kind(x) == "f" else f"{x} + 1",
    ])  # fmt: skip


def made(d: Draw) -> str:
    """From nothing, or from a shape."""
    x = d.any()
    dtype = d.one(["float32", "int32", "bfloat16"])
    return d.one([
        f"jnp.arange({d.one([1, 3, 7])}, dtype=jnp.{dtype})", f"jnp.ones_like({x})", f"jnp.full({x}.shape, 0.5, jnp.float32)",
        f"jnp.eye({d.one([1, 2, 3, 5])}, {d.one([2, 3, 4])}, dtype=jnp.{dtype})",
        f"lax.broadcasted_iota(jnp.int32, {x}.shape, {d.random.randrange(len(d.shape(x)))})" if d.shape(x) else "jnp.linspace(-1, 1, 7)",
        f"jax.nn.one_hot({d.int()}, {d.one([1, 3, 5])})",
        f"jnp.tri({d.one([2, 3])}, {d.one([3, 4])}, dtype=jnp.{dtype})",
    ])  # fmt: skip


RULES: list[tuple[Rule, float]] = [
    (unary, 14), (binary, 14), (compared, 3), (logical, 2), (chosen, 4), (clipped, 2), (converted, 5), (powers, 2), (bits, 1), (odds, 4), (reshaped, 4),
    (moved_dims, 5), (padded, 3), (sliced, 5), (joined, 4), (reduced, 9), (along, 6), (ordered, 5), (made, 2),
]  # fmt: skip
__all__ = ["RULES", "Rule", "Skip"]
