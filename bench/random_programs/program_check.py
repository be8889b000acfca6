"""One program on `knapper` and on JAX's CPU."""

from __future__ import annotations

import warnings
from typing import Any

import jax

from random_programs.program_compare import judged, leaves
from random_programs.program_data import Program


def run(program: Program, platform: str) -> list[Any]:
    with jax.enable_x64(program.x64):
        return leaves(jax.jit(program.build())(*jax.device_put(program.arguments(), jax.devices(platform)[0])))


def check(program: Program) -> dict[str, Any]:
    """{"status", "why"}, "ratio" (program_compare.py): "same", "refused" (said to be not supported), "undefined" (JAX's CPU has
    an error), "wrong", "error"."""
    warnings.simplefilter("ignore")
    try:
        wanted = run(program, "cpu")
    except Exception as error:
        return {"status": "undefined", "why": f"{type(error).__name__}: {error}"[:300]}
    try:
        given = run(program, "knapper")
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        return {"status": "refused" if "UNIMPLEMENTED" in why else "error", "why": why[:600]}
    answer = judged(program, given, wanted)
    return {"status": "wrong" if answer["why"] else "same", **answer}
