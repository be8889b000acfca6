"""/openapi.json says what the server takes, and `knapper chat --url` talks with a server."""

from __future__ import annotations

import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading

import pytest
from http_test import call, post
from null_server import BUILD, ROOT

REQUIRED = {"ChatRequest": {"messages": [{"role": "user", "content": "hi"}]}, "CompletionRequest": {"prompt": "hi"}}
PATHS = {"ChatRequest": "/v1/chat/completions", "CompletionRequest": "/v1/completions"}
# Of a type that no field of the kind takes.
WRONG = {"string": 3, "integer": "x", "number": "x", "boolean": "x", "array": 3, "object": 3}


@pytest.fixture(scope="module")
def document(server):
    status, headers, text = call(server, "GET", "/openapi.json")
    assert status == 200 and headers["Content-Type"] == "application/json"
    return json.loads(text)


def test_every_path_is_served(server, document):
    for path, methods in document["paths"].items():
        for method in methods:
            assert call(server, method.upper(), path, "{}" if method == "post" else None)[0] in (200, 400), path
            status, headers, _ = call(server, "DELETE", path)
            assert status == 405 and method.upper() in headers["Allow"].split(", ")


def test_every_field_has_a_schema(document):
    for name, schema in document["components"]["schemas"].items():
        for field, row in schema["properties"].items():
            assert isinstance(row, dict), (name, field)


@pytest.mark.parametrize("name", REQUIRED)
def test_fields_are_checked_as_it_says(server, document, name):
    checked = 0
    for field, row in document["components"]["schemas"][name]["properties"].items():
        kinds = row.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
        wrong = [WRONG[kinds[0]]] if len(kinds) == 1 else []
        if kinds and kinds[0] in ("integer", "number"):
            wrong += [row["minimum"] - 1] if "minimum" in row and field != "max_tokens" else []
            wrong += [row["maximum"] + 1] if "maximum" in row else []
        if "enum" in row or "const" in row:
            wrong.append("no such")
        for value in wrong:
            status, answer = post(server, PATHS[name], REQUIRED[name] | {field: value})
            assert status == 400 and answer["error"]["param"].startswith(field), (field, value, answer)
            checked += 1
        if field not in REQUIRED[name]:  # null is none, and the document says so
            assert post(server, PATHS[name], REQUIRED[name] | {field: None, "max_tokens": 1})[0] == 200, field
    assert checked > 30


def test_sampling_bounds_are_those_of_the_page(document):
    """One table in the code: the document is made of it, docs/serve.md has the same rows, and no other schema has bounds of sampling."""
    rows = []
    for field, row in document["components"]["schemas"]["ChatRequest"]["properties"].items():
        bias = field == "logit_bias"
        row = row["additionalProperties"] if bias else row
        if "default" in row:
            kind = row["type"] if bias else row["type"][0]
            rows.append(f"| `{field}`{', of a token' if bias else ''} | {kind} | {row['minimum']} | {row['maximum']} | {row['default']} |")
    page = (ROOT / "docs" / "serve.md").read_text()
    table = page.split("| sampling | type | least | most | default |\n|---|---|---|---|---|\n")[1].split("\n\n")[0].splitlines()
    assert len(rows) == 8 and rows == table, "\n".join(rows)


@pytest.mark.parametrize("path", PATHS.values())
def test_sampling_bounds_themselves_are_allowed(server, document, path):
    """The document's least and most, and nothing beyond them."""
    for name, way in PATHS.items():
        for field, row in document["components"]["schemas"][name]["properties"].items() if way == path else ():
            bias = field == "logit_bias"
            bounds = row["additionalProperties"] if bias else row
            if "default" not in bounds:
                continue
            for value, status in [(bounds["minimum"], 200), (bounds["maximum"], 200), (bounds["minimum"] - 1, 400), (bounds["maximum"] + 1, 400)]:
                answer = post(server, path, REQUIRED[name] | {field: {"1": value} if bias else value, "max_tokens": 1})
                assert answer[0] == status, (field, value, answer)


CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance", "response_schema_conformance", "negative_data_rejection", "unsupported_method"]


def test_requests_that_the_document_allows_and_forbids(server, tmp_path):
    """Drawn by schemathesis: what a schema forbids is refused, what it allows gets a documented answer, and nothing is a 5xx but 503."""
    pytest.importorskip("schemathesis", reason="schemathesis is not installed (setup/requirements-test.txt)")
    config = tmp_path / "schemathesis.toml"
    config.write_text('[checks]\nnot_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]\n')
    draw = ["--mode", "all", "--phases", "coverage,fuzzing", "--max-examples", os.environ.get("KNAPPER_SCHEMA_CASES", "30"), "--seed", "23"]
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", config, "run", server.url + "/openapi.json", *draw]
    done = subprocess.run(
        [*command, "--checks", ",".join(CHECKS), "--continue-on-failure", "--request-timeout", "30", "--no-color"],
        capture_output=True, text=True, timeout=400, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    drawn = int(re.search(r"(\d+) generated", done.stdout)[1])
    assert drawn > 500, done.stdout[-2000:]


def test_the_terminal_talks_with_a_server(server):
    def chat(*flags, said="Hello there\n\n/new\nagain\n", key="none"):
        return subprocess.run(
            [BUILD / "bin" / "knapper", "chat", *flags], input=said, capture_output=True, text=True, timeout=30, env=os.environ | {"KNAPPER_API_KEY": key}
        )

    done = chat("--url", server.url + "/v1", "--model", "tiny")
    assert done.returncode == 0 and done.stdout == "user\nHello there\nuser\nagain\n", done
    assert "tokens/s" in done.stderr
    assert chat("--url", server.url, "--max-tokens", "2", said="hi\n").stderr.count(", cut]") == 1
    refused = chat("--url", server.url + "/v1", "--model", "other")
    assert refused.returncode == 0 and "'other' is not served" in refused.stderr
    assert chat().returncode == 1 and chat("--url", "http://127.0.0.1:1/v1").returncode == 2


class OddServer(http.server.BaseHTTPRequestHandler):
    """Counts that are null; and an answer that never comes."""

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        said = json.loads(self.rfile.read(length))["messages"][-1]["content"]
        if said == "wait":
            self.server.waiting.set()
            self.server.ended.wait(300)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        event = {"choices": [{"index": 0, "delta": {"content": "odd"}, "finish_reason": "stop"}], "usage": {"completion_tokens": None, "prompt_tokens": None}}
        try:
            self.wfile.write(f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode())
        except BrokenPipeError:  # nobody waits for it
            pass

    def log_message(self, *_):
        pass


@pytest.fixture
def odd():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OddServer)
    server.waiting, server.ended = threading.Event(), threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.ended.set()
    server.shutdown()


def test_the_terminal_bears_counts_that_are_null(odd):
    url = f"http://127.0.0.1:{odd.server_port}/v1"
    done = subprocess.run([BUILD / "bin" / "knapper", "chat", "--url", url, "--model", "m"], input="hi\n", capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and done.stdout == "odd\n", done
    load = ["--requests", "3", "--concurrency", "1", "--model", "m", "--chat", "--json", "-"]
    done = subprocess.run([BUILD / "bin" / "knapper", "bench-serve", url, *load], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and json.loads(done.stdout)["completed"] == 3, done


def test_the_terminal_is_interrupted_before_an_answer_begins(odd):
    url = f"http://127.0.0.1:{odd.server_port}"
    process = subprocess.Popen([BUILD / "bin" / "knapper", "chat", "--url", url, "--model", "m"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdin.write("wait\n")
    process.stdin.flush()
    assert odd.waiting.wait(60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate("hi\n", timeout=60)
    assert process.returncode == 0 and out == "\nodd\n" and "[stopped]" in err, (out, err)
