"""Where this environment has libraries of hardware vendors (docs/vendor-libraries.md)."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

VARIABLE = "KNAPPER_VENDOR_PATH"


def folders() -> list[str]:
    """Those of the environment that hold a library which the runtime may open."""
    paths = sysconfig.get_paths()
    packages = Path(paths["platlib"])
    found = [(Path(paths["data"]) / "lib", "libdnnl.so.3")]
    for folder in ("cublas", "cu13"):
        for version in ("13", "12"):
            found.append(
                (packages / "nvidia" / folder / "lib", f"libcublasLt.so.{version}")
            )
    return list(
        dict.fromkeys(
            os.fspath(folder) for folder, file in found if (folder / file).exists()
        )
    )


def name_folders() -> None:
    """Tells them to the runtime, unless the user has said where to look."""
    if VARIABLE not in os.environ and (here := folders()):
        os.environ[VARIABLE] = os.pathsep.join(here)
