"""Tells JAX of the plugin: where it is, and what it lacks on a platform that it
does not know."""

from __future__ import annotations

import os
from pathlib import Path

from knapper.errors import MissingFile, WrongValue
from knapper.library import candidates

PLATFORM = "knapper"
_FILE = "libknapper_pjrt.so"


def plugin_path() -> tuple[Path, Path]:
    """The plugin and the library that it loads: beside each other in a package,
    in `lib` and `capi` of a build folder."""
    for library in candidates():
        for folder in (library.parent, library.parent.parent / "lib"):
            if library.exists() and (folder / _FILE).exists():
                return folder / _FILE, library
    raise MissingFile(
        f"{_FILE} was not found beside libknapper.so",
        hint="install the wheel again (docs/install.md) or build the target knapper_pjrt",
    )


def _asked_for() -> bool:
    from jax import config

    named = config.jax_platforms or os.environ.get("JAX_PLATFORMS") or ""
    return PLATFORM in named.split(",")


def _register(threads: int, num_devices: int, device: str) -> None:
    from jax._src import xla_bridge

    from knapper.jax import dlpack, lowerings

    if PLATFORM in xla_bridge._backend_factories:
        return
    plugin, library = plugin_path()
    options: dict[str, str | int] = {"library": str(library)}
    if threads:
        options["threads"] = threads
    if num_devices != 1:
        options["num_devices"] = num_devices
    if device:
        options["device"] = device
    xla_bridge.register_plugin(
        PLATFORM, library_path=str(plugin), options=options, priority=-100
    )
    lowerings.register()
    dlpack.register(PLATFORM, str(plugin))


def initialize() -> None:
    """What JAX calls for every package that has a plugin. Registers ours only for
    those who ask for it: a default platform of somebody's whole program is not
    for a package to choose."""
    if _asked_for():
        _register(
            int(os.environ.get("KNAPPER_JAX_THREADS", "0")),
            int(os.environ.get("KNAPPER_JAX_DEVICES", "1")),
            os.environ.get("KNAPPER_JAX_DEVICE", ""),
        )


def install(*, threads: int = 0, num_devices: int = 1, device: str = "") -> None:
    """Makes Knapper the default platform of this process, with JAX's CPU beside
    it. `device`: "cpu", or "cuda" for an NVIDIA GPU; as it is the environment
    variable KNAPPER_DEVICE says, else a GPU where one is found. `threads` of a
    run on CPUs; 0: one a core. `num_devices`: how many CPU devices JAX sees; each
    runs its programs in order beside the others.

    Call it before JAX has made an array or looked for devices. Raises UserError
    when that has happened.
    """
    import jax
    from jax._src import xla_bridge

    if xla_bridge.backends_are_initialized():
        raise WrongValue(
            "JAX has looked for its devices already, and does so once",
            where="knapper.jax.install",
            hint="call it before the first array is made, or set JAX_PLATFORMS=knapper,cpu",
        )
    _register(threads, num_devices, device)
    if not _asked_for():
        jax.config.update("jax_platforms", f"{PLATFORM},cpu")
