"""Structs as no careful program fills them, straight through the C API."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int32, c_int64, c_void_p

import numpy as np
import pytest
from against import FLOAT, model, node

import knapper
from knapper.library import (
    CCompileOptions,
    CLoadOptions,
    CTensor,
    CTensorInfo,
    check,
    library,
)

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def module():
    made = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, ["n", 4])}, {"y": (FLOAT, None)})
    return knapper.compile(made, threads=1)


def tensor(**fields) -> CTensor:
    shape = (c_int64 * 2)(*fields.pop("dims", (3, 4)))
    made = CTensor(X.ctypes.data, X.nbytes, 0, 2, shape)
    for name, field in fields.items():
        setattr(made, name, field)
    return made


def run(module, tensors, count=1, outputs=None, given=0):
    lib, out = library(), c_void_p()
    check(lib.knapper_run(module._handle.value, tensors, c_int32(count), outputs, given, byref(out)))
    return out


INPUTS = {
    "null_data": (dict(data=None), "x"),
    "too_few_bytes": (dict(bytes=47), "48 bytes, 47 were given"),
    "unknown_dtype": (dict(dtype=99), "x"),
    "negative_dtype": (dict(dtype=-1), "x"),
    "another_dtype": (dict(dtype=3), "f64"),
    "negative_rank": (dict(rank=-1), "rank -1"),
    "no_shape": (dict(shape=None), "without a shape"),
    "rank_0": (dict(rank=0, shape=None), "rank 2"),
    "rank_1": (dict(rank=1), "rank 2"),
    "rank_2_to_the_30": (dict(rank=2**30), "of rank 1073741824"),
    "negative_dim": (dict(dims=(-3, 4)), "negative"),
    "overflow": (dict(dims=(2**62, 4)), "fit in memory"),
    "wrong_dim": (dict(dims=(4, 3)), "dim 1 must be 4"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs(module, name):
    fields, message = INPUTS[name]
    with pytest.raises(knapper.UserError, match=message):
        run(module, byref(tensor(**fields)))
    np.testing.assert_array_equal(module(X)[0], X)


TWO = (CTensor * 2)(tensor(), tensor())


@pytest.mark.parametrize("tensors, count", [(None, 0), (None, 1), (TWO, 0), (TWO, -1), (TWO, 2)])
def test_number_of_inputs(module, tensors, count):
    with pytest.raises(knapper.UserError):
        run(module, tensors, count)


def test_a_rank_that_is_none_is_not_followed(module):
    """Also by asynchronous runs and by verification, which copy shapes."""
    lib, out, text = library(), c_void_p(), c_void_p()
    wild = (CTensor * 1)(tensor(rank=2**30))
    check(lib.knapper_run_async(module._handle.value, wild, c_int32(1), None, c_int32(0), byref(out)))
    with pytest.raises(knapper.UserError, match="of rank 1073741824"):
        check(lib.knapper_event_wait(out, None))
    outputs = (CTensor * 1)(tensor(rank=2**30, dtype=3, shape=None))
    with pytest.raises(knapper.UserError, match="got f64"):
        run(module, byref(tensor()), 1, outputs, 1)
    options = CCompileOptions()
    options.size = ctypes.sizeof(options)
    made = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, ["n", 4])}, {"y": (FLOAT, None)}).SerializeToString()
    options.model_bytes, options.model_size = ctypes.cast(ctypes.c_char_p(made), c_void_p), len(made)
    with pytest.raises(knapper.UserError, match="is not a tensor"):
        check(lib.knapper_verify(byref(options), wild, c_int32(1), byref(text)))


@pytest.mark.parametrize("fields, count, message", [
    (dict(bytes=47), 1, "48 bytes, 47"), (dict(dtype=3), 1, "y"), (dict(dtype=77), 1, "y"),
    ({}, 2, "1 outputs"), (dict(data=X.ctypes.data + 16, bytes=48), 1, "partly input 'x'"),
])  # fmt: skip
def test_outputs(module, fields, count, message):
    with pytest.raises(knapper.UserError, match=message):
        outputs = (CTensor * 2)(tensor(**fields), tensor(**fields))
        run(module, byref(tensor()), 1, outputs, count)


def test_an_output_that_may_not_replace_the_input():
    """It is read at other elements than those that are written."""
    made = model([node("Transpose", ["x"], ["y"])], {"x": (FLOAT, [3, 3])}, {"y": (FLOAT, None)})
    module = knapper.compile(made, threads=1)
    assert not library().knapper_module_may_replace(module._handle.value, 0, 0)
    square = tensor(dims=(3, 3), bytes=36)
    with pytest.raises(knapper.UserError, match="also input 'x'"):
        run(module, byref(square), 1, (CTensor * 1)(square), 1)


def test_an_output_over_the_input(module):
    x = -X
    there = tensor(data=x.ctypes.data)
    run(module, byref(there), 1, (CTensor * 1)(there), 1)
    assert not x.any()


def test_indices_of_the_signature(module):
    info = CTensorInfo()
    for size, index in ((ctypes.sizeof(info), 1), (ctypes.sizeof(info), -1), (0, 0)):
        info.size = size
        error = library().knapper_module_input(module._handle.value, c_int32(index), byref(info))
        with pytest.raises(knapper.UserError):
            check(error)


@pytest.mark.parametrize("fill", [
    {}, {"model_path": b"a.onnx", "model_bytes": X.ctypes.data, "model_size": 4},
    {"model_bytes": None, "model_size": 4}, {"model_bytes": X.ctypes.data, "model_size": 0},
    {"model_path": b""}, {"model_path": b"a.onnx", "num_options": 1},
    {"model_path": b"a.onnx", "num_options": -1}, {"size": 3}, {"size": 2**50},
], ids=lambda fill: ", ".join(fill) or "nothing")  # fmt: skip
def test_compile_options(fill):
    options, out = CCompileOptions(), c_void_p()
    options.size = ctypes.sizeof(options)
    for name, field in fill.items():
        setattr(options, name, field)
    with pytest.raises(knapper.UserError):
        check(library().knapper_compile(byref(options), None, byref(out)))
    assert not out.value


@pytest.mark.parametrize("size, threads", [(1, 1), (2**50, 1), (None, -5), (None, 2**31 - 1)])
def test_load_options(module, tmp_path, size, threads):
    module.save(tmp_path / "m.knap")
    options, out = CLoadOptions(), c_void_p()
    options.size = ctypes.sizeof(options) if size is None else size
    options.threads, options.spin_microseconds = threads, -1
    path = str(tmp_path / "m.knap").encode()
    with pytest.raises(knapper.UserError):
        check(library().knapper_load(path, byref(options), byref(out)))
    with pytest.raises(knapper.UserError):
        check(library().knapper_load(None, None, byref(out)))
    with pytest.raises(knapper.UserError):
        check(library().knapper_load_memory(None, 100, None, byref(out)))
