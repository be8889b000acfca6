"""What operators do to complex numbers in two planes, where torch's `ComplexTensor`
has no definition, or one that overflows. `library` is versions.ComplexTensors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}

# Operators that do to each plane what they do to a real tensor, and torch's
# definition leaves out.
_EACH = """
alias clone detach diag_embed diagonal_copy expand_copy flip index_copy index_put
lift_fresh_copy permute_copy repeat roll scatter select_backward slice_backward split
split_with_sizes split_with_sizes_copy squeeze_copy t_copy take transpose_copy tril triu
unbind unbind_copy unfold unfold_backward unfold_copy unsqueeze_copy view_copy
_unsafe_index _unsafe_index_put _unsafe_view
""".split()
# Those that read no elements.
_MADE = """
arange empty eye full linspace new_empty new_full new_ones new_zeros ones scalar_tensor
zeros
""".split()


def _name(overload: Any) -> str:
    return str(overload._schema.name).removeprefix("aten::")


def is_made(overload: Any) -> bool:
    """Whether it is one of those that read no elements."""
    return _name(overload) in _MADE


def function_of(overload: Any, library: Any) -> Callable[..., Any] | None:
    """The operator on tensors of two planes; None: ask torch's definitions."""
    name = _name(overload)
    if name in _OWN:
        return functools.partial(_OWN[name], library)
    if name in _EACH:
        return functools.partial(_each, overload, library)
    return functools.partial(_make, overload, library) if name in _MADE else None


def _joined(library: Any, real: torch.Tensor, imag: torch.Tensor) -> Any:
    """Of parts that broadcast: planes have one size."""
    return library.joined(*torch.broadcast_tensors(real, imag))


def _polar(library: Any, abs: torch.Tensor, angle: torch.Tensor) -> Any:
    return library.joined(abs * torch.cos(angle), abs * torch.sin(angle))


def _divide(library: Any, x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    """Without overflow in between: Smith, Communications of the ACM 5 (8), 1962."""
    if rounding_mode is not None:
        raise NotImplementedError("complex numbers have no order")
    a, b = library.parts(x) if library.is_complex(x) else (x, 0)
    if not library.is_complex(y):
        return library.joined(a / y, b / y)
    c, d = library.parts(y)
    by_real = c.abs() >= d.abs()
    large, small = torch.where(by_real, c, d), torch.where(by_real, d, c)
    # Both are zero: as a / c and b / d.
    ratio = torch.where(large == 0, 0, small / large)
    scale = 1 / (large + small * ratio)
    re = torch.where(by_real, a + b * ratio, a * ratio + b) * scale
    im = torch.where(by_real, b - a * ratio, b * ratio - a) * scale
    return library.joined(re, im)


def _reciprocal(library: Any, x: Any) -> Any:
    return _divide(library, 1, x)


def _sqrt(library: Any, x: Any) -> Any:
    """The larger part by the modulus, the other by a quotient: no part is a difference."""
    a, b = library.parts(x)
    larger = (torch.hypot(a, b) * 0.5 + a.abs() * 0.5).sqrt()
    other = torch.where(larger == 0, 0, b.abs() * 0.5 / larger)
    positive = a >= 0
    im = torch.copysign(torch.where(positive, other, larger), b)
    return library.joined(torch.where(positive, larger, other), im)


def _sigmoid(library: Any, x: Any) -> Any:
    return _reciprocal(library, torch.exp(-x) + 1)


def _scaled(x: Any, number: Any) -> Any:
    return x if isinstance(number, (int, float)) and number == 1 else x * number


def _lerp(library: Any, x: Any, y: Any, weight: Any) -> Any:
    """From the nearer end, as torch does: x at 0, y at 1."""
    difference = y - x
    near, far = x + difference * weight, y - difference * (1 - weight)
    if isinstance(weight, (int, float, complex)):
        return near if abs(weight) < 0.5 else far
    a, b = library.parts(weight) if library.is_complex(weight) else (weight, 0)
    small = a * a + b * b < 0.25
    return library.joined(*(torch.where(small, m, n) for m, n in zip(library.parts(near), library.parts(far))))


def _add_product(library: Any, x: Any, y: Any, z: Any, *, value: Any = 1) -> Any:
    return x + _scaled(y, value) * z


def _add_matrix_vector(library: Any, x: Any, matrix: Any, vector: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _sum(x, torch.mm(matrix, vector.unsqueeze(1)).squeeze(1), beta, alpha)


def _add_matrices(library: Any, x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _sum(x, torch.mm(a, b), beta, alpha)


def _sum(x: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """Of a beta of 0 x is not read: it may hold anything."""
    scaled = _scaled(product, alpha)
    return scaled if isinstance(beta, (int, float, complex)) and beta == 0 else _scaled(x, beta) + scaled


def _of_log(base: float) -> Callable[..., Any]:
    return lambda library, x: torch.log(x) * (1 / math.log(base))


def _variance_and_mean(
    library: Any, x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    dims = list(range(x.dim())) if dim is None or len(dim) == 0 else dim
    return torch.var(x, dims, correction=correction, keepdim=keepdim), x.mean(dims, keepdim=keepdim)


def _deviation_and_mean(library: Any, x: Any, dim: Any = None, **given: Any) -> Any:
    variance, mean = _variance_and_mean(library, x, dim, **given)
    return variance.sqrt(), mean


def _without_nan(library: Any, x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    return library.joined(*(torch.nan_to_num(part, nan, posinf, neginf) for part in library.parts(x)))


_OWN: dict[str, Callable[..., Any]] = {
    "addcmul": _add_product,
    "addmm": _add_matrices,
    "addmv": _add_matrix_vector,
    "complex": _joined,
    "div": _divide,
    "exp2": lambda library, x: torch.exp(x * math.log(2)),
    "lerp": _lerp,
    "log10": _of_log(10),
    "log2": _of_log(2),
    "nan_to_num": _without_nan,
    "polar": _polar,
    "reciprocal": _reciprocal,
    "sigmoid": _sigmoid,
    "silu": lambda library, x: x * _sigmoid(library, x),
    "sqrt": _sqrt,
    "std_mean": _deviation_and_mean,
    "true_divide": _divide,
    "var_mean": _variance_and_mean,
}


def _each(overload: Any, library: Any, *args: Any, **kwargs: Any) -> Any:
    if any(isinstance(a.type, torch.NumberType) for a in overload._schema.arguments):
        raise NotImplementedError("a number is the real plane's alone")

    def plane(which: int) -> Any:
        given = pytree.tree_map(
            lambda x: library.parts(x)[which] if library.is_complex(x) else x, (args, kwargs)
        )
        return overload(*given[0], **given[1])

    re, im = plane(0), plane(1)
    if isinstance(re, torch.Tensor):
        return library.joined(re, im)
    return [library.joined(*pair) for pair in zip(re, im, strict=True)]


def _make(overload: Any, library: Any, *args: Any, **kwargs: Any) -> Any:
    asked = kwargs.get("dtype")
    like = next((library.parts(x)[0].dtype for x in args if library.is_complex(x)), None)
    args = pytree.tree_map(lambda x: library.parts(x)[0], args)
    if asked is not None and asked not in REAL:
        return overload(*args, **kwargs)  # of real numbers
    kwargs["dtype"] = REAL[asked] if asked is not None else like or torch.get_default_dtype()
    numbers = {a.name for a in overload._schema.arguments if isinstance(a.type, torch.NumberType)}
    names = [a.name for a in overload._schema.arguments if not a.kwarg_only]
    given = {**dict(zip(names, args)), **kwargs}

    def plane(which: str) -> Any:
        return overload(**{
            name: getattr(complex(x), which) if name in numbers and x is not None else x
            for name, x in given.items()
        })  # fmt: skip

    if not any(isinstance(given.get(name), complex) for name in numbers):
        re = overload(**given)
        return library.joined(re, torch.zeros_like(re))
    return library.joined(plane("real"), plane("imag"))
