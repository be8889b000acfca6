"""Random graphs against the reference: fuzz.py [--first N] [--count N] [--seconds S] [--state FILE]
[--jobs N] [--failures FOLDER] [--only N] [--reduce N]; with --mutate, ONNX's node cases, damaged (mutations.py)

Case N is always the same graph. A worker that crashes, or is busy with a case for a minute (of processor
time; of the clock's, twelve), is named with the case and replaced. With --state the run goes on where the last one ended. Each failing case is written
into --failures as `N.onnx` with `N.0.npz`, `N.1.npz`, its inputs at each binding. --only prints one case
and its answer; --reduce writes the smallest graph that fails as the case does, in the same way.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PATHS = [ROOT / "python", ROOT / "tests" / "onnx_nodes", ROOT / "tests" / "onnx_backend", HERE]
SECONDS = 60


def work(mutate: bool) -> None:
    """Case numbers on stdin, outcomes on stdout."""
    import graph_cases
    import mutations
    from graph_check import check
    from evaluator import Evaluator

    evaluate = Evaluator()
    if mutate:
        mutations.limit_memory()
    cases = mutations if mutate else graph_cases
    try:
        for line in sys.stdin:
            number = int(line)
            case, options = cases.make(number), cases.options(number)
            outcome = mutations.check(case, options) if mutate else check(evaluate, case, options)
            ops = sorted({n.op_type for n in case.model.graph.node})
            print(json.dumps(outcome.__dict__ | {"case": number, "ops": ops}), flush=True)
    finally:
        evaluate.close()


def environment() -> dict[str, str]:
    path = os.pathsep.join([*map(str, PATHS), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore", "KNAPPER_CACHE": "false"}


class Worker:
    def __init__(self, words: list[str], variables: dict[str, str]):
        self.words, self.variables = words, variables
        self.process = None
        self.case = None
        self.since = self.spent = 0.0

    def processor(self) -> float:
        """Seconds that the worker has run, on all its threads."""
        try:
            times = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        except OSError:  # it ended, or there is no /proc
            return time.monotonic()
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def hangs(self) -> bool:
        waits = time.monotonic() - self.since
        return waits > 12 * SECONDS or (waits > SECONDS and self.processor() - self.spent > SECONDS)

    def give(self, case: int) -> None:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, __file__, *self.words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, env=environment() | self.variables)  # fmt: skip
        self.case, self.since, self.spent = case, time.monotonic(), self.processor()
        self.process.stdin.write(f"{case}\n")
        self.process.stdin.flush()

    def stop(self, kill=False) -> int:
        if self.process is None:
            return 0
        if kill:
            self.process.kill()
        else:
            self.process.stdin.close()
        status = self.process.wait()
        self.process = None
        return status


def fuzz(first: int, count: int, *, seconds=None, least=0, jobs=2, report=print, failures=None, mutate=False):
    """Runs cases, for `seconds` at most but `least` of them in any case; returns the next case, counts by kind
    and by operator, the failing outcomes, and what was refused how often."""
    kinds, ops, bad = collections.Counter(), collections.Counter(), []
    reasons = collections.Counter()
    words, variables, folder = ["--work"], {}, tempfile.TemporaryDirectory()
    if mutate:
        import mutations

        words, variables = ["--work", "--mutate"], mutations.keep_seeds(Path(folder.name) / "seeds")
    workers = [Worker(words, variables) for _ in range(jobs)]
    following, end, deadline = first, first + count, time.monotonic() + (seconds or 1e9)

    def note(outcome: dict) -> None:
        kinds[outcome["kind"]] += 1
        kinds["with onnx"] += bool(outcome.get("onnx"))
        kinds["with noise"] += bool(outcome.get("noise"))
        for op in outcome.get("ops", ()):
            ops[op] += 1
        if outcome["kind"] == "refused":
            reasons[re.sub(r"n\d+|v\d+_\d+|x\d+|\d+", "#", outcome["text"])[:160]] += 1
        elif outcome["kind"] != "same":
            bad.append(outcome)
            report(f"case {outcome['case']}: {outcome['kind']}: {outcome['text']} {outcome.get('ops', '')}")
            if failures is not None:
                write(failures, outcome["case"], mutate=mutate)

    try:
        while True:
            for worker in workers:
                goes_on = time.monotonic() < deadline or following < first + least
                if worker.case is None and following < end and goes_on:
                    worker.give(following)
                    following += 1
            busy = [w for w in workers if w.case is not None]
            if not busy:
                break
            with selectors.DefaultSelector() as watched:  # any number of descriptors
                for worker in busy:
                    watched.register(worker.process.stdout, selectors.EVENT_READ)
                ready = [key.fileobj for key, _ in watched.select(1)]
            for worker in busy:
                if worker.process.stdout in ready:
                    line = worker.process.stdout.readline()
                    if line:
                        note(json.loads(line))
                    else:
                        status = worker.stop(kill=True)
                        note({"kind": "crash", "case": worker.case, "text": f"status {status}"})
                    worker.case = None
                elif worker.hangs():
                    worker.stop(kill=True)
                    note({"kind": "hang", "case": worker.case, "text": f"{SECONDS} s"})
                    worker.case = None
    finally:
        for worker in workers:
            worker.stop(kill=True)
        folder.cleanup()
    return following, kinds, ops, bad, reasons


def reduced(number: int, folder: Path) -> int:
    """Writes the smallest form of a failing case."""
    import graph_cases
    import onnx
    from graph_check import check
    from evaluator import Evaluator

    from knapper.reduce.reducer import Reducer, isolated

    options = graph_cases.options(number)

    def fails(case):
        evaluate = Evaluator()
        outcome = check(evaluate, case, options, with_onnx=False)
        evaluate.close()
        return outcome.kind if outcome.bad else None

    evaluate = Evaluator()
    try:
        case = Reducer(graph_cases.make(number), isolated(fails), evaluate).run()
    except ValueError as error:
        print(f"case {number}: {error}")
        return 1
    finally:
        evaluate.close()
    write(folder, number, case)
    print(onnx.printer.to_text(case.model))
    return 0


def write(folder: Path, number: int, case=None, mutate=False) -> None:
    import graph_cases
    import mutations
    import numpy as np
    import onnx

    folder.mkdir(parents=True, exist_ok=True)
    case = case or (mutations if mutate else graph_cases).make(number)
    onnx.save(case.model, folder / f"{number}.onnx")
    for i, feed in enumerate(case.feeds):
        arrays = {k: a.view(np.uint16) if str(a.dtype) == "bfloat16" else a for k, a in feed.items()}
        np.savez(folder / f"{number}.{i}.npz", **arrays)


def only(number: int, mutate: bool) -> int:
    import graph_cases
    import mutations
    import onnx
    from graph_check import check
    from evaluator import Evaluator

    cases = mutations if mutate else graph_cases
    case, options = cases.make(number), cases.options(number)
    print(onnx.printer.to_text(case.model))
    for feed in case.feeds:
        print({k: list(a.shape) for k, a in feed.items()})
    print(options)
    evaluate = Evaluator()
    sys.stdout.flush()  # a crash prints nothing
    outcome = mutations.check(case, options) if mutate else check(evaluate, case, options)
    evaluate.close()
    print(outcome)
    return int(outcome.bad)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--failures", type=Path)
    parser.add_argument("--only", type=int)
    parser.add_argument("--reduce", type=int)
    parser.add_argument("--mutate", action="store_true")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sys.path[:0] = map(str, PATHS)
    if arguments.work:
        work(arguments.mutate)
        return 0
    if arguments.only is not None:
        return only(arguments.only, arguments.mutate)
    if arguments.reduce is not None and arguments.mutate:
        parser.error("a damaged case is one node: there is nothing to reduce")
    if arguments.reduce is not None:
        return reduced(arguments.reduce, arguments.failures or Path.cwd())
    first, state = arguments.first, {"next": 0, "cases": 0, "failing": {}}
    if arguments.state and arguments.state.exists():
        state = json.loads(arguments.state.read_text())
        first = state["next"]
    start = time.monotonic()
    following, kinds, ops, bad, reasons = fuzz(
        first, arguments.count, seconds=arguments.seconds, jobs=arguments.jobs,
        failures=arguments.failures, report=lambda text: print(text, flush=True), mutate=arguments.mutate)  # fmt: skip
    state["next"], state["cases"] = following, state["cases"] + following - first
    state["failing"] |= {str(o["case"]): o["kind"] for o in bad}
    if arguments.state:
        arguments.state.write_text(json.dumps(state, indent=1) + "\n")
    for reason, times in reasons.most_common(20):
        print(f"refused {times}: {reason}")
    print(f"operators: {dict(ops.most_common())}")
    print(f"{following - first} cases in {time.monotonic() - start:.0f} s: {dict(kinds)}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
