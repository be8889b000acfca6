"""Ops that have regions: reductions, scatters, sorts, control."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corpus.programs import (
    COMPLEX, COMPUTED, FLOATS, INTEGERS, NUMBERS, TYPES, Program, build, cast, edges, is_float, limits, register, tame, tensor,
)  # fmt: skip

REDUCTIONS = {
    "add": ("i1", *NUMBERS, *COMPLEX), "multiply": ("i1", *NUMBERS, *COMPLEX), "maximum": ("i1", *NUMBERS, *COMPUTED),
    "minimum": ("i1", *NUMBERS, *COMPUTED), "and": ("i1", *INTEGERS), "or": ("i1", *INTEGERS), "xor": ("i1", *INTEGERS),
}  # fmt: skip


def start_of(op: str, element: str) -> np.ndarray:
    """What changes nothing."""
    if op in ("add", "or", "xor"):
        return cast(np.array(0), element)
    if op == "multiply":
        return cast(np.array(1), element)
    if element == "i1":
        return np.array(op in ("minimum", "and"))
    if op == "and":
        return cast(np.array(-1), element)
    if element in INTEGERS:
        return cast(np.array(limits(element)[op == "minimum"], dtype=object), element)
    return cast(np.array(-np.inf if op == "maximum" else np.inf), element)


@register
def reductions() -> Iterator[Program]:
    cases = (("", (4, 5), (1,), (4,)), ("of all", (4, 5), (0, 1), ()), ("outer", (3, 4, 5), (0, 2), (4,)), ("empty", (0, 3), (0,), (3,)))
    for op, elements in REDUCTIONS.items():
        for element in elements:
            for kind, shape, dims, result in cases:
                x = tame(element, shape)
                if op == "multiply" and is_float(element):
                    x = np.where(x == 0, np.array(0.5, x.dtype), x / 2).astype(x.dtype)
                ulps = 40 if op in ("add", "multiply") and (is_float(element) or element in COMPLEX) else 0
                xt, st, rt = tensor(shape, element), tensor((), element), tensor(result, element)
                yield build(
                    f"reduce {op} {element} {kind}", "reduce", element, [(x, element), (start_of(op, element), element)],
                    f"%r0 = stablehlo.reduce(%a0 init: %a1) applies stablehlo.{op} across dimensions = {list(dims)} : ({xt}, {st}) -> {rt}",
                    [rt], ulps=ulps, absolute=1e-2 if element in ("bf16", "f16") else 1e-5 if ulps else 0,
                )  # fmt: skip
    for op in ("maximum", "minimum"):
        for element in FLOATS:
            x = edges(element)
            for kind, values in (("NaN", x), ("infinities", x[1:9]), ("zeros", x[3:5])):
                xt, st = tensor(values.shape, element), tensor((), element)
                yield build(
                    f"reduce {op} {element} with {kind}", "reduce", element, [(values, element), (start_of(op, element), element)],
                    f"%r0 = stablehlo.reduce(%a0 init: %a1) applies stablehlo.{op} across dimensions = [0] : ({xt}, {st}) -> {st}", [st],
                )  # fmt: skip
    for element in ("f32", "f64", "i32", "i64", "ui8"):
        x, s = tame(element, (4, 6)), cast(np.array(3), element)
        xt, st, rt = tensor((4, 6), element), tensor((), element), tensor((4,), element)
        yield build(
            f"reduce add {element} from a number", "reduce", element, [(x, element), (s, element)],
            f"%r0 = stablehlo.reduce(%a0 init: %a1) applies stablehlo.add across dimensions = [1] : ({xt}, {st}) -> {rt}", [rt], ulps=8,
        )  # fmt: skip


@register
def free_reductions() -> Iterator[Program]:
    for element in ("i32", "i64", "f32", "f64", "ui8"):
        x, s = tame(element, (4, 6)), cast(np.array(0), element)
        xt, st, rt = tensor((4, 6), element), tensor((), element), tensor((4,), element)
        body = (
            f"%r0 = stablehlo.reduce(%a0 init: %a1) across dimensions = [1] : ({xt}, {st}) -> {rt}\n"
            f"     reducer(%p: {st}, %q: {st}) {{\n"
            f"      %m = stablehlo.maximum %p, %q : {st}\n      %n = stablehlo.minimum %p, %q : {st}\n"
            f"      %o = stablehlo.subtract %m, %n : {st}\n      %z = stablehlo.add %n, %o : {st}\n"
            f"      stablehlo.return %z : {st}\n    }}"
        )
        yield build(f"reduce {element} by a body", "reduce", element, [(x, element), (s, element)], body, [rt])
        y = np.tile(np.arange(6, dtype=np.int32), (4, 1))
        for direction in ("GE", "GT", "LE", "LT"):
            it, iz, ir = tensor((4, 6), "i32"), tensor((), "i32"), tensor((4,), "i32")
            start = cast(np.array(limits(element)[direction[0] == "L"] if element in INTEGERS else -np.inf if direction[0] == "G" else np.inf, dtype=object), element)
            body = (
                f"%v, %w = stablehlo.reduce(%a0 init: %a2), (%a1 init: %a3) across dimensions = [1] : ({xt}, {it}, {st}, {iz}) -> ({rt}, {ir})\n"
                f"     reducer(%p: {st}, %q: {st}) (%i: {iz}, %j: {iz}) {{\n"
                f"      %c = stablehlo.compare {direction}, %p, %q : ({st}, {st}) -> tensor<i1>\n"
                f"      %e = stablehlo.compare EQ, %p, %q : ({st}, {st}) -> tensor<i1>\n"
                f"      %k = stablehlo.minimum %i, %j : {iz}\n"
                f"      %x = stablehlo.select %c, %p, %q : tensor<i1>, {st}\n"
                f"      %y0 = stablehlo.select %c, %i, %j : tensor<i1>, {iz}\n"
                f"      %y = stablehlo.select %e, %k, %y0 : tensor<i1>, {iz}\n"
                f"      stablehlo.return %x, %y : {st}, {iz}\n    }}\n"
                f"    %r0 = stablehlo.reshape %v : ({rt}) -> {rt}\n    %r1 = stablehlo.reshape %w : ({ir}) -> {ir}"
            )
            yield build(
                f"reduce {element} position {direction}", "reduce", element,
                [(x, element), (y, "i32"), (start, element), (np.array(0, np.int32), "i32")], body, [rt, ir],
            )  # fmt: skip


SCATTERS = (
    ("rows", (5, 4), (3, 1), (3, 4), "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"),
    ("columns", (5, 4), (3, 1), (5, 3), "update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 1"),
    ("elements", (5, 4), (3, 2), (3,), "inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1"),
    ("windows", (5, 4), (3, 2), (3, 2, 3), "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1"),
    ("batches", (3, 5, 4), (3, 2, 1), (3, 2, 4),
     "update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], "
     "scatter_dims_to_operand_dims = [1], index_vector_dim = 2"),
)  # fmt: skip


@register
def scatters() -> Iterator[Program]:
    for element in TYPES:
        ops = ["replace"] + [op for op, elements in REDUCTIONS.items() if element in elements]
        for op in ops:
            for kind, shape, index, update, numbers in SCATTERS:
                x, u = tame(element, shape), tame(element, update, 5)
                # No place twice where the order of updates would show.
                random = np.random.default_rng(len(kind))
                if op == "replace":
                    at = np.stack([random.permutation(np.arange(-1, 6))[: index[-2]] for _ in range(int(np.prod(index[:-2], initial=1)) * index[-1])], -1)
                    at = at.reshape(index) if len(index) == 2 else np.swapaxes(at, 0, 1).reshape(index)
                    if kind == "windows":
                        at = np.array([[0, 0], [2, 1], [9, 9]])  # windows that lie half inside are XLA's to leave out
                else:
                    at = random.integers(-1, 6, index)
                at = at.astype(np.int32)
                xt, it, ut, st = tensor(shape, element), tensor(index, "i32"), tensor(update, element), tensor((), element)
                inside = f"stablehlo.return %q : {st}" if op == "replace" else f"%s = stablehlo.{op} %p, %q : {st}\n      stablehlo.return %s : {st}"
                body = (
                    f'%r0 = "stablehlo.scatter"(%a0, %a1, %a2) <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, '
                    f"indices_are_sorted = false, unique_indices = false}}> ({{\n     ^bb0(%p: {st}, %q: {st}):\n      {inside}\n    }}) : "
                    f"({xt}, {it}, {ut}) -> {xt}"
                )
                yield build(
                    f"scatter {op} {element} {kind}", "scatter", element, [(x, element), (at, "i32"), (u, element)], body, [xt],
                    ulps=8 if op in ("add", "multiply") and element not in INTEGERS else 0,
                )  # fmt: skip


@register
def complex_scatters() -> Iterator[Program]:
    """Of functions in which real and imaginary parts meet: products, and others that hang on the order of updates."""
    functions = {
        "multiply": "%s = stablehlo.multiply %p, %q : {0}\n",
        "multiply and add": "%m = stablehlo.multiply %p, %q : {0}\n      %s = stablehlo.add %m, %q : {0}\n",
        "the larger": (
            "%a = stablehlo.abs %p : ({0}) -> {1}\n      %b = stablehlo.abs %q : ({0}) -> {1}\n"
            "      %c = stablehlo.compare GE, %a, %b : ({1}, {1}) -> tensor<i1>\n      %s = stablehlo.select %c, %p, %q : tensor<i1>, {0}\n"
        ),
    }
    for element, real in zip(COMPLEX, ("f32", "f64"), strict=True):
        for op, function in functions.items():
            for kind, shape, index, update, numbers in SCATTERS:
                for unique in (False, True):
                    x, u = tame(element, shape), tame(element, update, 5)
                    at = np.random.default_rng(len(kind)).integers(-1, 6, index)
                    if unique:
                        at = np.array([[0, 0], [2, 1], [9, 9]]) if kind == "windows" else np.zeros(index, int) + np.arange(index[-2])[:, None] + 1
                    st, xt, it, ut = tensor((), element), tensor(shape, element), tensor(index, "i32"), tensor(update, element)
                    inside = function.format(st, tensor((), real)) + f"      stablehlo.return %s : {st}"
                    body = (
                        f'%r0 = "stablehlo.scatter"(%a0, %a1, %a2) <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, '
                        f"indices_are_sorted = false, unique_indices = {str(unique).lower()}}}> ({{\n     ^bb0(%p: {st}, %q: {st}):\n      {inside}\n    }}) : "
                        f"({xt}, {it}, {ut}) -> {xt}"
                    )
                    yield build(
                        f"scatter by {op} {element} {kind}{' unique' * unique}", "scatter", element,
                        [(x, element), (at.astype(np.int32), "i32"), (u, element)], body, [xt], ulps=16, absolute=1e-5,
                    )  # fmt: skip


@register
def scatters_of_several() -> Iterator[Program]:
    """Two operands: each combined by itself, or one that says what becomes of the other."""
    keeps = (
        "%c = stablehlo.compare GT, %u, %p : ({0}, {0}) -> tensor<i1>\n      %s = stablehlo.select %c, %u, %p : tensor<i1>, {0}\n"
        "      %t = stablehlo.select %c, %v, %q : tensor<i1>, {1}\n"
    )
    functions = {
        "add and multiply": "%s = stablehlo.add %p, %u : {0}\n      %t = stablehlo.multiply %q, %v : {1}\n",
        "subtract and replace": "%s = stablehlo.subtract %p, %u : {0}\n",
        "the larger": keeps,
    }
    for element, other in (("f32", "i32"), ("i32", "f32"), ("f64", "i64"), ("bf16", "ui8"), ("f32", "complex<f32>"), ("f16", "i1"), ("ui64", "f8E4M3FN")):
        for op, function in functions.items():
            if "multiply" in op and other == "i1":
                function = function.replace("multiply", "and")
            for kind, shape, index, update, numbers in SCATTERS:
                for unique in (False, True):
                    at = np.random.default_rng(len(kind)).integers(-1, 6, index)
                    if unique or "replace" in op:
                        at = np.array([[0, 0], [2, 1], [9, 9]]) if kind == "windows" else np.zeros(index, int) + np.arange(index[-2])[:, None] + 1
                    one, two = tensor((), element), tensor((), other)
                    types = [tensor(shape, element), tensor(shape, other), tensor(index, "i32"), tensor(update, element), tensor(update, other)]
                    inside = function.format(one, two) + f"      stablehlo.return %s, {'%v' if 'replace' in op else '%t'} : {one}, {two}"
                    body = (
                        f'%w:2 = "stablehlo.scatter"(%a0, %a1, %a2, %a3, %a4) <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, '
                        f"indices_are_sorted = false, unique_indices = {str(unique).lower()}}}> ({{\n     ^bb0(%p: {one}, %q: {two}, %u: {one}, %v: {two}):\n"
                        f"      {inside}\n    }}) : ({', '.join(types)}) -> ({types[0]}, {types[1]})\n"
                        f"    %r0 = stablehlo.reshape %w#0 : ({types[0]}) -> {types[0]}\n    %r1 = stablehlo.reshape %w#1 : ({types[1]}) -> {types[1]}"
                    )
                    given = [
                        (tame(element, shape), element), (tame(other, shape, 3), other), (at.astype(np.int32), "i32"),
                        (tame(element, update, 5), element), (tame(other, update, 7), other),
                    ]  # fmt: skip
                    yield build(f"scatter of two {op} {element} {other} {kind}{' unique' * unique}", "scatter", element, given, body, types[:2], ulps=8)


@register
def sorts() -> Iterator[Program]:
    for element in ("i1", *NUMBERS, *COMPUTED):
        for direction in ("LT", "GT"):
            for kind, shape, dim in (("last", (3, 7), 1), ("first", (7, 3), 0), ("long", (300,), 0), ("longer", (2, 1100), 1), ("empty", (0,), 0), ("one", (1, 1), 1)):
                x = tame(element, shape)
                places = np.arange(x.size, dtype=np.int32).reshape(shape)
                xt, it, st, iz = tensor(shape, element), tensor(shape, "i32"), tensor((), element), tensor((), "i32")
                body = (
                    f'%v:2 = "stablehlo.sort"(%a0, %a1) <{{dimension = {dim} : i64, is_stable = true}}> ({{\n'
                    f"     ^bb0(%p: {st}, %q: {st}, %i: {iz}, %j: {iz}):\n"
                    f"      %c = stablehlo.compare {direction}, %p, %q : ({st}, {st}) -> tensor<i1>\n"
                    f"      stablehlo.return %c : tensor<i1>\n    }}) : ({xt}, {it}) -> ({xt}, {it})\n"
                    f"    %r0 = stablehlo.reshape %v#0 : ({xt}) -> {xt}\n    %r1 = stablehlo.reshape %v#1 : ({it}) -> {it}"
                )
                yield build(f"sort {element} {direction} {kind}", "sort", element, [(x, element), (places, "i32")], body, [xt, it])


@register
def total_orders() -> Iterator[Program]:
    """As JAX sorts floats: zeros alike, NaNs alike and last. By NumPy."""
    for element, copies in [(each, count) for each in FLOATS for count in (2, 40)]:
        x = np.concatenate([edges(element)] * copies)
        nan, zero = "0x" + np.array(np.nan, x.dtype).tobytes()[::-1].hex().upper(), "0.0"
        xt, st, it, iz = tensor(x.shape, element), tensor((), element), tensor(x.shape, "i32"), tensor((), "i32")
        lines = []
        for p in ("p", "q"):
            lines += [
                f"%e{p} = stablehlo.compare EQ, %{p}, %zero, FLOAT : ({st}, {st}) -> tensor<i1>",
                f"%z{p} = stablehlo.select %e{p}, %zero, %{p} : tensor<i1>, {st}",
                f"%n{p} = stablehlo.compare NE, %{p}, %{p}, FLOAT : ({st}, {st}) -> tensor<i1>",
                f"%k{p} = stablehlo.select %n{p}, %nan, %z{p} : tensor<i1>, {st}",
            ]
        for direction in ("LT", "GT"):
            text = "\n      ".join(lines)
            body = (
                f'%v:2 = "stablehlo.sort"(%a0, %a1) <{{dimension = 0 : i64, is_stable = true}}> ({{\n     ^bb0(%p: {st}, %q: {st}, %i: {iz}, %j: {iz}):\n'
                f"      %zero = stablehlo.constant dense<{zero}> : {st}\n      %nan = stablehlo.constant dense<{nan}> : {st}\n      {text}\n"
                f"      %c = stablehlo.compare {direction}, %kp, %kq, TOTALORDER : ({st}, {st}) -> tensor<i1>\n      stablehlo.return %c : tensor<i1>\n    }}) : "
                f"({xt}, {it}) -> ({xt}, {it})\n    %r0 = stablehlo.reshape %v#0 : ({xt}) -> {xt}\n    %r1 = stablehlo.reshape %v#1 : ({it}) -> {it}"
            )
            wide = x.astype(np.float64)
            key = np.where(np.isnan(wide), np.inf, wide)
            order = np.array(sorted(range(x.size), key=lambda k: (np.isnan(wide[k]), key[k]) if direction == "LT" else (not np.isnan(wide[k]), -key[k])))
            yield build(
                f"sort {element} {direction} total order of {x.size}", "sort", element, [(x, element), (np.arange(x.size, dtype=np.int32), "i32")], body, [xt, it],
                expected=[x[order], order.astype(np.int32)],
            )  # fmt: skip


@register
def maps() -> Iterator[Program]:
    for element in ("i1", *NUMBERS, *COMPLEX):
        x, y = tame(element, (3, 4)), tame(element, (3, 4), 2)
        xt, st = tensor((3, 4), element), tensor((), element)
        body = (
            f'%r0 = "stablehlo.map"(%a0, %a1) <{{dimensions = array<i64: 0, 1>}}> ({{\n     ^bb0(%p: {st}, %q: {st}):\n'
            f"      %s = stablehlo.multiply %p, %q : {st}\n      %t = stablehlo.add %s, %p : {st}\n      stablehlo.return %t : {st}\n    }}) : ({xt}, {xt}) -> {xt}"
        )
        yield build(f"map {element}", "map", element, [(x, element), (y, element)], body, [xt], ulps=4)
    for element, real in zip(COMPLEX, ("f32", "f64"), strict=True):
        x, y = tame(element, (3, 4)), tame(real, (3, 4), 2)
        xt, st, yt, rt = tensor((3, 4), element), tensor((), element), tensor((3, 4), real), tensor((), real)
        body = (
            f'%r0 = "stablehlo.map"(%a0, %a1) <{{dimensions = array<i64: 0, 1>}}> ({{\n     ^bb0(%p: {st}, %q: {rt}):\n'
            f"      %s = stablehlo.abs %p : ({st}) -> {rt}\n      %t = stablehlo.add %s, %q : {rt}\n      stablehlo.return %t : {rt}\n    }}) : ({xt}, {yt}) -> {yt}"
        )
        yield build(f"map {element} to {real}", "map", element, [(x, element), (y, real)], body, [yt], ulps=4)


@register
def control() -> Iterator[Program]:
    for element in TYPES:
        type = tensor((2, 3), element)
        x, y = tame(element, (2, 3)), tame(element, (2, 3), 1)
        for value in (True, False):
            body = (
                f'%r0 = "stablehlo.if"(%a0) ({{\n      stablehlo.return %a1 : {type}\n    }}, {{\n      %n = stablehlo.reverse %a2, dims = [1] : {type}\n'
                f"      stablehlo.return %n : {type}\n    }}) : (tensor<i1>) -> {type}"
            )
            yield build(f"if {element} {value}", "if", element, [(np.array(value), "i1"), (x, element), (y, element)], body, [type])
        for index in (-1, 0, 1, 2, 9):
            body = (
                f'%r0 = "stablehlo.case"(%a0) ({{\n      stablehlo.return %a1 : {type}\n    }}, {{\n      stablehlo.return %a2 : {type}\n    }}, {{\n'
                f"      %n = stablehlo.reverse %a1, dims = [0] : {type}\n      stablehlo.return %n : {type}\n    }}) : (tensor<i32>) -> {type}"
            )
            yield build(f"case {element} {index}", "case", element, [(np.array(index, np.int32), "i32"), (x, element), (y, element)], body, [type])
        for turns in (0, 1, 5):
            body = (
                f"%zero = stablehlo.constant dense<0> : tensor<i32>\n    %one = stablehlo.constant dense<1> : tensor<i32>\n"
                f"    %v:3 = stablehlo.while(%i = %zero, %x = %a1, %y = %a2) : tensor<i32>, {type}, {type}\n     cond {{\n"
                f"      %c = stablehlo.compare LT, %i, %a0 : (tensor<i32>, tensor<i32>) -> tensor<i1>\n      stablehlo.return %c : tensor<i1>\n"
                f"    }} do {{\n      %n = stablehlo.add %i, %one : tensor<i32>\n      %z = stablehlo.reverse %x, dims = [1] : {type}\n"
                f"      stablehlo.return %n, %y, %z : tensor<i32>, {type}, {type}\n    }}\n    %r0 = stablehlo.reverse %v#1, dims = [0] : {type}"
            )
            yield build(f"while {element} {turns}", "while", element, [(np.array(turns, np.int32), "i32"), (x, element), (y, element)], body, [type])
        functions = f"  func.func private @twice(%p: {type}) -> {type} {{\n    %s = stablehlo.reverse %p, dims = [0] : {type}\n    return %s : {type}\n  }}\n"
        yield build(f"call {element}", "call", element, [(x, element)], f"%r0 = func.call @twice(%a0) : ({type}) -> {type}", [type], functions=functions)
        yield build(
            f"composite {element}", "composite", element, [(x, element)],
            f'%r0 = stablehlo.composite "my.twice" %a0 {{decomposition = @twice, composite_attributes = {{k = 1 : i32}}}} : ({type}) -> {type}',
            [type], functions=functions,
        )  # fmt: skip
