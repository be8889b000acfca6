"""Wrong calls, as issue trackers of ONNX Runtime and PyTorch are full of them:
the right one of Python's classes, and a sentence that names the argument and
what is there, with something to try."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import knapper
from affine_models import affine_model, build

X = np.arange(12, dtype=np.float32).reshape(3, 4)
IDS = np.ones((2, 5), np.int64)
MODEL = affine_model().SerializeToString()

# name: (class, parts of the message, call). m: y[batch, 4] and total[batch] of
# input.1[batch, 4]; two: c = a - b of [rows, columns]; ids: rows of a table of
# ten by i64[batch, n]; at: a folder with m.onnx, m.knap, cut.knap, text.txt, dir.
CASES = {
    # ---- inputs: how many, which
    "no input": (ValueError, ["takes 1 input", "input.1", "0 were given"], lambda m, **_: m()),
    "two for one": (ValueError, ["takes 1 input", "2 were given"], lambda m, **_: m(X, X)),
    "one for two": (ValueError, ["takes 2 inputs", "(a, b)", "1 was given"], lambda two, **_: two(X)),
    "run of none": (ValueError, ["takes 1 input", "0 were given"], lambda m, **_: m.run([])),
    "run of no names": (ValueError, ["'input.1' is missing", "given: none"], lambda m, **_: m.run({})),
    "one name missing": (ValueError, ["'b' is missing", "given: a"], lambda two, **_: two(a=X)),
    "unknown name": (KeyError, ["'ids'", "there are: a, b"], lambda two, **_: two(ids=X, b=X)),
    "name of another case": (KeyError, ["'A'", "a, b"], lambda two, **_: two(A=X, b=X)),
    "one name too many": (KeyError, ["'c'", "a, b"], lambda two, **_: two(a=X, b=X, c=X)),
    "by position and name": (ValueError, ["'a'", "by position and by name"], lambda two, **_: two(X, a=X)),
    "a name that is a number": (KeyError, ["no input 0", "a, b"], lambda two, **_: two.run({0: X, 1: X})),
    "names as ORT's run": (TypeError, ["outputs", "str"], lambda m, **_: m.run({"input.1": X}, "y")),
    "outputs first, as ORT's run": (TypeError, ["inputs", "None"], lambda m, **_: m.run(None, {"input.1": X})),
    "an array for the list": (TypeError, ["inputs", "ndarray", "[array]"], lambda m, **_: m.run(X)),
    "text for the list": (TypeError, ["inputs", "str"], lambda m, **_: m.run("x")),
    "a generator": (TypeError, ["inputs", "generator"], lambda m, **_: m.run(x for x in [X])),
    "a number for the list": (TypeError, ["inputs", "int"], lambda m, **_: m.run(7)),
    "run by keyword": (TypeError, ["'a' is an input", "run({'a': array})", "m(a=array)"], lambda two, **_: two.run(a=X, b=X)),
    "bind by keyword": (TypeError, ["'b' is an input", "bind({'b': array})"], lambda two, **_: two.bind([X], b=X)),
    "start of nothing": (TypeError, ["start: no inputs", "a: f32[rows, columns]"], lambda two, **_: two.start()),
    "run with a misspelt argument": (TypeError, ["'output'", "did you mean 'outputs'?"], lambda two, **_: two.run([X, X], output=[X])),
    "floats for integers": (TypeError, ["ids", "no array of i64", "float64"], lambda ids, **_: ids([[1.5, 2.5]])),
    "truth for numbers": (TypeError, ["input.1", "no array of f32", "bool"], lambda m, **_: m([[True] * 4])),
    "a set": (TypeError, ["inputs", "set"], lambda m, **_: m.run({1})),
    # ---- inputs: shapes
    "one column less": (ValueError, ["input.1", "f32[batch, 4]", "f32[3, 3]"], lambda m, **_: m(X[:, :3].copy())),
    "no batch": (ValueError, ["input.1", "f32[batch, 4]", "f32[4]"], lambda m, **_: m(X[0])),
    "a batch of batches": (ValueError, ["input.1", "f32[1, 3, 4]"], lambda m, **_: m(X[None])),
    "transposed": (ValueError, ["input.1", "f32[4, 3]"], lambda m, **_: m(X.T)),
    "a scalar": (ValueError, ["input.1", "f32[]"], lambda m, **_: m(np.float32(1))),
    "a number": (ValueError, ["input.1", "f32[]"], lambda m, **_: m(1.5)),
    "an empty list": (ValueError, ["input.1", "f32[0]"], lambda m, **_: m([])),
    "sizes that differ": (ValueError, ["b", "rows", "f32[2, 4]"], lambda two, **_: two(X, X[:2])),
    "no broadcasting": (ValueError, ["b", "f32[1, 4]"], lambda two, **_: two(X, X[:1])),
    "flattened": (ValueError, ["input.1", "f32[12]"], lambda m, **_: m(X.ravel())),
    # ---- inputs: dtypes
    "float64": (TypeError, ["input.1", "f32", "float64", "astype('float32')"], lambda m, **_: m(X.astype(float))),
    "float16": (TypeError, ["input.1", "f32", "float16"], lambda m, **_: m(X.astype(np.float16))),
    "int64 for float": (TypeError, ["input.1", "int64"], lambda m, **_: m(X.astype(int))),
    "int32 for int64": (TypeError, ["ids", "int32", "astype('int64')"], lambda ids, **_: ids(IDS.astype(np.int32))),
    "float for int64": (TypeError, ["ids", "float32"], lambda ids, **_: ids(IDS.astype(np.float32))),
    "bool": (TypeError, ["input.1", "bool"], lambda m, **_: m(X > 0)),
    "complex": (TypeError, ["input.1", "complex64"], lambda m, **_: m(X.astype(np.complex64))),
    "objects": (TypeError, ["input.1", "object"], lambda m, **_: m(X.astype(object))),
    "texts": (TypeError, ["input.1", "<U32"], lambda m, **_: m(X.astype(str))),
    "dates": (TypeError, ["input.1", "datetime64"], lambda m, **_: m(X.astype("datetime64[s]"))),
    "other bytes' order": (TypeError, ["input.1", ">f4"], lambda m, **_: m(X.astype(">f4"))),
    "float128": (TypeError, ["input.1", "longdouble" if np.dtype(np.longdouble).name == "longdouble" else "float128"],
                 lambda m, **_: m(X.astype(np.longdouble))),
    # ---- inputs: no arrays
    "None": (TypeError, ["input.1", "None is no array"], lambda m, **_: m(None)),
    "None by name": (TypeError, ["b", "None is no array"], lambda two, **_: two(a=X, b=None)),
    "a string": (TypeError, ["input.1", "str is no array"], lambda m, **_: m("hello")),
    "a path": (TypeError, ["input.1", "PosixPath is no array"], lambda m, at, **_: m(at / "x.npy")),
    "a ragged list": (TypeError, ["input.1", "list is no array"], lambda m, **_: m([[1, 2], [3]])),
    "a list of texts": (TypeError, ["input.1", "list is no array"], lambda m, **_: m([["a", "b"]])),
    "an object": (TypeError, ["input.1", "object is no array"], lambda m, **_: m(object())),
    "a file": (TypeError, ["input.1", "BytesIO is no array"], lambda m, **_: m(io.BytesIO(b"1"))),
    "a function": (TypeError, ["input.1", "is no array"], lambda m, **_: m(len)),
    "a method": (TypeError, ["inputs", "method"], lambda two, m, **_: two.run(m(X).keys)),
    # ---- inputs: values
    "an id too large": (ValueError, ["an index is out of range; the kernel reads input 'ids'"], lambda ids, **_: ids(IDS * 10)),
    # ---- outputs
    "no such output": (KeyError, ["'logits'", "there are: y, total"], lambda m, **_: m(X)["logits"]),
    "output 2 of 2": (IndexError, ["output 2 of 2", "y, total"], lambda m, **_: m(X)[2]),
    "output -3 of 2": (IndexError, ["output -3 of 2"], lambda m, **_: m(X)[-3]),
    "output by a float": (TypeError, ["float", "y, total"], lambda m, **_: m(X)[0.0]),
    "output by None": (TypeError, ["NoneType"], lambda m, **_: m(X)[None]),
    "memory for no such output": (KeyError, ["'z'", "y, total"], lambda m, **_: m.run([X], {"z": X})),
    "memory of another shape": (ValueError, ["'y'", "f32[3, 4]", "f32[4, 3]"], lambda m, **_: m.run([X], {"y": np.empty((4, 3), np.float32)})),
    "memory of another dtype": (TypeError, ["y", "f64"], lambda m, **_: m.run([X], {"y": np.empty((3, 4))})),
    "memory too small": (ValueError, ["'y'", "f32[3, 4]", "f32[2, 4]"], lambda m, **_: m.run([X], {"y": np.empty((2, 4), np.float32)})),
    "memory that is read-only": (ValueError, ["y", "read-only"], lambda m, **_: m.run([X], {"y": np.frombuffer(bytes(48), np.float32).reshape(3, 4)})),
    "memory with strides": (ValueError, ["y", "not contiguous", "strides"], lambda m, **_: m.run([X], {"y": np.empty((4, 3), np.float32).T})),
    "memory that is a list": (TypeError, ["y", "list is no array"], lambda m, **_: m.run([X], {"y": [0.0]})),
    "memory for one of two": (ValueError, ["2 outputs", "y, total", "1 was given|for 1"], lambda m, **_: m.run([X], [np.empty((3, 4), np.float32)])),
    "memory of an input": (ValueError, ["'y'", "memory"], lambda m, **_: m.run([X2 := X.copy()], {"y": X2[:2].reshape(2, 4)})),
    # ---- runs
    "cancel is True": (TypeError, ["cancel", "bool", "knapper.Cancellation()"], lambda m, **_: m.run([X], cancel=True)),
    "timeout is text": (TypeError, ["timeout", "'1s'"], lambda m, **_: m.start([X]).wait("1s")),
    "waited twice": (ValueError, ["has been waited for"], lambda m, **_: [p := m.start([X]), p.wait(), p.wait()]),
    "bound to a list": (TypeError, ["input.1", "list would be copied"], lambda m, **_: m.bind([[1.0] * 4])),
    "bound to strides": (TypeError, ["input.1", "would be copied"], lambda m, **_: m.bind([np.asfortranarray(X)])),
    "peak memory without sizes": (ValueError, ["batch"], lambda m, **_: m.peak_memory()),
    "peak memory of another size": (ValueError, ["no size 'seq'", "batch"], lambda m, **_: m.peak_memory(batch=2, seq=1)),
    "peak memory of a misspelt size": (ValueError, ["no size 'b'", "batch"], lambda m, **_: m.peak_memory(b=1)),
    "a negative size": (ValueError, ["batch", "-1"], lambda m, **_: m.peak_memory(batch=-1)),
    "an attribute": (AttributeError, ["'threads' cannot be set", "knapper.load"], lambda m, **_: setattr(m, "threads", 1)),
    "the class": (TypeError, ["Module", "knapper.load"], lambda **_: knapper.Module("m.knap")),
    # ---- loading
    "no such file": (FileNotFoundError, ["none.knap", "No such file"], lambda at, **_: knapper.load(at / "none.knap")),
    "no such folder": (FileNotFoundError, ["none/m.knap"], lambda at, **_: knapper.load(at / "none" / "m.knap")),
    "load of a folder": (ValueError, ["dir"], lambda at, **_: knapper.load(at / "dir")),
    "load of a model": (ValueError, ["m.onnx", "is a model", "knapper.compile"], lambda at, **_: knapper.load(at / "m.onnx")),
    "load of a model's bytes": (ValueError, ["memory"], lambda **_: knapper.load(MODEL)),
    "load of text": (ValueError, ["text.txt"], lambda at, **_: knapper.load(at / "text.txt")),
    "load of half a file": (ValueError, ["cut.knap"], lambda at, **_: knapper.load(at / "cut.knap")),
    "load with a misspelt option": (TypeError, ["load: there is no option 'thread'", "did you mean 'threads'?"], lambda **_: knapper.load("m.knap", thread=1)),
    "load of nothing": (ValueError, ["memory"], lambda **_: knapper.load(b"")),
    "load of None": (TypeError, ["source", "NoneType"], lambda **_: knapper.load(None)),
    "load of a number": (TypeError, ["source", "int"], lambda **_: knapper.load(7)),
    "load of an open file": (TypeError, ["source", "BytesIO"], lambda **_: knapper.load(io.BytesIO(b"x"))),
    "a path with a zero": (ValueError, ["source", "zero|null|NUL|\\\\x00"], lambda **_: knapper.load("a\0b.knap")),
    "threads as text": (TypeError, ["threads", "'two'"], lambda at, **_: knapper.load(at / "m.knap", threads="two")),
    "threads as a float": (TypeError, ["threads", "1.5"], lambda at, **_: knapper.load(at / "m.knap", threads=1.5)),
    "threads below 0": (ValueError, ["threads", "-1"], lambda at, **_: knapper.load(at / "m.knap", threads=-1)),
    "threads beyond 32 bits": (ValueError, ["threads", "4294967296"], lambda at, **_: knapper.load(at / "m.knap", threads=1 << 32)),
    "threads None": (TypeError, ["threads", "None"], lambda at, **_: knapper.load(at / "m.knap", threads=None)),
    "no such device": (ValueError, ["device", "'gpu'", '"cuda"'], lambda at, **_: knapper.load(at / "m.knap", device="gpu")),
    "no such device, before the model is looked at": (ValueError, ["'tpu' is no kind of device", "None"],
        lambda at, **_: knapper.compile(at / "none.onnx", device="tpu")),
    "a device with a number": (ValueError, ["device", "'cuda:0'"], lambda at, **_: knapper.load(at / "m.knap", device="cuda:0")),
    "code for another device": (ValueError, ["no code for device 'cuda'", "'cpu'"], lambda at, **_: knapper.load(at / "m.knap", device="cuda")),
    "verify as text": (ValueError, ["verify", "'yes'", '"lazy"'], lambda at, **_: knapper.load(at / "m.knap", verify="yes")),
    "spinning too long": (ValueError, ["spin_microseconds", "1000000"], lambda at, **_: knapper.load(at / "m.knap", spin_microseconds=10**7)),
    # ---- compiling
    "no such model": (FileNotFoundError, ["none.onnx"], lambda at, **_: knapper.compile(at / "none.onnx")),
    "a folder as model": (ValueError, ["dir"], lambda at, **_: knapper.compile(at / "dir")),
    "an artefact as model": (ValueError, ["m.knap", "knapper.load"], lambda at, **_: knapper.compile(at / "m.knap")),
    "an artefact's bytes": (ValueError, ["artefact", "knapper.load"], lambda at, **_: knapper.compile((at / "m.knap").read_bytes())),
    "text as model": (ValueError, ["text.txt"], lambda at, **_: knapper.compile(at / "text.txt")),
    "half a model": (ValueError, ["memory|model"], lambda **_: knapper.compile(MODEL[:50])),
    "None as model": (TypeError, ["model", "NoneType"], lambda **_: knapper.compile(None)),
    "a class as model": (TypeError, ["model", "Path is a class"], lambda **_: knapper.compile(Path)),
    "an array as model": (TypeError, ["model", "ndarray"], lambda **_: knapper.compile(X)),
    "a module as model": (TypeError, ["model", "Module"], lambda m, **_: knapper.compile(m)),
    "no such option": (TypeError, ["'treads'", "did you mean 'threads'"], lambda **_: knapper.compile(MODEL, treads=2)),
    "ORT's option": (TypeError, ["'providers'", "there are: target"], lambda **_: knapper.compile(MODEL, providers=[])),
    "no such target": (ValueError, ["target", "tpu"], lambda **_: knapper.compile(MODEL, target="tpu")),
    "no such dtype": (TypeError, ["dtype", "'float8'", "bf16"], lambda **_: knapper.compile(MODEL, dtype="float8")),
    "a dtype to convert to": (ValueError, ["dtype", "i8", "weights"], lambda **_: knapper.compile(MODEL, dtype=np.int8)),
    "no such size": (ValueError, ["dim", "'seq'", "batch"], lambda **_: knapper.compile(MODEL, dim={"seq": 1})),
    "a size as text": (TypeError, ["dim", "'batch'", "'1'"], lambda **_: knapper.compile(MODEL, dim={"batch": "1"})),
    "a size as a float": (TypeError, ["dim", "'batch'", "1.0"], lambda **_: knapper.compile(MODEL, dim={"batch": 1.0})),
    "a size below 0": (ValueError, ["dim", "-1"], lambda **_: knapper.compile(MODEL, dim={"batch": -1})),
    "sizes as a number": (ValueError, ["dim", "7"], lambda **_: knapper.compile(MODEL, dim=7)),
    "progress that cannot be called": (TypeError, ["progress", "True"], lambda **_: knapper.compile(MODEL, progress=True)),
    "cancel of an event": (TypeError, ["cancel", "knapper.Cancellation"], lambda **_: knapper.compile(MODEL, cancel=False)),
    "examples for a file": (ValueError, ["example_inputs", "bytes"], lambda **_: knapper.compile(MODEL, example_inputs=(X,))),
    "output in no folder": (FileNotFoundError, ["none/m.knap"], lambda at, **_: knapper.compile(MODEL, output=at / "none" / "m.knap")),
    "output as a number": (TypeError, ["output", "int"], lambda **_: knapper.compile(MODEL, output=7)),
    "save to no folder": (FileNotFoundError, ["none/m.knap"], lambda m, at, **_: m.save(at / "none" / "m.knap")),
    "save to None": (TypeError, ["path", "NoneType"], lambda m, **_: m.save(None)),
    "calibration by a mapping": (TypeError, ["calibration", "dict"], lambda **_: knapper.quantize(MODEL, calibration={"x": X})),
    "calibration without data": (ValueError, ["calibration", "no calibration data"], lambda **_: knapper.quantize(MODEL, calibration=[])),
}  # fmt: skip


@pytest.fixture(scope="module")
def things(affine, subtract, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "dir").mkdir()
    (folder / "m.onnx").write_bytes(MODEL)
    (folder / "text.txt").write_text("neither model nor artefact\n" * 9)
    affine.save(folder / "m.knap")
    (folder / "cut.knap").write_bytes((folder / "m.knap").read_bytes()[:5000])
    table = helper.make_tensor("table", TensorProto.FLOAT, (10, 2), range(20))
    ids = build(
        [helper.make_node("Gather", ["table", "ids"], ["rows"])],
        [("ids", TensorProto.INT64, ("batch", "n"))],
        [("rows", TensorProto.FLOAT, ("batch", "n", 2))],
        [table],
    )
    return {"m": affine, "two": subtract, "ids": knapper.compile(ids), "at": folder}


@pytest.mark.parametrize("case", CASES)
def test_wrong_call(things, case):
    kind, parts, call = CASES[case]
    with pytest.raises(kind) as caught:
        call(**things)
    error = caught.value
    assert isinstance(error, knapper.UserError), type(error)
    sentence = str(error)
    for part in parts:
        assert any(each in sentence for each in part.split("|")), sentence
    assert "\n  try: " in sentence and error.hint, sentence
    assert "knapper_" not in sentence, sentence  # names of C


def test_there_are_a_hundred():
    assert len(CASES) >= 100
