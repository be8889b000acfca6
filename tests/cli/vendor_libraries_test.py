"""Libraries of vendors (--vendor): offered, taken by a record or by force, absent, refused with a reason.

The tests of oneDNN need PyPI's onednn-cpu-gomp, or a libdnnl.so.3 in a folder of KNAPPER_VENDOR_PATH; those
of a card need one, with a libcublasLt.so beside PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tool_models import TOOL, environment

HEAD = '<ir_version: 10, opset_import: ["": 20]>\n'
RANDOM = np.random.default_rng(0)
WEIGHT = (RANDOM.standard_normal((96, 160)) / 8).astype(np.float32)
BIAS = RANDOM.standard_normal(160).astype(np.float32)


def onednn_folder() -> str | None:
    folders = os.environ.get("KNAPPER_VENDOR_PATH", "").split(":")
    for folder in [*folders, str(Path(sysconfig.get_path("data")) / "lib")]:
        if folder and (Path(folder) / "libdnnl.so.3").exists():
            return folder
    return None


ONEDNN = onednn_folder()
needs_onednn = pytest.mark.skipif(
    ONEDNN is None, reason="there is no libdnnl.so.3: pip install onednn-cpu-gomp==2023.2.0"
)
HERE = {"KNAPPER_VENDOR_PATH": ONEDNN or ""}
NOWHERE = {"KNAPPER_VENDOR_PATH": "", "LD_LIBRARY_PATH": ""}


def systems_own() -> bool:
    """Whether the loader finds a distribution's, which no variable hides."""
    code = "import ctypes; ctypes.CDLL('libdnnl.so.3')"
    return subprocess.run([sys.executable, "-c", code], env=os.environ | NOWHERE, capture_output=True).returncode == 0


needs_absence = pytest.mark.skipif(systems_own(), reason="the system's loader finds a libdnnl.so.3 of the distribution")
# oneDNN's functions, which compute nothing and return STATUS.
FAKE = """
typedef struct { int v[3]; const char *hash; unsigned cpu, gpu; } version;
const version *dnnl_version(void) { static const version v = {{3, 6, 3}, 0, 1, 0}; return &v; }
unsigned long dnnl_memory_desc_get_size(void *desc) { return 64; }
int dnnl_primitive_desc_query(void *desc, int what, int index, void **result) { *result = "fake"; return 0; }
int dnnl_primitive_execute(void) { return STATUS; }
#define MAKES(name) int dnnl_##name(void **made) { *made = "made"; return 0; }
#define DOES(name) int dnnl_##name(void) { return 0; }
MAKES(engine_create) MAKES(stream_create) MAKES(memory_desc_create_with_strides) MAKES(primitive_attr_create)
MAKES(post_ops_create) MAKES(matmul_primitive_desc_create) MAKES(primitive_create) MAKES(memory_create)
DOES(engine_destroy) DOES(stream_destroy) DOES(memory_desc_destroy) DOES(primitive_attr_destroy)
DOES(primitive_attr_set_scratchpad_mode) DOES(primitive_attr_set_post_ops) DOES(post_ops_destroy)
DOES(post_ops_append_eltwise) DOES(primitive_desc_destroy) DOES(primitive_destroy) DOES(memory_destroy)
"""


def fake_onednn(folder: Path, status: int) -> dict[str, str]:
    folder.mkdir()
    build = ["clang-22", "-shared", "-fPIC", "-w", "-x", "c", "-", f"-DSTATUS={status}"]
    subprocess.run([*build, "-o", folder / "libdnnl.so.3"], input=FAKE, text=True, check=True)
    return {"KNAPPER_VENDOR_PATH": str(folder)}


MODELS = {
    "plain": "g (float[rows, 96] x) => (float[rows, 160] y) { y = MatMul(x, w) }",
    "bias": "g (float[rows, 96] x) => (float[rows, 160] y) { y = Gemm(x, w, b) }",
    "relu": "g (float[rows, 96] x) => (float[rows, 160] y) { a = Gemm(x, w, b)  y = Relu(a) }",
    "gelu": "g (float[rows, 96] x) => (float[rows, 160] y) { a = Gemm(x, w, b)  y = Gelu(a) }",
    "gelu_tanh": """g (float[rows, 96] x) => (float[rows, 160] y) {
        a = Gemm(x, w, b)  y = Gelu <approximate = "tanh"> (a) }""",
    "of_weights_by_columns": """g (float[rows, 96] x, float[160, 96] k) => (float[rows, 160] y) {
        y = Gemm <transB = 1> (x, k) }""",
    "of_a_transposed": "g (float[96, rows] x) => (float[rows, 160] y) { t = Transpose(x)  y = MatMul(t, w) }",
    "batch": "g (float[2, 3, rows, 24] x, float[2, 3, 24, 40] k) => (float[2, 3, rows, 40] y) { y = MatMul(x, k) }",
    "heads": """g (float[2, rows, 4, 24] x, float[2, rows, 4, 24] k) => (float[2, 4, rows, rows] y) {
        p = Transpose <perm = [0, 2, 1, 3]> (x)  q = Transpose <perm = [0, 2, 3, 1]> (k)  y = MatMul(p, q) }""",
    "three_dims": "g (float[3, rows, 96] x) => (float[3, rows, 160] y) { a = MatMul(x, w)  y = Add(a, b) }",
    "one_row": "g (float[1, 96] x) => (float[1, 160] y) { y = MatMul(x, w) }",
}


def write(folder: Path, text: str, name: str = "m.onnx") -> str:
    model = onnx.parser.parse_model(HEAD + text)
    for key, value in (("w", WEIGHT), ("b", BIAS)):
        if f"({key}" in text or f", {key}" in text:
            model.graph.initializer.append(numpy_helper.from_array(value, key))
    onnx.save(model, folder / name)
    return name


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Calls the tool: stdout, or with `code` the text of that failure. `tool.warned`: the last call's warnings, of libraries alone."""
    if not TOOL.exists():
        pytest.skip(f"{TOOL} is not built")
    monkeypatch.chdir(tmp_path)
    clean = environment(tmp_path)

    def call(*arguments, code: int = 0, env: dict[str, str] | None = None) -> str:
        words = [TOOL, *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=clean | (env or {}))
        assert done.returncode == code, done.stderr + done.stdout
        if code:
            return done.stderr
        call.warned = done.stderr.splitlines()
        assert all("onednn" in line or "cublaslt" in line for line in call.warned), done.stderr
        return done.stdout

    return call


def described(tool, artefact: str, env: dict[str, str]) -> dict:
    return json.loads(tool("explain", artefact, "--json", env=env))


def hero(report: dict) -> dict:
    (kernel,) = [k for k in report["report"]["unique_kernels"] if k["hero"] == "matmul"]
    return kernel


@needs_onednn
@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("which", MODELS)
def test_onednn_computes_it(tool, tmp_path, which, threads):
    model = write(tmp_path, MODELS[which])
    for rows in ("1", "5", "203"):
        sizes = () if which == "one_row" else ("--dim", f"rows={rows}")
        said = tool("run", model, "--vendor", "onednn", "--vendor-always", "--verify", "--threads", threads, *sizes, env=HERE)
        assert "agree with the float64 reference" in said and tool.warned == []
    tool("compile", model, "--vendor", "onednn", "--vendor-always", "-o", "m.knap")
    about = described(tool, "m.knap", HERE)
    (library,) = about["vendor_libraries"]
    assert library["used"] and library["version"].startswith("oneDNN 3.")
    assert hero(about)["vendor_libraries"] == [{"name": "onednn", "taken": True, "why": "--vendor-always"}]
    labels = [c["schedule"] for launch in about["launches"] for c in launch["choices"]]
    assert "vendor{onednn}" in labels
    tool("profile", "m.knap", *sizes, env=HERE)
    assert "vendor{onednn}" in (tmp_path / "m.trace.json").read_text()


@needs_onednn
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_onednn_in_half(tool, tmp_path, dtype):
    """Where the processor has no such matmul the compiled kernel runs: right in both cases."""
    model = write(tmp_path, MODELS["gelu"])
    words = ("--dtype", dtype, "--vendor", "onednn", "--vendor-always", "--verify", "--dim", "rows=70")
    assert "agree with the float64 reference" in tool("run", model, *words, env=HERE)


@needs_onednn
def test_many_rows_and_no_rows(tool, tmp_path):
    model = write(tmp_path, MODELS["relu"])
    tool("compile", model, "--vendor", "onednn", "--vendor-always", "-o", "m.knap")
    for rows in (0, 1000):
        x = RANDOM.standard_normal((rows, 96)).astype(np.float32)
        np.save(tmp_path / "x.npy", x)
        tool("run", "m.knap", "-i", "x.npy", "-o", "y.npy", env=HERE)
        want = np.maximum(x.astype(np.float64) @ WEIGHT + BIAS, 0)
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, atol=1e-4)


@needs_onednn
def test_sizes_of_the_run(tool, tmp_path):
    """Calls are made before a run begins, so such launches keep the compiled kernel, and say so."""
    text = """g (float[rows, 96] x, bool[rows] keep) => (float[kept, 160] y) {
        some = Compress <axis = 0> (x, keep)  y = MatMul(some, w) }"""
    tool("compile", write(tmp_path, text), "--vendor", "onednn", "--vendor-always", "-o", "m.knap")
    x = RANDOM.standard_normal((9, 96)).astype(np.float32)
    keep = np.arange(9) % 3 != 1
    np.savez(tmp_path / "in.npz", x=x, keep=keep)
    tool("run", "m.knap", "-i", "in.npz", "-o", "y.npy", env=HERE)
    assert any("only the run knows its sizes" in line for line in tool.warned)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), x[keep] @ WEIGHT, atol=1e-4)


@needs_absence
def test_it_is_never_needed(tool, tmp_path):
    model = write(tmp_path, MODELS["gelu"])
    tool("compile", model, "--vendor", "onednn", "--vendor-always", "-o", "m.knap")
    x = RANDOM.standard_normal((33, 96)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    tool("run", "m.knap", "-i", "x.npy", "-o", "there.npy", env=HERE)
    tool("run", "m.knap", "-i", "x.npy", "-o", "absent.npy", env=NOWHERE)
    (warning,) = tool.warned
    assert "onednn cannot be used: no libdnnl.so.3" in warning and "1 launches of main run compiled kernels" in warning
    np.testing.assert_allclose(np.load(tmp_path / "absent.npy"), np.load(tmp_path / "there.npy"), atol=1e-4)
    (library,) = described(tool, "m.knap", NOWHERE)["vendor_libraries"]
    assert not library["used"] and "no libdnnl.so.3 in the folders of KNAPPER_VENDOR_PATH" in library["why"]
    assert library["launches"] == 1


@needs_absence
def test_its_absence_is_logged_once(tmp_path):
    write(tmp_path, MODELS["relu"])
    code = """
import logging, sys
logging.basicConfig(stream=sys.stdout, level=logging.WARNING)
import knapper, numpy
module = knapper.compile("m.onnx", vendor="onednn", vendor_always=True, cache=False)
for _ in range(3):
    module.run({"x": numpy.ones((4, 96), numpy.float32)})
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"KNAPPER_VENDOR_PATH": "/nonexistent"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "onednn" in line]
    assert "1 launches of main run compiled kernels instead" in line


def test_a_library_of_another_version(tool, tmp_path):
    """Something else under its name is not called."""
    code = "typedef struct { int v[3]; const char *hash; unsigned cpu, gpu; } version; const version *dnnl_version(void) { static const version v = {{MAJOR, 6, 3}, 0, RUNTIME, 0}; return &v; }"
    model = write(tmp_path, MODELS["plain"])
    tool("compile", model, "--vendor", "onednn", "--vendor-always", "-o", "m.knap")
    for major, runtime, why in ((2, 2, "it is oneDNN 2.6.3, not 3"), (3, 4, "it computes with TBB"), (3, 1, "it has no dnnl_")):
        folder = tmp_path / f"v{major}_{runtime}"
        folder.mkdir()
        build = ["clang-22", "-shared", "-fPIC", "-x", "c", "-", f"-DMAJOR={major}", f"-DRUNTIME={runtime}"]
        subprocess.run([*build, "-o", folder / "libdnnl.so.3"], input=code, text=True, check=True)
        env = {"KNAPPER_VENDOR_PATH": str(folder)}
        (library,) = described(tool, "m.knap", env)["vendor_libraries"]
        assert not library["used"] and why in library["why"]
        tool("run", "m.knap", "--dim", "rows=3", env=env)


@needs_absence
def test_a_file_that_is_no_library(tool, tmp_path):
    """The next folder has its turn; the first one's error is said where nothing opens. A folder below the working one is none."""
    tool("compile", write(tmp_path, MODELS["plain"]), "--vendor", "onednn", "--vendor-always", "-o", "m.knap")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "libdnnl.so.3").write_text("no library at all")
    good = fake_onednn(tmp_path / "good", 0)["KNAPPER_VENDOR_PATH"]

    def library(path: str) -> dict:
        (one,) = described(tool, "m.knap", {"KNAPPER_VENDOR_PATH": path})["vendor_libraries"]
        return one

    assert "it lies there but cannot be opened" in library(str(damaged))["why"]
    assert library(f"{damaged}:{good}")["used"]
    assert "no libdnnl.so.3 in the folders" in library("good")["why"]


def test_a_library_that_is_wrong(tool, tmp_path):
    """Neither what it computes nor that it fails is a defect of ours."""
    model = write(tmp_path, MODELS["relu"])
    words = ("run", model, "--vendor", "onednn", "--vendor-always", "--dim", "rows=5")
    said = tool(*words, "--verify", env=fake_onednn(tmp_path / "silent", 0), code=2)
    assert "diverge from the float64 reference" in said
    assert "run it without --vendor: if it agrees, the matmul of 'onednn' is what diverges" in said
    assert not list(tmp_path.glob("*.kernel.mlir"))
    said = tool(*words, env=fake_onednn(tmp_path / "failing", 5), code=2)
    assert "a library's call failed (vendor{onednn})" in said


def test_a_record_decides(tool, tmp_path):
    model = write(tmp_path, MODELS["plain"])
    tool("compile", model, "-o", "plain.knap")
    kernel = hero(described(tool, "plain.knap", HERE))
    assert "vendor_libraries" not in kernel
    tool("compile", model, "--vendor", "onednn", "-o", "offered.knap")
    about = described(tool, "offered.knap", HERE)
    (offer,) = hero(about)["vendor_libraries"]
    assert not offer["taken"] and "knapper tune --vendor measures it" in offer["why"]
    assert about["vendor_libraries"] == []
    record = {"signature": kernel["signature"], "target": "cpu", "choice": {"vendor:onednn": 1}, "gain": 1.25}
    (tmp_path / "r.json").write_text(json.dumps({"knapper_tuning": 1, "records": [record]}))
    tool("compile", model, "--vendor", "onednn", "--records", "r.json", "-o", "taken.knap")
    taken = hero(described(tool, "taken.knap", HERE))
    assert taken["vendor_libraries"] == [{"name": "onednn", "taken": True, "why": "by a tuning record: 1.25 times as fast as our schedule when it was measured"}]
    assert taken["recorded"] and taken["gain"] == 1.25
    tool("explain", "taken.knap", "-o", "report.html")
    assert "taken: by a tuning record: 1.25 times as fast" in (tmp_path / "report.html").read_text()
    # Without the option the record asks for what is not offered.
    done = json.loads(tool("compile", model, "--records", "r.json", "-o", "stale.knap", "--json"))
    assert done["records_stale"] == 1 and done["records_used"] == 0
    # Half a record leaves nothing behind: the kernel is that of no record.
    record["choice"]["no_such_knob"] = 3
    (tmp_path / "r.json").write_text(json.dumps({"knapper_tuning": 1, "records": [record]}))
    done = json.loads(tool("compile", model, "--vendor", "onednn", "--records", "r.json", "-o", "half.knap", "--json"))
    assert done["records_stale"] == 1 and done["records_used"] == 0
    half = described(tool, "half.knap", HERE)
    assert hero(half)["schedules"] == hero(about)["schedules"] and half["launches"] == about["launches"]


def test_deterministic_takes_none(tool, tmp_path):
    model = write(tmp_path, MODELS["plain"])
    tool("compile", model, "--vendor", "onednn", "--vendor-always", "--deterministic", "-o", "m.knap")
    about = described(tool, "m.knap", HERE)
    (offer,) = hero(about)["vendor_libraries"]
    assert not offer["taken"] and "its bits depend on the number of threads" in offer["why"]
    assert about["vendor_libraries"] == []


@needs_onednn
def test_tune_measures_it(tool, tmp_path):
    model = write(tmp_path, MODELS["bias"])
    words = ("--vendor", "onednn", "--budget", "12s", "--dim", "rows=512", "--threads", "1")
    done = json.loads(tool("tune", model, *words, "-o", "t.knap", "--json", env=HERE))
    (measured,) = done["kernels"]
    assert measured["measured"] >= 1 and measured["others"]["vendor:onednn"] > 0
    kernel = hero(described(tool, "t.knap", HERE))
    (offer,) = kernel["vendor_libraries"]
    (knob,) = [knob for knob in kernel["knobs"] if knob["alone"]]
    assert knob["name"] == "vendor:onednn" and offer["taken"] == knob["value"] <= kernel["recorded"]


@needs_absence
def test_tune_takes_no_absent_library(tool, tmp_path):
    model = write(tmp_path, MODELS["bias"])
    words = ("--vendor", "onednn", "--budget", "12s", "--dim", "rows=64", "--threads", "1")
    done = json.loads(tool("tune", model, *words, "-o", "t.knap", "--json", env=NOWHERE))
    (measured,) = done["kernels"]
    assert measured["measured"] >= 1 and measured["others"] == {} and "vendor:onednn" not in measured["choice"]


def test_an_old_record_of_a_library_goes(tool, tmp_path):
    """Where tuning without the library finds something, whatever the library once gained."""
    model = write(tmp_path, MODELS["bias"])
    tool("compile", model, "-o", "plain.knap")
    signature = hero(described(tool, "plain.knap", {}))["signature"]
    old = {"signature": signature, "target": "cpu", "choice": {"vendor:onednn": 1}, "gain": 50}
    (tmp_path / "r.json").write_text(json.dumps({"knapper_tuning": 1, "records": [old]}))
    words = ("--records", "r.json", "--budget", "8s", "--dim", "rows=64", "--threads", "1")
    (measured,) = json.loads(tool("tune", model, *words, "-o", "t.knap", "--json"))["kernels"]
    (record,) = json.loads((tmp_path / "r.json").read_text())["records"]
    assert record["choice"] == (measured["choice"] or {"vendor:onednn": 1})


def test_tuning_measures_by_itself(tool, tmp_path):
    model = write(tmp_path, MODELS["plain"])
    said = tool("tune", model, "--vendor", "onednn", "--vendor-always", "--budget", "2s", "--dim", "rows=4", code=1)
    assert "give --vendor alone" in said


REFUSED = {
    "no_matmul": ("g (float[rows, 96] x) => (float[rows] y) <int64[1] a = {1}> { y = ReduceSum <keepdims = 0> (x, a) }", "it is no matmul of two matrices"),
    "epilogue": ("g (float[rows, 96] x) => (float[rows, 160] y) { a = MatMul(x, w)  y = Tanh(a) }", "no library has its epilogue: ts.tanh"),
    "residual": ("g (float[rows, 96] x, float[rows, 160] r) => (float[rows, 160] y) { a = MatMul(x, w)  y = Add(a, r) }", "no library has its epilogue: ts.add"),
    "rounds": ("g (float[rows, 96] x) => (float[rows, 160] y) { a = MatMul(x, w)  c = Cast <to = 10> (a)  d = Cast <to = 1> (c)  y = Relu(d) }", "its epilogue rounds inside"),
    "bias_rounds": ("g (float[1, 96] x, float[1, 160] v) => (float[1, 160] y) { a = MatMul(x, w)  c = Cast <to = 10> (v)  d = Cast <to = 1> (c)  y = Add(a, d) }", "no library has its epilogue: ts.add"),
    "bias_of_integers": ("g (float[1, 96] x, float[1, 160] v) => (float[1, 160] y) { a = MatMul(x, w)  c = Cast <to = 6> (v)  d = Cast <to = 1> (c)  y = Add(a, d) }", "no library has its epilogue: ts.add"),
    "integers": ("g (int32[rows, 96] x, int32[96, 8] k) => (int32[rows, 8] y) { y = MatMul(x, k) }", "of floats"),
}  # fmt: skip


@pytest.mark.parametrize("which", REFUSED)
def test_the_report_says_why_not(tool, tmp_path, which):
    text, why = REFUSED[which]
    tool("compile", write(tmp_path, text), "--vendor", "onednn", "--vendor-always", "-o", "m.knap")
    about = described(tool, "m.knap", HERE)
    offers = [offer for kernel in about["report"]["unique_kernels"] for offer in kernel["vendor_libraries"]]
    assert not any(offer["taken"] for offer in offers)
    assert any(why in offer["why"] for offer in offers), offers
    assert about["vendor_libraries"] == []


def test_unknown_words_are_errors(tool, tmp_path):
    model = write(tmp_path, MODELS["plain"])
    said = tool("compile", model, "--vendor", "onednn,cublastl", "-o", "m.knap", code=1)
    assert "'cublastl' is no library" in said and "the nearest is 'cublaslt'" in said


def test_a_dump_keeps_it(tool, tmp_path):
    model = write(tmp_path, MODELS["relu"])
    tool("compile", model, "--vendor", "onednn", "--vendor-always", "-o", "m.knap", "--dump-dir", "steps")
    for phase in ("tile", "emit", "plan"):
        before = {"tile": "schedule", "emit": "tile", "plan": "emit"}[phase]
        (dump,) = (tmp_path / "steps").glob(f"*_{before}.mlir")
        tool("compile", dump, "--start-from", phase, "-o", "again.knap")
        about = described(tool, "again.knap", NOWHERE)
        assert [library["name"] for library in about["vendor_libraries"]] == ["onednn"]
        assert hero(about)["vendor_libraries"] == [{"name": "onednn", "taken": True, "why": "by the dump"}]


def test_gpu_files_name_cublaslt(tool, tmp_path):
    """Which needs no card: what would run is said."""
    model = write(tmp_path, MODELS["gelu_tanh"])
    tool("compile", model, "--target", "cuda:sm_90a", "--vendor", "cublaslt,onednn", "--vendor-always", "-o", "g.knap")
    about = described(tool, "g.knap", {})
    assert hero(about)["vendor_libraries"] == [{"name": "cublaslt", "taken": True, "why": "--vendor-always"}]
    (launch,) = about["launches"]
    assert [choice["schedule"].split("{")[0] for choice in launch["choices"]][0] == "vendor"
    write(tmp_path, MODELS["gelu"])
    tool("compile", model, "--target", "cuda:sm_90a", "--vendor", "cublaslt", "--vendor-always", "-o", "g.knap")
    (offer,) = hero(described(tool, "g.knap", {}))["vendor_libraries"]
    assert not offer["taken"] and "GELU by erf" in offer["why"]


def cublaslt_folders() -> str:
    """Beside PyTorch, or where the user says."""
    folders = [os.environ.get("KNAPPER_VENDOR_PATH", "")]
    for package in ("nvidia/cublas/lib", "nvidia/cu13/lib"):
        folders.append(str(Path(sysconfig.get_path("platlib")) / package))
    return ":".join(filter(None, folders))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("which", [which for which in MODELS if which not in ("gelu", "heads")])
def test_cublaslt_computes_it(tool, tmp_path, which, dtype):
    """Also captured: more launches than one are recorded when they come a second time."""
    if not any(device["device"] == "cuda" for device in json.loads(tool("devices", "--json"))):
        pytest.skip("this machine has no NVIDIA GPU")
    env = {"KNAPPER_VENDOR_PATH": cublaslt_folders()}
    model = write(tmp_path, MODELS[which])
    words = ("--target", "cuda", "--dtype", dtype, "--vendor", "cublaslt", "--vendor-always")
    for rows in ("1", "8", "203"):
        sizes = () if which == "one_row" else ("--dim", f"rows={rows}")
        assert "agree with the float64 reference" in tool("run", model, *words, "--verify", *sizes, env=env)
    tool("compile", model, *words, "-o", "m.knap")
    (library,) = described(tool, "m.knap", env)["vendor_libraries"]
    if not library["used"]:
        pytest.skip(f"cuBLASLt: {library['why']}")
    tool("profile", "m.knap", *sizes, env=env)
    assert "vendor{cublaslt}" in (tmp_path / "m.trace.json").read_text()
