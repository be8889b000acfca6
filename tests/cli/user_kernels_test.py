"""Kernels of the user's (--kernels): taken by a record or by "always", refused with a reason."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import knapper
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
TENSOR = helper.make_tensor_value_info
PROGBITS, RELA, NOBITS = 1, 4, 8  # types of ELF sections
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


def compile_object(folder, name="plus.o", code=CODE, *flags, language="c"):
    subprocess.run(
        ["clang-22", "-c", "-O2", "-fPIC", "-x", language, "-", f"-I{ROOT / 'include'}", *flags, "-o", folder / name],
        input=code,
        text=True,
        check=True,
    )
    return name


def sections_of(data):
    """Where the header of each section lies, and its type."""
    (headers,) = struct.unpack_from("<Q", data, 40)
    return [(at, struct.unpack_from("<I", data, at + 4)[0]) for at in range(headers, len(data) - 63, 64)]


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
    (knob,) = [knob for knob in kernel["knobs"] if knob["alone"]]
    assert knob["name"] == "user:plus_one" and offer["taken"] == knob["value"] <= kernel["recorded"]
    assert np.allclose(ran(tool, tmp_path, "t.knap"), 0, atol=1e-5)


def test_the_cache_looks_into_the_code(tool, model, entry, tmp_path):
    name = write(tmp_path, entry | {"always": True})
    for mark, added in (("0", 0), ("4", 4), ("0", 0)):
        compile_object(tmp_path, "plus.o", CODE, f"-DMARK={mark}")
        assert np.allclose(ran(tool, tmp_path, model, "--kernels", name), added, atol=1e-5)


@pytest.mark.parametrize("cache", [True, False])
def test_files_are_read_once(model, entry, tmp_path, cache):
    """What is hashed is what is linked, also when the files go meanwhile."""
    files = [tmp_path / compile_object(tmp_path, "plus.o", CODE, "-DMARK=2"), tmp_path / write(tmp_path, entry | {"always": True})]
    begun = []

    def remove(phase, done, total):
        if not begun:
            [file.unlink() for file in files]
        begun.append(phase)

    options = {"kernels": files[1], "cache": cache, "cache_dir": tmp_path / "cache"}
    module = knapper.compile(tmp_path / model, progress=remove, **options)
    assert begun[0] == ("hash" if cache else "import")
    x = np.load(tmp_path / "x.npy")
    np.testing.assert_allclose(module(x)["y"] - x - ONE, 2, rtol=1e-5)


def test_verify_charges_it(tool, fails, model, entry, tmp_path):
    name = write(tmp_path, entry | {"always": True})
    assert "verified: 1 kernels" in tool("run", model, "--kernels", name, "--verify", "-i", "x.npy")
    compile_object(tmp_path, "plus.o", CODE, "-DMARK=2")
    said = fails("run", model, "--kernels", name, "--verify", "-i", "x.npy", output="diverges")
    assert "mend the user kernel 'plus_one'" in said and "internal error" not in said


def test_results_lie_apart_unless_allowed(tool, fails, tmp_path):
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
    said = fails("run", "m.onnx", "--kernels", "kernels.json", "-i", "in.npz", "--verify", output="the model, with results in place")
    assert "results differ where they lie over operands" in said


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
        ({"threads": 32}, "has 'threads' or 'shared_bytes', for a CPU"),
        ({"target": "CPU"}, "is for 'CPU', which is no target"),
        ({"isa": "avx2"}, "unknown instruction set 'avx2'"),
        ({"isa": "sm_80"}, "unknown instruction set 'sm_80'"),
        ({"grid": 0}, "'grid' is 0: nothing would run"),
        ({"threads": 5000}, "has a 'threads' that is no number up to 1024"),
        ({"always": 1}, "has a 'always' that is neither true nor false"),
        ({"code": "gone.o"}, "gone.o"),
        ({"code": "x.npy"}, "x.npy: is no relocatable object for x86-64"),
        ({"entry": "minus"}, "plus.o: defines no function 'minus' for others"),
        ({"code": "cut.o"}, "cut.o: is damaged"),
        ({"code": "calls.o"}, "calls.o: cannot be linked with the kernels of the model"),
        ({"code": "writes.o"}, "writes.o: cannot be linked with the kernels of the model"),
    ],
)
def test_what_is_wrong_is_said(tool, fails, model, entry, tmp_path, change, said):
    compile_object(tmp_path, "calls.o", CODE.replace("context->scratch", "(float *)malloc(4)").replace("#ifndef", "void *malloc(unsigned long);\n#ifndef", 1))
    compile_object(tmp_path, "writes.o", CODE.replace("static const float table", "float table"))
    cut = bytearray((tmp_path / "plus.o").read_bytes())
    for section, kind in sections_of(cut):
        if kind == PROGBITS:  # which lies behind the end
            cut[section + 30] = 0x7F
    (tmp_path / "cut.o").write_bytes(cut)
    name = write(tmp_path, entry | {"always": True} | change)
    printed = fails("compile", model, "-o", "m.knap", "--kernels", name)
    assert said in printed and "internal error" not in printed
    assert not (tmp_path / "m.knap").exists()


@pytest.mark.parametrize(
    "what, said",
    [
        ("program headers", "has program headers"),
        ("the section of symbols", "relocations of no section, or by no symbols"),
        ("the place of a relocation", "a relocation of byte"),
        ("the type of a relocation", "a relocation of type 200, which no kernel has"),
        ("an alignment", "an alignment that no section has"),
        ("zeros", "more zeros than a kernel can use"),
    ],
)
def test_tables_that_tools_take_on_trust(fails, model, entry, tmp_path, what, said):
    """Each ended the process in objcopy or lld, or filled the memory."""
    data = bytearray((tmp_path / "plus.o").read_bytes())
    sections = sections_of(data)
    relocations = next(at for at, kind in sections if kind == RELA)
    code = next(at for at, kind in sections if kind == PROGBITS)
    (first,) = struct.unpack_from("<Q", data, relocations + 24)
    if what == "program headers":
        struct.pack_into("<HH", data, 54, 0xFFFF, 0xFFFF)
    elif what == "the section of symbols":
        struct.pack_into("<I", data, relocations + 40, 0)
    elif what == "the place of a relocation":
        struct.pack_into("<Q", data, first, 1 << 40)
    elif what == "the type of a relocation":
        struct.pack_into("<I", data, first + 8, 200)
    elif what == "an alignment":
        struct.pack_into("<Q", data, code + 48, 1 << 40)
    else:
        struct.pack_into("<I", data, code + 4, NOBITS)
        struct.pack_into("<Q", data, code + 32, 1 << 40)
    (tmp_path / "plus.o").write_bytes(data)
    printed = fails("compile", model, "-o", "m.knap", "--kernels", write(tmp_path, entry | {"always": True}))
    assert "plus.o: is damaged: " in printed and said in printed and "internal error" not in printed


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"knapper_kernels": 2, "kernels": []}', '{"knapper_kernels": 1, "kernels": [], "kernel": []}', '{"knapper_kernels": 1}', '{"knapper_kernels": 1, "kernels": [7]}', "[" * 100_000, "\0"])
def test_files_that_are_none(fails, model, tmp_path, text):
    (tmp_path / "k.json").write_text(text)
    said = fails("compile", model, "-o", "m.knap", "--kernels", "k.json")
    assert "k.json" in said and "internal error" not in said


def test_not_for_this_instruction_set(tool, model, entry, tmp_path):
    name = write(tmp_path, entry | {"isa": "x86-64-v4"})
    tool("compile", model, "-o", "m.knap", "--kernels", name, "--isa", "x86-64-v4,x86-64-v3")
    (kernel,) = kernels_of(tool, "m.knap")
    assert kernel["user_kernels"][0]["why"] == "it needs x86-64-v4, and code is made for x86-64-v3, too: give --isa"
    name = write(tmp_path, entry | {"isa": "x86-64-v4", "always": True})
    tool("compile", model, "-o", "m.knap", "--kernels", name, "--isa", "x86-64-v4")
    assert kernels_of(tool, "m.knap")[0]["user_kernels"][0]["taken"]


def test_what_goes_wrong_at_a_run_names_it(tool, fails, model, entry, tmp_path):
    name = write(tmp_path, entry | {"always": True, "grid": "k0 - 100"})
    assert "a launch of user{plus_one} has grid -93" in fails("run", model, "--kernels", name, "-i", "x.npy")
    compile_object(tmp_path, "plus.o", CODE.replace("  float *scratch", "  *context->status = 9;\n  float *scratch"))
    said = fails("run", model, "--kernels", write(tmp_path, entry | {"always": True}), "-i", "x.npy")
    assert "status 9" in said and "user{plus_one}" in said and "internal error" not in said


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


def test_names_of_objects_are_their_own(tool, tmp_path, model, entry):
    """Statics, inline functions and entries that are called as others, or as a kernel of ours."""
    clash = """
template <int N> inline __attribute__((noinline)) float added(float v) { return v + STEP; }
extern "C" void NAME(void *const *buffers, const long *symbols, const void *, long begin, long end) {
  for (long i = 24 * begin; i < 24 * end; ++i)
    ((float *)buffers[2])[i] = added<0>(((float *)buffers[1])[i]) + ((float *)buffers[0])[i % 24] - STEP;
}
"""
    nodes = [helper.make_node("Add", ["x", "one"], ["y"]), helper.make_node("TopK", ["y", "k"], ["s", "i"]), helper.make_node("Mul", ["s", "one"], ["t"]),
             helper.make_node("TopK", ["t", "k"], ["u", "j"]), helper.make_node("Add", ["u", "one"], ["z"])]  # fmt: skip
    outputs = [TENSOR(n, TensorProto.FLOAT, ["rows", 24]) for n in "yz"]
    constants = [numpy_helper.from_array(ONE, "one"), numpy_helper.from_array(np.int64([24]), "k")]
    graph = helper.make_graph(nodes, "g", [TENSOR("x", TensorProto.FLOAT, ["rows", 24])], outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    tool("compile", model, "-o", "plain.knap")
    names = {k["hero"]: k["signature"] for k in kernels_of(tool, "plain.knap")}
    ours = f"sort_{names['sort']}"
    for name, step in (("plus", 1), (ours, 2)):
        compile_object(tmp_path, f"{step}.o", clash, f"-DNAME={name}", f"-DSTEP={step}", "-fvisibility=hidden", language="c++")
    for name, step in (("plus", 1), (ours, 2)):
        file = write(tmp_path, entry | {"always": True, "code": f"{step}.o", "entry": name, "scratch": 0})
        assert "verified" in tool("run", model, "--kernels", file, "--verify", "-i", "x.npy")


def test_a_dump_resumes_with_it(tool, fails, model, entry, tmp_path):
    name = write(tmp_path, entry | {"always": True})
    tool("compile", model, "-o", "m.knap", "--kernels", name, "--dump-dir", "d")
    for phase, file in (("tile", "04_schedule.mlir"), ("emit", "05_tile.mlir"), ("plan", "06_emit.mlir")):
        tool("compile", f"d/{file}", "-o", f"{phase}.knap", "--kernels", name, f"--start-from={phase}")
        assert np.allclose(ran(tool, tmp_path, f"{phase}.knap"), 0, atol=1e-5)
        assert kernels_of(tool, f"{phase}.knap")[0]["user_kernels"][0]["why"] == "by the dump"
    assert "--kernels does not give" in fails("compile", "d/04_schedule.mlir", "-o", "n.knap", "--start-from=tile")
    newer = write(tmp_path, entry | {"always": True, "isa": "x86-64-v4"})
    assert "it needs x86-64-v4" in fails("compile", "d/04_schedule.mlir", "-o", "n.knap", "--start-from=tile", "--kernels", newer)


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
        ({"scratch": 8}, "has a 'grain' or 'scratch', for a GPU"),
        ({"entry": "minus"}, "has no .entry 'minus'"),
        ({"code": "x.npy"}, "x.npy: is no PTX"),
    ):
        assert said in fails("compile", model, "-o", "n.knap", "--target", "cuda:sm_90a", "--kernels", write(tmp_path, cuda | change, name="wrong.json"))
    (tmp_path / "plus.ptx").write_text(PTX.replace(" .param .u64 k0,", ""))
    said = fails("compile", model, "-o", "n.knap", "--target", "cuda:sm_90a", "--kernels", name)
    assert "'plus' has 5 parameters, its kernel has 6 of 64 bits: 3 buffers, 1 symbols, the status and the grid" in said
    (tmp_path / "plus.ptx").write_text(PTX.replace("sm_80", "sm_90a"))
    assert "is for sm_90a, which does not run on sm_80" in fails("compile", model, "-o", "n.knap", "--target", "cuda:sm_80", "--kernels", name)
    tool("compile", model, "-o", "n.knap", "--target", "cuda:sm_80", "--kernels", write(tmp_path, cuda | {"isa": "sm_90a", "always": False}, name="newer.json"))
    assert not kernels_of(tool, "n.knap")[0]["user_kernels"][0]["taken"]


# Names that are instructions, too, or that every module has.
CLASHING = """
.version 7.0
.target sm_80
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 4 .b8 tab[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.global .align 8 .u64 places[1] = {tab};
.func (.param .b32 out) min (.param .b32 in) {
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [in];
  min.s32 %r2, %r1, 7;
  st.param.b32 [out], %r2;
  ret;
}
.visible .entry NAME(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 k0, .param .u64 status, .param .u64 grid) {
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  .reg .pred %p<2>;
  .loc 1 3 1
  mov.u64 %rd1, tab;
  add.s64 %rd2, %rd1, 4;
  ld.global.u32 %r1, [tab+4];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra END;
  { .param .b32 a; .param .b32 b;
  st.param.b32 [a], %r1;
  call.uni (b), min, (a);
  }
END:
  ret;
}
.file 1 "x.cu"
"""


@pytest.mark.parametrize("name", ["add", "min2", "ret", "param"])
def test_names_of_ptx_are_their_own(tool, model, entry, tmp_path, name):
    (tmp_path / "one.ptx").write_text(CLASHING.replace("NAME", name))
    nodes = [helper.make_node("Add", ["x", "one"], ["y"]), helper.make_node("TopK", ["y", "k"], ["s", "i"]), helper.make_node("Mul", ["s", "one"], ["z"])]
    outputs = [TENSOR("z", TensorProto.FLOAT, ["rows", 24])]
    constants = [numpy_helper.from_array(ONE, "one"), numpy_helper.from_array(np.int64([24]), "k")]
    graph = helper.make_graph(nodes, "g", [TENSOR("x", TensorProto.FLOAT, ["rows", 24])], outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    tool("compile", model, "-o", "plain.knap", "--target", "cuda:sm_90a")
    signatures = [k["signature"] for k in kernels_of(tool, "plain.knap") if k["hero"] == "pointwise"]
    assert len(signatures) == 2
    common = {"target": "cuda", "isa": "sm_80", "code": "one.ptx", "entry": name, "threads": 64, "grid": 1, "always": True}
    file = write(tmp_path, *({"name": f"k{i}", "signature": s} | common for i, s in enumerate(signatures)))
    tool("compile", model, "-o", "m.knap", "--target", "cuda:sm_90a", "--kernels", file, "--dump-dir", "d")
    text = (tmp_path / "d" / "06_emit.sm_90a.elf").read_text()
    for signature in signatures:
        own = f"user_{signature}"
        assert f".entry {own}(" in text and f"mov.u64 %rd1, {own}_tab;" in text and f"= {{{own}_tab}};" in text
        assert f"[{own}_tab+4]" in text and f"call.uni (b), {own}_min, (a);" in text
    for kept in ("min.s32 %r2", "add.s64 %rd2", "  ret;", "vprintf (", "@%p1 bra END;"):
        assert text.count(kept) >= 2
    assert ".loc" not in text and ".file" not in text
    if shutil.which("ptxas"):
        subprocess.run(["ptxas", "-arch=sm_90a", "d/06_emit.sm_90a.elf", "-o", "x.cubin"], check=True)
