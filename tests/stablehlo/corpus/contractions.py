"""Contractions of tensors, Fourier transforms, matrices, random bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corpus.programs import (
    COMPLEX, INTEGERS, NUMBERS, Program, build, register, tame, tensor,
)  # fmt: skip

DOTS = (
    ("", (3, 4), (4, 5), (3, 5), "contracting_dims = [1] x [0]"), ("of columns", (4, 3), (5, 4), (3, 5), "contracting_dims = [0] x [1]"),
    ("batched", (2, 3, 4), (2, 4, 5), (2, 3, 5), "batching_dims = [0] x [0], contracting_dims = [2] x [1]"),
    ("batched last", (3, 4, 2), (4, 5, 2), (2, 3, 5), "batching_dims = [2] x [2], contracting_dims = [1] x [0]"),
    ("of two dims", (2, 3, 4), (4, 3, 5), (2, 5), "contracting_dims = [1, 2] x [1, 0]"), ("inner", (7,), (7,), (), "contracting_dims = [0] x [0]"),
    ("outer", (3,), (4,), (3, 4), "contracting_dims = [] x []"), ("of none", (3, 0), (0, 4), (3, 4), "contracting_dims = [1] x [0]"),
    ("by a vector", (3, 4), (4,), (3,), "contracting_dims = [1] x [0]"),
)  # fmt: skip
ABSOLUTE = {"bf16": 0.3, "f16": 0.03, "f32": 1e-5, "f64": 1e-12}


@register
def dots() -> Iterator[Program]:
    for element in ("i1", *NUMBERS, *COMPLEX):
        for kind, x, y, result, dims in DOTS:
            xt, yt, rt = tensor(x, element), tensor(y, element), tensor(result, element)
            yield build(
                f"dot_general {element}{kind and ' ' + kind}", "dot_general", element, [(tame(element, x), element), (tame(element, y, 1), element)],
                f"%r0 = stablehlo.dot_general %a0, %a1, {dims} : ({xt}, {yt}) -> {rt}", [rt],
                ulps=8 if element not in INTEGERS and element != "i1" else 0, absolute=ABSOLUTE.get(element, 0),
                # The interpreter ends the process at no elements.
                expected=[np.zeros(result, tame(element, ()).dtype)] if kind == "of none" else None,
            )  # fmt: skip
    for source, target in (
        ("bf16", "f32"), ("f16", "f32"), ("i8", "i32"), ("ui8", "ui32"), ("f32", "f64"), ("f8E4M3FN", "f32"), ("f8E5M2", "f32"), ("f8E4M3FN", "bf16"),
        ("i4", "i32"), ("i4", "i8"), ("i16", "i32"), ("f8E4M3FNUZ", "f32"), ("i8", "i8"), ("ui4", "i32"),
    ):  # fmt: skip
        kind, x, y, result, dims = DOTS[0]
        xt, yt, rt = tensor(x, source), tensor(y, source), tensor(result, target)
        yield build(
            f"dot_general {source} into {target}", "dot_general", source, [(tame(source, x), source), (tame(source, y, 1), source)],
            f"%r0 = stablehlo.dot_general %a0, %a1, {dims} : ({xt}, {yt}) -> {rt}", [rt], ulps=0 if target in INTEGERS else 8,
        )  # fmt: skip


@register
def fouriers() -> Iterator[Program]:
    """The interpreter knows none: NumPy's."""
    for real, element, tolerance in (("f32", "complex<f32>", 2e-4), ("f64", "complex<f64>", 1e-10)):
        z = tame(element, (2, 3, 8))
        zt = tensor(z.shape, element)
        for kind, axes in (("", (-1,)), ("of two dims", (-2, -1)), ("of three dims", (-3, -2, -1))):
            lengths = [z.shape[a] for a in axes]
            for op, function in (("FFT", np.fft.fftn), ("IFFT", np.fft.ifftn)):
                yield build(
                    f"fft {op} {element}{kind and ' ' + kind}", "fft", element, [(z, element)], f"%r0 = stablehlo.fft %a0, type = {op}, length = {lengths} : ({zt}) -> {zt}",
                    [zt], absolute=tolerance, expected=[function(z, axes=axes).astype(z.dtype)],
                )  # fmt: skip
            x = tame(real, (2, 3, 8))
            wanted = np.fft.rfftn(x, axes=axes).astype(z.dtype)
            xt, rt = tensor(x.shape, real), tensor(wanted.shape, element)
            yield build(
                f"fft RFFT {element}{kind and ' ' + kind}", "fft", real, [(x, real)], f"%r0 = stablehlo.fft %a0, type = RFFT, length = {lengths} : ({xt}) -> {rt}",
                [rt], absolute=tolerance, expected=[wanted],
            )  # fmt: skip
            yield build(
                f"fft IRFFT {element}{kind and ' ' + kind}", "fft", element, [(wanted, element)], f"%r0 = stablehlo.fft %a0, type = IRFFT, length = {lengths} : ({rt}) -> {xt}",
                [xt], absolute=tolerance, expected=[x],
            )  # fmt: skip


@register
def fouriers_of_nothing() -> Iterator[Program]:
    """Transforms of length 0, whose results have no element."""
    for real, element in (("f32", "complex<f32>"), ("f64", "complex<f64>")):
        for kind, given, have, wanted, result in (
            ("FFT", element, (2, 0), (2, 0), element), ("IFFT", element, (2, 0), (2, 0), element),
            ("RFFT", real, (2, 0), (2, 0), element), ("IRFFT", element, (2, 1), (2, 0), real),
        ):  # fmt: skip
            x, y = tame(given, have), np.zeros_like(tame(result, wanted))
            yield build(
                f"fft {kind} {given} of length 0", "fft", given, [(x, given)],
                f"%r0 = stablehlo.fft %a0, type = {kind}, length = [0] : ({tensor(have, given)}) -> {tensor(wanted, result)}", [tensor(wanted, result)], expected=[y],
            )  # fmt: skip


@register
def matrices() -> Iterator[Program]:
    for element in ("f32", "f64", "bf16", "f16", *COMPLEX):
        random = np.random.default_rng(4)
        a = random.standard_normal((2, 4, 4))
        if element in COMPLEX:
            a = a + 1j * random.standard_normal((2, 4, 4))
        a = a @ np.swapaxes(a, -1, -2).conj() + 4 * np.eye(4)
        dtype = tame(element, ()).dtype
        a = a.astype(dtype)
        wide = a.astype(np.complex128 if element in COMPLEX else np.float64)
        lower = np.linalg.cholesky(wide)
        type = tensor(a.shape, element)
        tolerance = {"f64": 1e-10, "complex<f64>": 1e-10, "bf16": 0.1, "f16": 1e-2}.get(element, 1e-4)
        for down in ("true", "false"):
            factor = lower if down == "true" else np.swapaxes(lower, -1, -2).conj()
            # What the other triangle holds is not said: it is masked.
            mask = np.broadcast_to(np.tril(np.ones((4, 4))) if down == "true" else np.triu(np.ones((4, 4))), a.shape).astype(bool)
            yield build(
                f"cholesky {element} {down}", "cholesky", element, [(a, element), (mask, "i1"), (np.zeros_like(a), element)],
                f"%l = stablehlo.cholesky %a0, lower = {down} : {type}\n    %r0 = stablehlo.select %a1, %l, %a2 : {tensor(a.shape, 'i1')}, {type}",
                [type], absolute=tolerance, expected=[np.where(mask, factor, 0).astype(dtype)],
            )  # fmt: skip
        for left in (True, False):
            for down in (True, False):
                for unit in (True, False):
                    for how in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
                        b = tame(element, (2, 4, 3) if left else (2, 3, 4))
                        matrix = np.tril(wide) if down else np.triu(wide)
                        if unit:
                            matrix = matrix / 8
                            matrix = np.where(np.eye(4, dtype=bool), 1, matrix)
                        given = (wide / 8 if unit else wide).astype(dtype)
                        transposed = {"NO_TRANSPOSE": matrix, "TRANSPOSE": np.swapaxes(matrix, -1, -2), "ADJOINT": np.swapaxes(matrix, -1, -2).conj()}[how]
                        inverse = np.linalg.inv(transposed)
                        wanted = inverse @ b.astype(wide.dtype) if left else b.astype(wide.dtype) @ inverse
                        bt = tensor(b.shape, element)
                        flags = f"left_side = {str(left).lower()}, lower = {str(down).lower()}, unit_diagonal = {str(unit).lower()}, transpose_a = #stablehlo<transpose {how}>"
                        yield build(
                            f"triangular_solve {element} {left} {down} {unit} {how}", "triangular_solve", element, [(given, element), (b, element)],
                            f'%r0 = "stablehlo.triangular_solve"(%a0, %a1) <{{{flags}}}> : ({type}, {bt}) -> {bt}', [bt], absolute=tolerance * 3, expected=[wanted.astype(dtype)],
                        )  # fmt: skip


@register
def legacy() -> Iterator[Program]:
    for element in ("f32", "f64", "i32", "bf16"):
        x, y = tame(element, (3, 4)), tame(element, (4, 5), 1)
        xt, yt, rt = (tensor(s, element) for s in ((3, 4), (4, 5), (3, 5)))
        wanted = (x.astype(np.float64) @ y.astype(np.float64)).astype(x.dtype)
        yield build(f"dot {element}", "dot", element, [(x, element), (y, element)], f"%r0 = stablehlo.dot %a0, %a1 : ({xt}, {yt}) -> {rt}", [rt], ulps=4, expected=[wanted])
        yield build(
            f"einsum {element}", "einsum", element, [(x, element), (y, element)],
            f'%r0 = "stablehlo.einsum"(%a0, %a1) <{{einsum_config = "ab,bc->ac"}}> : ({xt}, {yt}) -> {rt}', [rt], ulps=4, expected=[wanted],
        )  # fmt: skip
        bt = tensor((2, 3, 4), element)
        yield build(
            f"broadcast {element}", "broadcast", element, [(x, element)], f"%r0 = stablehlo.broadcast %a0, sizes = [2] : ({xt}) -> {bt}", [bt], expected=[np.stack([x, x])],
        )  # fmt: skip
        at = np.array([2, 0], np.int32)
        it, ot = tensor((2,), "i32"), tensor((2, 4), element)
        yield build(
            f"torch_index_select {element}", "torch_index_select", element, [(x, element), (at, "i32")],
            f'%r0 = "stablehlo.torch_index_select"(%a0, %a1) <{{dim = 0 : i64, batch_dims = 0 : i64}}> : ({xt}, {it}) -> {ot}', [ot], expected=[x[at]],
        )  # fmt: skip
