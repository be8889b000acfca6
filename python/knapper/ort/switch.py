"""Knapper under the name `onnxruntime`, for libraries that import that.

The folder `as_onnxruntime` holds a package of that name. It only has to come first
on `sys.path`: `install()` puts it there, `python -m knapper.ort` puts it on
PYTHONPATH, which child processes inherit.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Sequence

from knapper.errors import UserError
from knapper.ort.errors import with_hint

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "as_onnxruntime")

# Parts of the package onnxruntime that are tools around it, and what to do instead.
_REFUSED = {
    "backend": "make an InferenceSession",
    "datasets": "give the path of a model of yours",
    "quantization": "knapper.quantize(model, output, ...) quantises; or run this step "
    "with ONNX Runtime, whose quantised models are read",
    "tools": "run this step with ONNX Runtime, whose models are read",
    "transformers": "leave it out, a session optimises the model; or run this step "
    "with ONNX Runtime, whose optimised models are read",
}


class ModuleRefused(UserError, ImportError):
    """A part of the package onnxruntime that Knapper has not."""


def install() -> None:
    """From here on `import onnxruntime` gives Knapper, in this process and in those
    that `multiprocessing` starts.

    Raises UserError where the package onnxruntime was imported before.
    """
    loaded = sys.modules.get("onnxruntime")
    if loaded is not None and not str(loaded.__file__).startswith(FOLDER):
        raise with_hint(
            UserError,
            f"onnxruntime is imported already, from {loaded.__file__}",
            "call knapper.ort.install() before anything imports it, or start the "
            "program with `python -m knapper.ort script.py`",
            "knapper.ort.install",
        )
    if FOLDER not in sys.path:
        sys.path.insert(0, FOLDER)
        importlib.invalidate_caches()


class Refusing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds, after all other finders, what `_REFUSED` names; importing it raises
    ModuleRefused."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for the parts that are refused."""
        parts = fullname.split(".")
        if parts[0] != "onnxruntime" or len(parts) == 1 or parts[1] not in _REFUSED:
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def exec_module(self, module: types.ModuleType) -> None:
        """Raises ModuleRefused."""
        name = module.__name__
        raise with_hint(
            ModuleRefused,
            f"{name}: not part of knapper.ort",
            _REFUSED[name.split(".")[1]],
            name,
        )
