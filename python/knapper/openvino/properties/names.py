"""Property: a name that can be called."""

from __future__ import annotations

from typing import Any


class Property(str):
    """OpenVINO's name of a property."""

    def __call__(self, *value: Any) -> Any:
        """The name; with a value, the pair of both."""
        return (str(self), *value) if value else str(self)
