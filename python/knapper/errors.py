"""The three kinds of error, never mixed, each also Python's own class for it."""

from __future__ import annotations

import errno
import os


def printable(text: str) -> str:
    """Names of models as a terminal may print them: what it would obey (escapes,
    a reversed order) is shown as "\\x1b" instead. Lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode()
        for c in text
    )


class Error(Exception):
    """The base class of the library's errors.

    str(error) is the whole text: where, what, why and one thing to try.
    where: the node, argument or file offset; "" when unknown.
    hint: the thing to try; "" when there is none.
    """

    def __init__(self, message: str, where: str = "", hint: str = "") -> None:
        if hint and "\n  try: " not in message:
            message = f"{message}\n  try: {hint}"
        super().__init__(printable(message))
        self.where = printable(where)
        self.hint = printable(hint)

    def __str__(self) -> str:  # KeyError and OSError have forms of their own
        return str(self.args[0]) if self.args else ""


class UserError(Error):
    """The model, a file or an argument is wrong: the caller can fix it."""


class DeviceError(Error):
    """The machine failed: memory ran out, a system call did not succeed."""


class InternalError(Error):
    """A defect of Knapper: please report it with the text."""


class WrongValue(UserError, ValueError):
    """An argument, a model or a file with a value that cannot be taken."""


class WrongType(UserError, TypeError):
    """An argument of another type, or an array of another dtype."""


class WrongName(UserError, KeyError):
    """A name that does not exist."""


class WrongIndex(UserError, IndexError):
    """A position that does not exist."""


class WrongAttribute(UserError, AttributeError):
    """An attribute that does not exist or cannot be set."""


class MissingFile(UserError, FileNotFoundError):
    """A file or folder that does not exist."""


class ForbiddenFile(UserError, PermissionError):
    """A file that may not be read or written."""


class FolderGiven(UserError, IsADirectoryError):
    """A folder where a file was expected."""


class Cancelled(UserError):
    """The work was cancelled."""


class TimedOut(UserError, TimeoutError):
    """The work took longer than the caller's timeout."""


class OutOfMemory(DeviceError, MemoryError):
    """There is not enough memory."""


_OF_FILES: dict[int, type[UserError]] = {
    errno.ENOENT: MissingFile,
    errno.ENOTDIR: MissingFile,
    errno.EACCES: ForbiddenFile,
    errno.EPERM: ForbiddenFile,
    errno.EISDIR: FolderGiven,
}
_MEMORY = ("out of memory", "cannot allocate", os.strerror(errno.ENOMEM))


def of_library(kind: int, message: str, where: str, hint: str) -> Error:
    """The error of the library: `kind` is a knapper_error_kind. What the system
    said (its texts are at the end of a sentence) decides on the class."""
    if kind == 0:
        for number, made in _OF_FILES.items():
            if f"{os.strerror(number)}\n" in message + "\n":
                error = made(message, where, hint)
                error.errno = number  # type: ignore[attr-defined]
                error.filename = where  # type: ignore[attr-defined]
                return error
        if where in ("run", "compile", "quantize") and "was cancelled" in message:
            return Cancelled(message, where, hint)
        return WrongValue(message, where, hint)
    if kind == 1:
        lower = message.lower()
        if any(text.lower() in lower for text in _MEMORY):
            return OutOfMemory(message, where, hint)
        return DeviceError(message, where, hint)
    return InternalError(message, where, hint)

