"""What a run of a compiled model does on a GPU, from the program that --dump-dir writes."""

from __future__ import annotations

import json
from pathlib import Path

# What a recording on the device consists of. All else waits for the device and
# reads a value of it on the host: sizes that depend on data, conditions, loops.
ON_DEVICE = {"Launch", "Copy", "Call", "SetSymbols", "Assert"}


def program(folder: Path) -> dict:
    return json.loads((folder / "07_plan.json").read_text())


def host_steps(program: dict) -> list[str]:
    """The instructions that need the host in the middle of a run. A program of a GPU has no kernel
    for another device: what it cannot compile there is refused."""
    return [
        box["instruction_type"]
        for region in program["regions"]
        for box in region["instructions"]
        if box["instruction_type"] not in ON_DEVICE
    ]
