#!/usr/bin/env python3
"""Answers by JSON schemas beside plain ones: tokens a second of the same server, and whether each finished answer is valid.

    bench/serve_structured.py FOLDER [--schemas 1000] [--clients 64] [--rounds 3] [--temperature 1] [--json FILE] [--bars] [-- FLAGS OF knapper serve]

FOLDER: a model with its tokenizer; random weights make the longest and least likely answers. Schemas are drawn with
--seed. Each is asked for once before anything is compared (the first answer also pays the compile of its grammar) and by
another seed in each round. Two requests a client with schemas and as many plain ones are interleaved, all through a round, so
that both see the same machine; the plain ones have the same prompts and as many tokens as the constrained answers had.
Finished answers go through `jsonschema`, which must be installed. The ratio of the processor times of the server and of
what it started is printed besides, which says more on a machine that others use. --bars fails the command below 0.95 or
with an answer that is not valid.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("KNAPPER_BUILD", ROOT / "build" / "dev"))
BAR = 0.95
WORDS = "name age city kind tags owner price count state id score level color size unit date total items note rank".split()


def drawn_schema(draw: random.Random, depth: int = 0) -> dict:
    kinds = ["string", "integer", "boolean", "enum", "number", "null", "pattern"] + ["object", "array"] * (depth < 2)
    kind = "object" if depth == 0 else draw.choice(kinds)
    if kind == "object":
        names = draw.sample(WORDS, draw.randint(1, 5 - depth))
        properties = {name: drawn_schema(draw, depth + 1) for name in names}
        required = names if depth == 0 else draw.sample(names, draw.randint(0, len(names)))
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    if kind == "array":
        return {"type": "array", "items": drawn_schema(draw, depth + 1), "minItems": draw.randint(0, 1), "maxItems": draw.randint(1, 4)}
    if kind == "enum":
        return {"enum": draw.sample(WORDS, draw.randint(1, 4))}
    if kind == "integer":
        least = draw.randint(-50, 50)
        return {"type": "integer", "minimum": least, "maximum": least + draw.randint(0, 5000)}
    if kind == "string":
        return {"type": "string", "minLength": draw.randint(0, 2), "maxLength": draw.randint(2, 24)}
    if kind == "pattern":
        return {"type": "string", "pattern": draw.choice(["^[a-z]{3,9}$", "^[0-9]{4}-[0-9]{2}$", "^(on|off|auto)$", "^[A-Z][a-z ]{0,12}$"])}
    return {"type": kind}


class Server:
    def __init__(self, folder: str, flags: list[str]):
        command = [BUILD / "bin" / "knapper", "serve", folder, "--port", "0", "--quiet", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        found = re.search(r"at http://([\d.]+):(\d+)", self.process.stdout.readline())
        if not found:
            sys.exit("the server did not start")
        self.address = found[1], int(found[2])

    def processor(self) -> float:
        """Seconds of processors that it and the processes that it started took, of those that run."""
        sums, parents = {}, {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rsplit(")", 1)[1].split()
            except OSError:  # it has ended
                continue
            pid = int(path.parent.name)
            sums[pid], parents[pid] = int(fields[11]) + int(fields[12]), int(fields[1])
        own = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in own} - own:
            own |= more
        return sum(sums.get(pid, 0) for pid in own) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def run(server: Server, bodies: list[dict], clients: int) -> tuple[float, list[dict]]:
    """Seconds, and the answers; each client sends its next request when its last has ended."""
    answers: list[dict] = [{}] * len(bodies)
    rest = iter(range(len(bodies)))
    lock = threading.Lock()

    def client():
        connection = http.client.HTTPConnection(*server.address, timeout=600)
        while True:
            with lock:
                i = next(rest, None)
            if i is None:
                return
            connection.request("POST", "/v1/completions", json.dumps(bodies[i]), {"Content-Type": "application/json"})
            response = connection.getresponse()
            answers[i] = json.loads(response.read())
            if response.status != 200:
                sys.stderr.write(f"{response.status}: {answers[i]}\n{bodies[i]}\n")
                server.process.kill()
                os._exit(1)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start, answers


def tokens(answers: list[dict]) -> int:
    return sum(answer["usage"]["completion_tokens"] for answer in answers)


def invalid(schemas: list[dict], answers: list[dict]) -> tuple[int, list]:
    """How many answers ended by themselves, and those of them that another validator refuses."""
    import jsonschema

    finished, wrong = 0, []
    for schema, answer in zip(schemas, answers, strict=True):
        choice = answer["choices"][0]
        if choice["finish_reason"] != "stop":
            continue
        finished += 1
        try:
            jsonschema.Draft202012Validator(schema).validate(json.loads(choice["text"]))
        except (ValueError, jsonschema.ValidationError) as error:
            wrong.append((schema, choice["text"], str(error).splitlines()[0]))
    return finished, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--schemas", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--temperature", type=float, default=1)
    parser.add_argument("--json")
    parser.add_argument("--bars", action="store_true")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments = parser.parse_args(sys.argv[1:at])
    draw = random.Random(arguments.seed)
    schemas = [drawn_schema(draw) for _ in range(arguments.schemas)]
    prompts = [[draw.randrange(100, 1000) for _ in range(16)] for _ in schemas]
    server = Server(arguments.folder, sys.argv[at + 1 :])

    def bound(number: int, i: int) -> dict:
        return dict(prompt=prompts[i], guided_json=schemas[i], max_tokens=arguments.max_tokens, temperature=arguments.temperature, seed=1000 * number + i)

    def plain(number: int, i: int, answer: dict) -> dict:
        count = max(1, answer["usage"]["completion_tokens"])
        return dict(prompt=prompts[i], max_tokens=count, ignore_eos=True, temperature=arguments.temperature, seed=1000 * number + i)

    def compared(number: int) -> dict:
        """One round; the two are interleaved."""
        row = dict(tokens=0, ended=0, invalid=0, bound_seconds=0.0, plain_seconds=0.0, bound_processor=0.0, plain_processor=0.0)
        for first in range(0, len(schemas), 2 * arguments.clients):
            part = range(first, min(first + 2 * arguments.clients, len(schemas)))
            times = [server.processor()]
            own, answers = run(server, [bound(number, i) for i in part], arguments.clients)
            times.append(server.processor())
            other, unbound = run(server, [plain(number, i, answer) for i, answer in zip(part, answers, strict=True)], arguments.clients)
            times.append(server.processor())
            ended, bad = invalid([schemas[i] for i in part], answers)
            wrong.extend(bad)
            for name, value in (
                ("tokens", tokens(answers)), ("ended", ended), ("invalid", len(bad)), ("bound_seconds", own), ("plain_seconds", other),
                ("bound_processor", times[1] - times[0]), ("plain_processor", times[2] - times[1]),
            ):  # fmt: skip
                row[name] += value
            if tokens(unbound) != tokens(answers):
                sys.exit(f"{tokens(unbound)} plain tokens beside {tokens(answers)}")
        row["ratio"] = row["plain_seconds"] / row["bound_seconds"]
        row["processor"] = row["bound_processor"] / max(row["plain_processor"], 1e-9)
        speeds = [row["tokens"] / row[name] for name in ("bound_seconds", "plain_seconds")]
        work = [1e6 * row[name] / row["tokens"] for name in ("bound_processor", "plain_processor")]
        print(
            f"{'by schemas' if number else 'with compiles'} {speeds[0]:.0f} tok/s, plain {speeds[1]:.0f}: {row['ratio']:.3f}; processors {work[0]:.0f} and {work[1]:.0f} us a token: "
            f"{row['processor']:.3f} times ({row['tokens']} tokens, {row['ended']} of {len(schemas)} ended, {row['invalid']} not valid)",
            flush=True,
        )
        return row

    wrong: list = []
    try:
        rows = [compared(number) for number in range(arguments.rounds + 1)]
    finally:
        server.stop()
    finished = sum(row["ended"] for row in rows)
    ratio = statistics.median(row["ratio"] for row in rows[1:])
    print(f"median {ratio:.3f}; {finished} answers ended, {len(wrong)} not valid")
    for case in wrong[:3]:
        print(*case, sep="\n  ")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(dict(rows=rows, ratio=ratio, finished=finished, invalid=len(wrong))))
    return int(arguments.bars and (ratio < BAR or bool(wrong) or finished == 0))


if __name__ == "__main__":
    sys.exit(main())
