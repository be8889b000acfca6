"""Options of the backend."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Mapping
from typing import Any, Literal

from knapper.errors import WrongValue

MODES = ("default", "reduce-overhead", "max-autotune")


def _cache_of_environment() -> bool:
    """The words of the compiler's switches (compiler/options/Options.cpp)."""
    told = os.environ.get("KNAPPER_CACHE", "")
    if told in ("", "true", "1", "on"):
        return True
    if told in ("false", "0", "off"):
        return False
    raise WrongValue(
        f"KNAPPER_CACHE is {told!r}",
        where="environment variable KNAPPER_CACHE",
        hint="true or false",
    )


@dataclasses.dataclass(frozen=True)
class Options:
    """What `torch.compile(..., backend="knapper", options={...})` takes.

    fallback: who computes an operator without a row. "allow": torch, called
        inside of the compiled program; warned of once and counted. "error": the
        compile fails and lists all of them.
    threads: threads of a call on the CPU; 0: as many as `torch.get_num_threads()`
        says when the graph is compiled.
    cache: keep compiled graphs on disk, and take them from there. Left out: what the
        environment variable KNAPPER_CACHE says, else True.
    verify: the first call of each graph checks every kernel against a slow
        evaluation in float64; one that diverges is an InternalError that names it
        and the lines it came from, and a folder with what reproduces it.
    freeze: parameters and buffers do not change any more: they become constants,
        packed for the kernels that read them. Later writes to them are not seen. Of
        graphs without a backward only.
    frozen: a function is compiled once, for the first call. Where Dynamo wants to compile
        it again (another size, dtype or guard), the call is a UserError that says why.
        The first backward is no further compile. Modules of one class without parameters
        are one function.
    guard: "measure": the first 16 calls of a graph at each size are the program's and
        torch's interleaved, each run once; where eager is more than 1.05 times as fast,
        it runs from then on, counted as `eager_graphs`. "off": the program always
        runs, so that no result depends on a clock. "measure" beside
        fallback="error" or freeze=True is an error: these forbid that torch computes.
    mode: that of torch.compile. "reduce-overhead" is what is done always on the
        CPU; "max-autotune" reads the records that `knapper tune` has made.
    """

    fallback: Literal["allow", "error"] = "allow"
    threads: int = 0
    cache: bool = dataclasses.field(default_factory=_cache_of_environment)
    verify: bool = False
    freeze: bool = False
    frozen: bool = False
    guard: Literal["off", "measure"] = "off"
    mode: str = "default"

    @classmethod
    def of(cls, given: Mapping[str, Any] | None, mode: str | None) -> Options:
        """From torch.compile's keywords. WrongValue for unknown names and values,
        with the nearest one."""
        names = [field.name for field in dataclasses.fields(cls)]
        values = dict(given or {})
        for name in values:
            if name not in names:
                raise WrongValue(
                    f"there is no option {name!r}",
                    where="options",
                    hint=_nearest(name, names),
                )
        if mode is not None:
            values["mode"] = mode
        made = cls(**values)
        _check("fallback", made.fallback, ("allow", "error"))
        _check("mode", made.mode, MODES)
        _check("guard", made.guard, ("off", "measure"))
        for name in ("cache", "verify", "freeze", "frozen"):
            value = getattr(made, name)
            if not isinstance(value, bool):
                raise WrongValue(f"{name} is {value!r}", where=name, hint="True or False")
        if made.guard == "measure" and (made.freeze or made.fallback == "error"):
            other = "freeze=True" if made.freeze else 'fallback="error"'
            raise WrongValue(
                f'guard="measure" lets torch compute, {other} forbids it',
                where="guard",
                hint='leave one of them out; with fallback="allow", '
                "counters()['fallback_ops'] says whether a row is missing",
            )
        if not isinstance(made.threads, int) or not 0 <= made.threads <= 1 << 16:
            raise WrongValue(
                f"threads is {made.threads!r}",
                where="threads",
                hint="0 for torch's own number, or a count",
            )
        return made

    def key(self) -> str:
        """What of it decides how a graph is compiled."""
        return (
            f"fallback={self.fallback} mode={self.mode} threads={self.threads} "
            f"freeze={self.freeze}"
        )


def _nearest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, 1, 0.5)
    listed = ", ".join(names)
    return (f"{close[0]}? " if close else "") + f"The options are: {listed}"


def _check(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        close = difflib.get_close_matches(str(value), allowed, 1, 0.5)
        raise WrongValue(
            f"{name} is {value!r}",
            where=name,
            hint=(f"{close[0]}? " if close else "") + "One of: " + ", ".join(allowed),
        )
