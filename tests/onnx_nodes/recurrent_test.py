"""Recurrent cells as loops: the state lies in two places in turns, so odd and even numbers of steps are cases of their own."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import check, model, node

RNG = np.random.default_rng(8)
INPUT, HIDDEN, BATCH = 6, 8, 3


def weights(gates, directions):
    shapes = {"W": (gates * HIDDEN, INPUT), "R": (gates * HIDDEN, HIDDEN), "B": (2 * gates * HIDDEN,)}
    return {name: RNG.uniform(-0.5, 0.5, (directions, *shape)).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("steps", ["s", 5, 6])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("cell, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_cell(cell, gates, direction, steps):
    kind = {"linear_before_reset": 1} if cell == "GRU" else {}
    outputs = ["y", "h"] + ["c"] * (cell == "LSTM")
    directions = 2 if direction == "bidirectional" else 1
    made = model([node(cell, ["x", "W", "R", "B"], outputs, hidden_size=HIDDEN, direction=direction, **kind)],
                 {"x": [steps, BATCH, INPUT]}, outputs, initializers=weights(gates, directions))  # fmt: skip
    sizes = (1, 5, 6, 9) if steps == "s" else (steps,)
    check(made, [{"x": RNG.standard_normal((n, BATCH, INPUT)).astype(np.float32)} for n in sizes], tolerance=1e-5)
