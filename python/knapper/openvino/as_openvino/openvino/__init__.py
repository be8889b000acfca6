"""Knapper under OpenVINO's name; see `knapper.openvino.install`."""

import sys as _sys
from typing import Any as _Any

import knapper.openvino as _ov
from knapper.openvino import *  # noqa: F401,F403
from knapper.openvino import __version__  # noqa: F401
from knapper.openvino.switch import STAND_IN as _STAND_IN

_sys.meta_path.append(_STAND_IN)


def __getattr__(name: str) -> _Any:
    return getattr(_ov, name)
