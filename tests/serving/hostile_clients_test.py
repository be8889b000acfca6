"""What clients send that no client should: each is answered or let go, costs little, and disturbs nobody."""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
import time
from pathlib import Path

import pytest
from http_test import JSON, call, error_of, events, metric, post
from null_server import wait_for
from soak import rss
from tool_calls_test import WEATHER, scripted  # noqa: F401

LONG = {"prompt": "a b c", "max_tokens": 2000, "ignore_eos": True}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def head(*lines, path="/v1/completions", host="localhost", method="POST"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", *lines]).encode() + b"\r\n\r\n"


def exchange(server, data, seconds=10):
    """All that comes back until the server ends the connection, or 0.3 s nothing comes."""
    with socket.create_connection((server.host, server.port), timeout=seconds) as raw:
        answer = b""
        try:
            raw.sendall(data)
            while part := raw.recv(65536):
                answer += part
                raw.settimeout(0.3)
        except (ConnectionError, TimeoutError):
            pass
    return answer


def statuses(answer):
    return [int(part.split(b" ", 1)[0]) for part in answer.split(b"HTTP/1.1 ")[1:]]


def check_refused(server, data):
    """What comes back is one answer, that this is no HTTP, and the server ends the connection: it waits for no more."""
    answer = b""
    with socket.create_connection((server.host, server.port), timeout=20) as raw:
        raw.sendall(data)
        while part := raw.recv(65536):
            answer += part
    assert statuses(answer) == [400] and b'"bad_http"' in answer, answer


SMUGGLED = b"GET /version?a HTTP/1.1\r\nHost: localhost\r\n\r\n"
assert len(SMUGGLED) == 44  # of the lengths below: whoever takes one reads it as a body, and answers that


@pytest.mark.parametrize(
    "lines",
    [["Transfer-Encoding: identity"], ["Transfer-Encoding: gzip"], ["Transfer-Encoding: xchunked"], ["Transfer-Encoding: chunked, identity"], ["Transfer-Encoding: "],
     ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], ["Transfer-Encoding: identity", "Content-Length: 3"], ["Transfer-Encoding:\tchunked\x0b"],
     ["Content-Length: 0, 44"], ["Content-Length: +0"], ["Content-Length:"], ["Content-Length: 0x0"], ["Content-Length : 44"], ["Content-Length: 0", " 44"],
     ["Content-Length: 0", "Content-Length: 44"], ["Content-Length: 18446744073709551616"], ["X: a\rContent-Length: 44"]],
)  # fmt: skip
def test_a_body_of_no_known_length_is_no_second_request(server, lines):
    """Whoever forwards it may see a body where this server would see a request."""
    check_refused(server, head(*lines) + SMUGGLED)


@pytest.mark.parametrize("codings", ["gzip, chunked", "chunked, chunked"])
def test_codings_before_chunks_are_refused(server, codings):
    check_refused(server, head(f"Transfer-Encoding: {codings}") + b"2\r\n{}\r\n0\r\n\r\n" + SMUGGLED)


@pytest.mark.parametrize("chunk", [b"-1\r\n{}\r\n", b"-2\r\n{}\r\n", b"+2\r\n{}\r\n", b"g\r\n", b"\r\n", b" 2\r\n{}\r\n", b"0x2\r\n{}\r\n", b"ffffffffffffffffffff\r\n{}\r\n",
                                   b"2\n{}\n0\n\n", b"2\r\n{}xx", b"\xff\r\n"])  # fmt: skip
def test_chunks_of_no_size_are_refused(server, chunk):
    """Complete but for the size: a server that takes it answers what is in it, and the request behind it."""
    check_refused(server, head("Transfer-Encoding: chunked") + chunk + b"0\r\n\r\n" + SMUGGLED)


def test_fields_of_a_trailer_are_none_of_the_header(serve):
    """They come behind the body: no key is given there, and no type of the body."""
    guarded = serve("--api-key", "a-key")
    data = json.dumps({"prompt": "x", "max_tokens": 1}).encode()
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(data), data)
    key, kind = b"Authorization: Bearer a-key\r\n", b"Content-Type: application/json\r\n"
    for header, trailer, status in (
        (kind + key, b"", 200), (kind, b"", 401), (kind, key, 401), (kind + key, key.replace(b"a-key", b"none"), 200),
        (key + b"Content-Type: text/plain\r\n", kind, 415), (kind + key, b"Content-Type: text/plain\r\n", 200),
        (kind + key, b"Origin: http://evil.example\r\n", 200),
    ):  # fmt: skip
        first = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
        assert statuses(exchange(guarded, first + header + b"\r\n" + chunks + trailer + b"\r\n")) == [status], (header, trailer)


@pytest.mark.parametrize("part", [b"1;" + b"a" * 1000, b"0\r\nX: " + b"a" * 1000, b"1" + b"0" * 1000], ids=["extension", "trailer", "zeros"])
def test_lines_of_chunks_are_bounded(serve, part):
    """An extension or a trailer without an end is refused, not kept."""
    server = serve()
    before = rss(server)
    with socket.create_connection((server.host, server.port), timeout=20) as raw:
        try:
            raw.sendall(head("Transfer-Encoding: chunked") + part)
            for _ in range(60):
                raw.sendall(b"a" * (1 << 20))
            raw.settimeout(5)
            answer = raw.recv(100)
        except (ConnectionError, TimeoutError):
            answer = b""
        assert statuses(answer) in ([400], [413], [431], [])
        assert rss(server) - before < 16 << 20
    assert call(server, "GET", "/health/live")[0] == 200


def test_two_hosts_or_none_are_refused(server):
    for lines in (["Host: evil.example"], ["Host: localhost"]):
        assert statuses(exchange(server, head(*lines, path="/version", method="GET"))) == [400]
    assert statuses(exchange(server, b"GET /version HTTP/1.1\r\n\r\n")) == [400]
    assert statuses(exchange(server, b"GET /version HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n")) in ([400], [403])


def test_answers_are_json_whatever_was_sent(server):
    answer = exchange(server, b"GET /version HTTP/1.1\r\nHost: \xff\xfe\x80\"\\\r\nConnection: close\r\n\r\n")
    assert statuses(answer) in ([400], [403]), answer
    json.loads(answer.partition(b"\r\n\r\n")[2].decode())


@pytest.mark.parametrize("body", [{"prompt": "x", "model": "m" * 5_000_000}, {"prompt": "x", "f" * 5_000_000: 1}, {"messages": [{"role": "user", "content": [{"type": "t" * 5_000_000}]}]},
                                  {"prompt": "x", "response_format": {"type": "t" * 5_000_000}}, {"prompt": "x", "guided_json": '{"type": "' + "t" * 2_000_000 + '"}'},
                                  {"messages": [{"role": "user", "content": "x"}], "tool_choice": {"type": "function", "function": {"name": "n" * 5_000_000}}, "tools": [TOOL]}], ids=range(6))  # fmt: skip
def test_an_error_repeats_little_of_what_was_wrong(server, body):
    path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    status, headers, text = call(server, "POST", path, body)
    assert status in (400, 404) and len(text) < 4096, text[:200]
    assert json.loads(text)["error"]["message"]


@pytest.mark.parametrize("text", ['"temperature": NaN', '"temperature": Infinity', '"temperature": 1e999', '"temperature": -1e-999, "top_p": 1e999', '"seed": 1.5', '"seed": 18446744073709551616',
                                  '"seed": -9223372036854775809', '"max_tokens": 1e999', '"timeout": 1e999', '"n": 1e2', '"priority": 1e30', '"top_logprobs": -1e-320, "logprobs": 1e999'])
def test_numbers_that_are_none_are_refused(server, text):
    assert error_of(server, "/v1/completions", f'{{"prompt": "x", "max_tokens": 1, {text}}}')["message"]


@pytest.mark.parametrize("field, least, text", [("seed", -(2**63), "1e19"), ("seed", -(2**63), str(2**64)), ("max_tokens", 1, "1e30"), ("n", 1, "129"), ("n", 1, str(2**70))])
def test_what_is_too_large_is_told_the_largest(server, field, least, text):
    message = error_of(server, "/v1/completions", f'{{"prompt": "x", "{field}": {text}}}')["message"]
    assert f"an integer of {least} to " in message and "or more" not in message, message


@pytest.mark.parametrize("more", [{}, {"logprobs": 1}, {"n": 2}, {"stream": True}, {"logit_bias": {"2": 100}}])
def test_a_prompt_that_is_scored_has_reached_its_length(server, more):
    """Nothing was to be made: whether the next token would have been the end says nothing."""
    status, _, answer = call(server, "POST", "/v1/completions", {"prompt": "a b c", "max_tokens": 0, "echo": True} | more)
    assert status == 200 and b'"length"' in answer and b'"stop"' not in answer, answer


@pytest.mark.parametrize("more", [{"seed": -1}, {"seed": -(2**63)}, {"seed": 2**63 - 1}, {"timeout": 86400}, {"temperature": 1e-320}, {"top_p": 5e-324}, {"min_p": 1e-320}, {"priority": -(2**31)}])
def test_numbers_at_their_bounds_are_taken(server, more):
    status, answer = post(server, "/v1/completions", {"prompt": "a b", "max_tokens": 2} | more)
    assert status == 200, answer


def test_stop_strings_are_few_short_texts(server):
    body = {"prompt": "a b", "max_tokens": 3}
    for stop in (["x"] * 100, [""], ["x" * 1025], [["x"]], {"a": "b"}, [None], 5):
        assert error_of(server, "/v1/completions", body | {"stop": stop})["param"] == "stop"
    for raw in (b'"\xff"', b'"\xc3"', b'"\xed\xa0\x80"', b'"\\ud800"', b'"\\udc00\\ud800"'):
        assert error_of(server, "/v1/completions", b'{"prompt": "a", "stop": [' + raw + b"]}")["code"] == "invalid_json"
    assert post(server, "/v1/completions", body | {"stop": ["\0", "\U0010ffff", "\ufeff"] * 5})[0] == 200


@pytest.mark.parametrize("key", ["", " 5", "+5", "-1", "5x", "5\0", "5\0x", "05x", "0x5", "1e1", "5.0", "99999999999999999999", "\u0665"])
def test_keys_of_biases_are_tokens(server, key):
    assert error_of(server, "/v1/completions", {"prompt": "a", "max_tokens": 1, "logit_bias": {key: 1}})["param"] == "logit_bias"


def test_biases_of_the_whole_vocabulary(server):
    def body(count, value):
        return {"prompt": "a", "max_tokens": 1, "logit_bias": {str(i): value for i in range(count)}}

    assert post(server, "/v1/completions", body(1024, -100))[0] == 200
    assert error_of(server, "/v1/completions", body(1025, 1))["code"] in ("too_many_fields", "invalid_value")
    for value in (101, -101, "1", None, [], True):
        assert error_of(server, "/v1/completions", body(1, value))["param"] == "logit_bias"


@pytest.mark.parametrize("expect, status", [("100-continue", [100, 200]), ("100-Continue", [100, 200]), ("200-ok", [417]), ("100-continue, x", [417])])
def test_expectations(server, expect, status):
    data = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
    with socket.create_connection((server.host, server.port), timeout=10) as raw:
        raw.sendall(head(f"Expect: {expect}", f"Content-Length: {len(data)}", "Connection: close"))
        first = raw.recv(4096)
        assert statuses(first)[0] == status[0]
        if status[0] == 100:
            raw.sendall(data)
            answer = b""
            while part := raw.recv(4096):
                answer += part
            assert statuses(answer) == status[1:]


def test_a_body_that_is_too_large_is_not_asked_for(serve):
    small = serve("--max-body", "0.01")
    assert statuses(exchange(small, head("Expect: 100-continue", "Content-Length: 99999999"))) == [413]


def test_an_upgrade_is_not_taken(server):
    lines = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"]
    answer = exchange(server, head(*lines, path="/version", method="GET"))
    assert statuses(answer) == [200] and b"Upgrade" not in answer
    answer = exchange(server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert statuses(answer) in ([400], [505], [])


@pytest.mark.parametrize("method, path, status", [("OPTIONS", "*", 404), ("OPTIONS", "/v1/completions", 405), ("TRACE", "/version", 405), ("CONNECT", "localhost:1", 404), ("DELETE", "/v1/models", 405),
                                                  ("get", "/version", 405), ("GET", "/%2e%2e/version", 404), ("GET", "//version", 404), ("GET", "http://localhost/version", 200), ("GET", "HTTP://LocalHost:1/version?x", 200), ("GET", "http://evil.example/version", 403), ("GET", "http://localhost@evil.example/version", 403), ("GET", "https://localhost", 200), ("POST", "/v1/completions/", 404)])
def test_methods_and_targets(server, method, path, status):
    assert statuses(exchange(server, head("Content-Length: 0", path=path, method=method))) == [status]


def test_hosts_have_no_case(serve):
    server = serve("--allowed-host", "Models.Example")
    for host, status in [("LOCALHOST:80", 200), ("models.example", 200), ("MODELS.example:8000", 200), ("models.example.evil", 403)]:
        assert statuses(exchange(server, head(path="/version", method="GET", host=host))) == [status]


@pytest.mark.parametrize("coding, status", [("gzip", 415), ("identity", 200), ("br, gzip", 415)])
def test_encoded_bodies_are_refused_by_name(server, coding, status):
    body = b'{"prompt": "a", "max_tokens": 1}'
    answer = exchange(server, head(f"Content-Encoding: {coding}", f"Content-Length: {len(body)}") + body)
    assert statuses(answer) == [status] and (b"Content-Encoding" in answer) == (status == 415)


@pytest.mark.parametrize("path", ["/version", "/v1/completions", "/nothing", "/metrics"])
def test_an_answer_to_head_has_no_body(server, path):
    answer = exchange(server, head(path=path, method="HEAD") + SMUGGLED)
    first, second = answer.split(b"HTTP/1.1 ")[1:]
    assert first.endswith(b"\r\n\r\n") and first.count(b"\r\n\r\n") == 1
    assert second.startswith(b"200")


@pytest.mark.parametrize("lines", [["Host: evil.example"], ["Transfer-Encoding: gzip"], ["Expect: 200-ok"], ["Content-Length: 99999999999"]], ids=["hosts", "coding", "expectation", "length"])
def test_a_refusal_of_head_has_no_body(server, lines):
    answer = exchange(server, head(*lines, path="/version", method="HEAD"))
    assert len(statuses(answer)) == 1 and statuses(answer)[0] >= 400 and answer.endswith(b"\r\n\r\n"), answer


def test_who_is_refused_is_not_listened_to_for_long(server):
    """A byte now and then keeps no connection."""
    with socket.create_connection((server.host, server.port), timeout=20) as raw:
        raw.sendall(head("Host: evil.example"))
        with pytest.raises(ConnectionError):
            for _ in range(60):
                raw.sendall(b"a")
                time.sleep(0.5)


def leave(raw, abruptly):
    if abruptly:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


@pytest.mark.parametrize("abruptly", [False, True])
@pytest.mark.parametrize("more, behind", [({}, b""), ({"n": 5}, b""), ({"stream": True, "n": 5}, b""), ({}, b"G"), ({}, SMUGGLED), ({"n": 3}, SMUGGLED * 50)], ids=["plain", "five", "streams", "a byte", "a request", "many requests"])
def test_who_leaves_costs_no_more_tokens(serve, more, behind, abruptly):
    """All sequences of the request end, also where bytes of a next one lie behind it."""
    slow = serve("--null-step", "20000")
    body = LONG | more
    data = json.dumps(body).encode()
    raw = socket.create_connection((slow.host, slow.port), timeout=20)
    raw.sendall(head(f"Content-Length: {len(data)}") + data + behind)
    count = body.get("n", 1)
    wait_for(lambda: metric(slow, "knapper_engine_running") == count)
    if body.get("stream"):
        raw.recv(64)
    leave(raw, abruptly)
    wait_for(lambda: metric(slow, "knapper_engine_cancelled_total") == count, 10)
    assert metric(slow, "knapper_engine_running") == 0


@pytest.mark.parametrize("abruptly", [False, True])
def test_who_leaves_in_a_call_of_a_tool(scripted, abruptly):  # noqa: F811
    slow = scripted("hermes", "--null-step", "20000")
    before = metric(slow, "knapper_engine_cancelled_total")
    script = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "' + "Paris " * 500
    data = json.dumps({"messages": [{"role": "user", "content": script}], "tools": [WEATHER], "stream": True, "ignore_eos": True, "n": 2}).encode()
    raw = socket.create_connection((slow.host, slow.port), timeout=20)
    raw.sendall(head(f"Content-Length: {len(data)}", path="/v1/chat/completions") + data)
    answer = b""
    while b'"arguments"' not in answer:
        answer += raw.recv(4096)
    leave(raw, abruptly)
    wait_for(lambda: metric(slow, "knapper_engine_cancelled_total") == before + 2, 10)
    assert metric(slow, "knapper_engine_running") == 0


def test_many_requests_in_one_connection(server):
    """Fifty at once, and one that is damaged behind them: each has its answer, in order, and nothing follows."""
    data = json.dumps({"prompt": "a b", "max_tokens": 2}).encode()
    one = head(f"Content-Length: {len(data)}") + data
    answer = exchange(server, one * 50 + b"\0\0\r\n\r\n" + one)
    assert statuses(answer) == [200] * 50 + [400]


@pytest.mark.parametrize("body", [lambda n: {"messages": [{"role": "user", "content": "x"}] * n}, lambda n: {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * n}]},
                                  lambda n: {"messages": [], "x": [[]] * n}], ids=["messages", "parts", "lists"])  # fmt: skip
def test_long_lists_take_time_in_proportion(server, body):
    """Of eight times as many entries not 64 times as much of the server's processor; the best of two."""

    def processor():
        fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def seconds(count):
        def once():
            began = processor()
            assert call(server, "POST", "/v1/chat/completions", body(count) | {"max_tokens": 1})[0] in (200, 400)
            return processor() - began

        return min(once(), once())

    assert seconds(16_000) < 24 * max(seconds(2_000), 0.02)


def test_half_bodies_hold_nothing(server):
    """A thousand connections that say they will send a lot."""
    before, held = rss(server), []
    for _ in range(1000):
        raw = socket.create_connection((server.host, server.port), timeout=10)
        raw.sendall(head("Content-Length: 30000000") + b'{"prompt": "')
        held.append(raw)
    time.sleep(0.2)
    assert rss(server) - before < 128 << 20
    assert events(server, "/v1/completions", {"prompt": "a b", "max_tokens": 3})[-1]["choices"][0]["finish_reason"]
    for raw in held:
        raw.close()
    wait_for(lambda: metric(server, "knapper_http_connections") <= 2)


def test_keys_are_compared_whole(serve):
    guarded = serve("--api-key", "a-key")
    body = {"prompt": "x", "max_tokens": 1}
    for given in ("Bearer a-key ", "bearer a-key", "BEARER  a-key"):
        assert post(guarded, "/v1/completions", body, headers={"Authorization": given})[0] == 200, given
    for given in ("Bearer a-ke", "Bearer a-keyy", "Bearer", "Bearer ", "Basic a-key", "a-key", "Bearer a-key, Bearer a-key"):
        connection = http.client.HTTPConnection(guarded.host, guarded.port, timeout=20)
        connection.request("POST", "/v1/completions", json.dumps(body), JSON | {"Authorization": given})
        assert connection.getresponse().status == 401, given
        connection.close()
    data = json.dumps(body)
    for given in ("Bearer a-key\0", "Bearer a-key\0x", "Bearer a\0key"):  # which http.client does not send
        answer = exchange(guarded, head(f"Authorization: {given}", f"Content-Length: {len(data)}") + data.encode())
        assert statuses(answer) in ([400], [401]), given
