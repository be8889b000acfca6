"""The newest tools on what nobody sensible gives them: compare, quantize, records, reduce, verify, bind."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from against import BOOL, FLOAT, INT64, model, node, one, random
from tool_models import TOOL, affine, environment

import knapper

if not TOOL.exists():
    pytest.skip(f"{TOOL} is not built", allow_module_level=True)
X = random(3, 4)


@pytest.fixture
def tool(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    affine(tmp_path / "m.onnx")

    def call(*arguments, **more):
        done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                              env=environment(tmp_path), **more)  # fmt: skip
        assert "internal" not in done.stderr and done.returncode in (0, 1, 2, 3, 4), done.stderr
        assert done.returncode in (0, 4) or "try:" in done.stderr or done.stderr.strip(), done.args
        return done.returncode, done.stdout, done.stderr

    return call


def compiled(tool, made, name):
    onnx.save(made, f"{name}.onnx")
    assert tool("compile", f"{name}.onnx", "-o", f"{name}.knap", "--isa", "x86-64-v3")[0] == 0
    return f"{name}.knap"


# ---- compare


def test_compare_other_signatures(tool):
    first = compiled(tool, one("Relu", {"x": X}, dims={"x": ["n", 4]}), "a")
    for name, other in {
        "b": one("Relu", {"x": X.astype(np.float64)}, dims={"x": ["n", 4]}),
        "c": one("Relu", {"x": random(3, 5)}, dims={"x": ["n", 5]}),
        "d": one("Add", {"x": X, "y": X}),
        "e": one("Identity", {"z": X}, dims={"z": ["n", 4]}),
        "f": one("Split", {"x": X}, dims={"x": ["n", 4]}, outputs=2, axis=1, num_outputs=2),
    }.items():
        code, _, message = tool("compare", first, compiled(tool, other, name))
        assert code == 1 and message, name


def test_compare_what_is_no_artefact(tool, tmp_path):
    first = compiled(tool, one("Relu", {"x": X}, dims={"x": ["n", 4]}), "a")
    data = (tmp_path / first).read_bytes()
    for name, content in {"empty": b"", "text": b"no artefact", "cut": data[: len(data) // 2]}.items():
        (tmp_path / name).write_bytes(content)
        assert tool("compare", first, name)[0] == 1
        assert tool("compare", name, first)[0] == 1
    for other in (".", "none", "/dev/null"):
        assert tool("compare", first, other)[0] == 1
    for words in (["--rounds", "0"], ["--rounds", "-1"], ["--rounds", "many"], ["--dim", "n=-1"], ["--dim", "n"],
                  ["--dim", f"n={1 << 62}"]):  # fmt: skip
        code, _, message = tool("compare", first, first, *words)
        assert code in (1, 2) and message, words


def test_compare_odd_numbers(tool):
    """NaN, infinities and nothing at all are the same bits as themselves."""
    nodes = [node("Sub", ["x", "x"], ["z"]), node("Div", ["z", "z"], ["nan"]), node("Div", ["x", "z"], ["inf"])]
    made = model(nodes, {"x": (FLOAT, ["n", 4])}, {"nan": (FLOAT, None), "inf": (FLOAT, None)})
    path = compiled(tool, made, "odd")
    code, out, _ = tool("compare", path, path, "--rounds", "2", "--dim", "n=0", "--dim", "n=2", "--json")
    assert code == 0 and json.loads(out)["same_outputs"]


# ---- quantize


def matmul(weights):
    w = np.asarray(weights, np.float32)
    return model([node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, ["m", w.shape[0]])}, {"y": (FLOAT, None)},
                 {"w": w})  # fmt: skip


WEIGHTS = {
    "zeros": np.zeros((40, 6)), "one": np.ones((1, 1)), "a_row": random(1, 7), "a_column": random(70, 1),
    "infinite": np.where(np.eye(40, 8), np.inf, 1), "nan": np.where(np.eye(40, 8), np.nan, 1),
    "tiny": random(40, 8) * np.float32(1e-42), "huge": random(40, 8) * np.float32(1e38),
    "negative": -np.abs(random(33, 5)), "one_large": np.where(np.eye(64, 4), 1e6, 1e-3),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_quantize_odd_weights(tool, name, kind):
    """Not worse than a step of a group's largest weight; what is not finite keeps its float."""
    w = np.asarray(WEIGHTS[name], np.float32)
    onnx.save(matmul(w), "w.onnx")
    code, _, message = tool("quantize", "w.onnx", "-o", "q.knap", "--weights-only", kind, "--group", 32)
    assert code == 0, message
    module = knapper.load("q.knap")
    x = np.abs(random(2, w.shape[0]))
    with np.errstate(all="ignore"):
        wanted, got = x.astype(np.float64) @ w.astype(np.float64), np.asarray(module(x)[0], np.float64)
        finite = np.isfinite(w).all(0)
        step = np.abs(w[:, finite]).max(initial=0) / (127 if kind == "int8" else 7)
        off = np.abs(got - wanted)[:, finite]
    assert not finite.any() or (off <= step * x.sum(1, keepdims=True) * 1.01 + 1e-40).all() or name == "huge"
    assert (np.isfinite(got[:, ~finite]) == np.isfinite(wanted[:, ~finite])).all()


def test_quantize_odd_arguments(tool, tmp_path):
    onnx.save(matmul(random(64, 8)), "w.onnx")
    flags = ("--weights-only", "int4")
    for group in ("0", "-32", "3", "x"):
        code, _, message = tool("quantize", "w.onnx", "-o", "q.knap", *flags, "--group", group)
        assert code == 1 and "group" in message, group
    assert tool("quantize", "w.onnx", "-o", "w.onnx", *flags)[0] == 1
    assert onnx.load("w.onnx").graph.node
    for name, arrays in {"none": {}, "other": {"z": X}, "shape": {"x": random(2, 3)},
                         "dtype": {"x": np.ones((2, 64), np.int32)}}.items():  # fmt: skip
        np.savez(f"{name}.npz", **arrays)
        assert tool("quantize", "w.onnx", "-o", "q.knap", *flags, "--data", f"{name}.npz")[0] == 1, name
    np.savez("nan.npz", x=np.full((2, 64), np.nan, np.float32))
    np.savez("empty.npz", x=np.zeros((0, 64), np.float32))
    for name in ("nan", "empty"):
        code, out, message = tool("quantize", "w.onnx", "-o", "q.knap", *flags, "--data", f"{name}.npz", "--json")
        assert code == 0, message
        json.loads(out)
    # Nothing to make integers of.
    code, _, message = tool("quantize", "m.onnx", "-o", "q.knap", *flags)
    assert code in (0, 1) and (code == 0 or message)


# ---- records


@pytest.mark.parametrize("text", [
    '{"knapper_tuning": 1, "records": {}}', '{"knapper_tuning": 1, "records": [1]}',
    '{"knapper_tuning": 1, "records": [{"signature": 7, "target": "cpu", "choice": {}}]}',
    '{"knapper_tuning": 1, "records": [{"signature": "aaaaaaaaaaaaaaaa", "target": "cpu", "choice": []}]}',
    '{"knapper_tuning": 1, "records": [{"signature": "aaaaaaaaaaaaaaaa", "target": "cpu", "choice": {"b": "x"}}]}',
    '{"knapper_tuning": 1, "records": [{"signature": "aaaaaaaaaaaaaaaa", "target": "cpu", "choice": {"b": 1e300}}]}',
    '{"knapper_tuning": "1", "records": []}', "[" * 100_000, '{"a":' * 50_000, "\\u0000", '"\\ud800"', "nul",
], ids=range(12))  # fmt: skip
def test_records_that_are_none(tool, tmp_path, text):
    (tmp_path / "r.json").write_text(text)
    for words in (("records", "show", "r.json"), ("records", "merge", "r.json", "r.json"),
                  ("compile", "m.onnx", "-o", "r.knap", "--records", "r.json")):  # fmt: skip
        code, _, message = tool(*words)
        assert code == 1 and "r.json" in message, words


def test_records_that_fit_nothing(tool, tmp_path):
    """Numbers at their ends, another target, the same kernel twice: the model's own choice, or one of them."""
    assert tool("compile", "m.onnx", "-o", "plain.knap")[0] == 0
    about = json.loads(tool("explain", "plain.knap", "--json")[1])
    signature = about["report"]["unique_kernels"][0]["signature"]
    for choices in ([{"block": 1 << 62}], [{"block": -1}], [{"block": 0}], [{}], [{"block": 1024}, {"block": 2048}],
                    [{"block": 1024, "nothing": 3}]):  # fmt: skip
        for target in ("cpu", "cuda:sm_90a", "", "toaster"):
            records = [{"signature": signature, "target": target, "choice": c, "gain": 1.0, "machine": "",
                        "threads": 1, "sizes": ""} for c in choices]  # fmt: skip
            (tmp_path / "r.json").write_text(json.dumps({"knapper_tuning": 1, "records": records}))
            code, _, message = tool("compile", "m.onnx", "-o", "r.knap", "--records", "r.json", "--no-cache")
            assert code in (0, 1), message
            if code == 0:
                y = knapper.load("r.knap")(X)[0]
                np.testing.assert_allclose(y, np.maximum(X * 2 + 1, 0), rtol=1e-6)


# ---- files for two kinds of devices


def test_a_file_for_both_that_is_damaged(tool, tmp_path):
    assert tool("compile", "m.onnx", "-o", "both.knap", "--target", "cpu,cuda:sm_90a")[0] == 0
    data = (tmp_path / "both.knap").read_bytes()
    right = np.maximum(X * 2 + 1, 0)
    refused = 0
    for at in range(8, len(data), max(1, len(data) // 150)):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1:]):
            try:
                module = knapper.load(damaged, device="cpu", verify=True)
                np.testing.assert_allclose(module(X)[0], right, rtol=1e-6)
            except knapper.UserError:
                refused += 1
    assert refused > 150
    module = knapper.load("both.knap", device="cpu")
    module.save("again.knap")
    assert (tmp_path / "again.knap").read_bytes() == data
    code, _, message = tool("compare", "both.knap", "m.onnx")
    assert code in (0, 1, 4), message


# ---- verify and reduce


def test_verify_says_nothing_of_what_is_right():
    """No element, NaN and infinities, denormals, late sizes, branches: no kernel diverges."""
    odd = np.float32([[np.nan, np.inf, -np.inf, -0.0], [1e-45, 3e38, -3e38, 1e-38]])
    soft = model([node("Softmax", ["x"], ["s"]), node("Exp", ["s"], ["y"])], {"x": (FLOAT, ["n", 4])},
                 {"y": (FLOAT, None)})  # fmt: skip
    for x in (odd, np.zeros((0, 4), np.float32), np.full((1, 4), 88, np.float32)):
        assert knapper.verify(soft, {"x": x})["first_divergent"] is None
    late = model([node("NonZero", ["x"], ["i"]), node("Cast", ["i"], ["y"], to=FLOAT)], {"x": (FLOAT, ["n", 4])},
                 {"y": (FLOAT, None)})  # fmt: skip
    assert knapper.verify(late, {"x": np.eye(3, 4, dtype=np.float32)})["first_divergent"] is None
    whole = model([node("Less", ["x", "y"], ["c"]), node("Where", ["c", "x", "y"], ["z"])],
                  {"x": (INT64, ["n"]), "y": (INT64, ["n"])}, {"z": (INT64, None), "c": (BOOL, None)})  # fmt: skip
    ends = np.array([-(1 << 63), (1 << 63) - 1, 0])
    assert knapper.verify(whole, {"x": ends, "y": ends[::-1].copy()})["first_divergent"] is None


def test_reduce_odd_models(tmp_path):
    """Right models, commands that always or never fail, that crash, that wait."""
    onnx.save(one("Relu", {"x": X}), tmp_path / "m.onnx")
    (tmp_path / "text.onnx").write_text("no model")

    def reduce(*words):
        done = subprocess.run([sys.executable, "-m", "knapper.reduce", *words], capture_output=True, text=True,
                              cwd=tmp_path, timeout=120)  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    assert reduce("m.onnx") == (1, "m.onnx: the case does not fail\n")
    assert reduce("m.onnx", "--check", "true")[0] == 1
    for check in ("false", "kill -SEGV $$", "no-such-command", "exit 300"):
        code, text = reduce("m.onnx", "--check", check, "-o", "small.onnx")
        assert code == 0 and "status" in text, check
        assert len(onnx.load(tmp_path / "small.onnx").graph.node) == 1
    code, text = reduce("m.onnx", "--check", "sleep 60; false", "--timeout", "0.5")
    assert code == 0 and "hang" in text
    assert reduce("text.onnx")[0] == 1 and reduce("none.onnx")[0] == 1


# ---- calls that are bound


@pytest.fixture(scope="module")
def module():
    return knapper.compile(model([node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, ["n", 4])}, {"y": (FLOAT, None)},
                                 {"w": np.float32([1, 2, 3, 4])}), threads=2)  # fmt: skip


def test_bind_odd_arrays(module):
    x, y = X.copy(), np.zeros_like(X)
    for inputs, outputs in (([x[:, ::-1]], None), ([x.T], None), ([X.tolist()], None), ([x], [y[:2]]),
                            ([x], [y.astype(np.float64)]), ([x], [y[:, ::-1]]), ([x, x], None), ([], None),
                            ({"z": x}, None), ([x], {"z": y}), ([x[:-1]], [x[1:]]), ([x[0]], None), ([None], None)):  # fmt: skip
        with pytest.raises(knapper.UserError):
            module.bind(inputs, outputs)()
    fixed = y.copy()
    fixed.setflags(write=False)
    with pytest.raises(knapper.UserError):
        module.bind([x], [fixed])
    empty = module.bind([np.zeros((0, 4), np.float32)])
    assert empty()[0].shape == (0, 4)


def test_bound_calls_outlive_what_made_them():
    made = knapper.compile(one("Neg", {"x": X}), threads=1)
    x = X.copy()
    bound = made.bind({"x": x})
    wanted = -x
    del made, x
    gc.collect()
    for _ in range(3):
        np.testing.assert_array_equal(bound()[0], wanted)
    bound.inputs[0][:] = 2
    np.testing.assert_array_equal(bound()[0], np.full((3, 4), -2))


def test_bound_calls_in_many_threads(module, at_once):
    wrong = []

    def work(seed):
        x = np.full((1 + seed * 50, 4), seed, np.float32)
        bound = module.bind([x])
        for turn in range(200):
            x[:] = seed + turn
            if not np.array_equal(bound()[0], x + np.float32([1, 2, 3, 4])):
                wrong.append((seed, turn))

    at_once(work, range(4))
    assert not wrong
