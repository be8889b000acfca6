"""What somebody who meets the tool for the first time types, and what they are told."""

from __future__ import annotations

import numpy as np
import pytest


def test_a_size_that_a_file_does_not_have(tool, model):
    np.save("x.npy", np.ones((5, 4), np.float32))
    message = tool("run", model, "-i", "x=x.npy", "--dim", "n=6", code=1)
    assert "--dim n=6, but input 'x' from its file has n=5" in message
    tool("run", model, "-i", "x=x.npy", "--dim", "n=5")


def test_an_input_that_there_is_not(tool, model):
    np.save("x.npy", np.ones((5, 4), np.float32))
    message = tool("run", model, "-i", "z=x.npy", code=1)
    assert "the model has no input 'z'" in message and "its inputs: x" in message
    # A file may have the sign in its name.
    np.save("a=b.npy", np.ones((5, 4), np.float32))
    tool("run", model, "-i", "a=b.npy")


def test_a_size_of_a_file_without_symbolic_sizes(tool, model):
    tool("compile", model, "--dim", "n=3", "-o", "fixed.knap")
    message = tool("run", "fixed.knap", "--dim", "n=3", code=1)
    assert "the model has no size 'n'" in message and "leave it out: all sizes are numbers" in message


def test_inspect_of_an_artefact(tool, model):
    tool("compile", model, "-o", "m.knap")
    message = tool("inspect", "m.knap", code=1)
    assert "it is a compiled artefact" in message and "knapper explain m.knap" in message


def test_a_value_that_an_option_does_not_take(tool, model):
    message = tool("compile", model, "--dtype", "bf15", "-o", "m.knap", code=1)
    assert "one of f32|bf16|f16" in message


def test_compare_with_a_file_of_fixed_sizes(tool, model):
    tool("compile", model, "-o", "any.knap")
    tool("compile", model, "--dim", "n=3", "-o", "fixed.knap")
    message = tool("compare", "any.knap", "fixed.knap", "--dim", "n=3", code=1)
    assert "knapper explain FILE --profile --compare FILE" in message


@pytest.mark.parametrize("content, said, hint", [
    (b"PK\x03\x04" + bytes(40), "is a zip archive, as torch.save writes", "torch.onnx.export"),
    (b"\x80\x02\x8a\x0a" + bytes(40), "is a pickle", "torch.onnx.export"),
    (b"\x10\0\0\0\0\0\0\0{\"a\":{}}", "is a safetensors file", "knapper serve"),
    (b"GGUF\x03\0\0\0" + bytes(40), "is a GGUF file", "knapper serve"),
    (b"\x1c\0\0\0TFL3" + bytes(40), "is a TensorFlow Lite model", "tf2onnx"),
    (b"\x89HDF\r\n\x1a\n" + bytes(40), "is an HDF5 file", "tf2onnx"),
    (b"<?xml version='1.0'?><net/>", "is XML", "ONNX file"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "is a pointer of Git LFS", "git lfs pull"),
    (b"hello", "is not an ONNX model", "onnx.checker"),
])  # fmt: skip
def test_other_files_are_told_by_their_kind(tool, tmp_path, content, said, hint):
    (tmp_path / "model.bin").write_bytes(content)
    message = tool("compile", "model.bin", code=1)
    assert "model.bin" in message and said in message and hint in message


def test_compile_of_an_artefact(tool, model):
    tool("compile", model)
    for words in (["m.knap"], ["m.knap", "-o", "again.knap"]):
        message = tool("compile", *words, code=1)
        assert "it is a compiled artefact, not a model" in message and "knapper run m.knap" in message
