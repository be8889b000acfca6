"""Random choices that are written down: a case is drawn once and built again from its record.

A case asks a `Draw` for each choice by name. While it is drawn, the answer comes from a seeded
generator and is recorded; when it is built again (in another process, or by the minimiser with
smaller numbers) the answer comes from the record.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

# Widths of published models: hidden sizes, MLPs, vocabularies, image sides.
WIDTHS = (
    3, 7, 12, 14, 16, 24, 28, 32, 40, 48, 49, 56, 64, 72, 77, 80, 96, 112, 128, 144, 160, 176, 192,
    197, 224, 256, 288, 320, 384, 448, 480, 512, 576, 640, 672, 768, 896, 960, 1000, 1024, 1152,
    1280, 1344, 1408, 1500, 1536, 1600, 1664, 1920, 2048, 2304, 2560, 2688, 2816, 3072, 3584, 3840,
    4096, 4304, 4608, 5120, 5504, 5632, 6144, 6400, 7168, 8192, 8960, 9216, 10240, 11008, 13824,
    14336, 16384, 18944, 21128, 28672, 30522, 32000, 32064, 49152, 50257, 50265, 50304, 51865, 65024,
    100352, 119547, 128256, 151936, 202048, 250002, 256000, 262144,
)  # fmt: skip


class Rejected(Exception):
    """A record that no drawn case could have: the minimiser tries another."""


def _prime_near(n: int) -> int:
    def prime(value: int) -> bool:
        return value > 1 and all(value % d for d in range(2, math.isqrt(value) + 1))

    while n > 2 and not prime(n):
        n -= 1
    return max(n, 2)


def size(rng: random.Random, most: int, least: int = 1) -> int:
    """A size in [least, most]: log-uniform, or of the kinds at which code tends to break."""
    if most <= least:
        return least
    low = max(least, 1)
    drawn = round(math.exp(rng.uniform(math.log(low), math.log(most + 0.5))))
    kind = rng.random()
    if kind < 0.25:
        near = [w for w in WIDTHS if low <= w <= most and drawn / 2 <= w <= drawn * 2]
        drawn = rng.choice(near) if near else drawn
    elif kind < 0.40:
        drawn = (1 << max(drawn.bit_length() - 1, 0)) + rng.choice((-1, 0, 1))
    elif kind < 0.50:
        drawn = _prime_near(drawn)
    elif kind < 0.54:
        drawn = 1
    elif kind < 0.55 and least == 0:
        drawn = 0
    return min(max(drawn, least), most)


class Draw:
    """Choices of one case. `record`: those of an earlier draw, or None to draw with `rng`."""

    def __init__(self, rng: random.Random | None, record: dict[str, Any] | None, elements: int):
        self.rng, self.given, self.elements = rng, record, elements
        self.record: dict[str, Any] = {}

    def _take(self, name: str, draw: Any, good: Any) -> Any:
        if name in self.record:
            raise ValueError(f"the choice {name!r} is made twice")
        if self.given is None:
            value = draw()
        else:
            if name not in self.given:
                raise Rejected(name)
            value = self.given[name]
            if not good(value):
                raise Rejected(name)
        self.record[name] = value
        return value

    def size(self, name: str, most: int, least: int = 1) -> int:
        return self._take(
            name, lambda: size(self.rng, most, least), lambda v: least <= v <= max(most, least)
        )

    def choice(self, name: str, options: Sequence[Any]) -> Any:
        options = list(options)
        return self._take(name, lambda: self.rng.choice(options), lambda v: v in options)

    def chance(self, name: str, probability: float) -> bool:
        return self._take(name, lambda: self.rng.random() < probability, lambda v: True)

    def number(self, name: str, low: float, high: float) -> float:
        return self._take(name, lambda: round(self.rng.uniform(low, high), 3), lambda v: True)

    def shape(
        self, name: str, ranks: tuple[int, int] = (1, 4), elements: int | None = None, least: int = 1
    ) -> list[int]:
        """A shape of at most `elements`, spread unevenly over its dims."""
        limit = elements or self.elements

        def drawn() -> list[int]:
            rank = self.rng.randint(*ranks)
            total = math.exp(self.rng.uniform(math.log(64), math.log(limit)))
            parts = [self.rng.expovariate(1) for _ in range(rank)]
            dims: list[int] = []
            room = limit
            for part in parts:
                share = total ** (part / sum(parts))
                dim = size(self.rng, max(1, min(round(2 * share), room)), max(1, round(share / 2)))
                dims.append(dim)
                room = max(1, room // max(dim, 1))
            while math.prod(dims) > limit:
                largest = dims.index(max(dims))
                dims[largest] //= 2
            if least == 0 and self.rng.random() < 0.02:
                dims[self.rng.randrange(rank)] = 0
            self.rng.shuffle(dims)
            return dims

        return self._take(
            name,
            drawn,
            lambda v: ranks[0] <= len(v) <= ranks[1]
            and all(d >= least for d in v)
            and math.prod(v) <= limit,
        )

    def axis(self, name: str, shape: Sequence[int]) -> int:
        return self.choice(name, range(len(shape)))

    def axes(self, name: str, shape: Sequence[int]) -> list[int]:
        """One or more axes, in order."""

        def drawn() -> list[int]:
            count = self.rng.choice([1, 1, 1, 2, 2, 3])
            return sorted(self.rng.sample(range(len(shape)), min(count, len(shape))))

        return self._take(name, drawn, lambda v: v and all(0 <= a < len(shape) for a in v))
