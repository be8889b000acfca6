"""The compile cache as its user sees it."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import time

import numpy as np
import onnx
import pytest
from tool_models import TOOL, affine, environment


def from_cache(tool, *arguments) -> bool:
    return json.loads(tool("compile", *arguments, "--json"))["from_cache"]


def test_second_compile_is_found(tool, model, tmp_path):
    assert not from_cache(tool, model, "-o", "a.knap")
    assert from_cache(tool, model, "-o", "b.knap")
    assert (tmp_path / "a.knap").read_bytes() == (tmp_path / "b.knap").read_bytes()
    folder = tmp_path / "cache" / "knapper" / "compile"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(f.stat().st_mode) == 0o600 for f in folder.iterdir())


def test_what_matters_and_what_does_not(tool, model, tmp_path):
    assert not from_cache(tool, model)
    assert from_cache(tool, model, "--threads", "1")
    assert not from_cache(tool, model, "--isa", "x86-64-v3")
    assert not from_cache(tool, model, "--dim", "n=4")
    assert not from_cache(tool, model, "--no-cache")
    affine(model, scale=3.0)
    assert not from_cache(tool, model)
    np.save("x.npy", np.ones((1, 4), np.float32))
    tool("run", model, "-i", "x.npy", "-o", "y.npy")
    np.testing.assert_allclose(np.load("y.npy"), 4)


def test_a_model_that_one_front_end_read_is_none_of_another(tool, model):
    assert not from_cache(tool, model)
    assert from_cache(tool, model, "--model-format", "onnx")
    for other, said in [("stablehlo", "is no StableHLO program"), ("torch", "is no graph of PyTorch"), ("mlir", "unexpected character")]:
        printed = tool("compile", model, "--model-format", other, code=1)
        assert said in printed and "internal error" not in printed


def test_external_data_is_part_of_the_key(tool, tmp_path):
    path = affine(tmp_path / "m.onnx")
    loaded = onnx.load(path)
    onnx.save(loaded, tmp_path / "e.onnx", save_as_external_data=True,
              location="e.data", size_threshold=0)  # fmt: skip
    assert not from_cache(tool, "e.onnx")
    assert from_cache(tool, "e.onnx")
    data = bytearray((tmp_path / "e.data").read_bytes())
    data[2] ^= 1
    (tmp_path / "e.data").write_bytes(data)
    assert not from_cache(tool, "e.onnx")
    explained = json.loads(tool("cache", "explain", "e.onnx", "--json"))
    assert explained["cached"]


def save_large(tmp_path, weights):
    """big.onnx, whose weights of [2200, 2000] lie in big.data."""
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2200])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2000])],
        [onnx.numpy_helper.from_array(weights, "w")])  # fmt: skip
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "big.onnx",
              save_as_external_data=True, location="big.data")  # fmt: skip


def test_hashes_of_large_files_are_kept_until_they_change(tool, tmp_path):
    """Of a file that has been quiet for two seconds, whatever its times are set to afterwards."""
    weights = np.zeros((2200, 2000), np.float32)  # 17 MB
    weights[0, 0] = 1
    save_large(tmp_path, weights)
    hashes = tmp_path / "cache" / "knapper" / "hashes"
    assert not from_cache(tool, "big.onnx")
    for _ in range(20):
        shutil.rmtree(hashes, ignore_errors=True)
        (tmp_path / "big.data").touch()
        assert from_cache(tool, "big.onnx")
        if time.time() - (tmp_path / "big.data").stat().st_ctime < 2:  # else the machine was too slow for it
            assert not hashes.exists()
            break
    else:
        pytest.skip("no run of 20 ended within 2 s of the file's change")
    shutil.rmtree(hashes, ignore_errors=True)
    time.sleep(2.2)
    assert from_cache(tool, "big.onnx")
    (kept,) = hashes.iterdir()
    assert re.fullmatch("[0-9a-f]{32}\n", kept.read_text())
    assert from_cache(tool, "big.onnx")
    # What is kept is what is used.
    line = kept.read_text()
    kept.write_text("0" * 32 + "\n")
    assert not from_cache(tool, "big.onnx")
    kept.write_text(line)
    data = tmp_path / "big.data"
    before = data.stat()
    with open(data, "r+b") as file:
        file.seek(before.st_size // 2)
        file.write(b"\1")
    os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not from_cache(tool, "big.onnx")
    time.sleep(2.2)
    assert from_cache(tool, "big.onnx")
    assert len(list(hashes.iterdir())) == 2


def damaged_medium(tmp_path, tool):
    """A model whose weights read otherwise than the hash that is kept of them: as on a medium that lost a bit."""
    weights = np.zeros((2200, 2000), np.float32)
    save_large(tmp_path, weights)
    time.sleep(2.2)
    assert not from_cache(tool, "big.onnx")
    (kept,) = (tmp_path / "cache" / "knapper" / "hashes").iterdir()
    return kept


def test_kept_hashes_are_not_trusted_where_all_is_to_be_compared(tool, tmp_path):
    kept = damaged_medium(tmp_path, tool)
    whole = kept.read_text()
    verifying = [("compile", "big.onnx", "-o", "m.knap", "--verify-files"), ("run", "big.onnx", "--verify-file")]
    for command in verifying:
        tool(*command)
    kept.write_text("0" * 32 + "\n")
    assert not from_cache(tool, "big.onnx"), "what is kept is what is used"
    for command in verifying:
        assert "big.data: reads otherwise than when it was hashed first" in tool(*command, code=1)
    os.utime(tmp_path / "big.data")
    time.sleep(2.2)
    for command in verifying:
        tool(*command)
    assert whole in {file.read_text() for file in kept.parent.iterdir()}


def test_an_entry_is_compared_once_in_each_state(tool, tmp_path):
    """Its constants may be a model's weights. What is damaged without a write is seen where all is to be compared."""
    save_large(tmp_path, np.ones((2200, 2000), np.float32))
    def found(*flags) -> tuple[bool, bool]:
        """Whether the entry is used, and whether it is said to be damaged."""
        done = subprocess.run([TOOL, "compile", "big.onnx", "--json", *flags], capture_output=True, text=True, env=environment(tmp_path), check=True)
        return json.loads(done.stdout)["from_cache"], "is damaged" in done.stderr

    def damage():
        (entry,) = (tmp_path / "cache" / "knapper" / "compile").glob("*.knap")
        with open(entry, "r+b") as file:
            file.seek(entry.stat().st_size // 2)
            file.write(b"\1")
        return entry

    marks = tmp_path / "cache" / "knapper" / "whole"
    assert found() == (False, False)
    time.sleep(2.2)
    assert found() == (True, False)
    (entry,) = (tmp_path / "cache" / "knapper" / "compile").glob("*.knap")
    (mark,) = (m for m in marks.iterdir() if f"-{entry.stat().st_ino}-{entry.stat().st_size}-" in m.name)
    damage()
    assert found() == (False, True), "a write changes its state"
    state = damage().stat()
    time.sleep(2.2)
    mark.rename(marks / "-".join(str(x) for x in (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)))
    assert found() == (True, False), "the mark is what is used"
    assert found("--verify-files") == (False, True)


def test_explain_names_the_difference(tool, model):
    assert "which is empty" in tool("cache", "explain", model)
    tool("compile", model)
    assert "is in the cache" in tool("cache", "explain", model)
    assert "'isa' differs" in tool("cache", "explain", model, "--isa", "x86-64-v3")
    affine(model, scale=5.0)
    assert "'model' differs" in tool("cache", "explain", model)


def test_list_and_prune(tool, model):
    tool("compile", model)
    tool("compile", model, "--isa", "x86-64-v3")
    entries = json.loads(tool("cache", "list", "--json"))
    assert [e["key"]["isa"] for e in entries][0] == "x86-64-v3"
    assert "2 entries" in tool("cache", "list")
    keep = str(entries[0]["bytes"])
    assert tool("cache", "prune", "--bytes", keep).startswith("1 entries removed")
    assert tool("cache", "prune", "--all").startswith("1 entries removed")
    assert "0 entries" in tool("cache", "list")


def test_bounded(tool, model):
    assert not from_cache(tool, model, "--cache-bytes", "1")
    assert not from_cache(tool, model, "--cache-bytes", "1")


def test_damaged_entry_is_made_again(tool, model, tmp_path):
    tool("compile", model)
    (entry,) = (tmp_path / "cache" / "knapper" / "compile").glob("*.knap")
    content = bytearray(entry.read_bytes())
    content[70:5000] = bytes(4930)  # of the same size
    content[-64:] = bytes(64)
    entry.write_bytes(content)
    done = subprocess.run(
        [TOOL, "run", model, "--dim", "n=1"], capture_output=True, text=True,
        env=environment(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0 and "compile cache" in done.stderr
    assert "y: f32 [1, 4]" in tool("run", model, "--dim", "n=1")


def test_many_processes(tool, model, tmp_path):
    clean = environment(tmp_path)
    processes = [
        subprocess.Popen([TOOL, "compile", model, "-o", f"{i}.knap"], env=clean,
                         stdout=subprocess.DEVNULL)
        for i in range(4)
    ]  # fmt: skip
    assert [p.wait() for p in processes] == [0] * 4
    assert from_cache(tool, model)
    folder = tmp_path / "cache" / "knapper" / "compile"
    assert not list(folder.glob("*.tmp")) and len(list(folder.glob("*.knap"))) == 1
