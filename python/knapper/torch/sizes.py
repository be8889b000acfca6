"""Torch's size expressions as our texts and as numbers."""

from __future__ import annotations

import re
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy.functions import FloorDiv


class Formula:
    """A size as Python of its symbols, which outlives torch's own. `text` is None
    where Python cannot have it."""

    def __init__(self, size: torch.SymInt) -> None:
        self.symbols = symbols(size)
        self.text: str | None
        try:
            self.text = python(size)
        except Unknown:
            self.text = None


class Begin(Formula):
    """Where a slice begins whose start data decides: `at` elements along a dim of `size`
    behind `base`, of which it has `length`."""

    def __init__(self, base: Any, stride: Any, at: Any, size: Any, length: Any) -> None:
        given = (base, stride, at, size, length)
        self.symbols = set().union(*map(symbols, given))
        behind, step, *where = map(python, given)
        self.text = f"({behind} + {step} * begin({', '.join(where)}))"


def _begin(at: int, size: int, length: int) -> int:
    if at + length > size:
        raise RuntimeError(f"start ({at}) + length ({length}) exceeds dimension size ({size})")
    return at


def kept(size: Any) -> Any:
    """A size as what is written to a cache can have it: an int or a Formula."""
    if not isinstance(size, torch.SymInt):
        return size
    made = expression(size)
    return int(made) if made.is_Integer else Formula(size)


def expression(size: Any) -> Any:
    """The sympy expression of an int or SymInt."""
    if isinstance(size, int):
        return sympy.Integer(size)
    return size.node.expr


def encoded(size: Any) -> Any:
    """A size as the description has it: an int or {"s": text}."""
    if isinstance(size, int):
        return size
    made = expression(size)
    if made.is_Integer:
        return int(made)
    if not made.is_Symbol and statically_known_true(size == 1):
        return 1  # guarded by the trace: such a dim was broadcast
    return {"s": text(made)}


def is_symbol(size: Any) -> bool:
    return isinstance(size, torch.SymInt) and expression(size).is_Symbol


def is_nested(size: torch.SymInt) -> bool:
    """Whether it names the row lengths of a nested tensor and is no number."""
    return bool(size.node.is_nested_int())


def is_negative(number: torch.SymInt) -> bool:
    """Whether the trace met a number below zero. Where it did not, the trace holds
    for numbers that are not; what only the run knows is refused there."""
    if statically_known_true(number >= 0) or not number.node.has_hint():
        return False
    return not (number.node.hint >= 0 and bool(number >= 0))


def below(name: str) -> str:
    """The symbol of what is below zero of another."""
    return f"{name}_below"


def with_signs(described: Any, names: set[str]) -> Any:
    """The same with each of these symbols as the difference of two."""
    if isinstance(described, list):
        return [with_signs(each, names) for each in described]
    if not isinstance(described, dict):
        return described
    made = {key: with_signs(value, names) for key, value in described.items()}
    if isinstance(made.get("s"), str):
        for name in names:
            made["s"] = re.sub(rf"\b{name}\b", f"({name} - {below(name)})", made["s"])
    return made


def symbols(size: Any) -> set[str]:
    if isinstance(size, int):
        return set()
    if isinstance(size, Formula):
        return size.symbols
    return {symbol.name for symbol in expression(size).free_symbols}


class Unknown(Exception):
    """An expression that sizes cannot have here."""


def text(e: Any) -> str:
    """As `Dim::str` writes it; "?" where it has no such function."""
    try:
        return _write(e, {"FloorDiv": "floordiv", "Mod": "mod", "Max": "max", "Min": "min"})
    except Unknown:
        return "?"


def python(size: Any) -> str:
    """Python of an expression over its symbols' names. Unknown where there is none."""
    if isinstance(size, Formula):
        if size.text is None:
            raise Unknown(", ".join(sorted(size.symbols)))
        return size.text
    return _write(expression(size), None)


def evaluator(
    values: list[Any], places: dict[str, tuple[int, int]], counted: dict[str, tuple[int, int]]
) -> Any:
    """A function of a call's arguments and outputs that gives the values as ints.
    `places`: as `Description.symbols`. counted: symbols that are a dim of an
    output, or its element where that is -1. Unknown where a symbol has no place."""
    used: set[str] = set()
    for value in values:
        used |= symbols(value)
    unknown = used - places.keys() - counted.keys()
    if unknown:
        raise Unknown(", ".join(sorted(unknown)))
    source = ["def numbers(a, o):"]
    for name in sorted(used):
        if name not in places:
            output, dim = counted[name]
            source.append(f"    {name} = " + (f"o[{output}].shape[{dim}]" if dim >= 0 else f"int(o[{output}])"))
            continue
        argument, dim = places[name]
        source.append(f"    {name} = a[{argument}]" + (f".shape[{dim}]" if dim >= 0 else ""))
    source.append(f"    return [{', '.join(map(python, values))}]")
    space: dict[str, Any] = {"begin": _begin}
    exec("\n".join(source), space)
    return space["numbers"]


_ROUNDED = ("CeilToInt", "FloorToInt", "TruncToInt")
_ALIASES = {
    "CleanDiv": "FloorDiv",
    "PythonMod": "Mod",
    "IntTrueDiv": "IntTrueDiv",
}


def _scaled(e: Any) -> tuple[int, Any, int] | None:
    """A float times a whole number as numerator, number and denominator. Of floats such
    as 0.5 and 1.25, whose product with a size is exact; others round."""
    factor, rest = e.as_coeff_Mul()
    if not factor.is_Float or type(rest).__name__ != "ToFloat":
        return None
    top, under = float(factor).as_integer_ratio()
    return (top, rest.args[0], under) if 0 < top < 1 << 16 and under < 1 << 16 else None


def _write(e: Any, names: dict[str, str] | None) -> str:
    def inner(part: Any) -> str:
        return _write(part, names)

    if e.is_Integer:
        return str(int(e))
    if e.is_Symbol:
        return e.name
    if e.is_Add:
        return "(" + " + ".join(map(inner, e.args)) + ")"
    if e.is_Mul:
        if any(part.is_Rational and not part.is_Integer for part in e.args):
            raise Unknown(str(e))
        return "(" + "*".join(map(inner, e.args)) + ")"
    if e.is_Pow and e.exp.is_Integer and 0 < int(e.exp) <= 8:
        return "(" + "*".join([inner(e.base)] * int(e.exp)) + ")"
    name = type(e).__name__
    ratio = e.args[0] if name in _ROUNDED else None
    if type(ratio).__name__ == "FloatTrueDiv" and ratio.args[1] in (1, sympy.Float(1)):  # the step of a range
        ratio = ratio.args[0]
    if type(ratio).__name__ == "IntTrueDiv":
        top, under = ratio.args
        if under.is_Integer and int(under) > 0 and (name != "TruncToInt" or top.is_nonnegative):
            more = int(under) - 1 if name == "CeilToInt" else 0
            return inner(FloorDiv(top + more, under))
    scaled = _scaled(ratio) if ratio is not None else None
    if scaled is not None and (name != "TruncToInt" or scaled[1].is_nonnegative):
        top, size, under = scaled
        return inner(FloorDiv(top * size + (under - 1 if name == "CeilToInt" else 0), under))
    name = _ALIASES.get(name, name)
    if name not in ("FloorDiv", "Mod", "Max", "Min"):
        raise Unknown(str(e))
    if names is None:
        a = [inner(part) for part in e.args]
        if name == "FloorDiv":
            return f"({a[0]}//{a[1]})"
        if name == "Mod":
            return f"({a[0]}%{a[1]})"
        return f"{name.lower()}({', '.join(a)})"
    made = inner(e.args[0])
    for part in e.args[1:]:
        made = f"{names[name]}({made}, {inner(part)})"
    return made


def order_of(sizes: Any, strides: Any) -> tuple[list[int] | None, list[int]]:
    """How a tensor lies in memory: its dims from the outermost inwards, None where
    it is not dense, and the dims that repeat one element (stride 0)."""
    repeated = [
        d
        for d, (size, stride) in enumerate(zip(sizes, strides))
        if isinstance(stride, int) and stride == 0 and not _is(size, 1)
    ]
    kept = [1 if d in repeated else size for d, size in enumerate(sizes)]

    def weight(d: int) -> int:
        stride = strides[d]
        if isinstance(stride, int):
            return stride
        hint = stride.node.hint
        return int(hint) if isinstance(hint, int) else 1

    dims = range(len(kept))
    order = sorted(dims, key=lambda d: -weight(d) if not _is(kept[d], 1) else 0)
    # Dims of one element stand anywhere: keep the given order where that is dense.
    for candidate in (list(dims), _with_ones(list(dims), kept, order)):
        expected: Any = 1
        dense = True
        for d in reversed(candidate):
            if _is(kept[d], 1):
                continue
            if not _same(strides[d], expected):
                dense = False
                break
            expected = expected * kept[d]
        if dense:
            return candidate, repeated
    return None, repeated


def _with_ones(dims: list[int], kept: list[Any], order: list[int]) -> list[int]:
    moving = iter([d for d in order if not _is(kept[d], 1)])
    return [d if _is(kept[d], 1) else next(moving) for d in dims]


def _is(size: Any, number: int) -> bool:
    return isinstance(size, int) and size == number


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return sympy.expand(expression(a) - expression(b)) == 0
