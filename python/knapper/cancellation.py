"""A wish that a compile or a run should end."""

from __future__ import annotations

import ctypes


class Cancellation:
    """Given to `knapper.compile` or `Module.run`; `cancel()` from another thread
    ends them, before the next kernel, with a UserError. One may be given to many
    calls; it stays cancelled.
    """

    __slots__ = ("_flag",)

    def __init__(self) -> None:
        self._flag = ctypes.c_int32(0)

    def cancel(self) -> None:
        """Ends what it was given to, and what it will be given to."""
        self._flag.value = 1

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._flag.value != 0
