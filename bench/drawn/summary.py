"""The figures of a sweep: counts by outcome, quantiles of the ratios, the slowest, a plot."""

from __future__ import annotations

import collections
import math
from pathlib import Path
from typing import Any

from ratios import distribution, geometric_mean, quantile

SLOW = 0.7  # ratios below are listed with their kernels
EXPLAINED = {"right", "not exported"}


def ratios(rows: list[dict[str, Any]]) -> list[float]:
    return sorted(r["ratio"] for r in rows if r.get("ratio", 0) > 0)


def text(rows: list[dict[str, Any]], listed: int = 40) -> str:
    counts = collections.Counter(r["status"] for r in rows)
    lines = ["  ".join(f"{name}: {n}" for name, n in counts.most_common())]
    found = ratios(rows)
    if found:
        lines.append(
            f"ratio to the best peer over {len(found)}: 5th percentile {quantile(found, 0.05):.2f}, "
            f"median {quantile(found, 0.5):.2f}, 95th {quantile(found, 0.95):.2f}, "
            f"least {found[0]:.3f}, geometric mean {geometric_mean(found):.2f}; below {SLOW}: {sum(r < SLOW for r in found)}"
        )
        by: dict[str, list[float]] = collections.defaultdict(list)
        for r in rows:
            if r.get("ratio", 0) > 0:
                by[r["family"]].append(r["ratio"])
        for name, values in sorted(by.items(), key=lambda f: quantile(sorted(f[1]), 0.5)):
            lines.append("  " + distribution(name, values))
    slow = sorted((r for r in rows if 0 < r.get("ratio", 0) < SLOW), key=lambda r: r["ratio"])
    for r in slow[:listed]:
        lines.append(f"slow {r['ratio']:.3f}  #{r['number']} {r['name']}: {r['knapper_ms'] * 1e3:.1f} us  {' | '.join(r.get('launches', []))[:160]}")
    for r in rows:
        if r["status"] not in EXPLAINED:
            lines.append(f"{r['status']}  #{r['number']} {r['name']}: {r.get('why', '')[:300]}")
    return "\n".join(lines)


def plot(rows: list[dict[str, Any]], path: Path, title: str) -> None:
    """The sorted ratios as an SVG, on a logarithmic scale from 0.1 to 100."""
    found = ratios(rows)
    width, height, left, top = 640, 300, 48, 28

    def y(ratio: float) -> float:
        share = (math.log10(min(max(ratio, 0.1), 100)) + 1) / 3
        return top + (height - top - 30) * (1 - share)

    def x(i: float) -> float:
        return left + (width - left - 12) * i / max(1, len(found) - 1)

    lines = []
    for mark in (0.1, 0.3, 1, 3, 10, 30, 100):
        stroke = "#333" if mark == 1 else "#ddd"
        lines.append(f'<line x1="{left}" x2="{width - 12}" y1="{y(mark):.1f}" y2="{y(mark):.1f}" stroke="{stroke}"/>')
        lines.append(f'<text x="{left - 6}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark:g}x</text>')
    points = " ".join(f"{x(i):.1f},{y(r):.1f}" for i, r in enumerate(found))
    lines.append(f'<polyline points="{points}" fill="none" stroke="#0a6" stroke-width="2"/>')
    lines.append(f'<text x="{left}" y="18" font-size="13">{title}</text>')
    lines.append(f'<text x="{width / 2}" y="{height - 8}" text-anchor="middle">{len(found)} cases, sorted by ratio to the best peer</text>')
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">'
        f'<rect width="{width}" height="{height}" fill="white"/>{"".join(lines)}</svg>\n'
    )
