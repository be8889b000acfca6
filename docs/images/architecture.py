"""Draws architecture.svg from architecture.txt: rows of folders, and the named arrows between them.

python3 docs/images/architecture.py
"""

from __future__ import annotations

import html
from pathlib import Path

HERE = Path(__file__).resolve().parent
WIDTH, MARGIN, GAP = 960, 16, 12
ROW, ARROW = 52, 44


def drawing(source: str) -> str:
    """The SVG of a source text."""
    parts: list[str] = []
    top = MARGIN
    for line in source.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "row":
            boxes = [box.strip().partition(" ") for box in rest.split("|")]
            width = (WIDTH - 2 * MARGIN - GAP * (len(boxes) - 1)) / len(boxes)
            for i, (folder, _, text) in enumerate(boxes):
                left = MARGIN + i * (width + GAP)
                middle = left + width / 2
                parts += [
                    f'<rect x="{left:.0f}" y="{top}" width="{width:.0f}" height="{ROW}" rx="6" class="box"/>',
                    f'<text x="{middle:.0f}" y="{top + 21}" class="folder">{html.escape(folder)}</text>',
                    f'<text x="{middle:.0f}" y="{top + 40}" class="does">{html.escape(text)}</text>',
                ]
            top += ROW
        elif kind == "arrow":
            x = WIDTH // 2
            parts += [
                f'<path d="M{x} {top + 4}V{top + ARROW - 10}" class="line"/>',
                f'<path d="M{x - 5} {top + ARROW - 12}h10l-5 8z" class="head"/>',
                f'<text x="{x + 14}" y="{top + 27}" class="passes">{html.escape(rest)}</text>',
            ]
            top += ARROW
    style = (
        "text{font:13px sans-serif;fill:#222}.folder{font:bold 13px monospace}.folder,.does{text-anchor:middle}"
        ".does,.passes{fill:#555}.box{fill:#eef3f8;stroke:#7a94ad}.line{stroke:#555}.head{fill:#555}"
    )
    height = top + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">\n'
        f'<style>{style}</style>\n<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    (HERE / "architecture.svg").write_text(drawing((HERE / "architecture.txt").read_text()))
