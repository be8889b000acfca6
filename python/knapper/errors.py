"""The three kinds of error, never mixed."""

from __future__ import annotations


def printable(text: str) -> str:
    """Names of models as a terminal may print them: what it would obey (escapes,
    a turned order) is shown as "\\x1b" instead. Lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode()
        for c in text
    )


class Error(Exception):
    """What the library refused or failed to do.

    str(error) is the whole text: where, what, why and one thing to try.
    where: the node, argument or file offset; "" when unknown.
    hint: the thing to try; "" when there is none.
    """

    def __init__(self, message: str, where: str = "", hint: str = "") -> None:
        super().__init__(printable(message))
        self.where = printable(where)
        self.hint = printable(hint)


class UserError(Error):
    """The model, a file or an argument is wrong: the caller can fix it."""


class DeviceError(Error):
    """The machine failed: memory ran out, a system call did not succeed."""


class InternalError(Error):
    """A defect of Knapper: please report it with the text."""
