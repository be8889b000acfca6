"""Timing two or more functions fairly: interleaved, in one run, by medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

# How long the thread pool of another library may spin after a call.
PAUSE = 0.3
# What may run beside, of the processors' time, and how long to wait for that:
# compilers that a library has started go on after its call.
QUIET, PATIENCE = 0.05, 10.0


def _ticks() -> tuple[int, int]:
    """Of all processors, in all and idle."""
    values = [int(v) for v in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(values), values[3] + values[4]


def settle(pause: float) -> None:
    """Sleeps, and again until little else runs or patience ends; 0: not at all."""
    if not pause:
        return
    end = time.perf_counter() + PATIENCE
    while True:
        all_before, idle_before = _ticks()
        time.sleep(pause)
        all_after, idle_after = _ticks()
        busy = 1 - (idle_after - idle_before) / max(all_after - all_before, 1)
        if busy <= QUIET or time.perf_counter() > end:
            return


def medians(
    functions: Sequence[Callable[[], object]],
    *,
    rounds: int = 5,
    seconds: float = 0.4,
    pause: float = PAUSE,
) -> list[float]:
    """Median seconds of a call of each function.

    In each round every function has its turn: a pause, until little else runs;
    two calls to warm up (one where a call takes longer than `seconds`); then calls
    for `seconds` (three at least). The machine's clock drifts, so only ratios of
    figures from one call of this are worth comparing.
    """
    taken: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, times in zip(functions, taken):
            settle(pause)
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
