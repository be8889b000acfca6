"""Kernels of the user's (--kernels): taken by a record or by "always", refused with a reason."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
TENSOR = helper.make_tensor_value_info
ONE = np.linspace(1, 2, 24, dtype=np.float32)
# x + one for one row a program, but y gets `MARK` more.
CODE = """
#include <knapper/kernel.h>
#ifndef MARK
#define MARK 0
#endif
static const float table[2] = {0.5f, 1};
void plus(void *const *buffers, const int64_t *symbols, const knapper_kernel_context *context, int64_t begin, int64_t end) {
  const float *one = buffers[0], *x = buffers[1];
  float *y = buffers[2];
  float *scratch = context->scratch;
  for (int64_t row = begin; row < end; ++row) {
    for (int i = 0; i < 24; ++i)
      scratch[i] = x[24 * row + i] * table[symbols[0] > 0];
    for (int i = 0; i < 24; ++i)
      y[24 * row + i] = scratch[i] + one[i] + MARK;
  }
}
"""


@pytest.fixture
def model(tmp_path):
    one = numpy_helper.from_array(ONE, "one")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"], "add")],
        "g",
        [TENSOR("x", TensorProto.FLOAT, ["rows", 24])],
        [TENSOR("y", TensorProto.FLOAT, ["rows", 24])],
        [one],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((7, 24)).astype(np.float32))
    return "m.onnx"


@pytest.fixture
def fails(tool):
    """What a command says when it ends with a user error."""
    return lambda *words, output="": tool(*words, code=1, output=output)


def compile_object(folder, name="plus.o", code=CODE, *flags):
    subprocess.run(
        ["clang-22", "-c", "-O2", "-fPIC", "-x", "c", "-", f"-I{ROOT / 'include'}", *flags, "-o", folder / name],
        input=code,
        text=True,
        check=True,
    )
    return name


def kernels_of(tool, artefact):
    return json.loads(tool("explain", artefact, "--json"))["report"]["unique_kernels"]


@pytest.fixture
def entry(tool, model, tmp_path):
    tool("compile", model, "-o", "plain.knap")
    (kernel,) = kernels_of(tool, "plain.knap")
    return {
        "name": "plus_one",
        "signature": kernel["signature"],
        "target": "cpu",
        "isa": "x86-64-v3",
        "code": compile_object(tmp_path),
        "entry": "plus",
        "grid": "k0",
        "scratch": 96,
    }


def write(folder, *entries, name="kernels.json"):
    (folder / name).write_text(json.dumps({"knapper_kernels": 1, "kernels": list(entries)}))
    return name


def ran(tool, tmp_path, *words):
    """What the result has more than x + one."""
    tool("run", *words, "-i", "x.npy", "-o", "y.npy")
    return np.load(tmp_path / "y.npy") - np.load(tmp_path / "x.npy") - ONE


def test_always_replaces_ours(tool, model, entry, tmp_path):
    compile_object(tmp_path, "plus.o", CODE, "-DMARK=2")
    name = write(tmp_path, entry | {"always": True})
    np.testing.assert_allclose(ran(tool, tmp_path, model, "--kernels", name), 2, rtol=1e-5)
    tool("compile", model, "-o", "m.knap", "--kernels", name)
    (tmp_path / "plus.o").unlink()  # the file holds the code
    np.testing.assert_allclose(ran(tool, tmp_path, "m.knap"), 2, rtol=1e-5)
    (kernel,) = kernels_of(tool, "m.knap")
    assert kernel["user_kernels"] == [{"name": "plus_one", "taken": True, "why": '"always"'}]
    assert [s["label"] for s in kernel["schedules"]] == ["user{plus_one}"]


def test_a_record_decides(tool, model, entry, tmp_path):
    compile_object(tmp_path, "plus.o", CODE, "-DMARK=2")
    name = write(tmp_path, entry)
    assert np.allclose(ran(tool, tmp_path, model, "--kernels", name), 0, atol=1e-5)
    record = {"signature": entry["signature"], "target": "cpu", "choice": {"user:plus_one": 1}, "gain": 1.5}
    (tmp_path / "r.json").write_text(json.dumps({"knapper_tuning": 1, "records": [record]}))
    assert np.allclose(ran(tool, tmp_path, model, "--kernels", name, "--records", "r.json"), 2)
    # Without the file the record asks for what there is not.
    done = json.loads(tool("compile", model, "-o", "m.knap", "--records", "r.json", "--json"))
    assert done["records_stale"] == 1 and done["records_used"] == 0


def test_tune_measures_it(tool, model, entry, tmp_path):
    name = write(tmp_path, entry)
    tool("tune", model, "--kernels", name, "--budget", "4s", "--dim", "rows=4096", "--threads", "1", "-o", "t.knap")
    (kernel,) = kernels_of(tool, "t.knap")
    (offer,) = kernel["user_kernels"]
    assert kernel["knobs"][0]["name"] == "user:plus_one"
    assert offer["taken"] == kernel["knobs"][0]["value"] <= kernel["recorded"]
    assert np.allclose(ran(tool, tmp_path, "t.knap"), 0, atol=1e-5)


def test_the_cache_looks_into_the_code(tool, model, entry, tmp_path):
    name = write(tmp_path, entry | {"always": True})
    for mark, added in (("0", 0), ("4", 4), ("0", 0)):
        compile_object(tmp_path, "plus.o", CODE, f"-DMARK={mark}")
        assert np.allclose(ran(tool, tmp_path, model, "--kernels", name), added, atol=1e-5)


def test_verify_charges_it(tool, fails, model, entry, tmp_path):
    name = write(tmp_path, entry | {"always": True})
    assert "verified: 1 kernels" in tool("run", model, "--kernels", name, "--verify", "-i", "x.npy")
    compile_object(tmp_path, "plus.o", CODE, "-DMARK=2")
    said = fails("run", model, "--kernels", name, "--verify", "-i", "x.npy", output="diverges")
    assert "mend the kernel of --kernels" in said and "internal error" not in said


def test_results_lie_apart_unless_allowed(tool, tmp_path):
    """Of two kernels in a row the second may not write over what the first wrote, unless it says that it reads first."""
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["a", "i"], "first"),
        helper.make_node("Add", ["a", "b"], ["c"], "second"),
        helper.make_node("TopK", ["c", "k"], ["y", "j"], "third"),
    ]
    inputs, outputs = ([TENSOR(n, TensorProto.FLOAT, ["rows", 24]) for n in names] for names in ("xb", "y"))
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(np.int64([24]), "k")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    # Of a result that lies over an input it reads what it wrote.
    code = """
#include <knapper/kernel.h>
void plus(void *const *buffers, const int64_t *symbols, const knapper_kernel_context *context, int64_t begin, int64_t end) {
  const float *a = buffers[0], *b = buffers[1];
  float *y = buffers[2];
  int64_t n = symbols[0] * 24;
  for (int64_t i = 0; i < n; ++i) y[i] = 0;
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}
"""
    compile_object(tmp_path, "plus.o", code)
    tool("compile", "m.onnx", "-o", "plain.knap")
    (found,) = [k for k in kernels_of(tool, "plain.knap") if k["hero"] == "pointwise"]
    entry = {"name": "sum", "signature": found["signature"], "target": "cpu", "isa": "x86-64-v3", "code": "plus.o", "entry": "plus", "grid": 1, "always": True}
    x, b = np.random.default_rng(0).standard_normal((2, 64, 24)).astype(np.float32)
    np.savez("in.npz", x=x, b=b)
    wanted = -np.sort(-(-np.sort(-x) + b))
    for in_place in (False, True):
        write(tmp_path, entry | {"in_place": in_place})
        tool("run", "m.onnx", "--kernels", "kernels.json", "-i", "in.npz", "-o", "y.npy")
        assert np.allclose(np.load("y.npy"), wanted) != in_place


@pytest.mark.parametrize(
    "change, said",
    [
        ({"signature": "abc"}, "kernel 0 has a signature that is not 16 hex digits"),
        ({"name": "a b"}, "kernel 0 has a name that is not 1 to 64 letters"),
        ({"grip": 1}, "has the key 'grip', which there is not; the nearest is 'grid'"),
        ({"grid": None}, "has a 'grid' that is no size"),
        ({"grid": "k0 +"}, "'grid' is no size: k0 +"),
        ({"grid": "k7"}, "has the symbol 'k7', its kernel has k0"),
        ({"grid": "0 - 5"}, "'grid' is below zero"),
        ({"scratch": -1}, "has a 'scratch' that is no size"),
        ({"threads": 32}, "has 'threads', which its target has not"),
        ({"threads": 5000}, "has a 'threads' that is no number up to 1024"),
        ({"always": 1}, "has a 'always' that is neither true nor false"),
        ({"code": "gone.o"}, "gone.o"),
        ({"code": "x.npy"}, "x.npy: is no relocatable object for x86-64"),
        ({"entry": "minus"}, "plus.o: defines no function 'minus' for others"),
        ({"code": "calls.o"}, "calls.o: cannot be linked with the kernels of the model"),
        ({"code": "writes.o"}, "writes.o: cannot be linked with the kernels of the model"),
    ],
)
def test_what_is_wrong_is_said(tool, fails, model, entry, tmp_path, change, said):
    compile_object(tmp_path, "calls.o", CODE.replace("context->scratch", "(float *)malloc(4)").replace("#ifndef", "void *malloc(unsigned long);\n#ifndef", 1))
    compile_object(tmp_path, "writes.o", CODE.replace("static const float table", "float table"))
    name = write(tmp_path, entry | {"always": True} | change)
    printed = fails("compile", model, "-o", "m.knap", "--kernels", name)
    assert said in printed and "internal error" not in printed
    assert not (tmp_path / "m.knap").exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"knapper_kernels": 2, "kernels": []}', '{"knapper_kernels": 1}', '{"knapper_kernels": 1, "kernels": [7]}', "[" * 100_000, "\0"])
def test_files_that_are_none(fails, model, tmp_path, text):
    (tmp_path / "k.json").write_text(text)
    said = fails("compile", model, "-o", "m.knap", "--kernels", "k.json")
    assert "k.json" in said and "internal error" not in said


def test_not_for_this_instruction_set(tool, model, entry, tmp_path):
    name = write(tmp_path, entry | {"always": True, "isa": "x86-64-v4"})
    tool("compile", model, "-o", "m.knap", "--kernels", name, "--isa", "x86-64-v4,x86-64-v3")
    (kernel,) = kernels_of(tool, "m.knap")
    assert kernel["user_kernels"][0]["why"] == "it needs x86-64-v4, and code is made for x86-64-v3, too: give --isa"
    tool("compile", model, "-o", "m.knap", "--kernels", name, "--isa", "x86-64-v4")
    assert kernels_of(tool, "m.knap")[0]["user_kernels"][0]["taken"]


def test_two_kernels_of_one_object(tool, tmp_path, model, entry):
    """One object for two signatures is linked once."""
    graph = onnx.load(tmp_path / "m.onnx")
    graph.graph.node.append(helper.make_node("TopK", ["y", "k"], ["s", "i"], "between"))
    graph.graph.node.append(helper.make_node("Add", ["s", "one"], ["z"], "again"))
    graph.graph.initializer.append(numpy_helper.from_array(np.int64([24]), "k"))
    graph.graph.output.append(TENSOR("z", TensorProto.FLOAT, ["rows", 24]))
    onnx.save(graph, tmp_path / "m.onnx")
    tool("compile", model, "-o", "m.knap")
    signatures = [k["signature"] for k in kernels_of(tool, "m.knap") if k["hero"] == "pointwise"]
    assert entry["signature"] in signatures
    name = write(tmp_path, entry | {"always": True}, entry | {"always": True, "name": "twin"})
    assert "verified" in tool("run", model, "--kernels", name, "--verify", "-i", "x.npy")


def test_a_dump_resumes_with_it(tool, fails, model, entry, tmp_path):
    name = write(tmp_path, entry | {"always": True})
    tool("compile", model, "-o", "m.knap", "--kernels", name, "--dump-dir", "d")
    for phase, file in (("tile", "04_schedule.mlir"), ("emit", "05_tile.mlir"), ("plan", "06_emit.mlir")):
        tool("compile", f"d/{file}", "-o", f"{phase}.knap", "--kernels", name, f"--start-from={phase}")
        assert np.allclose(ran(tool, tmp_path, f"{phase}.knap"), 0, atol=1e-5)
    assert "--kernels does not give" in fails("compile", "d/04_schedule.mlir", "-o", "n.knap", "--start-from=tile")


PTX = """
//
.version 8.3
.target sm_80
.address_size 64
/* plus in a comment, and // kernel lines
// kernel plus
*/
.visible .entry plus(
  .param .u64 plus_param_0, .param .u64 plus_param_1, .param .u64 plus_param_2, .param .u64 k0, .param .u64 status,
  .param .u64 grid)
{
  ret;
}
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="kernels of CPUs are for x86-64")
def test_ptx_goes_into_the_file(tool, fails, model, entry, tmp_path):
    (tmp_path / "plus.ptx").write_text(PTX)
    cuda = {k: v for k, v in entry.items() if k != "scratch"} | {"target": "cuda", "isa": "sm_80", "code": "plus.ptx", "threads": 64, "always": True}
    tool("compile", model, "-o", "plain.knap", "--target", "cuda:sm_90a")
    cuda["signature"] = kernels_of(tool, "plain.knap")[0]["signature"]
    name = write(tmp_path, cuda)
    tool("compile", model, "-o", "m.knap", "--target", "cuda:sm_90a", "--kernels", name)
    code = (tmp_path / "m.knap").read_bytes()
    entry_name = f"user_{cuda['signature']}".encode()
    assert b".entry " + entry_name + b"(" in code and b"// kernel " + entry_name + b"\n" in code
    assert code.count(b"// kernel ") == 1 and b"plus_param_0" in code and b".version 8.3\n.target sm_90a\n" in code
    for change, said in (
        ({"threads": 0}, "has no 'threads' of its CTA"),
        ({"entry": "minus"}, "has no .entry 'minus'"),
        ({"code": "x.npy"}, "x.npy: is no PTX"),
    ):
        assert said in fails("compile", model, "-o", "n.knap", "--target", "cuda:sm_90a", "--kernels", write(tmp_path, cuda | change, name="wrong.json"))
    (tmp_path / "plus.ptx").write_text(PTX.replace(" .param .u64 k0,", ""))
    said = fails("compile", model, "-o", "n.knap", "--target", "cuda:sm_90a", "--kernels", name)
    assert "'plus' has 5 parameters, its kernel has 6: 3 buffers, 1 symbols, the status and the grid" in said
    tool("compile", model, "-o", "n.knap", "--target", "cuda:sm_80", "--kernels", write(tmp_path, cuda | {"isa": "sm_90a"}, name="newer.json"))
    assert not kernels_of(tool, "n.knap")[0]["user_kernels"][0]["taken"]
