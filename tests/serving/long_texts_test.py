"""Megabytes of text beside others: health, streams and short requests go on, and what waits is bounded."""

from __future__ import annotations

import concurrent.futures
import json
import signal
import socket
import statistics
import threading
import time

import pytest
from hostile_clients_test import head, leave
from http_test import call, events, metric
from null_server import wait_for

TEXT = "The quick brown fox, 12 of them; naïve 東京 größer. " * 60_000  # 3.5 MB
LONG = {
    "tokenize": ("/tokenize", {"prompt": TEXT}, 200),
    "detokenize": ("/detokenize", {"tokens": [300 + i % 1000 for i in range(700_000)]}, 200),
    "completions": ("/v1/completions", {"prompt": TEXT}, 400),
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": TEXT}]}, 400),
    "answer": ("/v1/completions", {"prompt": [300 + i % 1000 for i in range(3000)], "max_tokens": 1, "echo": True, "logprobs": 20, "n": 4}, 200),
}
LONG["stream"] = (LONG["answer"][0], LONG["answer"][1] | {"stream": True}, 200)


@pytest.mark.parametrize("what", LONG)
def test_long_texts_hold_up_nobody(serve, what):
    """One thread has all connections, and three clients with long texts or answers; others see less than 0.1 s of it, beside what a server without any sees of a busy machine."""
    flags = ("--http-threads", "1", "--null-step", "5000")
    server, control = serve(*flags), serve(*flags)
    path, body, status = LONG[what]
    data = json.dumps(body)
    times, gaps = {server: [], control: []}, {server: [], control: []}
    stream = json.dumps({"prompt": "a b c", "max_tokens": 400, "ignore_eos": True, "stream": True}).encode()
    over = threading.Event()
    times_asked = 10 if what in ("answer", "stream") else 1

    def ask() -> set[int]:
        return {call(server, "POST", path, data)[0] for _ in range(times_asked)}

    def read(server):
        """Streams, one after the other."""
        while not over.is_set():
            with socket.create_connection((server.host, server.port), timeout=60) as raw:
                raw.sendall(head(f"Content-Length: {len(stream)}", "Connection: close") + stream)
                last = time.monotonic()
                while not over.is_set() and raw.recv(65536):
                    now = time.monotonic()
                    gaps[server].append(now - last)
                    last = now

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        try:
            readers = [pool.submit(read, one) for one in (server, control)]
            wait_for(lambda: all(len(seen) > 3 for seen in gaps.values()))
            for seen in gaps.values():
                seen.clear()
            asked = [pool.submit(ask) for _ in range(3)]
            while not all(one.done() for one in asked):
                for one in (server, control):
                    began = time.monotonic()
                    assert call(one, "GET", "/health/live")[0] == 200
                    times[one].append(time.monotonic() - began)
                time.sleep(0.005)
        finally:
            over.set()
        for reader in readers:
            reader.result()
    assert [one.result() for one in asked] == [{status}] * 3
    for seen in (times, gaps):
        assert len(seen[server]) > 20 and len(seen[control]) > 20
        long, none = (statistics.quantiles(seen[one], n=20)[-1] for one in (server, control))
        assert long < none + 0.1, (long, none, max(seen[server]), len(seen[server]))


def test_who_leaves_a_long_text_ends_it(serve):
    """In the queue, and as it becomes tokens."""
    server = serve("--text-threads", "1")
    data, held = json.dumps({"prompt": TEXT}).encode(), []
    for _ in range(8):
        held.append(socket.create_connection((server.host, server.port), timeout=60))
        held[-1].sendall(head(f"Content-Length: {len(data)}", path="/tokenize") + data)
    wait_for(lambda: metric(server, "knapper_requests_active") > 5)
    for raw in held:
        leave(raw, True)
    wait_for(lambda: metric(server, "knapper_requests_active") == 0)
    assert metric(server, "knapper_requests_abandoned_total") > 4
    assert call(server, "POST", "/tokenize", {"prompt": TEXT})[0] == 200


def test_requests_of_a_connection_keep_their_order(serve):
    """Long and short ones, whole answers and streams, sent at once; what waits unread behind a long one ends with its client."""
    server = serve("--text-threads", "2")
    long, short = json.dumps({"prompt": TEXT[:400_000]}).encode(), json.dumps({"prompt": "a b"}).encode()
    made = json.dumps({"prompt": ["a b c"], "max_tokens": 3, "stream": True, "user": "u" * 50_000}).encode()
    sent = []
    for path, body in [("/tokenize", long), ("/tokenize", short), ("/v1/completions", made), ("/tokenize", long), ("/tokenize", short)]:
        sent.append(head(f"Content-Length: {len(body)}", path=path) + body)
    last = head("Connection: close", path="/health/live", method="GET")
    with socket.create_connection((server.host, server.port), timeout=60) as raw:
        sender = threading.Thread(target=raw.sendall, args=(b"".join(sent) + last,))
        sender.start()
        answer = b"".join(iter(lambda: raw.recv(1 << 20), b""))
        sender.join()
    marks = [at for at in range(len(answer)) if answer.startswith(b"HTTP/1.1 200 ", at)]
    parts = [answer[a:b] for a, b in zip(marks, marks[1:] + [None])]
    assert len(parts) == 6 and b"[DONE]" in parts[2] and b"live" in parts[5]
    counts = [json.loads(parts[i].split(b"\r\n\r\n", 1)[1])["count"] for i in (0, 1, 3, 4)]
    assert counts[:2] == counts[2:] and counts[0] > 1000 > counts[1]

    raw = socket.create_connection((server.host, server.port), timeout=60)
    data = json.dumps({"prompt": TEXT}).encode()
    raw.sendall(head(f"Content-Length: {len(data)}", path="/tokenize") + data + sent[1])
    wait_for(lambda: metric(server, "knapper_requests_active") == 1)
    leave(raw, False)
    wait_for(lambda: metric(server, "knapper_requests_active") == 0)
    assert metric(server, "knapper_requests_abandoned_total") == 1


def test_too_many_long_texts_are_told_so(serve):
    """64 wait; who comes then may come again."""
    server = serve("--text-threads", "1")
    first, others = json.dumps({"prompt": TEXT}), json.dumps({"prompt": TEXT[:50_000]})
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        held = [pool.submit(call, server, "POST", "/tokenize", first) for _ in range(2)]
        wait_for(lambda: metric(server, "knapper_requests_active") > 1)
        answers = [one.result() for one in [pool.submit(call, server, "POST", "/tokenize", others) for _ in range(90)]]
        assert [one.result()[0] for one in held] == [200, 200]
    refused = [(status, headers, json.loads(text)) for status, headers, text in answers if status != 200]
    assert refused and {status for status, _, _ in refused} == {429}
    assert all(headers["Retry-After"] == "1" and answer["error"]["code"] == "queue_full" for _, headers, answer in refused)
    assert len(answers) - len(refused) >= 60
    assert events(server, "/v1/completions", {"prompt": "a b", "max_tokens": 3})[-1]["choices"][0]["finish_reason"]


def test_a_long_prompt_is_answered_as_a_short_one(server):
    """More than 32 KiB that are few tokens: the rest is what the template does not read."""
    body = {"prompt": "a b c", "max_tokens": 4, "seed": 1, "temperature": 0}
    short = json.loads(call(server, "POST", "/v1/completions", body)[2])
    long = json.loads(call(server, "POST", "/v1/completions", json.dumps(body) + " " * 100_000)[2])
    assert short["choices"] == long["choices"] and short["usage"]["prompt_tokens"] == long["usage"]["prompt_tokens"]
    pieces = events(server, "/v1/completions", body | {"prompt": ["a b c"] * 100 + ["d" * 100] * 20, "user": "u" * 40_000})
    assert "".join(p["choices"][0]["text"] for p in pieces if p["choices"] and p["choices"][0]["index"] == 0) == short["choices"][0]["text"]


def test_a_stream_echoes_a_long_prompt_to_all_choices(serve, folder):
    """All echoes become known at once; a client that reads as fast as it can gets them all."""
    server = serve()
    words = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    body = {"prompt": [words[max(words, key=len)]] * 4000, "max_tokens": 1, "ignore_eos": True, "echo": True, "logprobs": 0, "n": 64}
    pieces = events(server, "/v1/completions", body | {"stream": True})
    ends = [piece["choices"][0]["index"] for piece in pieces if piece["choices"] and piece["choices"][0]["finish_reason"]]
    assert sorted(ends) == list(range(64))
    assert sum(len(json.dumps(piece)) for piece in pieces) > 16 << 20


def test_a_stop_ends_what_waits(serve):
    """SIGTERM: who waits for a thread is told, or answered; the server ends in time."""
    server = serve("--text-threads", "1", "--drain", "1")
    data = json.dumps({"prompt": TEXT})
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(call, server, "POST", "/tokenize", data) for _ in range(12)]
        wait_for(lambda: metric(server, "knapper_requests_active") > 8)
        server.process.send_signal(signal.SIGTERM)
        assert {one.result()[0] for one in asked} <= {200, 503}
    assert server.stop() == 0


def test_a_long_text_that_came_before_a_stop_is_answered(serve):
    """SIGTERM as it becomes tokens: it goes on, and who comes then is told at once."""
    server = serve()
    data = json.dumps({"prompt": TEXT, "truncate_prompt_tokens": 40, "max_tokens": 4})
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(call, server, "POST", "/v1/completions", data)
        wait_for(lambda: metric(server, "knapper_requests_active") == 1)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: call(server, "GET", "/health/ready")[0] == 503)
        began = time.monotonic()
        status, headers, text = call(server, "POST", "/v1/completions", data)
        if not asked.done():
            assert (status, json.loads(text)["error"]["code"]) == (503, "shutting_down") and headers["Retry-After"]
            assert time.monotonic() - began < 1
        status, _, text = asked.result()
    assert status == 200 and json.loads(text)["usage"]["completion_tokens"] == 4
    assert server.stop() == 0


def test_an_answer_that_is_read_slowly_survives_a_stop(serve):
    """SIGTERM while megabytes of it are still with the server."""
    server = serve()
    body = {"prompt": list(range(300, 500)), "n": 40, "max_tokens": 1000, "ignore_eos": True, "logprobs": 20}
    data = json.dumps(body).encode()
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        raw.settimeout(60)
        raw.connect((server.host, server.port))
        raw.sendall(head(f"Content-Length: {len(data)}") + data)
        answer = raw.recv(1000)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        first, rest = answer.split(b"\r\n\r\n", 1)
        missing = int(first.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) - len(rest)
        assert missing > 8 << 20
        while missing > 0 and (part := raw.recv(65536)):
            missing -= len(part)
            rest += part
    assert missing == 0 and len(json.loads(rest)["choices"]) == 40
    assert server.stop() == 0
