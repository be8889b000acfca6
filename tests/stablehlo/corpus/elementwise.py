"""Ops of single elements: every type, at the edges, of rank 0 and of no elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corpus.programs import (
    COMPLEX, COMPUTED, FLOATS, INTEGERS, NUMBERS, SIGNED, TYPES, Program, build, cast, edges, limits, register, tame, tensor,
)  # fmt: skip

ALL_FLOATS = FLOATS + COMPUTED
LOGIC = ("i1", *INTEGERS)
# Op, element types, how far off in units of the last place.
UNARY = (
    ("abs", SIGNED + ALL_FLOATS, 0), ("ceil", ALL_FLOATS, 0), ("floor", ALL_FLOATS, 0), ("negate", NUMBERS + COMPLEX + COMPUTED, 0),
    ("sign", SIGNED + ALL_FLOATS, 0), ("round_nearest_afz", ALL_FLOATS, 0), ("round_nearest_even", ALL_FLOATS, 0),
    ("sqrt", ALL_FLOATS, 1), ("rsqrt", ALL_FLOATS, 4), ("cbrt", ALL_FLOATS, 8), ("exponential", ALL_FLOATS, 8),
    ("exponential_minus_one", ALL_FLOATS, 8), ("log", ALL_FLOATS, 8), ("log_plus_one", ALL_FLOATS, 8), ("logistic", ALL_FLOATS, 8),
    ("sine", ALL_FLOATS, 8), ("cosine", ALL_FLOATS, 8), ("tan", ALL_FLOATS, 16), ("tanh", ALL_FLOATS, 8),
    ("not", LOGIC, 0), ("popcnt", INTEGERS, 0), ("count_leading_zeros", INTEGERS, 0),
)  # fmt: skip
COMPLEX_UNARY = (
    ("exponential", 32), ("log", 32), ("sqrt", 32), ("rsqrt", 64), ("sine", 32), ("cosine", 32), ("tanh", 64),
    ("exponential_minus_one", 64), ("log_plus_one", 64), ("sign", 16), ("logistic", 64), ("tan", 64),
)  # fmt: skip
BINARY = (
    ("add", ("i1", *NUMBERS, *COMPLEX, *COMPUTED), 0), ("subtract", NUMBERS + COMPLEX + COMPUTED, 0), ("multiply", ("i1", *NUMBERS, *COMPLEX, *COMPUTED), 0), ("maximum", ("i1", *NUMBERS, *COMPUTED), 0),
    ("minimum", ("i1", *NUMBERS, *COMPUTED), 0), ("divide", NUMBERS + COMPUTED, 0), ("remainder", NUMBERS + COMPUTED, 0),
    ("power", NUMBERS + COMPUTED, 16), ("atan2", ALL_FLOATS, 8), ("and", LOGIC, 0), ("or", LOGIC, 0), ("xor", LOGIC, 0),
    ("shift_left", INTEGERS, 0), ("shift_right_logical", INTEGERS, 0), ("shift_right_arithmetic", INTEGERS, 0),
)  # fmt: skip
DIVISIONS = ("divide", "remainder")


# Of floats of six bits the interpreter rounds to zero, and makes zero of infinity, which they lack; of f8E3M4 it
# rounds to NaN: by NumPy.
SIX = ("f6E2M3FN", "f6E3M2FN")
OF_SIX = {
    "ceil": np.ceil, "floor": np.floor, "round_nearest_even": np.rint, "log": np.log, "log_plus_one": np.log1p, "rsqrt": lambda x: 1 / np.sqrt(x),
    "round_nearest_afz": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "divide": np.divide, "power": np.power,
}  # fmt: skip

ROUNDINGS = ("ceil", "floor", "round_nearest_even", "round_nearest_afz")


def of_six(op: str, element: str, *operands: np.ndarray) -> list[np.ndarray] | None:
    if op not in OF_SIX or not (element in SIX or (element == "f8E3M4" and op in ROUNDINGS)):
        return None
    with np.errstate(all="ignore"):
        wide = np.asarray(OF_SIX[op](*(x.astype(np.float32) for x in operands)))
        # Without NaN: zero, of no sign here.
        return [(wide if element not in SIX else np.where(np.isnan(wide), np.float32(0), wide)).astype(operands[0].dtype)]


def unary_program(name: str, op: str, element: str, x: np.ndarray, ulps: float) -> Program:
    type = tensor(x.shape, element)
    expected = of_six(op, element, x)
    if op == "logistic" and element in COMPUTED:  # the interpreter overflows on the way
        with np.errstate(all="ignore"):
            expected = [(1 / (1 + np.exp(-x.astype(np.float32)))).astype(x.dtype)]
    return build(name, op, element, [(x, element)], f"%r0 = stablehlo.{op} %a0 : {type}", [type], ulps=ulps, expected=expected)


@register
def unary() -> Iterator[Program]:
    for op, elements, ulps in UNARY:
        for element in elements:
            x = edges(element)
            yield unary_program(f"{op} {element} edges", op, element, x, ulps)
            yield unary_program(f"{op} {element} scalar", op, element, x[-1].reshape(()), ulps)
            yield unary_program(f"{op} {element} empty", op, element, x[:0].reshape(0, 3), ulps)
            yield unary_program(f"{op} {element} many", op, element, tame(element, (3, 7, 11)), ulps)
    for op, ulps in COMPLEX_UNARY:
        for element in COMPLEX:
            x = edges(element)
            x = x[(x.imag != 0) & (x.real != 0)]
            type = tensor(x.shape, element)
            yield build(f"{op} {element}", op, element, [(x, element)], f"%r0 = stablehlo.{op} %a0 : {type}", [type], ulps=ulps)


def nonzero_divisors(element: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Without what the interpreter's own division cannot do."""
    low, _ = limits(element)
    keep = (y != 0) & ~((x == low) & (y.astype(object) == -1))
    return x[keep], y[keep]


@register
def binary() -> Iterator[Program]:
    for op, elements, ulps in BINARY:
        for element in elements:
            each = edges(element)
            x, y = (m.ravel() for m in np.meshgrid(each, each, indexing="ij"))
            if op in DIVISIONS and element in INTEGERS:
                x, y = nonzero_divisors(element, x, y)
            pairs = {"edges": (x, y), "scalar": (x[1].reshape(()), y[1].reshape(())), "empty": (x[:0], y[:0])}
            for kind, (a, b) in pairs.items():
                type = tensor(a.shape, element)
                yield build(
                    f"{op} {element} {kind}", op, element, [(a, element), (b, element)],
                    f"%r0 = stablehlo.{op} %a0, %a1 : {type}", [type], ulps=ulps, expected=of_six(op, element, a, b),
                )  # fmt: skip
    for op, ulps in (("divide", 8), ("power", 256)):
        for element in COMPLEX:
            x = edges(element)
            y = np.roll(x, 7)
            keep = (y.imag != 0) & (y.real != 0) & (x.imag != 0) & (x.real != 0)
            x, y = x[keep], y[keep]
            type = tensor(x.shape, element)
            yield build(
                f"{op} {element}", op, element, [(x, element), (y, element)], f"%r0 = stablehlo.{op} %a0, %a1 : {type}",
                [type], ulps=ulps,
            )  # fmt: skip


@register
def divisions_by_zero() -> Iterator[Program]:
    """XLA's rule: -1, and what is divided."""
    for element in INTEGERS:
        x = edges(element)
        y = np.zeros_like(x)
        low, high = limits(element)
        type = tensor(x.shape, element)
        ones = cast(np.full(x.shape, -1, dtype=object), element)
        for op, wanted in (("divide", ones), ("remainder", x)):
            yield build(
                f"{op} {element} by zero", op, element, [(x, element), (y, element)],
                f"%r0 = stablehlo.{op} %a0, %a1 : {type}", [type], expected=[wanted],
            )  # fmt: skip
        if low:
            minus = cast(np.array([-1], dtype=object), element)
            least = cast(np.array([low], dtype=object), element)
            for op, wanted in (("divide", least), ("remainder", np.zeros_like(minus))):
                yield build(
                    f"{op} {element} least by -1", op, element, [(least, element), (minus, element)],
                    f"%r0 = stablehlo.{op} %a0, %a1 : {tensor((1,), element)}", [tensor((1,), element)], expected=[wanted],
                )  # fmt: skip


def compare_kind(element: str) -> str:
    if element == "i1" or element.startswith("u"):
        return "UNSIGNED"
    return "SIGNED" if element in SIGNED else "FLOAT"


@register
def compare() -> Iterator[Program]:
    for element in TYPES:
        each = edges(element)
        x, y = (m.ravel() for m in np.meshgrid(each, each, indexing="ij"))
        kinds = [compare_kind(element)] + (["TOTALORDER"] if element in FLOATS else [])
        for kind in kinds:
            for direction in ("EQ", "NE") if element in COMPLEX else ("EQ", "NE", "LT", "LE", "GT", "GE"):
                type, bools = tensor(x.shape, element), tensor(x.shape, "i1")
                expected = None
                if kind == "TOTALORDER":  # the interpreter knows no such order
                    bits = x.dtype.itemsize * 8
                    key = [v.view(f"i{bits // 8}").astype(np.int64) for v in (x, y)]
                    key = [np.where(k < 0, k ^ (2 ** (bits - 1) - 1), k) for k in key]
                    compare = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal}
                    expected = [compare[direction](*key)]
                yield build(
                    f"compare {element} {kind} {direction}", "compare", element, [(x, element), (y, element)],
                    f"%r0 = stablehlo.compare {direction}, %a0, %a1, {kind} : ({type}, {type}) -> {bools}", [bools], expected=expected,
                )  # fmt: skip


def saturated(x: np.ndarray, element: str) -> np.ndarray:
    """Floats to integers: what is beyond becomes the last, NaN zero."""
    low, high = limits(element)
    wide = np.nan_to_num(x.astype(np.float64), nan=0.0)
    return cast(np.array([min(max(int(v), low), high) for v in wide], dtype=object), element)


@register
def convert() -> Iterator[Program]:
    for source in TYPES:
        for target in TYPES:
            if source in COMPLEX and target not in COMPLEX:
                continue
            x = edges(source)
            expected = None
            # The interpreter makes infinity of the NaN of f8E8M0FNU, which has none,
            # and zero of what is beyond floats of six and four bits: as ml_dtypes has them.
            if ({"f8E8M0FNU"} & {source, target} or target in ("f4E2M1FN", *SIX)) and source not in COMPLEX and target not in COMPLEX:
                with np.errstate(all="ignore"):
                    expected = [x.astype(np.float64).astype(tame(target, ()).dtype) if target not in INTEGERS else saturated(x, target)]
            elif source == "f8E8M0FNU":
                expected = [x.astype(np.float64).astype(tame(target, ()).dtype)]
            yield build(
                f"convert {source} to {target}", "convert", source, [(x, source)],
                f"%r0 = stablehlo.convert %a0 : ({tensor(x.shape, source)}) -> {tensor(x.shape, target)}", [tensor(x.shape, target)],
                expected=expected,
            )  # fmt: skip


@register
def select_and_clamp() -> Iterator[Program]:
    for element in TYPES:
        x = edges(element)
        y = x[::-1].copy()
        which = np.arange(x.size) % 2 == 0
        type = tensor(x.shape, element)
        for kind, p in (("", which), (" by one", np.array(True))):
            yield build(
                f"select {element}{kind}", "select", element, [(p, "i1"), (x, element), (y, element)],
                f"%r0 = stablehlo.select %a0, %a1, %a2 : {tensor(p.shape, 'i1')}, {type}", [type],
            )  # fmt: skip
        if element in COMPLEX or element == "i1":
            continue
        low, high = cast(np.array(1.0), element), cast(np.array(2.0), element)
        if element in ("i2",):
            low, high = cast(np.array(-1), element), cast(np.array(1), element)
        one = tensor((), element)
        yield build(
            f"clamp {element} by ones", "clamp", element, [(low, element), (x, element), (high, element)],
            f"%r0 = stablehlo.clamp %a0, %a1, %a2 : ({one}, {type}, {one}) -> {type}", [type],
        )  # fmt: skip
        yield build(
            f"clamp {element}", "clamp", element, [(np.full(x.shape, low), element), (x, element), (np.full(x.shape, high), element)],
            f"%r0 = stablehlo.clamp %a0, %a1, %a2 : {type}", [type],
        )  # fmt: skip


@register
def complex_parts() -> Iterator[Program]:
    for element, part in zip(COMPLEX, ("f32", "f64")):
        z = edges(element)
        type, real = tensor(z.shape, element), tensor(z.shape, part)
        for op in ("real", "imag"):
            yield build(f"{op} {element}", op, element, [(z, element)], f"%r0 = stablehlo.{op} %a0 : ({type}) -> {real}", [real])
        yield build(f"abs {element}", "abs", element, [(z, element)], f"%r0 = stablehlo.abs %a0 : ({type}) -> {real}", [real], ulps=4)
        x = edges(part)
        type, real = tensor(x.shape, element), tensor(x.shape, part)
        yield build(
            f"complex {element}", "complex", element, [(x, part), (x[::-1].copy(), part)],
            f"%r0 = stablehlo.complex %a0, %a1 : {type}", [type],
        )  # fmt: skip
    for element in FLOATS:
        x = edges(element)
        type = tensor(x.shape, element)
        for op in ("real", "imag"):
            yield build(f"{op} {element}", op, element, [(x, element)], f"%r0 = stablehlo.{op} %a0 : ({type}) -> {type}", [type])


@register
def floats_alone() -> Iterator[Program]:
    for element in ALL_FLOATS:
        x = np.concatenate([edges(element), np.array([3e-5, 1.3e-5, 7e-39, 1.9]).astype(edges(element).dtype)])
        type, bools = tensor(x.shape, element), tensor(x.shape, "i1")
        yield build(f"is_finite {element}", "is_finite", element, [(x, element)], f"%r0 = stablehlo.is_finite %a0 : ({type}) -> {bools}", [bools])
        for exponent, mantissa in ((5, 10), (8, 7), (8, 23), (5, 2), (4, 3), (11, 52), (3, 4), (8, 3), (2, 1), (6, 12)):
            yield build(
                f"reduce_precision {element} e{exponent}m{mantissa}", "reduce_precision", element, [(x, element)],
                f"%r0 = stablehlo.reduce_precision %a0, format = e{exponent}m{mantissa} : {type}", [type],
            )  # fmt: skip


@register
def bitcasts() -> Iterator[Program]:
    groups = (
        ("i8", "ui8", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ"), ("i16", "ui16", "bf16", "f16"), ("i32", "ui32", "f32"),
        ("i64", "ui64", "f64"),
    )  # fmt: skip
    for group in groups:
        for source in group:
            for target in group:
                x = edges(source)
                yield build(
                    f"bitcast_convert {source} to {target}", "bitcast_convert", source, [(x, source)],
                    f"%r0 = stablehlo.bitcast_convert %a0 : ({tensor(x.shape, source)}) -> {tensor(x.shape, target)}",
                    [tensor(x.shape, target)],
                )  # fmt: skip
    for wide, narrow, parts in (("i32", "i8", 4), ("f32", "ui16", 2), ("ui64", "f32", 2), ("f64", "i8", 8), ("i16", "ui8", 2), ("bf16", "i8", 2), ("i8", "i4", 2), ("i32", "ui4", 8)):
        x = edges(wide)
        wide_type, narrow_type = tensor(x.shape, wide), tensor((*x.shape, parts), narrow)
        yield build(
            f"bitcast_convert {wide} to {narrow}s", "bitcast_convert", wide, [(x, wide)],
            f"%r0 = stablehlo.bitcast_convert %a0 : ({wide_type}) -> {narrow_type}", [narrow_type],
        )  # fmt: skip
        y = tame(narrow, (5, parts))
        yield build(
            f"bitcast_convert {narrow}s to {wide}", "bitcast_convert", narrow, [(y, narrow)],
            f"%r0 = stablehlo.bitcast_convert %a0 : ({tensor(y.shape, narrow)}) -> {tensor((5,), wide)}", [tensor((5,), wide)],
        )  # fmt: skip
