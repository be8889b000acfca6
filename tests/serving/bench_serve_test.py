"""bench-serve against the server over the null engine."""

from __future__ import annotations

import json
import socket
import subprocess
import threading

import pytest
from null_server import BUILD


def bench(*arguments, timeout=60):
    return subprocess.run(
        [BUILD / "bin" / "knapper", "bench-serve", *map(str, arguments)], capture_output=True, text=True, timeout=timeout)


def report(*arguments):
    done = bench(*arguments, "--json", "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("chat", [[], ["--chat"]])
def test_closed_loop(serve, chat):
    server = serve("--null-step", "1000")
    result = report(server.url, "--requests", 20, "--concurrency", 4, "--input-words", 30, "--max-tokens", 12, "--ignore-eos", *chat)
    assert (result["completed"], result["failed"], result["loop"]) == (20, 0, "closed")
    assert result["tokens_counted_by"] == "server"
    assert result["completion_tokens"] == 20 * 12 and result["prompt_tokens"] >= 20 * 30
    assert 1 <= result["most_at_once"] <= 4
    assert result["model"] == "tiny"
    for key in ("ttft_ms", "itl_ms", "tpot_ms", "e2e_ms"):
        times = result[key]
        assert 0 <= times["p50"] <= times["p90"] <= times["p99"] <= times["max"]
    assert result["ttft_ms"]["max"] <= result["e2e_ms"]["max"]
    rate = result["output_tokens_per_second"] * result["seconds"]
    assert rate == pytest.approx(result["completion_tokens"], rel=1e-3)


def test_open_loop_does_not_wait(serve):
    """Answers of 0.4 s that arrive 50 a second: many run at once, and the load ends when arrivals and one answer do."""
    slow = serve("--null-step", "20000")
    result = report(slow.url, "--requests", 30, "--rate", 50, "--max-tokens", 20, "--ignore-eos")
    assert result["loop"] == "open" and result["completed"] == 30
    assert result["most_at_once"] > 8
    assert 10 <= result["itl_ms"]["p50"] <= 200


def test_table_file_and_base_url(server, tmp_path):
    done = bench(server.url + "/v1/", "--requests", 3, "--ignore-eos", "--json", tmp_path / "load.json")
    assert done.returncode == 0, done.stderr
    assert "3 requests in" in done.stdout and "time to first token" in done.stdout
    assert json.loads((tmp_path / "load.json").read_text())["completed"] == 3


def test_refusals_are_counted(serve):
    closed = serve("--api-key", "sesame", "--max-context", "64")
    done = bench(closed.url, "--requests", 3)
    assert done.returncode == 2 and "/v1/models answers with status 401" in done.stderr
    long = bench(closed.url, "--requests", 3, "--api-key", "sesame", "--input-words", 100)
    assert long.returncode == 2 and "requests failed: status 400: the prompt has" in long.stderr
    short = report(closed.url, "--requests", 3, "--api-key", "sesame", "--input-words", 5, "--max-tokens", 5, "--ignore-eos")
    assert short["completed"] == 3


@pytest.mark.parametrize("url, code, message", [
    ("localhost", 1, "is no address of a server"),
    ("ftp://localhost", 1, "is no address of a server"),
    ("http://localhost:x", 1, "is no address of a server"),
    ("http://127.0.0.1:9", 2, "no connection"),
])
def test_wrong_addresses(url, code, message):
    done = bench(url)
    assert done.returncode == code and message in done.stderr


def test_a_server_that_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held = []
        threading.Thread(target=lambda: held.append(listener.accept()), daemon=True).start()
        done = bench(f"http://127.0.0.1:{listener.getsockname()[1]}", "--timeout", 0.3)
    assert done.returncode == 2 and "nothing came in 0.3 s" in done.stderr
