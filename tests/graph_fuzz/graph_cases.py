"""Case N: a random graph, its inputs at two bindings of its symbols, and the options of its compile."""

from __future__ import annotations

import random
from pathlib import Path

import rules_elementwise
import rules_control_flow
import rules_reduce
import rules_shape
import rules_states
import rules_tables
import rules_types
from graph_builder import Builder, Case, Skip

RULES = [*rules_elementwise.RULES, *rules_shape.RULES, *rules_reduce.RULES, *rules_control_flow.RULES,
         *rules_types.RULES, *rules_states.RULES, *rules_tables.RULES]  # fmt: skip


def make(seed: int) -> Case:
    for attempt in range(50):
        b = Builder(seed * 64 + attempt)
        wanted = b.random.choices([1, 2, 4, 7, 12, 20], [2, 3, 4, 4, 3, 1])[0]
        for _ in range(8 * wanted):
            if len(b.nodes) >= wanted:
                break
            rule = b.random.choices([r for r, _ in RULES], [w for _, w in RULES])[0]
            before = (list(b.nodes), list(b.values), set(b.used), list(b.functions))
            try:
                rule(b)
            except Skip:
                b.nodes, b.values, b.used, b.functions = before
                names = {v.name for v in b.values}
                b.values += [v for v in b.inputs if v.name not in names]
        try:
            return b.finish()
        except Skip:
            continue
    raise AssertionError(f"no graph for seed {seed}")


# A case that asks for more than the machine has takes the best that it has.
HAS_AVX512 = "avx512vl" in Path("/proc/cpuinfo").read_text()


def options(seed: int) -> dict:
    """How the case is compiled and run."""
    r = random.Random(seed ^ 0x5EED)
    isa = r.choices(["", "x86-64-v3", "x86-64-v4"], [1, 2, 5])[0]
    return {
        "isa": "" if isa == "x86-64-v4" and not HAS_AVX512 else isa,
        "threads": r.choice([1, 2, 3, 4]),
    }
