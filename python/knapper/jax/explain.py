"""What becomes of a JAX function: its kernels with the lines of Python they came from,
and each of them checked."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from knapper import html
from knapper.compiler import compile as compiled
from knapper.compiler import verify as verified
from knapper.errors import WrongValue
from knapper.module import Module


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What `explain` found. Prints as a summary."""

    module: Module
    report: html.Report  # the page, also where `path` said
    checks: tuple[dict[str, Any], ...] = ()  # of each kernel, with verify=True

    @property
    def kernels(self) -> list[str]:
        """Of each kernel that a call launches: the operations and lines it came from."""
        return [launch["origin"] for launch in self.module.describe()["launches"]]

    @property
    def first_divergent(self) -> dict[str, Any] | None:
        """The first kernel whose results are further from float64 than its bound."""
        return next((each for each in self.checks if not each["passed"]), None)

    def __str__(self) -> str:
        kernels = self.kernels
        lines = [f"{len(kernels)} kernels"] + [f"  {origin}" for origin in kernels]
        if self.checks:
            worst = self.first_divergent
            lines.append(
                f"checked against float64: {len(self.checks)} kernels, all within their bounds"
                if worst is None
                else f"the first that diverges from float64: {worst['origin']}, error {worst['error']:.2e}, bound {worst['bound']:.2e}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html.table(("kernel", "from"), list(enumerate(self.kernels)))


def explain(
    function: Callable[..., Any],
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    verify: bool = False,
    profile: bool = False,
    target: str = "",
    **kwargs: Any,
) -> Explanation:
    """Compiles `function(*args, **kwargs)`, a jitted function or one to be jitted, as
    `jax.jit` on this platform does, and says what its kernels are.

    path: the report is written there as one HTML file.
    verify: runs the function, and checks every kernel against an evaluation in
        float64 of the values that the kernel read.
    profile: runs it with clocks; the report then has the kernels' times.
    target: "cpu" or "cuda"; as it is, what JAX's device on `knapper` is, else "cpu".

    Arguments may be `jax.ShapeDtypeStruct` unless they are run. Raises what
    `jax.export.export` raises, for functions with callbacks too, and WrongValue
    where values are needed and not given.
    """
    import jax
    import jax.export
    import numpy as np

    exported = jax.export.export(function if hasattr(function, "lower") else jax.jit(function))(*args, **kwargs)
    leaves = jax.tree.leaves((args, kwargs))
    inputs = [leaves[i] for i in exported.module_kept_var_idx]
    if (verify or profile) and any(isinstance(each, jax.ShapeDtypeStruct) for each in inputs):
        raise WrongValue(
            "an argument has a shape and no values, and the function is to be run",
            where="knapper.jax.explain",
            hint="give arrays, or leave out verify and profile",
        )
    where = target or _target()
    module = compiled(exported, target=where)
    values = [np.asarray(each) for each in inputs] if verify or profile else []
    report = module.explain(path, inputs=values) if profile else module.explain(path)
    checks = tuple(verified(exported, values, target=where)["kernels"]) if verify else ()
    return Explanation(module, report, checks)


def _target() -> str:
    from jax._src import xla_bridge

    known = xla_bridge.backends().get("knapper") if xla_bridge.backends_are_initialized() else None
    return "cpu" if known is None or known.local_devices()[0].addresses_host else "cuda"
