"""Programs of `jax.export` as models. The only place that knows about it."""

from __future__ import annotations

from typing import Any


def is_exported(model: object) -> bool:
    """What `jax.export.export(...)(...)` gives."""
    kind = type(model)
    return kind.__name__ == "Exported" and kind.__module__.partition(".")[0] == "jax"


def bytecode(model: Any) -> bytes:
    """The program of an `Exported`, a portable artefact of StableHLO."""
    return model.mlir_module_serialized
