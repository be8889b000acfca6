"""The tool on files and folders that are not what they should be."""

from __future__ import annotations

import os
import re
import resource
import shutil
import stat
import struct
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from against import FLOAT, model, node, random
from tool_models import TOOL, environment

if not TOOL.exists():
    pytest.skip(f"{TOOL} is not built", allow_module_level=True)
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = model([node("Relu", ["x"], ["y"], name="clip")], {"x": (FLOAT, ["n", 4])},
                 {"y": (FLOAT, None)})  # fmt: skip
    onnx.save(made, "m.onnx")
    return tmp_path


@pytest.fixture
def tool(folder):
    def call(*arguments, before=(), **more):
        done = subprocess.run([*before, TOOL, *map(str, arguments)], capture_output=True, text=True,
                              timeout=300, env=environment(folder), **more)  # fmt: skip
        assert "internal" not in done.stderr, done.stderr
        return done.returncode, done.stderr

    return call


@pytest.fixture
def artefact(tool):
    assert tool("compile", "m.onnx", "--isa", "x86-64-v3") == (0, "")


def npy(header: str, data: bytes = X.tobytes(), version: int = 1, length=None) -> bytes:
    size = struct.pack("<H" if version == 1 else "<I", len(header) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + header.encode() + data


HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }\n"
BAD_ARRAYS = {
    "big_endian": (npy((HEADER % "(3, 4)").replace("<", ">")), "little-endian"),
    "objects": (npy((HEADER % "(3, 4)").replace("<f4", "|O")), "'|O'"),
    "complex": (npy((HEADER % "(3, 4)").replace("<f4", "<c8")), "'<c8'"),
    "more_than_memory": (npy(HEADER % "(4611686018427387904, 4)"), "cut short"),
    "negative": (npy(HEADER % "(-3, 4)"), "shape"),
    "beyond_64_bits": (npy(HEADER % "(99999999999999999999999, 4)"), "shape"),
    "a_hundred_dims": (npy(HEADER % f"({'1,' * 100})"), "shape"),
    "nested": (npy("{" * 5000), ""),
    "header_beyond_the_end": (npy("x", b"", length=65535), "npy"),
    "header_of_4_gib": (npy("", b"", 2, 2**32 - 1), "header"),
    "version_9": (npy(HEADER % "(3, 4)", version=9), "version"),
    "dtype_that_attacks": (npy((HEADER % "(3, 4)").replace("<f4", "\x1b[31m")), "\\x1b"),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_arrays_that_are_refused(tool, artefact, name):
    data, message = BAD_ARRAYS[name]
    Path("x.npy").write_bytes(data)
    code, text = tool("run", "m.knap", "-i", "x.npy")
    assert code == 1 and message in text and "\x1b" not in text, text


@pytest.mark.parametrize("x", [np.asfortranarray(X), X[:0], X[::-1, ::-1]], ids=str)
def test_arrays_of_any_order(tool, artefact, x):
    np.save("x.npy", x)
    assert tool("run", "m.knap", "-i", "x.npy", "-o", "x.npy") == (0, "")  # over its input
    np.testing.assert_array_equal(np.load("x.npy"), np.maximum(x, 0))


COMMANDS = {
    "compile": ["compile", "m.onnx", "--isa", "x86-64-v3", "-o"],
    "explain": ["explain", "m.onnx", "-o"],
    "run": ["run", "m.onnx", "--dim", "n=1", "-o"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_output_is_a_link(tool, command):
    """What it leads to is replaced, the link stays."""
    os.mkdir("real")
    target = Path("real/out.npy")
    target.write_text("old")
    os.symlink(target, "link.npy")
    assert tool(*COMMANDS[command], "link.npy")[0] == 0
    assert os.path.islink("link.npy") and target.stat().st_size > 100
    assert os.listdir("real") == ["out.npy"]


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "link_to_pipe"])
@pytest.mark.parametrize("command", COMMANDS)
def test_output_is_no_file(tool, command, kind):
    """Never replaced: that could be /dev/null."""
    name = Path("out.npy")
    if kind == "folder":
        name.mkdir()
    elif kind == "socket":
        os.mknod(name, stat.S_IFSOCK | 0o600)
    else:
        os.mkfifo("pipe")
        os.symlink("pipe", name) if kind == "link_to_pipe" else os.rename("pipe", name)
    before = name.lstat()
    code, text = tool(*COMMANDS[command], name)
    assert code == 1 and "out.npy" in text and "name a file" in text, text
    assert (name.lstat().st_ino, name.lstat().st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.parametrize("output", ["./m.onnx", "link", "hard"])
def test_output_is_the_model(tool, output):
    os.symlink("m.onnx", "link")
    os.link("m.onnx", "hard")
    code, text = tool("compile", "m.onnx", "-o", output)
    assert code == 1 and "would overwrite the model" in text
    assert onnx.load("m.onnx").graph.node[0].name == "clip"


def external(location: str, **where):
    made = model([node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, [4])}, {"y": (FLOAT, None)})
    tensor = made.graph.initializer.add(name="w", data_type=FLOAT, dims=[4])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **where}.items():
        tensor.external_data.add(key=key, value=str(value))
    return made


@pytest.mark.parametrize("location, where, message", [
    ("../secret", {}, "leaves"), ("/etc/passwd", {}, "leaves"), ("a/../../secret", {}, "leaves"),
    ("link", {}, "leaves"), ("inside/../link", {}, "leaves"), ("pipe", {}, "not a file"),
    (".", {}, "not a file"), ("", {}, "leaves"), ("short", {}, "outside"),
    ("short", {"offset": 2**64 - 8, "length": 16}, "short"), ("short", {"length": -1}, "length"),
    ("\x1b[31m", {}, "\\x1b"),
])  # fmt: skip
def test_external_data(tool, folder, location, where, message):
    Path("secret").write_bytes(b"\0" * 16)
    os.mkdir("models")
    os.mkdir("models/inside")
    os.symlink("../secret", "models/link")
    os.mkfifo("models/pipe")
    Path("models/short").write_bytes(b"\0" * 12)
    onnx_file = Path("models/e.onnx")
    onnx_file.write_bytes(external(location, **where).SerializeToString())
    code, text = tool("compile", onnx_file)
    assert code == 1 and message in text and "\x1b" not in text, text
    assert not Path("e.knap").exists()


def test_folder_that_cannot_be_written(tool):
    os.mkdir("closed", 0o555)
    before = []
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("root writes everywhere")
        rights = "-dac_override,-dac_read_search"
        before = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]
    code, text = tool("compile", "m.onnx", "-o", "closed/m.knap", before=before)
    assert code == 1 and "closed/m.knap: cannot write: Permission denied" in text
    code, text = tool("compile", "m.onnx", "--cache-dir", "closed", before=before)
    assert code in (0, 1) and "closed" in text
    assert not os.listdir("closed")


def test_full_disk(tool):
    made = model([node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, ["n", 256])},
                 {"y": (FLOAT, None)}, {"w": random(256, 256)})  # fmt: skip
    onnx.save(made, "big.onnx")
    os.mkdir("full")
    mount = ["unshare", "-rm", "sh", "-c",
             'mount -t tmpfs -o size=64k none full || exit 77; "$@"; code=$?; '
             'find full -type f -size +0 >&2; exit $code', "sh"]  # fmt: skip
    for arguments in (
        ["compile", "big.onnx", "-o", "full/b.knap"],
        ["compile", "big.onnx", "--dump-dir", "full"],
        ["run", "big.onnx", "--dim", "n=1000", "-o", "full/y.npy"],
        ["run", "big.onnx", "--dim", "n=1000", "-o", "full/y.npz"],
    ):
        code, text = tool(*arguments, before=mount)
        if code == 77 or "unshare" in text:
            pytest.skip("mounts are not allowed here")
        assert code == 2 and "No space left on device" in text, text
        assert "--dump-dir" in arguments or "\nfull/" not in text  # nothing half written
    code, text = tool("compile", "big.onnx", "--cache-dir", "full/cache", before=mount)
    assert code == 0 and "warning" in text  # only the cache is lost


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/full", "pipe", "."])
@pytest.mark.parametrize("command", [
    ["compile", "NAME", "-o", "y.knap"], ["inspect", "NAME"], ["run", "NAME"], ["run", "m.onnx", "-i", "x=NAME"],
    ["compile", "m.onnx", "-o", "y.knap", "--records", "NAME"], ["compile", "m.onnx", "--records", "NAME", "--no-cache", "-o", "y.knap"],
    ["compile", "NAME", "-o", "y.knap", "--start-from=fuse"], ["records", "show", "NAME"],
], ids=lambda words: "_".join(words[:4]).replace("/", ""))  # fmt: skip
def test_what_has_no_end_is_no_file(tool, command, name):
    """A device is never read, a pipe that nobody writes not waited for."""
    os.mkfifo("pipe")
    for form in ("{}", "link.mlir"):
        if form != "{}" and "--start-from=fuse" not in command:
            continue
        if form != "{}":
            os.symlink(name, form)
        words = [w.replace("NAME", form.format(name)) for w in command]
        code, text = tool(*words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32)))
        assert code == 1 and re.search("is a folder|regular file|not a program of the compiler", text), text


def test_a_size_has_one_value(tool):
    for words in (["compile", "m.onnx", "-o", "y.knap", "--dim", "n=3,n=4"], ["compile", "m.onnx", "-o", "y.knap", "--dim", "n=3", "--dim", "n=4"],
                  ["run", "m.onnx", "--dim", "n=3", "--dim", "n=4"]):  # fmt: skip
        code, text = tool(*words)
        assert code == 1 and "'n' is given as 3 and as 4" in text, text
    assert tool("run", "m.onnx", "--dim", "n=3", "--dim", "n=3")[0] == 0


def test_an_empty_variable_is_not_set(tool, monkeypatch):
    for name in ("KNAPPER_ISA", "KNAPPER_DTYPE", "KNAPPER_THREADS", "KNAPPER_CACHE", "KNAPPER_DEVICE"):
        monkeypatch.setenv(name, "")
        assert tool("compile", "m.onnx", "-o", "e.knap") == (0, ""), name
        assert tool("run", "e.knap", "--dim", "n=2")[0] == 0
    code, text = tool("compile", "m.onnx", "-o", "e.knap", "--isa", "")
    assert code == 1 and "no instruction set" in text


def test_too_few_descriptors(tool):
    """The machine's fault, whichever file is one too many."""
    codes = set()
    for limit in range(3, 32):
        code, text = tool("compile", "m.onnx", "--no-cache", "-o", "d.knap",
                          preexec_fn=lambda n=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))  # fmt: skip
        codes.add(code)
        assert code in (0, 2, 127), (limit, text)
    assert {0, 2} <= codes
