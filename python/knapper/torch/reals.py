"""Floats that torch computes from sizes and from elements of tensors, as nodes of a
description: 0-d tensors of float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from knapper.torch import sizes

_BINARY = {
    "FloatTrueDiv": "div.Tensor",
    "IntTrueDiv": "div.Tensor",
    "FloatPow": "pow.Tensor_Tensor",
    "PowByNatural": "pow.Tensor_Tensor",
    "Pow": "pow.Tensor_Tensor",
    "Mod": "remainder.Tensor",
    "PythonMod": "remainder.Tensor",
}
_FOLDED = {"Add": "add.Tensor", "Mul": "mul.Tensor", "Max": "maximum.default", "Min": "minimum.default"}
_UNARY = {
    "TruncToInt": "trunc.default",
    "TruncToFloat": "trunc.default",
    "FloorToInt": "floor.default",
    "CeilToInt": "ceil.default",
    "RoundToInt": "round.default",
    "Abs": "abs.default",
}
_OPAQUE = "OpaqueUnaryFn_"


class Reals:
    """Builds the nodes of expressions, each once."""

    def __init__(self, append: Callable[[dict[str, Any]], None]) -> None:
        self.append = append
        self.keys: dict[Any, str] = {}
        # Symbols of elements: name -> key of the tensor.
        self.symbols: dict[str, str] = {}

    def key(self, expression: Any, prefix: str, line: str) -> str:
        """Of the tensor that holds the expression's value. sizes.Unknown where a
        function in it is not known."""
        place = (prefix, expression)
        if place not in self.keys:
            self.keys[place] = self._build(expression, prefix, line)
        return self.keys[place]

    def _build(self, e: Any, prefix: str, line: str) -> str:
        if e.is_Symbol and e.name in self.symbols:
            return self.symbols[e.name]
        if e.is_Float or (e.is_Rational and not e.is_Integer):
            return self._full({"f": repr(float(e))}, prefix, line)
        if e.is_Integer:
            return self._full(int(e), prefix, line)
        if e.is_integer and {s.name for s in e.free_symbols}.isdisjoint(self.symbols):
            size = sizes.text(e)
            if size != "?":
                return self._full({"s": size}, prefix, line)
        name = type(e).__name__
        if name == "ToFloat":
            return self.key(e.args[0], prefix, line)
        parts = [self.key(part, prefix, line) for part in e.args]
        if name.startswith(_OPAQUE):
            return self._node(name.removeprefix(_OPAQUE) + ".default", parts, prefix, line)
        if name in _UNARY and len(parts) == 1:
            return self._node(_UNARY[name], parts, prefix, line)
        if name in _BINARY and len(parts) == 2:
            return self._node(_BINARY[name], parts, prefix, line)
        if name in ("FloorDiv", "CleanDiv"):
            quotient = self._node("div.Tensor", parts, prefix, line)
            return self._node("floor.default", [quotient], prefix, line)
        if name not in _FOLDED:
            raise sizes.Unknown(str(e))
        made = parts[0]
        for part in parts[1:]:
            made = self._node(_FOLDED[name], [made, part], prefix, line)
        return made

    def _full(self, value: Any, prefix: str, line: str) -> str:
        return self._add("full.default", {"size": [], "fill_value": value}, [], prefix, line)

    def _node(self, op: str, parts: list[str], prefix: str, line: str) -> str:
        names = ("self", "exponent") if op.startswith("pow") else ("self", "other")
        return self._add(op, {n: {"%": p} for n, p in zip(names, parts)}, parts, prefix, line)

    def _add(self, op: str, args: Any, operands: list[str], prefix: str, line: str) -> str:
        key = f"{prefix}real_{len(self.keys)}_{op.partition('.')[0]}"
        self.keys[key] = key  # its number is taken
        self.append(
            {
                "name": key,
                "op": f"aten.{op}",
                "line": line,
                "args": args,
                "operands": list(dict.fromkeys(operands)),
                "results": [{"dtype": "f64", "shape": [], "used": True}],
            }
        )
        return key
