"""Sends the library's messages to Python's logging, logger "knapper".

The level follows the logger's effective level each time a model is compiled or
loaded, so `logging.basicConfig(level=logging.DEBUG)` is all it takes.
"""

from __future__ import annotations

import atexit
import ctypes
import logging

# As the library calls it: the user's pointer, a level, the text.
LogCallback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)

logger = logging.getLogger("knapper")
# Without a handler of its own Python would print warnings to stderr.
logger.addHandler(logging.NullHandler())

_TO_PYTHON = {
    1: logging.ERROR,
    2: logging.WARNING,
    3: logging.INFO,
    4: logging.DEBUG,
}


@LogCallback
def _forward(_user: object, level: int, text: bytes) -> None:
    logger.log(
        _TO_PYTHON.get(level, logging.DEBUG),
        "%s",
        (text or b"").decode(errors="replace"),
    )


def library_level(level: int) -> int:
    """The library's level for one of Python's."""
    if level <= logging.DEBUG:
        return 4
    if level <= logging.INFO:
        return 3
    if level <= logging.WARNING:
        return 2
    return 1 if level <= logging.CRITICAL else 0


_library: ctypes.CDLL | None = None
_level: int | None = None


def install(lib: ctypes.CDLL) -> None:
    """Connects the library; called once, when it is loaded."""
    global _library
    _library = lib
    follow()
    # Threads of the library must not call into an interpreter that is gone.
    atexit.register(lib.knapper_set_log_callback, LogCallback(), None, 0)


def follow() -> None:
    """Takes over the logger's present level."""
    global _level
    level = library_level(logger.getEffectiveLevel())
    if _library is not None and level != _level:
        _library.knapper_set_log_callback(_forward, None, level)
        _level = level
