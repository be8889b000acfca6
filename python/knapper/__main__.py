"""The command `knapper`, and `python -m knapper`: the library's own command line."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from knapper.library import library


def main() -> int:
    """Runs the command that sys.argv asks for; returns its exit code."""
    words = [b"knapper", *map(os.fsencode, sys.argv[1:])]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    # The library runs outside the interpreter, which could not see Ctrl-C before it returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout.flush()
    return int(library().knapper_command_line(len(words), argv))


if __name__ == "__main__":
    raise SystemExit(main())
