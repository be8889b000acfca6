"""Ops that move elements, for every type: shapes, slices, gathers, constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from corpus.programs import (
    COMPLEX, INTEGERS, TYPES, Program, build, is_float, register, tame, tensor,
)  # fmt: skip

I = "i32"  # of indices  # noqa: E741


def one(op: str, element: str, kind: str, shape: Sequence[int], result: Sequence[int], text: str, seed: int = 0) -> Program:
    """A program of one operand; `text` has {x} and {r} for its types."""
    x = tame(element, shape, seed)
    types = {"x": tensor(shape, element), "r": tensor(result, element)}
    return build(f"{op} {element}{kind and ' ' + kind}", op, element, [(x, element)], "%r0 = stablehlo." + text.format(**types), [types["r"]])


SHAPES = (
    ("reshape", "", (2, 3, 4), (6, 4), "reshape %a0 : ({x}) -> {r}"),
    ("reshape", "to rank 0", (1, 1), (), "reshape %a0 : ({x}) -> {r}"),
    ("transpose", "", (2, 3, 4), (4, 2, 3), "transpose %a0, dims = [2, 0, 1] : ({x}) -> {r}"),
    ("transpose", "empty", (2, 0, 4), (4, 2, 0), "transpose %a0, dims = [2, 0, 1] : ({x}) -> {r}"),
    ("reverse", "", (3, 4), (3, 4), "reverse %a0, dims = [0, 1] : {x}"),
    ("broadcast_in_dim", "", (3, 1), (2, 3, 5), "broadcast_in_dim %a0, dims = [1, 2] : ({x}) -> {r}"),
    ("broadcast_in_dim", "crossed", (3, 5), (5, 2, 3), "broadcast_in_dim %a0, dims = [2, 0] : ({x}) -> {r}"),
    ("broadcast_in_dim", "scalar", (), (2, 3), "broadcast_in_dim %a0, dims = [] : ({x}) -> {r}"),
    ("slice", "", (5, 7), (2, 3), "slice %a0 [1:4:2, 1:7:2] : ({x}) -> {r}"),
    ("slice", "empty", (5, 7), (0, 7), "slice %a0 [3:3, 0:7] : ({x}) -> {r}"),
    ("optimization_barrier", "", (3, 4), (3, 4), "optimization_barrier %a0 : {x}"),
)  # fmt: skip


@register
def shapes() -> Iterator[Program]:
    for element in TYPES:
        for op, kind, shape, result, text in SHAPES:
            yield one(op, element, kind, shape, result, text)


@register
def pads() -> Iterator[Program]:
    cases = (
        ("", (3, 4), (1, 0), (2, 3), (0, 0)), ("interior", (3, 4), (1, 0), (0, 2), (2, 1)), ("negative", (5, 6), (-1, 1), (1, -2), (0, 0)),
        ("negative interior", (4, 5), (-2, -1), (-1, 1), (1, 2)), ("empty", (0, 3), (2, 1), (1, 0), (0, 0)),
    )  # fmt: skip
    for element in TYPES:
        for kind, shape, low, high, interior in cases:
            result = [max(0, n - 1) * (i + 1) + (n > 0) + l + h for n, l, h, i in zip(shape, low, high, interior)]
            x, value = tame(element, shape), tame(element, (), 3)
            type, out = tensor(shape, element), tensor(result, element)
            yield build(
                f"pad {element}{kind and ' ' + kind}", "pad", element, [(x, element), (value, element)],
                f"%r0 = stablehlo.pad %a0, %a1, low = {list(low)}, high = {list(high)}, interior = {list(interior)} : "
                f"({type}, {tensor((), element)}) -> {out}", [out],
            )  # fmt: skip


@register
def joins() -> Iterator[Program]:
    for element in TYPES:
        x, y, z = tame(element, (2, 3)), tame(element, (2, 1), 1), tame(element, (2, 0), 2)
        types = [tensor(v.shape, element) for v in (x, y, z)]
        out = tensor((2, 4), element)
        yield build(
            f"concatenate {element}", "concatenate", element, [(x, element), (y, element), (z, element)],
            f"%r0 = stablehlo.concatenate %a0, %a1, %a2, dim = 1 : ({', '.join(types)}) -> {out}", [out],
        )  # fmt: skip
        if element not in ("i1", "f8E8M0FNU"):  # which has no zero
            for dim in (0, 1):
                out = tensor((2, 3), element)
                yield build(f"iota {element} {dim}", "iota", element, [], f"%r0 = stablehlo.iota dim = {dim} : {out}", [out])
        if element in COMPLEX:
            literals, scalar = "[(1.0, -2.0), (0.5, 4.0)]", "(1.5, -2.0)"
        elif element == "i1":
            literals, scalar = "[true, false]", "true"
        elif is_float(element):
            literals, scalar = "[1.0, 2.0]", "2.0"
        else:
            literals, scalar = "[1, 0]", "1"
        for kind, shape, value in (("", (2,), literals), ("splat", (2, 3), scalar), ("scalar", (), scalar), ("empty", (0,), "[]")):
            out = tensor(shape, element)
            value = "" if kind == "empty" else value
            yield build(f"constant {element} {kind}", "constant", element, [], f"%r0 = stablehlo.constant dense<{value}> : {out}", [out])


@register
def dynamic() -> Iterator[Program]:
    for element in TYPES:
        for kind, at in (("", (1, 2)), ("clamped", (9, -3)), ("at the end", (3, 4))):
            x, y = tame(element, (5, 6)), tame(element, (2, 3), 1)
            places = [(np.array(each, np.int32), I) for each in at]
            i, big, small = tensor((), I), tensor((5, 6), element), tensor((2, 3), element)
            yield build(
                f"dynamic_slice {element} {kind}", "dynamic_slice", element, [(x, element), *places],
                f"%r0 = stablehlo.dynamic_slice %a0, %a1, %a2, sizes = [2, 3] : ({big}, {i}, {i}) -> {small}", [small],
            )  # fmt: skip
            yield build(
                f"dynamic_update_slice {element} {kind}", "dynamic_update_slice", element, [(x, element), (y, element), *places],
                f"%r0 = stablehlo.dynamic_update_slice %a0, %a1, %a2, %a3 : ({big}, {small}, {i}, {i}) -> {big}", [big],
            )  # fmt: skip
    for index in INTEGERS:
        if index in ("i2", "ui2"):
            continue
        x = tame("f32", (5, 6))
        at = [(np.array(2).astype(tame(index, ()).dtype), index), (np.array(1).astype(tame(index, ()).dtype), index)]
        i, big, small = tensor((), index), tensor((5, 6), "f32"), tensor((2, 3), "f32")
        yield build(
            f"dynamic_slice at {index}", "dynamic_slice", index, [(x, "f32"), *at],
            f"%r0 = stablehlo.dynamic_slice %a0, %a1, %a2, sizes = [2, 3] : ({big}, {i}, {i}) -> {small}", [small],
        )  # fmt: skip


GATHERS = (
    # name, operand, indices, result, numbers, sizes
    ("rows", (5, 4), (3, 1), (3, 4), "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1", (1, 4)),
    ("rows of an index", (5, 4), (3,), (3, 4), "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1", (1, 4)),
    ("columns", (5, 4), (3, 1), (5, 3), "offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1", (5, 1)),
    ("elements", (5, 4), (3, 2), (3,), "collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1", (1, 1)),
    ("elements crossed", (5, 4), (2, 3), (3,), "collapsed_slice_dims = [0, 1], start_index_map = [1, 0], index_vector_dim = 0", (1, 1)),
    ("windows", (5, 4), (3, 2), (3, 2, 3), "offset_dims = [1, 2], start_index_map = [0, 1], index_vector_dim = 1", (2, 3)),
    ("batches", (3, 5, 4), (3, 2, 1), (3, 2, 4),
     "offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], "
     "start_index_map = [1], index_vector_dim = 2", (1, 1, 4)),
)  # fmt: skip


@register
def gathers() -> Iterator[Program]:
    for element in TYPES:
        for kind, shape, index, result, numbers, sizes in GATHERS:
            x = tame(element, shape)
            at = np.random.default_rng(len(kind)).integers(-2, 7, index).astype(np.int32)
            xt, it, rt = tensor(shape, element), tensor(index, I), tensor(result, element)
            yield build(
                f"gather {element} {kind}", "gather", element, [(x, element), (at, I)],
                f'%r0 = "stablehlo.gather"(%a0, %a1) <{{dimension_numbers = #stablehlo.gather<{numbers}>, '
                f"slice_sizes = array<i64: {', '.join(map(str, sizes))}>, indices_are_sorted = false}}> : ({xt}, {it}) -> {rt}", [rt],
            )  # fmt: skip


@register
def index_types() -> Iterator[Program]:
    kind, shape, index, result, numbers, sizes = GATHERS[0]
    for of in INTEGERS:
        if of in ("i2", "ui2"):
            continue
        at = np.array([[0], [4], [2]]).astype(tame(of, ()).dtype)
        xt, it, rt = tensor(shape, "f32"), tensor(index, of), tensor(result, "f32")
        yield build(
            f"gather at {of}", "gather", of, [(tame("f32", shape), "f32"), (at, of)],
            f'%r0 = "stablehlo.gather"(%a0, %a1) <{{dimension_numbers = #stablehlo.gather<{numbers}>, '
            f"slice_sizes = array<i64: {', '.join(map(str, sizes))}>}}> : ({xt}, {it}) -> {rt}", [rt],
        )  # fmt: skip


@register
def large_constants() -> Iterator[Program]:
    """Of more bytes than what a program keeps among its attributes."""
    for element in ("f32", "i8", "bf16", "f64", "i1"):
        x = tame(element, (300, 401))
        if element == "i1":
            text = str(x.astype(int).tolist()).replace("1", "true").replace("0", "false")
        else:
            text = '"0x' + x.tobytes().hex().upper() + '"'
        out = tensor(x.shape, element)
        body = f"%c = stablehlo.constant dense<{text}> : {out}\n    %r0 = stablehlo.reverse %c, dims = [0] : {out}"
        yield build(f"constant {element} large", "constant", element, [], body, [out], expected=[x[::-1]])
