"""Starts a program in which `import onnxruntime` gives Knapper.

    python -m knapper.ort script.py [ARGUMENT]...
    python -m knapper.ort -m uvicorn app:app
    python -m knapper.ort --path      # prints the folder that has to be on PYTHONPATH

The program's child processes inherit it.
"""

from __future__ import annotations

import os
import sys
import sysconfig

from knapper.ort.switch import FOLDER


def environment() -> dict[str, str]:
    """The environment with the folder first on PYTHONPATH, and the one that this
    package was found in last where Python would not look there."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(FOLDER)))
    found = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [FOLDER, *(f for f in found if f and f != FOLDER)]
    if root not in (*folders, *sysconfig.get_paths().values()):
        folders.append(root)
    return os.environ | {"PYTHONPATH": os.pathsep.join(folders)}


def main() -> int:
    """Becomes the program; 2 without one."""
    arguments = sys.argv[1:]
    if arguments == ["--path"]:
        print(FOLDER)
        return 0
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__.strip(), file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    # Flags of this interpreter stand before `-m knapper.ort`.
    before = sys.orig_argv[1 : len(sys.orig_argv) - len(arguments)]
    flags = before[:-2] if before[-2:-1] == ["-m"] else before[:-1]
    os.execve(sys.executable, [sys.executable, *flags, *arguments], environment())


if __name__ == "__main__":
    raise SystemExit(main())
