"""All programs of the corpus."""

from __future__ import annotations

# Each registers its programs when it is imported.
from corpus import contractions, elementwise, movement, quantised, random_bits, regions, scatters, windows  # noqa: F401
from corpus.programs import FAMILIES, Program


def everything() -> list[Program]:
    """In the order in which the families registered."""
    programs = [program for family in FAMILIES for program in family()]
    names = [program.name for program in programs]
    assert len(set(names)) == len(names), "names repeat"
    return programs
