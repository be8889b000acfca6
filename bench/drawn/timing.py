"""Times of one case: Knapper, eager PyTorch, for some cases torch.compile, on CPUs ONNX Runtime."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

ROUNDS = 7
WAIT_CYCLES = 400_000  # the device waits while the host hands it the work
BETWEEN_LAUNCHES = 0.8e-3  # milliseconds between two dependent kernels of a captured graph (H200)


class CudaTimes:
    """Device milliseconds of a call, all from replayed work, so that no host time is in them.

    A CUDA graph of many calls between two events, over their number: Knapper's calls are captured
    like torch's. What takes no capture (sizes from data) is the sum of its launches, each between
    two events, and of the gaps between them; of torch's, one call between two events.
    """

    def __init__(self) -> None:
        self.start = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)
        self.stream = torch.cuda.Stream()

    def own(self, module: Any, inputs: list[torch.Tensor]) -> tuple[float, list[dict[str, Any]]]:
        import knapper

        launches = module.profile(*inputs)["launches"]
        results = module(*inputs)
        outputs = [
            torch.empty(results.tensor(i).shape, dtype=torch.from_dlpack(results.tensor(i)).dtype, device="cuda")
            for i in range(len(results))
        ]
        try:
            call = module.bind(inputs, outputs, stream=self.stream)
            return self.torch(call), launches
        except knapper.UserError:
            return self._launches(module, inputs), launches

    def _launches(self, module: Any, inputs: list[torch.Tensor]) -> float:
        times = []
        for _ in range(ROUNDS + 2):
            torch.cuda._sleep(WAIT_CYCLES)
            launches = module.profile(*inputs)["launches"]
            gaps = BETWEEN_LAUNCHES * (len(launches) - 1)
            times.append(sum(launch["ns"] for launch in launches) / 1e6 + gaps)
        return statistics.median(times[2:])

    def torch(self, call: Callable[[], Any]) -> float:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                call()
        torch.cuda.current_stream().wait_stream(self.stream)
        calls = max(1, min(16, int(2e-3 / max(self._once(call), 1e-5))))
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                for _ in range(calls):
                    call()
        except torch.AcceleratorError:  # it waits for the device on its way
            torch.cuda.synchronize()
            return self._rounds(call, 1)
        return self._rounds(graph.replay, calls)

    def _rounds(self, work: Callable[[], Any], calls: int) -> float:
        times = []
        for _ in range(ROUNDS + 2):
            torch.cuda._sleep(WAIT_CYCLES)
            self.start.record()
            work()
            self.end.record()
            self.end.synchronize()
            times.append(self.start.elapsed_time(self.end) / calls)
        return statistics.median(times[2:])

    def _once(self, call: Callable[[], Any]) -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        return time.perf_counter() - begin


def cpu_turns(
    calls: dict[str, Callable[[], Any]], budget: float = 1.0, before: dict[str, Callable[[], Any]] | None = None
) -> dict[str, float]:
    """Median milliseconds of each, interleaved within about `budget` seconds. `before`: what is called once before each
    turn of a name and is not timed."""
    guess = {}
    prepare = {name: (before or {}).get(name, lambda: None) for name in calls}
    for name, call in calls.items():
        prepare[name]()
        call()
        begin = time.perf_counter()
        call()
        guess[name] = time.perf_counter() - begin
    share = budget / (ROUNDS * len(calls))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            prepare[name]()
            call()
            for _ in range(max(1, min(200, int(share / max(guess[name], 1e-6)) - 1))):
                begin = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - begin) * 1e3)
    return {name: statistics.median(t) for name, t in times.items()}


def torch_turns(name: str, call: Callable[[], Any], threads: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """`call` of PyTorch with all threads and with one, as `cpu_turns` takes them: where a system wakes the thread of an
    OpenMP team on the core of its waiting caller, a call of 20 us takes 10 ms, and one thread is PyTorch's better way."""
    one = f"{name}_one_thread"
    return (
        {name: call, one: call},
        {name: lambda: torch.set_num_threads(threads), one: lambda: torch.set_num_threads(1)},
    )
