"""Child processes that answer a line with a line, restarted when they die or take too long."""

from __future__ import annotations

import json
import os
import queue
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

EXECUTE = Path(__file__).with_name("execute.py")


class Worker:
    def __init__(
        self, kind: str, environment: dict[str, str] | None = None, log: Path | None = None, program: Path = EXECUTE
    ):
        self.kind, self.environment, self.log, self.program = kind, environment or {}, log, program
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The answer; {"status": "crash" | "timeout"} for a child that died or hung."""
        if self.process is None or self.process.poll() is not None:
            errors = open(self.log, "ab") if self.log else subprocess.DEVNULL
            self.process = subprocess.Popen(
                [sys.executable, str(self.program), self.kind], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors, env=os.environ | self.environment,
            )  # fmt: skip
        process = self.process
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._died()
        poll = select.poll()  # select() takes no descriptor above 1,023
        poll.register(process.stdout, select.POLLIN)
        if not poll.poll(1000 * timeout):
            self.end()
            return {"status": "timeout", "why": f"no answer in {timeout:.0f} s"}
        line = process.stdout.readline()
        return json.loads(line) if line else self._died()

    def _died(self) -> dict[str, Any]:
        assert self.process
        code = self.process.wait()
        self.process = None
        return {"status": "crash", "why": f"the process ended with {code}"}

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def spread(
    items: Iterable[Any], make: Callable[[int], Worker], work: Callable[[Worker, Any], Any], count: int
) -> Iterable[Any]:
    """The results of `work(worker, item)` as they come, `count` at a time, each with a worker of
    its own. A bounded number waits, so that files do not pile up."""
    source, results = iter(items), queue.Queue(maxsize=2 * count)  # type: ignore[var-annotated]
    lock = threading.Lock()

    def loop(index: int) -> None:
        worker = make(index)
        try:
            while True:
                with lock:
                    item = next(source, None)
                if item is None:
                    return
                results.put(work(worker, item))
        finally:
            worker.end()
            results.put(None)

    threads = [threading.Thread(target=loop, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    left = count
    while left:
        result = results.get()
        if result is None:
            left -= 1
        else:
            yield result
