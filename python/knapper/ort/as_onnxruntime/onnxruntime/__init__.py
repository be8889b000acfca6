"""Knapper under ONNX Runtime's name; see `knapper.ort.install`."""

import sys as _sys
from typing import Any as _Any

import knapper.ort as _ort
from knapper.ort import *  # noqa: F401,F403
from knapper.ort import __version__  # noqa: F401
from knapper.ort.switch import STAND_IN as _STAND_IN

from onnxruntime import capi  # noqa: F401

_sys.meta_path.append(_STAND_IN)


def __getattr__(name: str) -> _Any:
    return getattr(_ort, name)
