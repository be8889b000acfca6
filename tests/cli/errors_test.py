"""What goes wrong on the command line: the message and the exit code."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest

# name: (arguments, parts of the message); m.knap, m.onnx, x.npy are there
CASES = {
    "no_command": ([], ["no command is given", "--help"]),
    "unknown_command": (["fly"], ["command line", "try: knapper --help"]),
    "unknown_flag": (["run", "m.knap", "--fast"], ["--fast", "knapper run --help"]),
    "missing_argument": (["compile"], ["model", "knapper compile --help"]),
    "bad_log_level": (["version", "--log-level", "loud"], ["--log-level", "loud"]),
    "missing_model": (["compile", "none.onnx"], ["none.onnx", "No such file"]),
    "model_is_a_folder": (["compile", "."], ["folder"]),
    "not_a_model": (["compile", "text.txt"], ["text.txt"]),
    "output_is_the_model": (["compile", "m.onnx", "-o", "m.onnx"], ["overwrite"]),
    "output_folder_missing": (["compile", "m.onnx", "-o", "no/m.knap"], ["no/m.knap"]),
    "bad_value": (["compile", "m.onnx", "--dtype", "f8"],
                  ["option dtype", "'f8'", "bf16"]),
    "bad_number": (["compile", "m.onnx", "--threads", "-1"], ["option threads", "-1"]),
    "bad_isa": (["compile", "m.onnx", "--isa", "sse2"], ["sse2"]),
    "bad_phase": (["compile", "m.onnx", "--stop-after", "lunch"],
                  ["option stop-after", "'lunch'", "simplify"]),
    "bad_pass": (["compile", "m.onnx", "--disable", "sleep"],
                 ["option disable", "'sleep'", "merge-dots"]),
    "bad_dim": (["compile", "m.onnx", "--dim", "n"], ["option dim", "name=value"]),
    "artefact_missing": (["run", "none.knap"], ["none.knap"]),
    "artefact_damaged": (["run", "damaged.knap"], ["damaged.knap"]),
    "compile_flag_for_artefact": (["run", "m.knap", "--dtype", "bf16"],
                                  ["compiled already", "--dtype"]),
    "command_unknown": (["bemch", "m.knap"], ["no command 'bemch'", "did you mean knapper bench?"]),
    "command_below_unknown": (["cache", "lst"], ["no command 'lst'", "did you mean knapper cache list?"]),
    "command_far": (["lunch"], ["no command 'lunch'", "knapper --help"]),
    "option_unknown": (["run", "m.knap", "--seeed", "1"], ["no option '--seeed'", "did you mean --seed?"]),
    "sizes_missing": (["run", "two.onnx"], ["sizes 'a', 'b' have no value", "--dim a=1 --dim b=128", "--dim auto"]),
    "auto_is_for_runs": (["compile", "m.onnx", "--dim", "auto"], ["option dim", "name=value"]),
    "size_missing": (["run", "m.knap"], ["input 'x'", "size 'n'", "--dim n="]),
    "size_unknown": (["run", "m.knap", "--dim", "k=1"], ["no size 'k'", "n"]),
    "size_text": (["run", "m.knap", "--dim", "n=many"], ["name=value"]),
    "input_missing_file": (["run", "m.knap", "-i", "none.npy"], ["none.npy"]),
    "input_unknown_name": (["run", "m.knap", "-i", "wrong.npz"],
                           ["no input 'z'", "its inputs: x"]),
    "input_not_npy": (["run", "m.knap", "-i", "text.txt"], ["not an .npy file"]),
    "input_too_many": (["run", "m.knap", "-i", "x.npy", "-i", "x.npy"],
                       ["no input left"]),
    "input_wrong_rank": (["run", "m.knap", "-i", "flat.npy"], ["x"]),
    "input_wrong_dtype": (["run", "m.knap", "-i", "double.npy"], ["x", "f64", "f32"]),
    "input_wrong_size": (["run", "m.knap", "-i", "wide.npy"], ["x", "5", "4"]),
    "input_cut": (["run", "m.knap", "-i", "cut.npy"], ["cut.npy", "cut short"]),
    "input_text_array": (["run", "m.knap", "-i", "words.npy"], ["expected f32[n, 4]", "string[1]"]),
    "npz_cut": (["run", "m.knap", "-i", "cut.npz"], ["cut.npz"]),
    "npz_checksum": (["run", "m.knap", "-i", "flipped.npz"], ["checksum"]),
    "output_folder": (["run", "m.knap", "-i", "x.npy", "-o", "no/y.npy"], ["no/y.npy"]),
    "output_unknown": (["run", "m.knap", "-i", "x.npy", "-o", "q=y.npy"],
                       ["which output", "y"]),
    "report_folder": (["explain", "m.knap", "-o", "no/r.html"], ["no/r.html"]),
    "isa_not_there": (["run", "m.knap", "--isa", "sm_90a", "-i", "x.npy"], ["sm_90a"]),
    "cache_folder_is_a_file": (["compile", "m.onnx", "--cache-dir", "text.txt"],
                               ["cache folder text.txt", "--no-cache"]),
    "cache_open_to_others": (["compile", "m.onnx", "--cache-dir", "open"],
                             ["written by others", "chmod"]),
    "verify_artefact": (["run", "--verify", "m.knap", "-i", "x.npy"],
                        ["m.knap", "needs the model", "the .onnx file"]),
    "quantize_what": (["quantize", "m.onnx", "-o", "q.knap"],
                      ["what to quantise", "--calibrate DATA", "--weights-only int8"]),
    "quantize_format": (["quantize", "m.onnx", "-o", "q.knap", "--weights-only", "int3"],
                        ["option weights", "'int3'", "int4"]),
    "quantize_group": (["quantize", "m.onnx", "-o", "q.knap", "--weights-only", "int4", "--group", "33"],
                       ["33 rows of int4", "weight-group", "even"]),
    "quantize_artefact": (["quantize", "m.knap", "-o", "q.knap", "--weights-only", "int8"],
                          ["m.knap", "not the model", "the .onnx file"]),
    "quantize_output": (["quantize", "m.onnx", "-o", "q.bin", "--weights-only", "int8"],
                        ["q.bin", "an artefact", "-o FILE.knap, or -o FILE.onnx"]),
    "quantize_both": (["quantize", "m.onnx", "-o", "q.knap", "--weights-only", "int8", "--calibrate", "x.npy"],
                      ["two kinds", "--data"]),
    "quantize_data_alone": (["quantize", "m.onnx", "-o", "q.knap", "--calibrate", "x.npy", "--data", "x.npy"],
                            ["--data goes with --weights-only"]),
    "quantize_range": (["quantize", "m.onnx", "-o", "q.knap", "--calibrate", "x.npy", "--range", "all"],
                       ["option range", "'all'", "percentile"]),
    "quantize_percentile": (["quantize", "m.onnx", "-o", "q.knap", "--calibrate", "x.npy", "--percentile", "101"],
                            ["option percentile", "101"]),
    "quantize_bytes": (["quantize", "m.onnx", "-o", "q.knap", "--calibrate", "x.npy", "--activations", "i4"],
                       ["option activations", "'i4'", "u8, i8"]),
    "quantize_data_missing": (["quantize", "m.onnx", "-o", "q.knap", "--calibrate", "none.npz"],
                              ["none.npz", "No such file"]),
    "quantize_nothing": (["quantize", "m.onnx", "-o", "q.knap", "--calibrate", "x.npy"],
                         ["m.onnx", "no matmul that integers can compute"]),
    "prune_how": (["cache", "prune"], ["--all", "--bytes"]),
    "inspect_missing": (["inspect", "none.onnx"], ["none.onnx"]),
}  # fmt: skip


@pytest.fixture
def folder(tool, model, tmp_path):
    tool("compile", model, "--isa", "x86-64-v3")
    np.save("x.npy", np.ones((2, 4), np.float32))
    np.save("flat.npy", np.ones(4, np.float32))
    np.save("double.npy", np.ones((2, 4)))
    np.save("wide.npy", np.ones((2, 5), np.float32))
    np.save("words.npy", np.array(["alpha"]))
    np.savez("wrong.npz", z=np.ones(1, np.float32))
    two = onnx.load(model)
    for value in (two.graph.input[0], two.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param, value.type.tensor_type.shape.dim[1].dim_param = "a", "b"
    onnx.save(two, "two.onnx")
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-4])
    np.savez("good.npz", x=np.ones((2, 4), np.float32))
    packed = bytearray((tmp_path / "good.npz").read_bytes())
    (tmp_path / "cut.npz").write_bytes(packed[:-30])
    packed[packed.find(b"\x93NUMPY") + 130] ^= 1
    (tmp_path / "flipped.npz").write_bytes(packed)
    (tmp_path / "text.txt").write_text("neither model nor array\n" * 9)
    (tmp_path / "damaged.knap").write_bytes((tmp_path / "m.knap").read_bytes()[:9000])
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    return tmp_path


@pytest.mark.parametrize("case", CASES)
def test_refused(tool, folder, case):
    arguments, parts = CASES[case]
    before = {p.name for p in folder.iterdir()}
    message = tool(*arguments, code=1)
    assert message.startswith("knapper: error: ")
    for part in parts:
        assert part in message, message
    assert {p.name for p in folder.iterdir()} == before  # nothing half written


def test_damaged_weights(tool, tmp_path):
    from onnx import TensorProto, helper, numpy_helper

    tensor = helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [tensor("x", TensorProto.FLOAT, ["n", 4])],
        [tensor("y", TensorProto.FLOAT, ["n", 4])], [weight],
    )  # fmt: skip
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    onnx.save(model, "w.onnx")
    np.save("x.npy", np.ones((2, 4), np.float32))
    tool("compile", "w.onnx", "-o", "w.knap")
    tool("run", "--verify-file", "w.knap", "-i", "x.npy")
    tool("run", "--verify-file", "w.onnx", "-i", "x.npy")
    damaged = bytearray((tmp_path / "w.knap").read_bytes())
    damaged[4096] ^= 1
    (tmp_path / "w.knap").write_bytes(damaged)
    said = "w.knap: the artefact is damaged at offset 0x1000: the hash of constant"
    assert said in tool("run", "w.knap", "-i", "x.npy", code=1)
    for command in ("run", "bench", "explain", "profile"):
        assert said in tool(command, "--verify-file", "w.knap", code=1)


def test_environment_is_named(tool, model):
    message = tool("compile", model, code=1, env={"KNAPPER_DTYPE": "f8"})
    assert "environment variable KNAPPER_DTYPE" in message


def test_control_characters_are_shown(tool, model):
    message = tool("compile", "a\x1b[31m.onnx", code=1)
    assert "\x1b" not in message and "\\x1b" in message


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_full_disk_is_the_machines_fault(tool):
    import subprocess

    from tool_models import TOOL

    with open("/dev/full", "w") as full:
        done = subprocess.run([TOOL, "version"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert b"device error" in done.stderr
