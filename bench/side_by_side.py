"""Timing two or more functions fairly: in turns, in one run, by medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

# How long the thread pool of another library may spin after a call.
PAUSE = 0.3


def medians(
    functions: Sequence[Callable[[], object]],
    *,
    rounds: int = 5,
    seconds: float = 0.4,
    pause: float = PAUSE,
) -> list[float]:
    """Median seconds of a call of each function.

    In each round every function has its turn: a pause, two calls to warm up (one
    where a call takes longer than `seconds`), then calls for `seconds` (three at
    least). The machine's clock drifts, so
    only ratios of figures from one call of this are worth comparing.
    """
    taken: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, times in zip(functions, taken):
            time.sleep(pause)
            start = time.perf_counter()
            function()
            if time.perf_counter() - start < seconds:
                function()
            end = time.perf_counter() + seconds
            count = 0
            while count < 3 or time.perf_counter() < end:
                start = time.perf_counter()
                function()
                times.append(time.perf_counter() - start)
                count += 1
    return [statistics.median(times) for times in taken]
