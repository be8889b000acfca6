"""ONNX Runtime's exceptions by their names, each also one of Knapper's kinds.

Where ONNX Runtime raises a built-in exception, ours is that one too, so that a
handler written for it still catches.
"""

from __future__ import annotations

from knapper.errors import DeviceError, Error, InternalError, UserError


class Fail(Error):
    """A run that was told to end."""


class InvalidArgument(UserError):
    """An input or output that the model does not have, or one of another type,
    rank or size."""


class MissingInput(UserError, ValueError):
    """An input that was not fed: a ValueError in ONNX Runtime, and no
    InvalidArgument."""


class BindingError(InvalidArgument, RuntimeError):
    """A binding or value that does not fit (ONNX Runtime: RuntimeError)."""


class NoSuchFile(UserError):
    """The model's file does not exist."""


class NoModel(UserError):
    """Never raised: a session always has a model."""


class ModelLoaded(UserError):
    """Never raised: a session has one model for life."""


class InvalidProtobuf(UserError):
    """The bytes are no ONNX model."""


class InvalidGraph(UserError):
    """The model is damaged or not valid ONNX."""


class NotImplemented(UserError, NotImplementedError):
    """An operator, an option or a call that Knapper has not; the text says what
    to do instead."""


class EngineError(InternalError):
    """A defect of Knapper."""


class RuntimeException(DeviceError):
    """The machine failed: memory ran out, a system call did not succeed."""


class EPFail(Error):
    """Never raised: there is one provider and no fallback between several."""


def with_hint(kind: type[Error], what: str, hint: str, where: str = "") -> Error:
    """An error of this kind whose text ends with the thing to try."""
    return kind(f"{what}\n  try: {hint}", where=where, hint=hint)


def refuse(what: str, hint: str) -> NotImplemented:
    """The error for an option or a call that is not honoured."""
    error = with_hint(NotImplemented, f"{what}: not honoured by knapper.ort", hint, what)
    assert isinstance(error, NotImplemented)
    return error


def translated(error: Error, user: type[Error]) -> Error:
    """The library's error under ONNX Runtime's name: `user` for the caller's
    mistakes."""
    kind: type[Error] = EngineError
    if isinstance(error, UserError):
        kind = user
    elif isinstance(error, DeviceError):
        kind = RuntimeException
    return kind(str(error), where=error.where, hint=error.hint)
