"""Models with strings at their border: from .npy files, random words, shown and written."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper


def write(path, stopwords=("the",), case="LOWER"):
    """Words in lower case without stop words, and numbers for two of them."""
    nodes = [
        helper.make_node("StringNormalizer", ["t"], ["u"], case_change_action=case, **({"stopwords": list(stopwords)} if stopwords else {})),
        helper.make_node("LabelEncoder", ["u"], ["ids"], domain="ai.onnx.ml", keys_strings=["good", "größe"],
                         values_int64s=[1, 2], default_int64=0),
    ]  # fmt: skip
    infos = [helper.make_tensor_value_info(name, kind, [size]) for name, kind, size in (
        ("t", TensorProto.STRING, "n"), ("u", TensorProto.STRING, "m"), ("ids", TensorProto.INT64, "m"))]  # fmt: skip
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=opsets), path)
    return path


@pytest.fixture
def words(tmp_path):
    return write(tmp_path / "words.onnx")


@pytest.mark.parametrize("array", [
    np.array(["The", "Good", "GRÖSSE", "größe", "日本", ""]),
    np.array(["The", "Good", "GRÖSSE", "größe", "日本", ""], order="F"),
    np.array([text.encode() for text in ("The", "Good", "GRÖSSE", "größe", "日本", "")]),
], ids=["texts", "columns", "bytes"])  # fmt: skip
@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_from_files_into_files(tool, words, array, ending):
    (np.save if ending == "npy" else np.savez)(f"t.{ending}", **{"arr" if ending == "npy" else "t": array})
    shown = tool("run", words, "-i", f"t.{ending}", "-o", "all.npz", "-o", "u=u.npy")
    assert shown.splitlines() == ['u: string [5]  "good" "grösse" "größe" "日本" ""', "ids: i64 [5]  min 0 max 2 mean 0.6  1 0 2 0 0"]
    wanted = ["good", "grösse", "größe", "日本", ""]
    assert np.load("u.npy").tolist() == wanted == np.load("all.npz")["u"].tolist()
    assert np.load("all.npz")["ids"].tolist() == [1, 0, 2, 0, 0]


def test_matrices_by_columns(tool, tmp_path):
    info = [helper.make_tensor_value_info(name, TensorProto.STRING, ["a", "b"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", info[:1], info[1:])
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]), "same.onnx")
    for array in (np.array([["a", "bb", "ccc"], ["d", "", "f"]]), np.array([["é", "b"]]), np.zeros((0, 2), "U3")):
        np.save("x.npy", np.asfortranarray(array))
        tool("run", "same.onnx", "-i", "x.npy", "-o", "y.npy")
        found = np.load("y.npy")
        assert found.shape == array.shape and found.tolist() == array.tolist()


def test_what_is_no_text_is_written_as_bytes(tool, words):
    np.save("t.npy", np.array([b"\xff\xfe", b"good"]))
    shown = tool("run", write("as-is.onnx", (), "NONE"), "-i", "t.npy", "-o", "u=u.npy")
    assert shown.startswith('u: string [2]  "\\xff\\xfe" "good"\n')
    assert np.load("u.npy").tolist() == [b"\xff\xfe", b"good"]


def test_random_words(tool, words):
    first = tool("run", words, "--dim", "n=20", "-o", "u=u.npy")
    drawn = np.load("u.npy")
    assert drawn.shape == (20,) and len(set(drawn)) > 8 and all(word.isalpha() for word in drawn)
    assert tool("run", words, "--dim", "n=20") == first != tool("run", words, "--dim", "n=20", "--seed", 1)
    assert "of 3 runs" in tool("bench", words, "--dim", "n=20", "--iterations", 3)


def test_the_reference_has_no_strings(tool, words):
    said = tool("run", "--verify", words, "--dim", "n=2", code=1, output="u: string [2]")
    assert "input 0: holds strings" in said and "extract_model" in said


def test_long_ones_are_cut(tool, words):
    np.save("t.npy", np.array(["ä" * 30 + "b", "\x1b[31m"]))
    shown = tool("run", words, "-i", "t.npy")
    assert f'"{"ä" * 20}..." "\\x1b[31m"' in shown


def test_compared(tool, words):
    np.save("t.npy", np.array(["The", "Good", "Bad"]))
    tool("compile", words, "-o", "a.knap")
    tool("compile", write("other.onnx", ("the", "good")), "-o", "b.knap")
    tool("compile", write("same.onnx", case="UPPER"), "-o", "c.knap")
    assert "same bits" in tool("compare", "a.knap", "a.knap", "-i", "t.npy", "--rounds", 1)
    said = tool("compare", "a.knap", "c.knap", "-i", "t.npy", "--rounds", 1, code=4, output="u: string [2]: 2 of 2 elements differ\n")
    assert said == ""
    tool("compare", "a.knap", "b.knap", "-i", "t.npy", "--rounds", 1, code=4, output="u: string [2], string [1]")


@pytest.mark.parametrize("change, said", [
    (lambda data: data[:-4], "is cut short"),
    (lambda data: data.replace(b"<U4", b">U4"), "holds elements of type '>U4'"),
    (lambda data: data.replace(b"<U4", b"<U0"), "is cut short"),
    (lambda data: data.replace(b"<U4", b"|O4"), "holds elements of type '|O4'"),
    (lambda data: data[:-4] + b"\0\xd8\0\0", "string 1 has characters that are none of Unicode's"),
    (lambda data: data[:-4] + b"\0\0\x11\0", "string 1 has characters that are none of Unicode's"),
])  # fmt: skip
def test_damaged_files(tool, words, tmp_path, change, said):
    np.save("t.npy", np.array(["The", "Good"]))
    path = tmp_path / "t.npy"
    path.write_bytes(change(path.read_bytes()))
    assert said in tool("run", words, "-i", "t.npy", code=1)
