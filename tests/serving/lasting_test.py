"""A device that is lost or hangs, and requests whose deadline is over: each ends with its reason, and others are served."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import threading
import time

import pytest
from http_test import JSON, call, error_of, metric, post
from null_server import wait_for

BODY = {"prompt": [5, 6], "max_tokens": 5, "ignore_eos": True}
LONG = {"prompt": [5, 6], "max_tokens": 3000, "ignore_eos": True}


@pytest.mark.parametrize("how", ["lost", "hung"])
def test_the_engine_is_built_again(serve, how):
    """All that run end with 503, `ready` says so, and the same process serves again."""
    flags = {"lost": ("--null-losing", "7"), "hung": ("--null-hanging", "7", "--hung-after", "1")}[how]
    server = serve("--null-step", "2000", *flags)
    connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
    connection.request("POST", "/v1/completions", json.dumps(LONG | {"stream": True}), JSON)
    stream = connection.getresponse()
    assert stream.read(30)
    seen, over = set(), threading.Event()

    def look():
        while not over.is_set():
            status, headers, _ = call(server, "GET", "/health/ready")
            seen.add((status, headers.get("Retry-After")))
            time.sleep(0.002)

    watch = threading.Thread(target=look)
    watch.start()
    rebuilds = 0
    # It may be built again between two looks: then once more.
    while (503, "5") not in seen and rebuilds < 20:
        status, headers, answer = call(server, "POST", "/v1/completions", BODY | {"prompt": [5, 7]})
        assert status == 503 and headers["Retry-After"], answer
        rebuilds += 1
        wait_for(lambda: post(server, "/v1/completions", BODY)[0] == 200)
    over.set()
    watch.join()
    text = stream.read().decode()
    connection.close()
    assert '"error"' in text and "[DONE]" not in text
    assert (503, "5") in seen and call(server, "GET", "/health/ready")[0] == 200
    assert metric(server, "knapper_engine_rebuilds_total") == rebuilds
    assert metric(server, "knapper_engine_running") == 0


def test_no_false_alarm(serve):
    """Steps that are slow, and no step at all, are no hung engine."""
    server = serve("--null-step", "300000", "--hung-after", "2")
    assert post(server, "/v1/completions", BODY)[0] == 200
    time.sleep(2.5)
    assert post(server, "/v1/completions", BODY)[0] == 200
    assert metric(server, "knapper_engine_rebuilds_total") == 0


def test_a_deadline_ends_what_runs_and_what_waits(serve):
    server = serve("--null-step", "5000", "--max-sequences", "1")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        start = time.monotonic()
        running = pool.submit(error_of, server, "/v1/completions", LONG | {"timeout": 4}, 503)
        wait_for(lambda: metric(server, "knapper_engine_running") == 1)
        waits = pool.submit(error_of, server, "/v1/completions", LONG | {"timeout": 0.3}, 503)
        assert waits.result()["code"] == "deadline_exceeded"
        assert not running.done()
        assert running.result()["code"] == "deadline_exceeded"
    assert time.monotonic() - start > 3.95
    assert metric(server, "knapper_engine_running") == 0
    assert metric(server, "knapper_engine_deadlines_exceeded_total") == 2
    assert post(server, "/v1/completions", BODY | {"timeout": 20})[0] == 200


def test_the_server_has_a_deadline_too(serve):
    server = serve("--null-step", "5000", "--request-timeout", "0.3")
    assert error_of(server, "/v1/completions", LONG | {"timeout": 50}, 503)["code"] == "deadline_exceeded"
    connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
    connection.request("POST", "/v1/completions", json.dumps(LONG | {"stream": True}), JSON)
    text = connection.getresponse().read().decode()
    connection.close()
    assert '"code":"deadline_exceeded"' in text and "[DONE]" not in text
    assert post(server, "/v1/completions", BODY)[0] == 200


@pytest.mark.parametrize("timeout", [-1, "soon", 86401])
def test_deadlines_that_are_none(server, timeout):
    assert error_of(server, "/v1/completions", BODY | {"timeout": timeout}, 400)["param"] == "timeout"
