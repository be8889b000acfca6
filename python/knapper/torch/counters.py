"""What the backend did in this process, as numbers."""

from __future__ import annotations

import contextvars
import threading
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
    graph_breaks: places where Dynamo ended a graph and began another.
    fallback_ops: nodes of compiled graphs that torch computes.
    eager_graphs: graphs, each size one, that run eager because that measured faster.
    cache_hits: graphs whose artefact came from the cache on disk.
    """
    from torch._dynamo.utils import counters as dynamo

    with _lock:
        made = dict(_counts)
    made["graph_breaks"] = sum(dynamo["graph_break"].values()) - _breaks_before
    return made


_breaks_before = 0


def reset_counters() -> None:
    """Sets all of them to 0."""
    from torch._dynamo.utils import counters as dynamo

    global _breaks_before
    with _lock:
        _counts.update(dict.fromkeys(_NAMES, 0))
        _breaks_before = sum(dynamo["graph_break"].values())
