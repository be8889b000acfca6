"""What this machine offers."""

from __future__ import annotations

import ctypes
import json
from typing import Any

from knapper.library import check, library, take_string


def devices(measure: bool = False) -> list[dict[str, Any]]:
    """The devices of this machine, one dict each: "device", "name", "isa",
    "cores"...

    measure: also measure the peaks ("fma_gflops", "copy_gbps"); takes about a
    second, once a machine.
    """
    text = ctypes.c_void_p()
    check(library().knapper_devices(int(measure), ctypes.byref(text)))
    return json.loads(take_string(text))
