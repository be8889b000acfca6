"""How a module is loaded: the arguments that `load` and `compile` share."""

from __future__ import annotations

import ctypes
import operator
from ctypes import byref
from typing import Any, Literal

from knapper.errors import WrongType, WrongValue
from knapper.library import CLoadOptions

Verify = Literal["lazy"] | bool  # when constants are compared with their hashes

_VERIFY = {"lazy": 0, True: 1, False: 2}


def whole(
    value: Any, argument: str, hint: str, least: int = 0, most: int = 0x7FFFFFFF
) -> int:
    """An argument that is a whole number, of NumPy too."""
    try:
        number = operator.index(value)
    except TypeError:
        raise WrongType(
            f"{argument} is {value!r}, it must be a whole number",
            where=argument,
            hint=hint,
        ) from None
    if not least <= number <= most:
        raise WrongValue(
            f"{argument} is {number}, it must be {least} to {most}",
            where=argument,
            hint=hint,
        )
    return number


def load_options(
    threads: int,
    verify: Verify = "lazy",
    spin: int = -1,
    device: str | None = None,
    describe: bool = False,
) -> Any:
    """knapper_load_options by reference."""
    threads = whole(threads, "threads", "0 for one thread a core, or a count")
    hint = "-1 for the default, or up to 1000000"
    spin = whole(spin, "spin_microseconds", hint, least=-1, most=1_000_000)
    try:
        when = _VERIFY[verify]
    except (KeyError, TypeError):
        raise WrongValue(
            f"verify is {verify!r}",
            where="verify",
            hint='"lazy" (before use), True (all of them now) or False (never)',
        ) from None
    if device is not None and not isinstance(device, str):
        device = str(device)  # torch.device
    return byref(
        CLoadOptions(
            ctypes.sizeof(CLoadOptions),
            threads,
            when,
            spin,
            None,
            device.encode() if device else None,
            int(bool(describe)),
        )
    )
