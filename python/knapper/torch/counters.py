"""What the backend did in this process, as numbers."""

from __future__ import annotations

import contextvars
import threading
from collections import Counter
from typing import Any

_NAMES = (
    "graphs", "recompiles", "graph_breaks", "fallback_ops", "eager_graphs", "cache_hits",
)  # fmt: skip
_lock = threading.Lock()

# Where `explain` wants what is made: (module, description, guard or None, why there
# is none) each.
collector: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar(
    "collector", default=None
)
_counts = dict.fromkeys(_NAMES, 0)


def count(name: str, by: int = 1) -> None:
    with _lock:
        _counts[name] += by


def counters() -> dict[str, int]:
    """Since the process began or `reset_counters`:

    graphs: graphs compiled, forward and backward each one.
    recompiles: functions that Dynamo handed over again, for other sizes or guards.
    graph_breaks: places where Dynamo ended a graph and began another, and functions
        that it left to eager (loops with a break inside, calls within `torch.func`).
    fallback_ops: nodes of compiled graphs that torch computes.
    eager_graphs: graphs, each size one, that run eager because that measured faster.
    cache_hits: graphs whose artefact came from the cache on disk.
    """
    with _lock:
        made = dict(_counts)
    made["graph_breaks"] = sum(breaks().values()) - _breaks_before
    return made


def breaks() -> Counter[str]:
    """Dynamo's reasons so far, and how often each held."""
    from torch._dynamo.utils import counters as dynamo

    return +(dynamo["graph_break"] + dynamo["unimplemented"])


_breaks_before = 0


def reset_counters() -> None:
    """Sets all of them to 0."""
    global _breaks_before
    with _lock:
        _counts.update(dict.fromkeys(_NAMES, 0))
        _breaks_before = sum(breaks().values())
