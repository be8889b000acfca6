"""Exceptions of functions that the library calls. One cannot cross the library:
it is kept, and the library's error carries its number to whoever waits, which may
be another thread."""

from __future__ import annotations

import itertools
import re
import threading

_MOST = 64  # errors that nobody asks for
_kept: dict[int, BaseException] = {}
_numbers = itertools.count(1)
_lock = threading.Lock()
_mark = re.compile(r" \[raised in Python, (\d+)\]")


def keep(error: BaseException) -> bytes:
    """The text for the library's error."""
    try:
        said = f": {error}"
    except Exception:  # of a __str__ of the caller's
        said = ""
    text = type(error).__name__ + said.replace("\0", "\\0")
    with _lock:
        number = next(_numbers)
        _kept[number] = error
        while len(_kept) > _MOST:
            del _kept[next(iter(_kept))]
    return f"{text} [raised in Python, {number}]".encode(errors="backslashreplace")


def take(message: str) -> tuple[str, BaseException | None]:
    """A message of the library without the mark, and what was raised; None for
    other errors."""
    found = _mark.search(message)
    if found is None:
        return message, None
    with _lock:
        error = _kept.pop(int(found.group(1)), None)
    return message[: found.start()] + message[found.end() :], error
