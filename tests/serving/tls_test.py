"""HTTPS: certificates that fit and that do not, clients of other kinds, and the same answers as without."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import os
import socket
import ssl
import subprocess
import time

import httpx2 as httpx
import openai
import pytest
from null_server import BUILD, Server, wait_for


def openssl(*arguments, cwd):
    subprocess.run(["openssl", *arguments], cwd=cwd, check=True, capture_output=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """ca.pem; server.pem of 127.0.0.1, signed by it through one in between; server.key, and the same encrypted; other.key and rsa.key of nobody."""
    folder = tmp_path_factory.mktemp("tls")
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    ca = ["-addext", "basicConstraints=critical,CA:TRUE"]
    openssl(*new, "-subj", "/CN=root", "-keyout", "ca.key", "-out", "ca.pem", cwd=folder)
    openssl(*new, "-subj", "/CN=between", "-keyout", "between.key", "-out", "between.pem", "-CA", "ca.pem", "-CAkey", "ca.key", *ca, cwd=folder)
    openssl(
        *new, "-subj", "/CN=server", "-keyout", "server.key", "-out", "leaf.pem", "-CA", "between.pem", "-CAkey", "between.key",
        "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1", cwd=folder,
    )  # fmt: skip
    (folder / "server.pem").write_text((folder / "leaf.pem").read_text() + (folder / "between.pem").read_text())
    openssl("pkey", "-in", "server.key", "-aes256", "-passout", "pass:word", "-out", "encrypted.key", cwd=folder)
    openssl("genpkey", "-algorithm", "RSA", "-out", "rsa.key", cwd=folder)
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", "other.key", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def server(files, folder):
    running = Server(folder, "--tls-cert", str(files / "server.pem"), "--tls-key", str(files / "server.key"))
    yield running
    assert running.stop() == 0


@pytest.fixture
def trusting(files):
    return ssl.create_default_context(cafile=files / "ca.pem")


def chat(text, **more):
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 8, **more}


def test_a_client_of_openai(server, trusting):
    assert server.url.startswith("https://")
    with openai.OpenAI(base_url=server.url + "/v1", api_key="-", http_client=httpx.Client(verify=trusting)) as client:
        whole = client.chat.completions.create(model="tiny", **chat("one two three"))
        parts = client.chat.completions.create(model="tiny", stream=True, **chat("one two three"))
        text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == whole.choices[0].message.content != ""


def test_a_connection_is_kept_and_ends_with_a_notice(server, trusting):
    connection = http.client.HTTPSConnection(server.host, server.port, timeout=60, context=trusting)
    for _ in range(3):
        connection.request("GET", "/health/live")
        assert connection.getresponse().read() != b""
    assert connection.sock.version() in ("TLSv1.2", "TLSv1.3")
    connection.request("GET", "/health/live", headers={"Connection": "close"})
    reply = connection.getresponse()
    assert reply.status == 200 and reply.read()
    with socket.create_connection((server.host, server.port), timeout=60) as plain, trusting.wrap_socket(plain, server_hostname=server.host) as secure:
        secure.sendall(b"GET /health/live HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        received = b""
        while part := secure.recv(4096):  # SSLEOFError where the end is not told
            received += part
    assert received.startswith(b"HTTP/1.1 200")


def test_large_bodies_and_answers(server, trusting):
    with httpx.Client(verify=trusting, timeout=120) as client:
        text = "word " * 200_000
        reply = client.post(server.url + "/tokenize", json={"prompt": text})
        tokens = reply.json()["tokens"]
        assert client.post(server.url + "/detokenize", json={"tokens": tokens}).json()["prompt"].endswith(text)


def test_many_connections_at_once(server, trusting):
    def one(i):
        with httpx.Client(verify=trusting, timeout=120) as client, client.stream("POST", server.url + "/v1/chat/completions", json=chat(f"{i} " * 9, stream=True)) as reply:
            return [line for line in reply.iter_lines() if line]

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        for lines in pool.map(one, range(64)):
            assert lines[-1] == "data: [DONE]"


def test_a_client_that_leaves_ends_its_request(server, trusting):
    plain = socket.create_connection((server.host, server.port), timeout=60)
    secure = trusting.wrap_socket(plain, server_hostname=server.host)
    body = json.dumps(chat("on and on", max_tokens=3000, ignore_eos=True, stream=True)).encode()
    secure.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert secure.recv(12) == b"HTTP/1.1 200"
    secure.close()
    with httpx.Client(verify=trusting) as client:
        wait_for(lambda: client.get(server.url + "/health/progress").json()["running"] == 0)


@pytest.mark.parametrize("version", ["TLSv1_1", "SSLv3"])
def test_old_versions_are_refused(server, version):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.SSLv3, getattr(ssl.TLSVersion, version)
    with socket.create_connection((server.host, server.port), timeout=60) as plain, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(plain)


def test_http_1_1_is_agreed_on(server, trusting):
    trusting.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_connection((server.host, server.port), timeout=60) as plain, trusting.wrap_socket(plain, server_hostname=server.host) as secure:
        assert secure.selected_alpn_protocol() == "http/1.1"


def test_who_speaks_plain_http_is_told(server):
    reply = httpx.get(f"http://{server.host}:{server.port}/v1/models")
    assert reply.status_code == 400 and "https://" in reply.text


def test_noise_and_silence_hold_up_nobody(server, trusting):
    silent = [socket.create_connection((server.host, server.port)) for _ in range(50)]
    for noisy in silent[:25]:
        noisy.sendall(b"\x16\x03\x01\xff\xff" + bytes(range(256)))
    with httpx.Client(verify=trusting, timeout=20) as client:
        begin = time.monotonic()
        assert client.get(server.url + "/health/live").status_code == 200
        assert time.monotonic() - begin < 10
    for each in silent:
        each.close()


def test_who_is_not_trusted_is_not_talked_to(server):
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(server.url + "/health/live")


def bench(server, **environment):
    command = [BUILD / "bin" / "knapper", "bench-serve", server.url, "--requests", "4", "--concurrency", "2", "--input-words", "8", "--max-tokens", "4"]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False)


def test_our_own_client(server, files):
    done = bench(server, SSL_CERT_FILE=str(files / "ca.pem"))
    assert done.returncode == 0, done.stderr
    refused = bench(server)
    assert refused.returncode != 0 and "certificate verify failed" in refused.stderr


REFUSED = {
    "no key": (["--tls-cert", "server.pem"], "go together"),
    "no certificate": (["--tls-key", "server.key"], "go together"),
    "no such file": (["--tls-cert", "nothing.pem", "--tls-key", "server.key"], "nothing.pem"),
    "a key as certificate": (["--tls-cert", "server.key", "--tls-key", "server.key"], "is no certificate"),
    "a certificate as key": (["--tls-cert", "server.pem", "--tls-key", "server.pem"], "is no private key"),
    "another key": (["--tls-cert", "server.pem", "--tls-key", "other.key"], "is not the key of"),
    "a key of another kind": (["--tls-cert", "server.pem", "--tls-key", "rsa.key"], "is not the key of"),
    "an encrypted key": (["--tls-cert", "server.pem", "--tls-key", "encrypted.key"], "is encrypted"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_before_the_port_opens(name, files, folder):
    flags, what = REFUSED[name]
    flags = [str(files / flag) if "." in flag else flag for flag in flags]
    done = subprocess.run(
        [BUILD / "bin" / "knapper", "serve", folder, "--port", "0", "--null-engine", *flags],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and what in done.stderr and "try: " in done.stderr and done.stdout == ""
