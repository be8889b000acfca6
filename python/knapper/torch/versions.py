"""What differs between versions of torch. Nothing else looks at one."""

from __future__ import annotations

import warnings

import torch

# The versions that the tests have run on.
OLDEST, NEWEST = (2, 11), (2, 13)


def check() -> None:
    """Warns of a torch that is older or newer than those tried."""
    numbers = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if not OLDEST <= numbers <= NEWEST:
        warnings.warn(
            f"knapper.torch was tried with torch {_text(OLDEST)} to {_text(NEWEST)}, "
            f"this is {torch.__version__}",
            stacklevel=3,
        )


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
