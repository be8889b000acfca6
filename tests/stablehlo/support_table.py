"""Writes the table of support: ops of StableHLO by element type, from a run of the corpus.

    python corpus_run.py --table RESULTS.json
    python support_table.py RESULTS.json --write docs/stablehlo-support.md
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent)]

from corpus.programs import TYPES  # noqa: E402

# One column each; what no machine of ours has programs for stays out.
SHORT = {"complex<f32>": "c64", "complex<f64>": "c128"}
HEAD = """# StableHLO, op by element type

Written by `tests/stablehlo/support_table.py` from a run of the corpus (`tests/stablehlo/corpus_run.py`): {count} programs, one for an op, a type and an edge each,
compiled for the CPU and compared with the interpreter of StableHLO in jaxlib, or with NumPy where that has no answer: {counts}.

**y**: every program right. **p**: some right, the others refused with a reason. **-**: refused. Empty: StableHLO has no such op of that type, or the corpus no
program. The type is that of the first operand.
"""


def cell(outcomes: list[str]) -> str:
    kinds = set(outcomes)
    if not kinds <= {"right", "refused"}:
        return "**wrong**"
    return "y" if kinds == {"right"} else "-" if kinds == {"refused"} else "p"


def page(results: list[dict]) -> str:
    cells = collections.defaultdict(list)
    for each in results:
        cells[each["op"], each["element"]].append(each["outcome"])
    ops = sorted({op for op, _ in cells})
    counts = collections.Counter(each["outcome"] for each in results)
    text = HEAD.format(count=len(results), counts=", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    text += "\n| op | " + " | ".join(SHORT.get(type, type) for type in TYPES) + " |\n|---|" + "---|" * len(TYPES) + "\n"
    for op in ops:
        row = [cell(cells[op, type]) if (op, type) in cells else "" for type in TYPES]
        text += f"| {op} | " + " | ".join(row) + " |\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--write", type=Path, required=True)
    given = parser.parse_args()
    given.write.write_text(page(json.loads(given.results.read_text())))


if __name__ == "__main__":
    main()
