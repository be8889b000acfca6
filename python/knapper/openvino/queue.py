"""AsyncInferQueue: several requests of one model in flight."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from knapper.openvino.compiled import CompiledModel, InferRequest


class AsyncInferQueue:
    """Requests that run in threads of their own. Jobs are started from one thread.

    jobs: how many; 0: one, since a call uses all threads of the model.
    """

    def __init__(self, model: CompiledModel, jobs: int = 0) -> None:
        self._requests = [model.create_infer_request() for _ in range(max(1, jobs))]
        self._idle: queue.Queue[int] = queue.Queue()
        for index in range(len(self._requests)):
            self._idle.put(index)
        self._userdata: list[Any] = [None] * len(self._requests)
        self._callback: Callable[[InferRequest, Any], None] | None = None
        self._threads: list[threading.Thread | None] = [None] * len(self._requests)
        self._errors: list[BaseException] = []

    def set_callback(self, callback: Callable[[InferRequest, Any], None]) -> None:
        """callback(request, userdata) after each run, in the run's thread."""
        self._callback = callback

    def start_async(
        self, inputs: Any = None, userdata: Any = None, share_inputs: bool = False
    ) -> None:
        """Waits for an idle request and starts it. Arrays must not be changed before
        it has run."""
        index = self._taken()
        self._userdata[index] = userdata
        thread = threading.Thread(target=self._work, args=(index, inputs))
        self._threads[index] = thread
        thread.start()

    def get_idle_request_id(self) -> int:
        """Waits for an idle request, which the next start takes; its number."""
        index = self._taken()
        self._idle.queue.appendleft(index)
        return index

    def _taken(self) -> int:
        """The number of a request that was idle."""
        index = self._idle.get()
        thread = self._threads[index]
        if thread is not None:
            thread.join()
        return index

    def is_ready(self) -> bool:
        """Whether a request is idle."""
        return not self._idle.empty()

    def wait_all(self) -> None:
        """Waits for all that was started. Raises the first error among them."""
        for thread in self._threads:
            if thread is not None:
                thread.join()
        errors, self._errors = self._errors, []
        if errors:
            raise errors[0]

    @property
    def userdata(self) -> list[Any]:
        """Of each request's last start."""
        return list(self._userdata)

    def _work(self, index: int, inputs: Any) -> None:
        request = self._requests[index]
        try:
            request.infer(inputs)
            if self._callback is not None:
                self._callback(request, self._userdata[index])
        except BaseException as error:  # of the callback, too: wait_all raises it
            self._errors.append(error)
        finally:
            self._idle.put(index)

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[InferRequest]:
        return iter(self._requests)

    def __getitem__(self, index: int) -> InferRequest:
        return self._requests[index]
