"""knapper-lsp, as an editor talks to it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("KNAPPER_BUILD", "build/dev")).resolve()
SERVER = BUILD / "tools" / "knapper-lsp" / "knapper-lsp"
RIGHT = """func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = ts.neg %x : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
"""
PAGE = "file:///page.mlir"
pytestmark = pytest.mark.skipif(not SERVER.exists(), reason=f"{SERVER} is not built")


class Editor:
    """One connection; `ask` waits for the answer, `notices` keeps what came without being asked for."""

    def __init__(self):
        self.process = subprocess.Popen([SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)  # fmt: skip
        self.number, self.notices = 0, []

    def send(self, method, parameters, **more):
        text = json.dumps({"jsonrpc": "2.0", "method": method, "params": parameters, **more}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        self.process.stdin.flush()

    def receive(self):
        length = 0
        while (line := self.process.stdout.readline().strip()):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return json.loads(self.process.stdout.read(length))

    def ask(self, method, parameters):
        self.number += 1
        self.send(method, parameters, id=self.number)
        while (message := self.receive()).get("id") != self.number:
            self.notices.append(message)
        return message["result"]

    def problems(self):
        """The diagnostics that are published next."""
        while not any(n["method"] == "textDocument/publishDiagnostics" for n in self.notices):
            self.notices.append(self.receive())
        notice = next(n for n in self.notices if n["method"] == "textDocument/publishDiagnostics")
        self.notices.remove(notice)
        return notice["params"]["diagnostics"]

    def open(self, text, version=1):
        self.send("textDocument/didOpen", {"textDocument": {
            "uri": PAGE, "languageId": "mlir", "version": version, "text": text}})  # fmt: skip
        return self.problems()


@pytest.fixture
def editor():
    made = Editor()
    made.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    made.send("initialized", {})
    yield made
    made.ask("shutdown", {})
    made.send("exit", {})
    assert made.process.wait(timeout=300) == 0


def at(line, character):
    return {"textDocument": {"uri": PAGE}, "position": {"line": line, "character": character}}


def test_what_it_can():
    made = Editor()
    able = made.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})["capabilities"]
    assert able["hoverProvider"] and able["definitionProvider"] and able["completionProvider"]
    made.process.kill()
    made.process.wait()


def test_a_program_of_ours_is_read(editor):
    assert editor.open(RIGHT) == []
    hover = editor.ask("textDocument/hover", at(1, 9))["contents"]["value"]
    assert "ts.neg" in hover and "tensor<2x3xf32>" in hover
    (place,) = editor.ask("textDocument/definition", at(2, 10))
    assert place["range"]["start"]["line"] == 1


@pytest.mark.parametrize("old, new, line, words", [
    ("ts.neg %x", "ts.negate %x", 1, "ts.negate"),  # no such op
    ("ts.neg %x", "ts.neg %z", 1, "undeclared"),
    ("-> tensor<2x3xf32> {", "-> tensor<3x2xf32> {", 2, "type"),
])  # fmt: skip
def test_errors_are_shown_where_they_are(editor, old, new, line, words):
    problems = editor.open(RIGHT.replace(old, new))
    assert problems and problems[0]["range"]["start"]["line"] == line
    assert words in problems[0]["message"]


def test_our_verifiers_speak(editor):
    wrong = RIGHT.replace("ts.neg %x : tensor<2x3xf32>", "ts.reshape %x : tensor<2x3xf32> to tensor<5xf32>")
    (problem, *_) = editor.open(wrong.replace("-> tensor<2x3xf32>", "-> tensor<5xf32>").replace(
        "return %y : tensor<2x3xf32>", "return %y : tensor<5xf32>"))  # fmt: skip
    assert problem["range"]["start"]["line"] == 1 and "reshape" in problem["message"] + problem.get("source", "")


def test_a_step_of_a_compile_is_read(editor, tool, model, tmp_path):
    """What --dump-dir wrote opens without an error, tile programs and all."""
    tool("compile", model, "--no-cache", "--dump-dir", "steps")
    steps = sorted((tmp_path / "steps").glob("*.mlir"))
    assert len(steps) >= 4
    for version, step in enumerate(steps):
        assert editor.open(step.read_text(), version + 1) == [], step.name
        editor.send("textDocument/didClose", {"textDocument": {"uri": PAGE}})
        editor.problems()
