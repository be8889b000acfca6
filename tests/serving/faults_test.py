"""What clients do to a server, and what it bears: slow ones, very many, and all kinds at once (soak.py, in short)."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_models
from http_test import metric, post
from null_server import ROOT, Server, make_folder, wait_for

BODY = {"prompt": "abc", "max_tokens": 5, "ignore_eos": True}
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_slow_headers_and_bodies_end_in_time(serve):
    """200 clients that send a byte now and then; others are answered meanwhile, and the slow ones are gone in time."""
    server = serve("--receive-timeout", "1")
    clients = []
    for i in range(200):
        client = socket.create_connection((server.host, server.port))
        client.sendall(HEAD[:20] if i % 2 else HEAD + b"Content-Length: 5000\r\n\r\n{")
        clients.append(client)
    start = time.monotonic()
    while time.monotonic() - start < 3:
        for i, client in enumerate(clients):
            try:
                client.sendall(b"x" if i % 2 else b" ")
            except OSError:
                pass
        assert post(server, "/v1/completions", BODY)[0] == 200
        time.sleep(0.2)
    wait_for(lambda: metric(server, "knapper_http_connections") <= 1)
    for client in clients:
        client.close()


def test_ten_thousand_idle_connections(serve):
    many = 10000
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < many + 500:
        pytest.skip(f"this machine lets a process have {hard} descriptors")
    server = serve()  # before our own limit is raised: it raises its own
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft[0], many + 2000)  # the process of the tests has some open
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    statm = Path(f"/proc/{server.process.pid}/statm")
    clients = []
    try:
        post(server, "/v1/completions", BODY)
        before = int(statm.read_text().split()[1]) * 4096
        for _ in range(many):
            clients.append(socket.create_connection((server.host, server.port)))
        wait_for(lambda: metric(server, "knapper_http_connections") > many)
        grown = int(statm.read_text().split()[1]) * 4096 - before
        assert grown <= many * 64 << 10, grown / many
        start = time.monotonic()
        assert post(server, "/v1/completions", BODY)[0] == 200
        assert time.monotonic() - start < 10
        # One of them is as good as any.
        clients[-1].sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert clients[-1].recv(100).startswith(b"HTTP/1.1 200")
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, soft)
    wait_for(lambda: metric(server, "knapper_http_connections") <= 1)


def test_streams_of_a_server_that_is_killed_break_off(serve):
    server = serve("--null-step", "5000")
    connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
    connection.request("POST", "/v1/completions", '{"prompt": "abc", "max_tokens": 3000, "ignore_eos": true, "stream": true}', {"Content-Type": "application/json"})
    reply = connection.getresponse()
    assert reply.read(30)
    server.process.kill()
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        reply.read()
    server.process.wait()


class Client:
    """A process that asks and waits, to be killed."""

    CODE = """
import http.client, sys
connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=60)
connection.request("POST", "/v1/completions", sys.argv[3], {"Content-Type": "application/json"})
print("asked", flush=True)
connection.getresponse().read()
"""

    def __init__(self, server, body: dict):
        self.process = subprocess.Popen([sys.executable, "-c", self.CODE, server.host, str(server.port), json.dumps(body)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "asked\n"

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_is_killed_in_the_queue(serve, stream):
    """Its request leaves the queue; the one that runs goes on, and one behind it is answered."""
    server = serve("--null-step", "10000", "--max-sequences", "1")
    running = Client(server, BODY | {"max_tokens": 4000})
    wait_for(lambda: metric(server, "knapper_engine_running") == 1)
    waiting = Client(server, BODY | {"max_tokens": 3000, "stream": stream})
    wait_for(lambda: metric(server, "knapper_engine_waiting") == 1)
    waiting.kill()
    wait_for(lambda: metric(server, "knapper_engine_waiting") == 0)
    made = metric(server, "knapper_engine_generated_tokens_total")
    wait_for(lambda: metric(server, "knapper_engine_generated_tokens_total") > made)
    assert metric(server, "knapper_engine_running") == 1
    assert metric(server, "knapper_engine_cancelled_total") == 1
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        behind = pool.submit(post, server, "/v1/completions", BODY)
        wait_for(lambda: metric(server, "knapper_engine_waiting") == 1)
        running.kill()
        assert behind.result()[0] == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_is_killed_in_its_prefill(tmp_path, stream):
    """The rest of its prompt is not computed, and its blocks come back within a step."""
    pytest.importorskip("torch")
    folder = make_folder(tmp_path / "small")
    small_models.make("llama", folder, vocab_size=1500, max_position_embeddings=4096)
    tokens = 4000
    server = Server(folder, "--quiet", "--threads", "1", "--kv-memory", "0.05", "--max-batched-tokens", "2", null=False)
    try:
        assert post(server, "/v1/completions", BODY)[0] == 200
        for turn in range(8):  # a machine that others use may be through with it before the client is killed
            answered = metric(server, "knapper_engine_generated_tokens_total")
            computed = metric(server, "knapper_engine_prompt_tokens_total")
            client = Client(server, {"prompt": [5 + turn + i % 1000 for i in range(tokens)], "max_tokens": 20, "stream": stream})
            wait_for(lambda: metric(server, "knapper_engine_prompt_tokens_total") > computed)  # noqa: B023
            client.kill()
            wait_for(lambda: metric(server, "knapper_engine_running") == 0)
            if metric(server, "knapper_engine_prompt_tokens_total") < computed + tokens:
                break
        assert metric(server, "knapper_engine_prompt_tokens_total") < computed + tokens
        assert metric(server, "knapper_engine_cancelled_total") >= 1
        assert metric(server, "knapper_engine_generated_tokens_total") == answered
        blocks = [metric(server, f"knapper_engine_blocks{which}") for which in ("", "_free", "_cached")]
        assert blocks[0] == blocks[1] + blocks[2]
        assert metric(server, "knapper_engine_ledger_faults_total") == 0
        assert post(server, "/v1/completions", BODY)[0] == 200
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize("speculate", ["off", "ngram"])
def test_clients_of_all_kinds(tmp_path, speculate):
    pytest.importorskip("torch")
    folder = make_folder(tmp_path / "small")
    small_models.make("llama", folder, vocab_size=1500)
    flags = ["--kv-memory", "0.0005", "--max-sequences", "24", "--max-batched-tokens", "48", "--threads", "2", "--speculate", speculate]
    state = tmp_path / "state"
    command = [sys.executable, ROOT / "tests" / "serving" / "soak.py", folder, "--clients", "24", "--state", state, "--settle", "60", "--requests"]
    for requests in ("500", "900"):  # the second goes on where the first has ended
        done = subprocess.run([*command, requests, "--", *flags], capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stdout + done.stderr
    assert state.read_text() == "900" and "400 requests in" in done.stdout
