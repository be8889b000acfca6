"""The models that a command line names."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable


def named_models(
    parser: argparse.ArgumentParser, given: list[str], default: Iterable[str], known: Collection[str]
) -> list[str]:
    """Those given, without any the default; ends the program where one is not known."""
    names = given or list(default)
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no model {unknown[0]}; there are: {', '.join(known)}")
    return names
