#!/usr/bin/env python3
"""Requests of every wrong kind to a server, beside streams whose text must stay the same; it goes on where it was stopped.

    fuzz_requests.py FOLDER [--requests 1000000] [--clients 8] [--witnesses 4] [--state FILE] [--seed N] [--seconds S] [--model] [-- FLAGS OF knapper serve]

Bodies are drawn from /openapi.json (fields that are allowed, and values that are not), damaged bytes, NULs, deep JSON; and what stands around them:
half bodies, wrong lengths, two lengths, chunks, header lines without end, two requests in one. Without --model the null engine answers. The server must not
end, an answer must come within a minute, and 5xx but 503 is a failure, as are 16 MiB more of memory than at the 2,000th request:
compiled grammars, which the server keeps, are bounded by --grammar-cache, 1 MiB here. --state keeps the count of requests that are done.
"""

from __future__ import annotations

import argparse
import errno
import http.client
import json
import random
import socket
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from null_server import Server  # noqa: E402
from soak import join, rss, split, start, start_clients  # noqa: E402

JSON = {"Content-Type": "application/json"}
PATHS = {"ChatRequest": "/v1/chat/completions", "CompletionRequest": "/v1/completions"}
ODD = [None, True, -1, 0, 2**31, 2**63, 2**64, -1e308, 1e-320, 0.5, "", "\0", "a\0b", "\ud800", "x" * 5000, "<|im_end|>", [], [[]], [None], {}, {"": {}}, {"type": "text"}, [1, [2]], "é" * 50]  # fmt: skip
TEXTS = ["hi", "", "a" * 300, "\0", "<|im_start|>", "🙂é", "\u200b\x17", "{{ x }}"]


def nested(draw, depth):
    value = draw.choice(ODD[:12])
    for _ in range(depth):
        value = [value] if draw.random() < 0.5 else {draw.choice(["type", "a", ""]): value}
    return value


def allowed(draw, row):
    """A value that the schema of a field allows, as far as it says."""
    if "const" in row:
        return row["const"]
    if "enum" in row:
        return draw.choice(row["enum"])
    kinds = row.get("type", [])
    kind = kinds if isinstance(kinds, str) else draw.choice(kinds) if kinds else None
    low, high = row.get("minimum", -2), row.get("maximum", 50)
    match kind:
        case "integer":
            return draw.randint(int(low), max(int(low), int(min(high, low + 60))))
        case "number":
            return draw.uniform(low, high)
        case "boolean":
            return draw.random() < 0.5
        case "string":
            return draw.choice(TEXTS)
        case "array":
            return [draw.choice(TEXTS) for _ in range(draw.randrange(4))]
        case "object":
            return {draw.choice(["1", "a", "include_usage"]): draw.choice(ODD[:10]) for _ in range(draw.randrange(3))}
    return None


def sound(draw, schemas):
    """A request that is answered, with numbers and flags from the whole of what is allowed."""
    name = draw.choice(list(PATHS))
    start = {"messages": [{"role": "user", "content": draw.choice(TEXTS)}]} if name == "ChatRequest" else {"prompt": draw.choice(["a", [5, 6, 7], ["a", "b"]])}
    fields = ("temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "seed", "stream", "ignore_eos", "priority", "n", "skip_special_tokens")
    body = start | {"max_tokens": draw.randrange(1, 8)}
    for field, row in schemas[name]["properties"].items():
        if field in fields and draw.random() < 0.3:
            body[field] = draw.randrange(1, 4) if field == "n" else allowed(draw, row)
    return PATHS[name], json.dumps(body).encode()


def body_of(draw, schemas):
    name = draw.choice(list(PATHS))
    body = {"max_tokens": draw.randrange(1, 8)}
    if name == "ChatRequest":
        body["messages"] = [{"role": draw.choice(["system", "user", "assistant", "tool", "x"]), "content": draw.choice(TEXTS)} for _ in range(draw.randrange(1, 4))]
    else:
        body["prompt"] = draw.choice([draw.choice(TEXTS), [5, 6, 7], [[1, 2], [3]], ["a", "b"]])
    rows = list(schemas[name]["properties"].items())
    for field, row in draw.sample(rows, draw.randrange(0, 6)):
        if field in ("n", "best_of", "max_tokens", "max_completion_tokens"):
            body[field] = draw.randrange(0, 4)
        elif draw.random() < 0.7:
            body[field] = allowed(draw, row)
        else:
            body[field] = draw.choice(ODD) if draw.random() < 0.8 else nested(draw, draw.choice([3, 62, 63, 64, 65, 200]))
    if draw.random() < 0.1:
        body[draw.choice(["temprature", "", "\0", "a" * 100])] = 1
    return PATHS[name], json.dumps(body).encode()


def damaged(draw, data):
    data = bytearray(data)
    for _ in range(draw.randrange(1, 5)):
        place = draw.randrange(len(data) + 1)
        match draw.randrange(4):
            case 0:
                data[place : place + 1] = bytes([draw.randrange(256)])
            case 1:
                del data[place : place + draw.randrange(1, 9)]
            case 2:
                data[place:place] = draw.choice([b"\0", b"\xff\xfe", b"[" * 200, b'{"a":' * 70, b"\\ud800", b"1e999", b"\xed\xa0\x80", b"\r\n\r\n"])
            case 3:
                data += data[:place]
    return bytes(data)


def wire(draw, host, path, data, is_plain):
    """The bytes of a request, most of them as they should be; whether a server may not answer it with anything but a refusal: another could read it
    as other requests."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", "Connection: close"]
    length, refused = [f"Content-Length: {len(data)}"], False
    if not is_plain and draw.random() < 0.3:
        lines.pop()  # the connection stays: what was not read as a body may be read as a request
    match -1 if is_plain else draw.randrange(14):
        case 0:  # half of the body, and no more
            return "\r\n".join(lines + length).encode() + b"\r\n\r\n" + data[: draw.randrange(len(data) + 1)], False
        case 1:  # a length that is none, or another one
            length = [f"Content-Length: {draw.choice([-1, '+5', '0x10', 2**64, '5 5', '', len(data) - 1, len(data) + 3])}"]
        case 2:  # two of them
            length += [f"Content-Length: {draw.choice([len(data) + 1, 0, 5])}"]
            refused = f"Content-Length: {len(data)}" != length[1]
        case 3:  # a length and chunks: who forwards it may read the other
            length += ["Transfer-Encoding: chunked"]
            refused = True
            data = b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)
        case 4:
            coding = draw.choice(["chunked", "Chunked", "gzip, chunked", "identity", "chunked, chunked", "xchunked"])
            length, refused = [f"Transfer-Encoding: {coding}"], coding.lower() != "chunked"
            data = draw.choice([b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data), b"zz\r\n" + data, b"ffffffffffffffffff\r\n" + data, b"-1\r\n\r\n"])
        case 5:
            lines[0] = draw.choice([f"POST {path}", f"POST  {path} HTTP/1.1", f"PO\0ST {path} HTTP/1.1", f"POST {path}\0 HTTP/1.1", f"POST {path} HTTP/9.9", f"POST http://x{path} HTTP/1.1", "POST /../../etc/passwd HTTP/1.1", f"GET {path} HTTP/1.1", "\r\n\r\n"])  # fmt: skip
        case 6:
            lines.append(draw.choice(["X: " + "a" * 20000, "X" * 9000, ": x", " folded: x", "X:\0", "Expect: 100-continue", "Connection: upgrade", "Host: evil.example", "Origin: http://evil.example"]))
        case 7:  # another request behind this one
            data += b"GET /health/live HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n"
    return "\r\n".join(lines + length).encode(errors="replace") + b"\r\n\r\n" + data, refused


class Fuzz:
    def __init__(self, server, done, seed):
        self.server, self.done, self.seed = server, done, seed
        self.lock, self.statuses, self.problems, self.witnessed = threading.Lock(), {}, [], 0
        connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        connection.request("GET", "/openapi.json")
        self.schemas = json.loads(connection.getresponse().read())["components"]["schemas"]
        connection.close()
        self.witness = dict(prompt=[5, 6, 7, 8, 9, 10, 11], max_tokens=64, temperature=0, seed=3, logprobs=2, ignore_eos=True, stream=True)
        self.expected = self.stream()
        self.early = 0

    def stream(self):
        """The tokens and logprobs of the witness."""
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=60)
        connection.request("POST", "/v1/completions", json.dumps(self.witness), JSON)
        reply = connection.getresponse()
        events = [line for line in reply.read().decode().splitlines() if line.startswith("data: {")]
        connection.close()
        choices = [choice for event in events for choice in json.loads(event[6:])["choices"]]
        return "".join(choice["text"] for choice in choices), [one for choice in choices if choice["logprobs"] for one in choice["logprobs"]["token_logprobs"]], choices[-1]["finish_reason"]

    def note(self, status, what):
        with self.lock:
            self.statuses[status] = self.statuses.get(status, 0) + 1
            if status >= 500 and status != 503:
                self.problems.append(f"status {status}: {what[:300]!r}")

    def one(self, i):
        draw = random.Random(f"{self.seed} {i}")
        is_sound = draw.random() < 0.3
        path, data = (sound if is_sound else body_of)(draw, self.schemas)
        if not is_sound and draw.random() < 0.4:
            data = damaged(draw, data)
        is_plain = is_sound and draw.random() < 0.7
        request, refused = wire(draw, f"{self.server.host}:{self.server.port}", path, data, is_plain)
        with socket.create_connection((self.server.host, self.server.port), timeout=60) as connection:
            try:
                connection.sendall(request)
                # No more comes: a server that waits for the rest of a body hears so, and takes it that the client is gone.
                if not is_plain:
                    connection.shutdown(socket.SHUT_WR)
                if draw.random() < 0.1:
                    return
                answer = b""
                while part := connection.recv(65536):
                    answer += part
            except (ConnectionResetError, BrokenPipeError):
                answer = b""  # it had seen enough
            except OSError as error:
                if error.errno != errno.ENOTCONN:  # the same, seen by shutdown
                    raise
                answer = b""
        answer = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        status = int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else 0
        self.note(status, request)
        if is_plain and status != 200:
            self.problems.append(f"status {status} of a request that is allowed: {request[:300]!r}")
        if refused and status not in (0, 400):
            self.problems.append(f"status {status} of a request with two lengths: {request[:300]!r}")
        if b"GET /health/live" not in request and answer.count(b"HTTP/1.1 200") > 1:
            self.problems.append(f"two answers to one request: {request[:300]!r}")

    def run(self, until, clients, witnesses, state, last):
        over = threading.Event()

        def done(_):
            with self.lock:
                self.done += 1
                if self.done % 2000 == 0 and not self.early:
                    self.early = rss(self.server)
                if state and self.done % 500 == 0:
                    state.write_text(str(max(0, self.done - clients)))

        def watch():
            while not over.is_set() and not self.problems:
                try:
                    if self.stream() != self.expected:
                        self.problems.append("a witness has other bits")
                except Exception as error:  # noqa: BLE001
                    self.problems.append(f"a witness: {error!r}")
                self.witnessed += 1

        watching = start([threading.Thread(target=watch) for _ in range(witnesses)])
        join(start_clients(clients, self, range(self.done, last), done, until))
        over.set()
        join(watching)
        if state:
            state.write_text(str(self.done))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--witnesses", type=int, default=4)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--model", action="store_true", help="the folder's model computes")
    own, flags = split(sys.argv[1:])
    arguments = parser.parse_args(own)
    done = int(arguments.state.read_text()) if arguments.state and arguments.state.exists() else 0
    server = Server(arguments.folder, "--quiet", "--grammar-cache", "1", *flags, null=not arguments.model)
    fuzz, start = Fuzz(server, done, arguments.seed), time.monotonic()
    fuzz.run(start + arguments.seconds, arguments.clients, arguments.witnesses, arguments.state, arguments.requests)
    grown = rss(server) - fuzz.early if fuzz.early and server.process.poll() is None else 0
    if code := server.stop():
        fuzz.problems.append(f"the server ended with {code}: {server.log[-500:]}")
    if grown > 16 << 20:
        fuzz.problems.append(f"memory grew by {grown >> 20} MiB")
    print(f"{fuzz.done - done} requests in {time.monotonic() - start:.1f} s, {fuzz.witnessed} witnesses, statuses (0: none) {dict(sorted(fuzz.statuses.items()))}, memory grew by {grown / (1 << 20):.1f} MiB since the 2,000th")
    for problem in fuzz.problems[:10]:
        print(problem)
    return int(bool(fuzz.problems))


if __name__ == "__main__":
    sys.exit(main())
