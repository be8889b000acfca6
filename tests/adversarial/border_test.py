"""The border as strangers use it: memory that looks right, names that Python uses
itself, hints that are errors, sizes computed in odd ways, words typed wrongly."""

from __future__ import annotations

import copy
import multiprocessing
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from against import BOOL, FLOAT, INT64, given, i64, model, node, random
from tool_models import TOOL, affine, environment

import knapper
import knapper.ort

PACKAGE = Path(knapper.__file__).parents[1]
W = np.float32([1, 2, 3, 4])
X = random(6, 4)


def scaled() -> onnx.ModelProto:
    """y = x * w, total = the sum of y: a matrix and a scalar."""
    nodes = [
        node("Mul", ["x", "w"], ["y"]),
        node("ReduceSum", ["y"], ["total"], keepdims=0),
    ]
    return model(nodes, {"x": (FLOAT, ["n", 4])}, {"y": (FLOAT, None), "total": (FLOAT, None)}, {"w": W})


@pytest.fixture(scope="module")
def module():
    return knapper.compile(scaled(), threads=2)


def ways(module, inputs, outputs, **more):
    return (
        lambda: module.run(inputs, outputs, **more),
        lambda: module.bind(inputs, outputs, **more)(),
        lambda: module.start(inputs, outputs, **more).wait(),
    )


# ---- memory for outputs


STRIDED = {
    "backwards": lambda: np.full((6, 4), -7, np.float32)[::-1],
    "columns backwards": lambda: np.full((6, 4), -7, np.float32)[:, ::-1],
    "one row six times": lambda: np.lib.stride_tricks.as_strided(np.full((6, 4), -7, np.float32), (6, 4), (0, 4)),
    "rows of a wider one": lambda: np.full((6, 5), -7, np.float32)[:, :4],
    "fortran": lambda: np.full((6, 4), -7, np.float32, order="F"),
    "a field": lambda: np.full((6, 4), -7, [("a", "f4"), ("b", "f4")])["a"],
}


@pytest.mark.parametrize("layout", STRIDED)
def test_memory_of_the_right_shape_and_another_layout(module, layout):
    y = STRIDED[layout]()
    for call in ways(module, [X], {"y": y}):
        with pytest.raises(ValueError, match="output y.*not contiguous"):
            call()
    assert (y == -7).all()


def test_memory_that_is_contiguous_in_both_orders(module):
    for n in (1, 0):
        y = np.full((n, 4), -7, np.float32, order="F")
        assert y.flags.f_contiguous and y.flags.c_contiguous
        for call in ways(module, [X[:n]], {"y": y}):
            y[:] = -7
            call()
            np.testing.assert_array_equal(y, X[:n] * W)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (0,)])
def test_memory_for_a_scalar(module, shape):
    wrong = np.full(shape, -7, np.float32)
    for call in ways(module, [X], {"total": wrong}):
        with pytest.raises(ValueError, match=r"'total': the output is f32\[\]"):
            call()
    assert (wrong == -7).all()
    right = np.zeros((), np.float32)
    module.run([X], {"total": right})
    np.testing.assert_allclose(right, (X * W).sum(), rtol=1e-4)


def test_memory_of_other_elements(module):
    for dtype in (">f4", np.uint32, np.uint8, "V4", np.complex64, object):
        y = np.zeros((6, 4), dtype)
        for call in ways(module, [X], {"y": y}):
            with pytest.raises(TypeError, match="output y"):
                call()


def test_flat_memory_has_limits(module):
    pool = np.full(64, -7, np.float32)
    for wrong in (pool[:23], pool[::2], np.zeros(100, np.uint8)):
        for call in ways(module, [X], {"y": wrong}, flat_outputs=True):
            with pytest.raises(knapper.UserError, match="'?y'?"):
                call()
    assert (pool == -7).all()
    for call in ways(module, [X], {"y": pool}, flat_outputs=True):
        call()
        np.testing.assert_array_equal(pool[:24].reshape(6, 4), X * W)
        assert (pool[24:] == -7).all()


def test_tensors_for_outputs(module):
    torch = pytest.importorskip("torch")
    for wrong in (torch.zeros(4, 6).T, torch.zeros(1, 4).expand(6, 4), torch.zeros(6, 4, dtype=torch.float64),
                  torch.zeros(6, 4)[:5], torch.zeros(12, 4)[::2]):  # fmt: skip
        for call in ways(module, [X], {"y": wrong}):
            with pytest.raises(knapper.UserError, match="y"):
                call()
        assert not wrong.any()
    y = torch.zeros(7, 4)[1:]
    module.run([torch.from_numpy(X)], {"y": y})
    np.testing.assert_array_equal(y.numpy(), X * W)


# ---- names and objects


def test_inputs_with_names_that_the_call_has_itself():
    """`self`, `inputs`, `args`: names as good as others."""
    names = ["self", "inputs", "args", "outputs", "kwargs"]
    nodes = [node("Sum", names, ["y"])]
    made = model(nodes, {name: (FLOAT, ["n"]) for name in names}, {"y": (FLOAT, None)})
    module = knapper.compile(made, threads=1)
    feed = {name: np.float32([i]) for i, name in enumerate(names)}
    assert module(**feed)["y"] == module(feed)["y"] == module.run(feed)["y"] == 10
    assert module.profile(**feed)["launches"]
    named_self = knapper.compile(model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, ["self"])}, {"y": (FLOAT, None)}))
    assert named_self.peak_memory(self=3)["constants"] == 0


def test_results_as_mappings_and_sequences(module):
    result = module(X)
    assert dict(result).keys() == dict(zip(result.keys(), result)).keys() == {"y", "total"}
    for odd in (None, 0, X, ("y",), b"y"):
        assert odd not in result
    for odd in (("y", "total"), b"y", slice("y")):
        with pytest.raises((TypeError, KeyError)):
            result[odd]
    assert [a.shape for a in reversed(result)] == [(), (6, 4)]



def test_copies_and_spawned_processes(module):
    again = copy.deepcopy(module)
    np.testing.assert_array_equal(again(X)["y"], X * W)
    assert copy.copy(module).threads == 2
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(module, (X,))["y"], X * W)


def test_one_array_for_all_inputs():
    made = model([node("Sub", ["a", "b"], ["y"])], {"a": (FLOAT, ["n"]), "b": (FLOAT, ["n"])}, {"y": (FLOAT, None)})
    module = knapper.compile(made, threads=1)
    a = np.arange(5, dtype=np.float32)
    for result in (module(a, a), module(a=a, b=a), module.bind([a, a])):
        assert not np.any((result() if callable(result) else result)[0])


# ---- sizes that a graph computes


def counted(nodes, constants):
    """As many ones as the nodes say in `to`, from the length `size` of x."""
    ends = [node("Shape", ["x"], ["size"]), *nodes, node("Expand", ["c_one", "to"], ["y"])]
    return model(ends, {"x": (FLOAT, ["n"])}, {"y": (FLOAT, None)}, constants | {"c_one": np.float32([1])})


SIZES = {
    "a negative divisor": ([node("Add", ["size", "a"], ["s"]), node("Div", ["s", "b"], ["q"]), node("Max", ["q", "c"], ["to"])],
                           {"a": i64([-5]), "b": i64([-3]), "c": i64([1])}),
    "a remainder of a negative size": ([node("Sub", ["a", "size"], ["s"]), node("Mod", ["s", "b"], ["to"])],
                                       {"a": i64([3]), "b": i64([4])}),
    "between bounds": ([node("Min", ["size", "a"], ["s"]), node("Max", ["s", "b"], ["t"]), node("Mul", ["t", "t"], ["to"])],
                       {"a": i64([6]), "b": i64([2])}),
    "a choice": ([node("Less", ["size", "a"], ["less"]), node("Sub", ["a", "size"], ["s"]), node("Div", ["size", "a"], ["t"]),
                  node("Where", ["less", "s", "t"], ["to"])], {"a": i64([4])}),
    "a product of a shape": ([node("Concat", ["size", "a"], ["s"], axis=0), node("ReduceProd", ["s"], ["to"], keepdims=1)],
                             {"a": i64([2, 3])}),
    "fmod of a negative size": ([node("Sub", ["a", "size"], ["s"]), node("Mod", ["s", "b"], ["m"], fmod=1),
                                 node("Abs", ["m"], ["to"])], {"a": i64([3]), "b": i64([4])}),
    # Not followed, so computed when the model runs.
    "a product that float32 rounds": ([node("Cast", ["size"], ["f"], to=FLOAT), node("Mul", ["f", "a"], ["g"]), node("Ceil", ["g"], ["h"]),
                                       node("Cast", ["h"], ["to"], to=INT64,)], {"a": np.float32([0.3])}),
    "a truth as a number": ([node("Greater", ["size", "a"], ["more"],), node("Cast", ["more"], ["s"], to=INT64),
                             node("Add", ["s", "b"], ["to"])], {"a": i64([4]), "b": i64([2])}),
}  # fmt: skip


@pytest.mark.parametrize("case", SIZES)
def test_sizes(case):
    onnxruntime = pytest.importorskip("onnxruntime")
    made = counted(*SIZES[case])
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    module = knapper.compile(made, threads=1)
    for n in (0, 1, 2, 3, 4, 5, 7, 8, 13, 100):
        x = np.ones(n, np.float32)
        (wanted,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(module(x)["y"], wanted, err_msg=f"n={n}")


# ---- the drop-in


def test_hints_that_the_program_makes_errors():
    """`-W error`: the hint is raised; afterwards the session is made as ever."""
    program = (
        "import sys, warnings, numpy as np, knapper.ort as ort\n"
        "options = ort.SessionOptions()\n"
        "try:\n"
        "    options.enable_cpu_mem_arena = False\n"
        "    ort.InferenceSession(sys.argv[1], options)\n"
        "except ort.HintWarning as hint:\n"
        "    assert 'enable_cpu_mem_arena' in str(hint), hint\n"
        "    print('raised')\n"
        "warnings.simplefilter('default')\n"
        "x = np.ones((2, 4), np.float32)\n"
        "print(ort.InferenceSession(sys.argv[1], options).run(['y'], {'x': x})[0].shape)\n"
    )
    done = run_python(program, "-W", "error::knapper.ort.HintWarning")
    assert done.stdout.splitlines() in (["raised", "(2, 4)"], ["(2, 4)"]), done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


def run_python(program, *flags):
    path = Path("scaled.onnx")
    onnx.save(scaled(), path)
    environment = os.environ | {"PYTHONPATH": str(PACKAGE)}
    return subprocess.run([sys.executable, *flags, "-c", program, str(path)], env=environment, capture_output=True, text=True)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_sessions_whatever_the_providers(folder):
    data = scaled().SerializeToString()
    for providers in (None, [], ["CPUExecutionProvider"], ("CPUExecutionProvider",), ["CUDAExecutionProvider", "CPUExecutionProvider"],
                      [("CUDAExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"], ["DmlExecutionProvider", "CPUExecutionProvider"]):  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session = knapper.ort.InferenceSession(data, sess_options=None, providers=providers, provider_options=None)
            assert session.get_providers()[-1] == "CPUExecutionProvider"
            (y,) = session.run(["y"], {"x": X}, None)
            np.testing.assert_array_equal(y, X * W)


def test_a_session_does_not_convert_either(folder):
    session = knapper.ort.InferenceSession(scaled().SerializeToString())
    for wrong in (X.astype(np.float64), X.astype(np.float16), X.astype(int), X > 0, X.astype(">f4")):
        with pytest.raises(knapper.UserError, match="x"):
            session.run(None, {"x": wrong})
    # Layouts are another thing.
    for right in (np.asfortranarray(X), X[::-1][::-1], X.T.copy().T):
        np.testing.assert_array_equal(session.run(["y"], {"x": right})[0], X * W)


# ---- the command


def typed(*words, code=0):
    done = subprocess.run([TOOL, *words], capture_output=True, text=True, env=environment(Path.cwd()))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


needs_tool = pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not built")


@needs_tool
@pytest.mark.parametrize(
    "words, said",
    [
        (["complie", "m.onnx"], "did you mean knapper compile?"),
        (["--verison"], "--version"),
        (["run", "m.onnx", "--dims", "n=2"], "did you mean --dim?"),
        (["run", "m.onnx", "--dim", "n=2", "--dim", "n=3"], "n"),
        (["run", "m.onnx", "--dim", "n=-1"], "n=-1"),
        (["run", "m.onnx", "--dim", "n=1e3"], "n=1e3"),
        (["run", "m.onnx", "--dim", "n="], "name=value"),
        (["run", "m.onnx", "--dim", "=2"], "name=value"),
        (["run", "m.onnx", "--dim", "n=99999999999999999999"], "n=99999999999999999999"),
        (["run", "m.onnx", "--dim", "N=2"], "no size 'N'"),
        (["run", "m.onnx", "--dim", "n=2", "--threads", "two"], "threads"),
        (["cache", "list", "--limit", "-1"], "limit"),
        (["bench", "m.onnx", "--dim", "n=2", "--iterations", "0"], "iterations"),
        (["explain", "m.onnx", "-o", "none/r.html"], "none/r.html"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_words_typed_wrongly(folder, words, said):
    affine(Path("m.onnx"))
    message = typed(*words, code=1)
    assert message.startswith("knapper: error: ") and said in message, message
    assert "try: " in message, message


@needs_tool
def test_a_reader_that_leaves(folder):
    """`knapper ... | head -1`: no message, no core."""
    for words in (["--help"], ["compile", "--help"], ["man", "compile"]):
        process = subprocess.Popen([TOOL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(Path.cwd()))
        process.stdout.close()
        assert process.stderr.read() == b"" or process.wait() in (0, 1, 2), words
        process.wait()


@needs_tool
def test_pipes_get_no_colour(folder):
    affine(Path("m.onnx"))
    for words in (["bench", "m.onnx", "--dim", "auto", "--seconds", "0.02"], ["inspect", "m.onnx"], ["run", "m.onnx", "--dim", "n=2"],
                  ["explain", "m.onnx", "--profile", "--dim", "n=2", "-o", "r.html"]):  # fmt: skip
        assert "\x1b" not in typed(*words), words


@needs_tool
def test_a_weight_that_is_damaged(folder):
    """Found where it lies, by the run and by what looks first; not where nobody looks."""
    rng = np.random.default_rng(3)
    made = model([node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, ["n", 64])}, {"y": (FLOAT, None)},
                 {"w": rng.standard_normal((64, 512)).astype(np.float32)})  # fmt: skip
    onnx.save(made, "w.onnx")
    typed("compile", "w.onnx", "-o", "w.knap")
    right = typed("run", "w.knap", "--dim", "n=2")
    data = bytearray(Path("w.knap").read_bytes())
    data[4096 + 70_000] ^= 0x40
    Path("w.knap").write_bytes(data)
    for more in ([], ["--verify-file"]):
        message = typed("run", "w.knap", "--dim", "n=2", *more, code=1)
        assert "w.knap" in message and "constant" in message and "damaged" in message
    with pytest.raises(ValueError, match="damaged"):
        knapper.load("w.knap", verify=True)
    unseen = knapper.load("w.knap", verify=False)(np.ones((2, 64), np.float32))["y"]
    assert unseen.shape == (2, 512) and "y: f32 [2, 512]" in right


def test_bools_are_no_numbers_and_numbers_no_bools():
    made = model([node("Where", ["c", "a", "b"], ["y"])], {"c": (BOOL, ["n"]), "a": (INT64, ["n"]), "b": (INT64, ["n"])}, {"y": (INT64, None)})
    (y,) = given(made, {"c": np.array([True, False]), "a": i64([1, 2]), "b": i64([3, 4])})
    assert y.tolist() == [1, 4]
    module = knapper.compile(made, threads=1)
    assert module([True, False], [1, 2], [3, 4])["y"].tolist() == [1, 4]
    for wrong in (([1, 0], [1, 2], [3, 4]), ([True, False], [True, False], [3, 4]), ([True, False], [1.0, 2.0], [3, 4]),
                  (np.uint8([1, 0]), [1, 2], [3, 4])):  # fmt: skip
        with pytest.raises(TypeError, match="input [ca]"):
            module(*wrong)
