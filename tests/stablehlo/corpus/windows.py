"""Windows: reductions, max-pools' gradients, convolutions, batch norms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corpus.programs import FLOATS, INTEGERS, NUMBERS, Program, build, is_float, register, tame, tensor
from corpus.regions import start_of

WINDOWS = (
    ("", (5, 6), (2, 3), (1, 1), (0, 0, 0, 0), (1, 1), (1, 1)), ("strided", (5, 7), (2, 3), (2, 2), (1, 0, 0, 1), (1, 1), (1, 1)),
    ("dilated", (6, 7), (2, 2), (1, 1), (0, 0, 0, 0), (1, 1), (2, 3)), ("of dilated", (4, 4), (3, 2), (1, 2), (0, 1, 1, 0), (2, 2), (1, 1)),
    ("running", (5, 6), (5, 1), (1, 1), (4, 0, 0, 0), (1, 1), (1, 1)),
)  # fmt: skip


@register
def windows() -> Iterator[Program]:
    for op in ("add", "maximum", "minimum", "multiply"):
        for element in NUMBERS:
            for kind, shape, size, strides, pads, base, dilations in WINDOWS:
                x = tame(element, shape)
                if op == "multiply":
                    x = np.where(x == 0, np.array(1, x.dtype), x).astype(x.dtype)
                result = [
                    ((n - 1) * b + 1 + pads[2 * i] + pads[2 * i + 1] - ((w - 1) * d + 1)) // s + 1
                    for i, (n, w, s, b, d) in enumerate(zip(shape, size, strides, base, dilations))
                ]
                xt, st, rt = tensor(shape, element), tensor((), element), tensor(result, element)
                array = lambda values: f"array<i64: {', '.join(map(str, values))}>"  # noqa: E731
                body = (
                    f'%r0 = "stablehlo.reduce_window"(%a0, %a1) <{{window_dimensions = {array(size)}, window_strides = {array(strides)}, '
                    f"base_dilations = {array(base)}, window_dilations = {array(dilations)}, "
                    f"padding = dense<[[{pads[0]}, {pads[1]}], [{pads[2]}, {pads[3]}]]> : tensor<2x2xi64>}}> ({{\n     ^bb0(%p: {st}, %q: {st}):\n"
                    f"      %s = stablehlo.{op} %p, %q : {st}\n      stablehlo.return %s : {st}\n    }}) : ({xt}, {st}) -> {rt}"
                )
                yield build(
                    f"reduce_window {op} {element}{kind and ' ' + kind}", "reduce_window", element, [(x, element), (start_of(op, element), element)], body, [rt],
                    ulps=16 if is_float(element) and op in ("add", "multiply") else 0, absolute=1e-6 if op == "add" else 0,
                )  # fmt: skip


@register
def selections() -> Iterator[Program]:
    for element in FLOATS + INTEGERS:
        for direction in ("GE", "LE"):
            x, u, s = tame(element, (4, 6)), tame(element, (2, 3), 1), start_of("add", element)
            xt, ut, st = tensor((4, 6), element), tensor((2, 3), element), tensor((), element)
            body = (
                f'%r0 = "stablehlo.select_and_scatter"(%a0, %a1, %a2) <{{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>, '
                f"padding = dense<0> : tensor<2x2xi64>}}> ({{\n     ^bb0(%p: {st}, %q: {st}):\n      %c = stablehlo.compare {direction}, %p, %q : ({st}, {st}) -> tensor<i1>\n"
                f"      stablehlo.return %c : tensor<i1>\n    }}, {{\n     ^bb0(%p: {st}, %q: {st}):\n      %t = stablehlo.add %p, %q : {st}\n      stablehlo.return %t : {st}\n"
                f"    }}) : ({xt}, {ut}, {st}) -> {xt}"
            )
            yield build(f"select_and_scatter {element} {direction}", "select_and_scatter", element, [(x, element), (u, element), (s, element)], body, [xt])


CONVOLUTIONS = (
    # name, input, kernel, result, dims, window, groups of features, of the batch
    ("", (1, 5, 5, 2), (3, 3, 2, 4), (1, 3, 3, 4), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "stride = [1, 1]", 1, 1),
    ("channels first", (2, 2, 5, 5), (4, 2, 3, 3), (2, 4, 5, 5), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", "pad = [[1, 1], [1, 1]]", 1, 1),
    ("strided", (1, 7, 7, 2), (3, 3, 2, 4), (1, 3, 3, 4), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "stride = [2, 2]", 1, 1),
    ("transposed", (1, 3, 3, 2), (3, 3, 2, 4), (1, 5, 5, 4), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2]", 1, 1),
    ("dilated", (1, 6, 6, 2), (2, 2, 2, 3), (1, 4, 4, 3), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "rhs_dilate = [2, 2]", 1, 1),
    ("reversed", (1, 5, 5, 2), (3, 3, 2, 4), (1, 3, 3, 4), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "reverse = [true, false]", 1, 1),
    ("grouped", (1, 5, 5, 4), (3, 3, 2, 6), (1, 3, 3, 6), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "", 2, 1),
    ("depthwise", (1, 5, 5, 4), (3, 3, 1, 4), (1, 3, 3, 4), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "", 4, 1),
    ("grouped batch", (4, 5, 5, 2), (3, 3, 2, 4), (2, 3, 3, 4), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "", 1, 2),
    ("one dim", (2, 3, 8), (3, 3, 4), (2, 4, 6), "[b, f, 0]x[0, i, o]->[b, f, 0]", "", 1, 1),
    ("no dim", (2, 3), (3, 4), (2, 4), "[b, f]x[i, o]->[b, f]", "", 1, 1),
    ("three dims", (1, 4, 4, 4, 2), (2, 2, 2, 2, 3), (1, 3, 3, 3, 3), "[b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f]", "", 1, 1),
    ("negative pads", (1, 7, 7, 2), (3, 3, 2, 4), (1, 3, 4, 4), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "pad = [[-1, -1], [0, -1]]", 1, 1),
)  # fmt: skip


@register
def convolutions() -> Iterator[Program]:
    for element in ("f32", "f64", "bf16", "f16", "i32", "i8", "complex<f32>"):
        for kind, x, w, result, dims, window, features, batches in CONVOLUTIONS:
            xt, wt, rt = tensor(x, element), tensor(w, element), tensor(result, element)
            body = (
                f"%r0 = stablehlo.convolution(%a0, %a1) dim_numbers = {dims}, window = {{{window}}} "
                f"{{feature_group_count = {features} : i64, batch_group_count = {batches} : i64}} : ({xt}, {wt}) -> {rt}"
            )
            yield build(
                f"convolution {element}{kind and ' ' + kind}", "convolution", element, [(tame(element, x), element), (tame(element, w, 1), element)], body, [rt],
                ulps=0 if element in INTEGERS else 64, absolute=0 if element in INTEGERS else 0.3 if element == "bf16" else 0.05 if element == "f16" else 1e-5,
            )  # fmt: skip


@register
def norms() -> Iterator[Program]:
    """The interpreter has none of them: the specification's formulas, in double precision."""
    for element in FLOATS:
        given = [tame(element, s, i) for i, s in enumerate([(2, 3, 4), (4,), (4,), (4,), (4,)])]
        given[4] = np.abs(given[4]) + np.array(1, given[4].dtype)
        gradient = tame(element, (2, 3, 4), 9)
        x, scale, offset, mean, variance, g = (v.astype(np.float64) for v in (*given, gradient))
        xt, ct = tensor((2, 3, 4), element), tensor((4,), element)
        numbers = "<{epsilon = 1.0e-3 : f32, feature_index = 2 : i64}>"
        absolute = {"f64": 1e-9, "f32": 1e-5, "f16": 2e-2, "bf16": 2e-1}[element]
        epsilon = float(np.float32(1e-3))

        def cast(*arrays):
            return [np.asarray(a).astype(given[0].dtype) for a in arrays]

        inference = (x - mean) / np.sqrt(variance + epsilon) * scale + offset
        yield build(
            f"batch_norm_inference {element}", "batch_norm_inference", element, [(v, element) for v in given],
            f'%r0 = "stablehlo.batch_norm_inference"(%a0, %a1, %a2, %a3, %a4) {numbers} : ({xt}, {ct}, {ct}, {ct}, {ct}) -> {xt}', [xt],
            absolute=absolute, expected=cast(inference),
        )  # fmt: skip
        parts = "\n    ".join(f"%r{i} = stablehlo.reshape %v#{i} : ({t}) -> {t}" for i, t in enumerate((xt, ct, ct)))
        own, spread = x.mean((0, 1)), x.var((0, 1))
        yield build(
            f"batch_norm_training {element}", "batch_norm_training", element, [(v, element) for v in given[:3]],
            f'%v:3 = "stablehlo.batch_norm_training"(%a0, %a1, %a2) {numbers} : ({xt}, {ct}, {ct}) -> ({xt}, {ct}, {ct})\n    {parts}',
            [xt, ct, ct], absolute=absolute, expected=cast((x - own) / np.sqrt(spread + epsilon) * scale + offset, own, spread),
        )  # fmt: skip
        centred, deviation = x - mean, np.sqrt(variance + epsilon)
        moment = (g * centred).sum((0, 1))
        back = scale / deviation / 6 * (g * 6 - g.sum((0, 1)) - moment * centred / (variance + epsilon))
        yield build(
            f"batch_norm_grad {element}", "batch_norm_grad", element, [(v, element) for v in (given[0], given[1], given[3], given[4], gradient)],
            f'%v:3 = "stablehlo.batch_norm_grad"(%a0, %a1, %a2, %a3, %a4) {numbers} : ({xt}, {ct}, {ct}, {ct}, {xt}) -> ({xt}, {ct}, {ct})\n    {parts}',
            [xt, ct, ct], absolute=absolute * 20, expected=cast(back, moment / deviation, g.sum((0, 1))),
        )  # fmt: skip
