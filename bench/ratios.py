"""What benches print of their ratios to a peer: quantiles, the least, the geometric mean."""

from __future__ import annotations

import math
from collections.abc import Collection


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def geometric_mean(ratios: Collection[float]) -> float:
    """0 of none: below every bar."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0


def distribution(name: str, ratios: list[float]) -> str:
    """A row of a table: of a family of cases."""
    found = sorted(ratios)
    return f"{name:24} {len(found):5}  median {quantile(found, 0.5):6.2f}  5th {quantile(found, 0.05):6.2f}  least {found[0]:7.3f}  most {found[-1]:6.2f}"
