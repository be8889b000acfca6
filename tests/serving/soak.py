#!/usr/bin/env python3
"""Many requests to a server whose pool of keys and values is too small, with clients of every kind; it may go on where it was stopped.

    soak.py FOLDER [--requests 100000] [--clients 32] [--state FILE] [--settle SECONDS] [--seed N] [-- FLAGS OF knapper serve]

One request in five is cancelled at random, one in ten is read slowly, one in twenty is damaged JSON or a field that is
wrong; one in forty is a witness, whose tokens and logprobs must have the bits that it has alone. --state keeps the count
of requests that are done and is read at the start. After the last one, within --settle seconds [0.1], no sequence may run or wait and
every block must be free or cached; the ledger may not have found a fault, no answer may be a 5xx, and the server's
memory may not have grown by more than 16 MiB since a tenth of the requests.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import random
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from null_server import Server  # noqa: E402

JSON = {"Content-Type": "application/json"}
PATH = "/v1/completions"


def rss(server) -> int:
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096


def metrics(server) -> dict[str, float]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    return {line.split(" ")[0]: float(line.split(" ")[1]) for line in lines if line and line[0] != "#"}


def drawn(draw: random.Random, vocabulary: int) -> dict:
    prefix = [3 + draw.randrange(6)] * draw.choice([0, 16, 40])
    prompt = prefix + [draw.randrange(3, vocabulary) for _ in range(draw.randrange(1, 60))]
    return dict(prompt=prompt, max_tokens=draw.randrange(1, 40), temperature=draw.choice([0, 1]), seed=draw.randrange(100), priority=draw.randrange(3))


def damaged(draw: random.Random, body: dict) -> bytes:
    text = bytearray(json.dumps(body | draw.choice([{}, {"temperature": -1}, {"stop": [1]}, {"n": 0}, {"max_tokens": 10**9}, {"logprobs": "x"}])).encode())
    for _ in range(draw.randrange(1, 5)):
        place = draw.randrange(len(text))
        match draw.randrange(4):
            case 0:
                text[place] = draw.randrange(256)
            case 1:
                del text[place : place + draw.randrange(1, 9)]
            case 2:
                text[place:place] = draw.choice([b"\0", b"\xff\xfe", b"[" * 100, b'{"a":', b'\\ud800', b"1e999"])
            case 3:
                text += text[:place]
        text = text or bytearray(b"{")
    return bytes(text)


def start_clients(count: int, of, numbers, done, until: float = math.inf) -> list[threading.Thread]:
    """Threads that share out the numbers: each calls `of.one(i)`, then `done(i)`, until there is a problem or the clock says `until`."""
    rest = iter(numbers)

    def client():
        while not of.problems and time.monotonic() < until:
            with of.lock:
                i = next(rest, None)
            if i is None:
                return
            try:
                of.one(i)
            except Exception as error:  # noqa: BLE001
                of.problems.append(f"request {i}: {error!r}")
            done(i)

    return start([threading.Thread(target=client) for _ in range(count)])


def start(threads: list[threading.Thread]) -> list[threading.Thread]:
    for thread in threads:
        thread.start()
    return threads


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join()


class Soak:
    def __init__(self, server, requests, done, seed, vocabulary):
        self.server, self.requests, self.done, self.seed, self.vocabulary = server, requests, done, seed, vocabulary
        self.lock = threading.Lock()
        self.statuses: dict[int, int] = {}
        self.problems: list[str] = []
        self.cancelled = 0
        self.early = 0
        self.witness = [dict(prompt=[5 + i, 6, 7, 8] * (3 + i), max_tokens=12, temperature=i % 2, seed=i, logprobs=5, ignore_eos=True) for i in range(4)]
        self.expected = [self.ask(json.dumps(body).encode())[1] for body in self.witness]

    def ask(self, body):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=120)
        connection.request("POST", PATH, body, JSON)
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        return reply.status, json.loads(text).get("choices") if reply.status == 200 else text

    def one(self, i):
        draw = random.Random(self.seed * 1_000_003 + i)
        body, kind = drawn(draw, self.vocabulary), draw.random()
        if i % 40 == 0:
            which = draw.randrange(len(self.witness))
            status, choices = self.ask(json.dumps(self.witness[which]).encode())
            if status == 200 and choices != self.expected[which]:
                self.problems.append(f"request {i}: witness {which} has other bits")
        elif kind < 0.05:
            status, _ = self.ask(damaged(draw, body))
        elif kind < 0.25:
            status = self.cancel(draw, body)
        elif kind < 0.35:
            status = self.slow(draw, body)
        else:
            status, _ = self.ask(json.dumps(body).encode())
        with self.lock:
            self.statuses[status] = self.statuses.get(status, 0) + 1
            if status >= 500 and status != 503:
                self.problems.append(f"request {i}: status {status}")
            self.done += 1
            if self.done == self.requests // 10:
                self.early = rss(self.server)

    def cancel(self, draw, body):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=120)
        connection.request("POST", PATH, json.dumps(body | dict(stream=draw.random() < 0.5, max_tokens=100, ignore_eos=True)), JSON)
        time.sleep(draw.random() * 0.03)
        connection.sock.close()
        with self.lock:
            self.cancelled += 1
        return 200

    def slow(self, draw, body):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=120)
        connection.request("POST", PATH, json.dumps(body | dict(stream=True)), JSON)
        reply = connection.getresponse()
        while reply.read(draw.randrange(1, 200)):
            time.sleep(0.002)
        connection.close()
        return reply.status

    def run(self, clients, state, settle):
        def done(i):
            if state and i % 500 == 0:
                state.write_text(str(max(0, self.done - clients)))

        join(start_clients(clients, self, range(self.done, self.requests), done))
        if state:
            state.write_text(str(self.done))
        return self.settled(settle)

    def settled(self, seconds):
        """What is left so long after the last request; the look itself may take longer."""

        def is_settled(now):
            blocks = now["knapper_engine_blocks_free"] + now["knapper_engine_blocks_cached"]
            return not now["knapper_engine_running"] and not now["knapper_engine_waiting"] and blocks == now["knapper_engine_blocks"]

        end = time.monotonic() + seconds
        while not is_settled(now := metrics(self.server)) and (left := end - time.monotonic()) > 0:
            time.sleep(min(0.1, left))
        if now["knapper_engine_running"] or now["knapper_engine_waiting"]:
            self.problems.append("sequences run that nobody wants")
        if now["knapper_engine_blocks_free"] + now["knapper_engine_blocks_cached"] != now["knapper_engine_blocks"]:
            self.problems.append("blocks are neither free nor cached")
        if now["knapper_engine_ledger_faults_total"]:
            self.problems.append("the ledger found faults")
        grown = rss(self.server) - self.early if self.early else 0
        if grown > 16 << 20:
            self.problems.append(f"memory grew by {grown >> 20} MiB")
        return now | {"grown": grown}


def split(given: list[str]) -> tuple[list[str], list[str]]:
    """Our arguments, and those behind `--`."""
    at = given.index("--") if "--" in given else len(given)
    return given[:at], given[at + 1 :]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, default=100000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--settle", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vocabulary", type=int, default=1000)
    own, flags = split(sys.argv[1:])
    arguments = parser.parse_args(own)
    done = int(arguments.state.read_text()) if arguments.state and arguments.state.exists() else 0
    server = Server(arguments.folder, "--quiet", *flags, null=False)
    soak = Soak(server, arguments.requests, done, arguments.seed, arguments.vocabulary)
    start = time.monotonic()
    now = soak.run(arguments.clients, arguments.state, arguments.settle)
    code = server.stop()
    if code:
        soak.problems.append(f"the server ended with {code}")
    print(f"{soak.done - done} requests in {time.monotonic() - start:.1f} s, statuses {dict(sorted(soak.statuses.items()))}, {soak.cancelled} cancelled by their clients")
    print(f"{now['knapper_engine_preemptions_total']:.0f} preemptions, memory grew by {now['grown'] / (1 << 20):.1f} MiB since a tenth of them")
    for problem in soak.problems[:10]:
        print(problem)
    return int(bool(soak.problems))


if __name__ == "__main__":
    sys.exit(main())
