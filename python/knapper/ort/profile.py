"""The trace of a session with profiling enabled."""

from __future__ import annotations

import json
import os
import time
from typing import Any


class Profile:
    """Collects runs and writes them in Chrome's trace format (microseconds).

    A run is profiled by a second one with a clock around every launch; launches
    are shown end to end.
    """

    def __init__(self, prefix: str, provider: str, began: int) -> None:
        """began: when the session was, in time.monotonic_ns()."""
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
        self.path = f"{prefix}_{stamp}.json"
        self.start = began
        self._provider = provider
        self._events: list[dict[str, Any]] = []
        taken = time.monotonic_ns() - began
        self._add("Session", "session_initialization", 0, taken, {})

    def add(self, run: dict[str, Any]) -> None:
        """Adds what `Module.profile` gave."""
        at = (time.monotonic_ns() - self.start - run["total_ns"]) / 1e3
        self._add("Session", "model_run", at, run["total_ns"], {})
        for launch in run["launches"]:
            details = {key: value for key, value in launch.items() if key != "ns"}
            details["op_name"] = launch["schedule"].partition("{")[0]
            details["provider"] = self._provider
            self._add("Node", f"{launch['kernel']}_kernel_time", at, launch["ns"], details)
            at += launch["ns"] / 1e3

    def _add(
        self, category: str, name: str, at: float, ns: int, details: dict[str, Any]
    ) -> None:
        self._events.append(
            {
                "cat": category, "name": name, "ph": "X", "ts": at, "dur": ns / 1e3,
                "pid": os.getpid(), "tid": 0, "args": details,
            }
        )  # fmt: skip

    def write(self) -> str:
        """Writes the file; its name."""
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self._events, file)
        return self.path
