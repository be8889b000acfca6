"""Custom operators (`torch.library`) that users bring rows for."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
from collections.abc import Callable
from typing import Any

import torch

from knapper.errors import UserError

# Of the process, as torch's own registry of operators is.
_decompositions: dict[Any, Callable[..., Any]] = {}
_externals: set[Any] = set()


def register_decomposition(
    op: Any, function: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """A custom operator as a function of torch's operators, which is traced in its
    place: what it computes is compiled with what is around it.

    op: "namespace::name" or "namespace::name.overload", an overload of `torch.ops`,
    or what `torch.library.custom_op` gave. function: takes what the operator takes
    and returns what it returns, with the same dtypes and sizes; without it, a
    decorator. Holds for graphs that are compiled afterwards, in this process.
    UserError for operators that there are not, for torch's own and for those that
    write into their arguments.
    """
    if function is None:
        return lambda given: register_decomposition(op, given)
    overload = _overload(op)
    if overload._schema.is_mutable:
        raise UserError(
            f"{overload} writes into its arguments",
            where="register_decomposition",
            hint="register_external, or give it results instead",
        )
    _externals.discard(overload)
    _decompositions[overload] = function
    return function


def register_external(op: Any) -> None:
    """Lets torch compute a custom operator, called from inside of compiled programs
    on tensors in the program's memory, also with fallback="error". It does not
    count as `fallback_ops`. `op` as in `register_decomposition`; the operator may
    write into its arguments."""
    overload = _overload(op)
    _decompositions.pop(overload, None)
    _externals.add(overload)


def decompositions() -> dict[Any, Callable[..., Any]]:
    return dict(_decompositions)


def is_external(overload: Any) -> bool:
    if isinstance(overload, Functional):
        overload = overload.op
    return getattr(overload, "is_external", False) or overload in _externals


def key() -> str:
    """What of it decides how a graph is compiled."""
    told = sorted(f"{op}={_code(function)}" for op, function in _decompositions.items())
    return " ".join(told + sorted(f"{op} by torch" for op in _externals))


@dataclasses.dataclass(frozen=True)
class Functional:
    """An operator that writes into its arguments, as torch makes it functional: its
    results, then the tensors that it has written."""

    op: Any

    @property
    def tags(self) -> Any:
        return self.op.tags

    def __str__(self) -> str:
        return f"{self.op}.functional"

    def __call__(self, **arguments: Any) -> Any:
        return torch.ops.higher_order.auto_functionalized_v2(self.op, **arguments)


def packed(overload: Any) -> Any:
    """An overload as pickle can have it."""
    if isinstance(overload, Functional):
        return ("functional", packed(overload.op))
    if not isinstance(overload, torch._ops.OpOverload):
        return overload  # has a form of its own
    return str(overload)


def unpacked(text: Any) -> Any:
    """The overload again; AttributeError where this process has none of the name."""
    if isinstance(text, tuple):
        return Functional(unpacked(text[1]))
    if not isinstance(text, str):
        return text
    space, name, overload = text.split(".", 2)
    return getattr(getattr(getattr(torch.ops, space), name), overload)


def _code(function: Any) -> str:
    code = getattr(function, "__code__", None)
    text = repr((code.co_code, code.co_consts, code.co_names)) if code else repr(function)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _overload(op: Any) -> Any:
    found = getattr(op, "_opoverload", op)
    if isinstance(op, str):
        space, _, rest = op.partition("::")
        name, _, which = rest.partition(".")
        here = getattr(torch.ops, space) if space else None
        try:
            found = getattr(getattr(here, name), which or "default")
        except AttributeError:
            close = difflib.get_close_matches(name, dir(here), 1) if here else []
            raise UserError(
                f"there is no operator {op!r}",
                where="custom operators",
                hint=f"{space}::{close[0]}?" if close else "define it with torch.library first",
            ) from None
    elif isinstance(op, torch._ops.OpOverloadPacket):
        found = op.default
    if not isinstance(found, torch._ops.OpOverload):
        raise UserError(
            f"{op!r} is no operator", where="custom operators", hint='give "namespace::name"'
        )
    if found.namespace in ("aten", "prims", "prim"):
        raise UserError(
            f"{found} is torch's own", where="custom operators", hint="register operators of yours"
        )
    return found
