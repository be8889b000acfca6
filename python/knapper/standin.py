"""A drop-in under the name of the package that it stands in for.

A folder holds a package of that name. It only has to come first on `sys.path`:
`install` puts it there, and `start` on PYTHONPATH, which child processes inherit.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
import types
from collections.abc import Mapping, Sequence

from knapper.errors import UserError


class ModuleRefused(UserError, ImportError):
    """A part of the other package that Knapper has not."""


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """One drop-in, `knapper.NAME`, and the package's name that it can have.

    folder: holds a package `name`. refused: parts of the other package that
    Knapper has not, and what to do instead; importing one raises ModuleRefused
    once this object is on `sys.meta_path`, after all other finders.
    """

    def __init__(
        self, module: str, name: str, folder: str, refused: Mapping[str, str]
    ) -> None:
        self.module = module
        self.name = name
        self.folder = folder
        self.refused = refused

    def install(self) -> None:
        """From here on importing the name gives Knapper, in this process and in
        those that `multiprocessing` starts.

        Raises UserError where the other package was imported before.
        """
        loaded = sys.modules.get(self.name)
        if loaded is not None and not str(loaded.__file__).startswith(self.folder):
            hint = (
                f"call {self.module}.install() before anything imports it, or start the "
                f"program with `python -m {self.module} script.py`"
            )
            raise UserError(
                f"{self.name} is imported already, from {loaded.__file__}\n  try: {hint}",
                where=f"{self.module}.install",
                hint=hint,
            )
        if self.folder not in sys.path:
            sys.path.insert(0, self.folder)
            importlib.invalidate_caches()

    # ---- the command

    def environment(self) -> dict[str, str]:
        """The environment with the folder first on PYTHONPATH, and the one that
        Knapper was found in last where Python would not look there."""
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        found = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        folders = [self.folder, *(f for f in found if f and f != self.folder)]
        if root not in (*folders, *sysconfig.get_paths().values()):
            folders.append(root)
        return os.environ | {"PYTHONPATH": os.pathsep.join(folders)}

    def start(self, usage: str) -> int:
        """`python -m MODULE ...`: becomes the program. 2 without one, 0 after
        `--help` and `--path`."""
        arguments = sys.argv[1:]
        if arguments == ["--path"]:
            print(self.folder)
            return 0
        if not arguments or arguments[0] in ("-h", "--help"):
            print(usage.strip(), file=sys.stdout if arguments else sys.stderr)
            return 0 if arguments else 2
        # Flags of this interpreter stand before `-m MODULE`.
        before = sys.orig_argv[1 : len(sys.orig_argv) - len(arguments)]
        flags = before[:-2] if before[-2:-1] == ["-m"] else before[:-1]
        command = [sys.executable, *flags, *arguments]
        os.execve(sys.executable, command, self.environment())

    # ---- the finder

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for the parts that are refused."""
        parts = fullname.split(".")
        if parts[0] != self.name or len(parts) == 1 or parts[1] not in self.refused:
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def exec_module(self, module: types.ModuleType) -> None:
        """Raises ModuleRefused."""
        name = module.__name__
        hint = self.refused[name.split(".")[1]]
        raise ModuleRefused(
            f"{name}: not part of {self.module}\n  try: {hint}", where=name, hint=hint
        )
