"""Scatters where a window's place or a zero's sign tells."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corpus.programs import COMPLEX, FLOATS, NUMPY, Program, build, register, tame, tensor

PARTS = {"complex<f32>": "f32", "complex<f64>": "f64"}
ROWS = "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
RUNS = "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
ELEMENTS = "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"


def scatter(op: str, element: str, operands: str, types: list[str], result: str, numbers: str) -> str:
    scalar = tensor((), element)
    inside = f"stablehlo.return %q : {scalar}" if op == "replace" else f"%s = stablehlo.{op} %p, %q : {scalar}\n      stablehlo.return %s : {scalar}"
    return (
        f'{result} = "stablehlo.scatter"({operands}) <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, '
        f"indices_are_sorted = false, unique_indices = false}}> ({{\n     ^bb0(%p: {scalar}, %q: {scalar}):\n      {inside}\n    }}) : "
        f"({', '.join(types)}) -> {types[0]}"
    )


def combined(op: str, x: np.ndarray, places: np.ndarray, updates: np.ndarray) -> np.ndarray:
    """One update after the other, by NumPy; windows that do not lie whole in `x` are left out, as XLA does it."""
    functions = {
        "replace": lambda _, q: q, "add": np.add, "subtract": np.subtract, "multiply": np.multiply,
        "maximum": lambda p, q: np.where((p > q) | ((p == q) & ~np.signbit(p)), p, q),
        "minimum": lambda p, q: np.where((p < q) | ((p == q) & np.signbit(p)), p, q),
    }  # fmt: skip
    made = x.copy()
    for place, update in zip(places, updates, strict=True):
        length = update.shape[0] if update.ndim == x.ndim else 1
        if 0 <= place <= x.shape[0] - length:
            at = slice(place, place + length) if update.ndim == x.ndim else place
            made[at] = functions[op](made[at], update)
    return made


@register
def counted_places() -> Iterator[Program]:
    """Windows that an iota places: more than the operand holds, as many, fewer."""
    for element in ("f32", "i32", "bf16", "i8", "f64"):
        for op in ("replace", "add", "maximum", "multiply"):
            for index in ("i32", "i64", "ui8"):
                for count in (3, 5, 9):
                    for kind, window, numbers in (("rows", (4,), ROWS), ("runs", (2, 4), RUNS)):
                        x, u = tame(element, (5, 4)), tame(element, (count, *window), 5)
                        types = [tensor((5, 4), element), tensor((count,), index), tensor((count, *window), element)]
                        if kind == "runs" and op == "replace":
                            continue  # windows that overlap, in any order
                        body = f"%i = stablehlo.iota dim = 0 : {types[1]}\n    {scatter(op, element, '%a0, %i, %a1', types, '%r0', numbers)}"
                        yield build(
                            f"scatter {op} {element} {count} {kind} at an iota of {index}", "scatter", element, [(x, element), (u, element)], body, [types[0]],
                            expected=[combined(op, x, np.arange(count), u)],
                        )  # fmt: skip


@register
def zeros() -> Iterator[Program]:
    """Operands and updates of zeros of both signs, some places outside: bits by NumPy, one update after the other."""
    for element in (*FLOATS, *COMPLEX):
        part = PARTS.get(element, element)
        for op in ("replace", "add", "subtract", "multiply", "maximum", "minimum"):
            if element in COMPLEX and op in ("multiply", "maximum", "minimum"):
                continue
            for kind, count, window, numbers in (("rows", 7, (4,), ROWS), ("elements", 7, (), ELEMENTS), ("many elements", 500, (), ELEMENTS)):
                random = np.random.default_rng(count + len(window))
                size = count if count > 7 else 5

                def signs(*shape: int) -> np.ndarray:
                    parts = np.array([-0.0, 0.0], NUMPY[part])[random.integers(0, 2, (*shape, 1 + (element in COMPLEX)))]
                    return np.ascontiguousarray(parts).view(NUMPY[element])[..., 0] if element in COMPLEX else parts[..., 0]

                x, u = signs(size, *window), signs(count, *window)
                at = random.integers(-1, size + 1, (count, 1)).astype(np.int32)
                wanted = combined(op, x, at[:, 0], u)
                types = [tensor(x.shape, element), tensor(at.shape, "i32"), tensor(u.shape, element)]
                # Parts of complex numbers by themselves, as only they are compared by sign.
                made = tensor(x.shape, part)
                body = scatter(op, element, "%a0, %a1, %a2", types, "%w", numbers) + "".join(
                    f"\n    %r{i} = stablehlo.{name} %w : ({types[0]}) -> {made}"
                    for i, name in enumerate(("real", "imag") if element in COMPLEX else ("reshape",))
                )
                expected = [wanted.real.copy(), wanted.imag.copy()] if element in COMPLEX else [wanted]
                yield build(
                    f"scatter {op} {element} zeros {kind}", "scatter", element, [(x, element), (at, "i32"), (u, element)], body,
                    [made] * len(expected), expected=expected,
                )  # fmt: skip


@register
def whole_windows() -> Iterator[Program]:
    """Several windows that are all of the operand, one after the other: no index names a dim."""
    functions = {"replace": lambda _, q: q, "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "divide": np.divide}
    for element in ("f32", "i32", "complex<f32>"):
        for op, function in functions.items():
            if (element in COMPLEX and op in ("maximum", "divide")) or (element == "i32" and op == "divide"):
                continue
            for name, batch in (("row", (3,)), ("grid", (2, 2))):
                x, u = tame(element, (5, 4)), tame(element, (*batch, 5, 4), 5)
                wanted = x
                with np.errstate(all="ignore"):  # zeros divided by zeros
                    for each in u.reshape(-1, 5, 4):
                        wanted = function(wanted, each)
                rank = len(batch)
                at = np.zeros((*batch, 0), np.int32)
                types = [tensor(x.shape, element), tensor(at.shape, "i32"), tensor(u.shape, element)]
                numbers = f"update_window_dims = [{rank}, {rank + 1}], index_vector_dim = {rank}"
                yield build(
                    f"scatter {op} {element} whole windows in a {name}", "scatter", element, [(x, element), (at, "i32"), (u, element)],
                    scatter(op, element, "%a0, %a1, %a2", types, "%r0", numbers), [types[0]], expected=[wanted.astype(x.dtype)], ulps=4,
                    absolute=1e-5 if element == "complex<f32>" else 0,
                )  # fmt: skip


@register
def empty_operands() -> Iterator[Program]:
    """No place lies in an operand of no elements, though windows have one along its dim."""
    for element in ("f32", "i8", "complex<f64>"):
        for op in ("replace", "add"):
            for kind, rest, numbers in (("elements", (), ELEMENTS), ("rows", (4,), ROWS)):
                x, u = tame(element, (0, *rest)), tame(element, (3, *rest))
                at = np.arange(3, dtype=np.int32)[:, None]
                types = [tensor(x.shape, element), tensor(at.shape, "i32"), tensor(u.shape, element)]
                yield build(
                    f"scatter {op} {element} {kind} into nothing", "scatter", element, [(x, element), (at, "i32"), (u, element)],
                    scatter(op, element, "%a0, %a1, %a2", types, "%r0", numbers), [types[0]], expected=[x],
                )  # fmt: skip
