"""Functions of the caller that the library calls while it works on a request."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from knapper.cancellation import Cancellation
from knapper.library import CCompileOptions, Progress, check, library
from knapper.module import Module


class Callbacks:
    """Those of one request. An exception cannot cross the library: the first one
    is kept, ends the work, and is raised by `finish`. The object has to live as
    long as the call.
    """

    def __init__(
        self,
        request: CCompileOptions,
        progress: Callable[[str, int, int], None] | None,
        cancel: Cancellation | None,
    ) -> None:
        self._wish = cancel if cancel is not None else Cancellation()
        self._raised: BaseException | None = None
        request.cancel = ctypes.pointer(self._wish._flag)
        if progress is not None:
            report = progress

            def forward(_user: Any, phase: bytes, done: int, total: int) -> None:
                report((phase or b"").decode(), done, total)

            request.progress = Progress(self.guard(forward, ends=True))

    def guard(
        self, function: Callable[..., Any], *, failed: Any = None, ends: bool = False
    ) -> Callable[..., Any]:
        """`function` as the library may call it: once something was raised it
        gives `failed`. ends: cancels the work too.
        """

        def call(*arguments: Any) -> Any:
            if self._raised is None:
                try:
                    return function(*arguments)
                except BaseException as error:
                    self._raised = error
                    if ends:
                        self._wish.cancel()
            return failed

        return call

    def finish(self, error: Any, handle: ctypes.c_void_p) -> None:
        """Raises what was raised, else the library's error. A module that was
        made all the same goes.
        """
        if self._raised is None:
            check(error)
            return
        if error is not None:
            library().knapper_error_release(error)
        elif handle:
            Module._adopt(handle)
        raise self._raised
