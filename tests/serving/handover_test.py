"""A server takes over the port of the one before it: nobody is refused, and what runs is finished."""

from __future__ import annotations

import http.client
import json
import os
import socket
import stat
import threading
import time

from http_test import JSON, post
from null_server import Server, wait_for

BODY = {"prompt": "abc", "max_tokens": 5, "ignore_eos": True}


class Clients:
    """Requests one after the other, each with a connection of its own or all with one, until told to stop."""

    def __init__(self, server, keeps):
        self.server, self.keeps, self.answers, self.failures, self.ending = server, keeps, 0, [], False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        connection = None
        while not self.ending:
            try:
                connection = connection or http.client.HTTPConnection(self.server.host, self.server.port, timeout=120)
                connection.request("POST", "/v1/completions", json.dumps(BODY), JSON)
                reply = connection.getresponse()
                text = reply.read()
                if reply.status != 200 or json.loads(text)["choices"][0]["finish_reason"] != "length":
                    self.failures.append((reply.status, text))
                self.answers += 1
                if not self.keeps or reply.getheader("Connection") == "close":
                    connection.close()
                    connection = None
            except OSError as error:
                self.failures.append(repr(error))
                connection = None

    def stop(self):
        self.ending = True
        self.thread.join()


def test_three_restarts_under_load(folder, tmp_path):
    path = tmp_path / "place"
    flags = ("--handover", str(path), "--null-step", "1000", "--quiet")
    server = Server(folder, *flags)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    clients = [Clients(server, keeps) for keeps in (False, True, False, True)]
    # A long answer of the first server goes on while others serve.
    long = []
    runs = threading.Thread(target=lambda: long.append(post(server, "/v1/completions", BODY | {"max_tokens": 2500})))
    runs.start()
    first = server
    for _ in range(3):
        time.sleep(0.3)
        successor = Server(folder, *flags)
        assert successor.port == first.port
        if server is not first:
            assert server.process.wait(timeout=60) == 0
        server = successor
    wait_for(lambda: sum(one.answers for one in clients) > 200)
    for one in clients:
        one.stop()
    assert [one.failures for one in clients] == [[]] * 4
    runs.join()
    assert long[0][0] == 200 and long[0][1]["usage"]["completion_tokens"] == 2500
    assert first.process.wait(timeout=60) == 0 and first.stop() == 0
    assert server.stop() == 0
    assert not path.exists()


def test_a_server_that_was_killed_leaves_a_path_that_serves_again(folder, tmp_path):
    path = tmp_path / "place"
    server = Server(folder, "--handover", str(path))
    server.process.kill()
    server.process.wait()
    assert path.exists()
    again = Server(folder, "--handover", str(path))
    assert post(again, "/v1/completions", BODY)[0] == 200
    # One that asks and goes away takes nothing.
    asked = socket.socket(socket.AF_UNIX)
    asked.connect(str(path))
    assert len(asked.recv(1)) == 1
    asked.close()
    time.sleep(0.3)
    assert post(again, "/v1/completions", BODY)[0] == 200
    assert again.stop() == 0
    wait_for(lambda: not path.exists())


def test_a_path_that_is_no_socket_is_refused(folder, tmp_path):
    import subprocess

    from null_server import BUILD

    (tmp_path / "file").write_text("x")
    for path, words in ((tmp_path / "file", "is there and no socket"), ("x" * 200, "too long for a socket"), (tmp_path / "no" / "folder", "cannot be made")):
        done = subprocess.run([BUILD / "bin" / "knapper", "serve", folder, "--port", "0", "--null-engine", "--handover", str(path)], capture_output=True, text=True, timeout=120)
        assert done.returncode != 0 and words in done.stderr, done
    assert os.listdir(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "x"
