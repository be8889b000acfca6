"""Processes that have torch and the backend imported and have compiled nothing: each is forked from one that only imports.

An import of torch and its compiler takes longer than most programs that the tests run in a process of their own.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

# Forks a child for each connection. The child takes a program and its environment, and answers with what it printed.
SERVER = """
import json, os, signal, socket, sys, tempfile, traceback
import torch, torch._dynamo, torch._functorch.aot_autograd, knapper, knapper.torch
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    connection, _ = listener.accept()
    if os.fork() == 0:
        break
    connection.close()
listener.close()
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
given = json.loads(connection.makefile().readline())
os.environ.clear()
os.environ.update(given["environment"])
printed = [tempfile.TemporaryFile("w+") for _ in range(2)]
for file, number in zip(printed, (1, 2)):
    os.dup2(file.fileno(), number)
failed = False
try:
    exec(given["code"], vars(sys.modules["__main__"]) | {})
except BaseException:
    failed = True
    traceback.print_exc()
sys.stdout.flush()
sys.stderr.flush()
for file in printed:
    file.seek(0)
connection.sendall(json.dumps([failed, *(file.read() for file in printed)]).encode())
connection.close()
os._exit(0)
"""


class ForkServer:
    def __init__(self, folder: Path):
        self.path = str(folder / "server")
        self.process = subprocess.Popen([sys.executable, "-c", SERVER, self.path], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def run(self, code: str, environment: dict[str, str]) -> str:
        """What the program printed, in a process of its own. Asserts that it ended well."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.path)
            connection.sendall(json.dumps({"code": code, "environment": environment}).encode() + b"\n")
            answer = connection.makefile().read()
        assert answer, "the process died"
        failed, out, errors = json.loads(answer)
        assert not failed, errors
        return out

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        os.unlink(self.path)
