"""The end of a bench: its rows as JSON, what failed, the exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path


def finish(failures: Iterable[str], path: Path | None = None, rows: object = None) -> int:
    """Writes `rows` to `path`, if there is one, and each failure to standard error; 1 if there was any."""
    if path:
        path.write_text(json.dumps(rows, indent=1) + "\n")
    failures = list(failures)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0
