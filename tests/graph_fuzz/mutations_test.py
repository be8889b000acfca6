"""Damaged node cases end in a result or in an error that is not ours."""

from __future__ import annotations

import os

import fuzz
import mutations
import numpy as np
import pytest
from evaluator import PROGRAM

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
FIRST = int(os.environ.get("KNAPPER_MUTATION_FIRST", "0"))
SECONDS = float(os.environ.get("KNAPPER_MUTATION_SECONDS", "15"))


def test_damaged_node_cases():
    """As many as the time allows, 200 in any case; `fuzz.py --mutate --state FILE` runs further ones."""
    following, kinds, ops, bad, _ = fuzz.fuzz(FIRST, 10**6, seconds=SECONDS, least=200, jobs=os.cpu_count() or 1, mutate=True)
    assert not bad, "\n".join(f"case {b['case']}: {b['kind']}: {b['text']}" for b in bad)
    assert following - FIRST > 2 * SECONDS and kinds["same"] > following // 20 and kinds["refused"] and len(ops) > 40, kinds


def test_a_case_is_always_the_same_model():
    different = 0
    for number in range(40):
        a, b = mutations.make(number), mutations.make(number)
        assert a.model.SerializeToString() == b.model.SerializeToString()
        assert {k: v.tobytes() for k, v in a.feeds[0].items()} == {k: v.tobytes() for k, v in b.feeds[0].items()}
        different += a.model.SerializeToString() not in {m.SerializeToString() for m, _ in mutations.seeds()}
    assert different == 40


def test_inputs_are_what_their_types_say():
    for number in range(300):
        case = mutations.make(number)
        assert {i.name for i in case.model.graph.input} == set(case.feeds[0])
        for value in case.model.graph.input:
            array, dims = case.feeds[0][value.name], value.type.tensor_type.shape.dim
            assert array.ndim == len(dims)
            assert all(d.dim_param or d.dim_value == n for d, n in zip(dims, np.shape(array)))
