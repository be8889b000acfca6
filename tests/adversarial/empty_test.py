"""Dims of no elements where an index or a matmul needs some."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from against import FLOAT, INT64, given, i64, model, node, random, same

import knapper
from knapper.library import CTensor, check, library

# Those that this machine runs.
ISAS = [isa for isa, flag in (("x86-64-v4", "avx512vl"), ("x86-64-v3", "avx2")) if flag in open("/proc/cpuinfo").read()]


def run_with_null(module, arrays):
    """A run whose tensors without elements have no memory, as the header allows."""
    tensors = (CTensor * len(arrays))()
    shapes = [(ctypes.c_int64 * max(1, a.ndim))(*a.shape) for a in arrays]
    for tensor, array, shape in zip(tensors, arrays, shapes):
        dtype = {"float32": 0, "int64": 9}[str(array.dtype)]
        tensor.data, tensor.bytes = (array.ctypes.data if array.size else None), array.nbytes
        tensor.dtype, tensor.rank, tensor.shape = dtype, array.ndim, shape
    out = ctypes.c_void_p()
    check(library().knapper_run(module._handle.value, tensors, len(arrays), None, 0, ctypes.byref(out)))
    library().knapper_result_release(out)


def reads(nodes, inputs, constants=None, opset=21):
    return model(nodes, {k: v for k, v in inputs.items()}, {"y": (FLOAT, None)}, constants, opset)


GATHER = [node("Gather", ["x", "i"], ["y"])]
F = lambda *dims: (FLOAT, list(dims))  # noqa: E731
I = lambda *dims: (INT64, list(dims))  # noqa: E731,E741
NO_ROWS = np.zeros((0, 4), np.float32)
INDEXED = {
    "gather": (reads(GATHER, {"x": F("n", 4), "i": I("m")}), [NO_ROWS, np.zeros(2, i64)]),
    "gather of long rows": (reads(GATHER, {"x": F("n", 1 << 27), "i": I("m")}), [np.zeros((0, 1 << 27), np.float32), np.zeros(1, i64)]),
    "gather of a static dim": (reads(GATHER, {"x": F(0, 4), "i": I("m")}), [NO_ROWS, np.zeros(2, i64)]),
    "gather of a constant": (reads(GATHER, {"i": I("m")}, {"x": NO_ROWS}), [np.zeros(2, i64)]),
    "gather along the last dim": (reads([node("Gather", ["x", "i"], ["y"], axis=1)], {"x": F(4, "n"), "i": I("m")}),
                                  [np.zeros((4, 0), np.float32), np.zeros(2, i64)]),
    "gather one": (reads(GATHER, {"x": F("n", 4), "i": I()}), [NO_ROWS, np.zeros((), i64)]),
    "gather, reduced": (reads([node("Gather", ["x", "i"], ["g"]), node("ReduceSum", ["g", "a"], ["y"])],
                              {"x": F("n", 4), "i": I("m")}, {"a": i64([0])}), [NO_ROWS, np.zeros(40, i64)]),
    "gather, multiplied": (reads([node("Gather", ["x", "i"], ["g"]), node("MatMul", ["g", "w"], ["y"])],
                                 {"x": F("n", 4), "i": I("m")}, {"w": random(4, 8)}), [NO_ROWS, np.zeros(3, i64)]),
    "gather_elements": (reads([node("GatherElements", ["x", "i"], ["y"])], {"x": F("n", 4), "i": I("m", 4)}),
                        [NO_ROWS, np.zeros((3, 4), i64)]),
    "gather_nd": (reads([node("GatherND", ["x", "i"], ["y"])], {"x": F("n", 4), "i": I("m", 1)}), [NO_ROWS, np.zeros((3, 1), i64)]),
    "gather_nd of two": (reads([node("GatherND", ["x", "i"], ["y"])], {"x": F("n", "k"), "i": I("m", 2)}),
                         [np.zeros((2, 0), np.float32), np.zeros((3, 2), i64)]),
    "loss of no classes": (reads([node("SoftmaxCrossEntropyLoss", ["x", "i"], ["y"])], {"x": F("n", 0), "i": I("n")}),
                           [np.zeros((2, 0), np.float32), np.zeros(2, i64)]),
    "loss without weights": (reads([node("NegativeLogLikelihoodLoss", ["x", "i", "w"], ["y"])], {"x": F("n", 3), "i": I("n"), "w": F("c")}),
                             [np.zeros((2, 3), np.float32), np.zeros(2, i64), np.zeros(0, np.float32)]),
    "rotary": (reads([node("RotaryEmbedding", ["x", "c", "s", "i"], ["y"])],
                     {"x": F("b", 2, "t", 8), "c": F("p", 4), "s": F("p", 4), "i": I("b", "t")}, opset=23),
               [np.ones((1, 2, 3, 8), np.float32), NO_ROWS, NO_ROWS, np.zeros((1, 3), i64)]),
}  # fmt: skip


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", INDEXED)
def test_an_index_into_nothing(name, isa):
    made, arrays = INDEXED[name]
    try:
        module = knapper.compile(made, isa=isa, cache=False)
    except knapper.UserError as error:  # known when it is compiled
        assert "loss" in name, error
        return
    for run in (lambda: run_with_null(module, arrays), lambda: module(*arrays)):
        with pytest.raises(knapper.UserError, match="index is out of range|must be"):
            run()


@pytest.mark.parametrize("name", ["gather", "gather_elements", "gather_nd", "gather, multiplied"])
def test_no_index_into_nothing(name):
    made, (x, i) = INDEXED[name]
    same(made, {"x": x, "i": i[:0]})
    full = random(3, 4)
    same(made, {"x": full, "i": i})


def convolution(op, x, w, bias, **attributes):
    names = ["x", "w", "b"] if bias else ["x", "w"]
    features = w[0] if op == "Conv" else w[1] * attributes.get("group", 1)
    constants = {"w": random(*w), "b": random(features)}
    return model([node(op, names, ["y"], **attributes)], {"x": (FLOAT, x)}, {"y": (FLOAT, None)}, {k: constants[k] for k in names[1:]})


WINDOWS = {
    "no channels": ("Conv", [1, 0, 7, 7], (8, 0, 3, 3)),
    "no features": ("Conv", [1, 3, 7, 7], (0, 3, 3, 3)),
    "neither": ("Conv", [1, 0, 7, 7], (0, 0, 3, 3)),
    "transposed, no channels": ("ConvTranspose", [1, 0, 7, 7], (0, 8, 3, 3)),
    "transposed, no features": ("ConvTranspose", [1, 3, 7, 7], (3, 0, 3, 3)),
    "one by one": ("Conv", [1, 0, 7, 7], (8, 0, 1, 1)),
    "one dim": ("Conv", [1, 0, 7], (8, 0, 3)),
    "three dims": ("Conv", [1, 0, 4, 5, 6], (8, 0, 3, 3, 3)),
    "no image": ("Conv", [0, 3, 7, 7], (8, 3, 3, 3)),
}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "plain"])
@pytest.mark.parametrize("name", WINDOWS)
def test_convolutions_of_nothing(name, bias, isa):
    op, x, w = WINDOWS[name]
    for symbolic in (False, True):
        made = convolution(op, ["n", "c", *x[2:]] if symbolic else x, w, bias, strides=[2] * (len(x) - 2) if symbolic else None)
        result = given(made, {"x": np.zeros(x, np.float32)}, isa=isa, cache=False)[0]
        features = w[0] if op == "Conv" else w[1]
        expected = np.zeros((x[0], features, *result.shape[2:]), np.float32)
        if bias:
            constants = {t.name: t for t in made.graph.initializer}
            expected += np.frombuffer(constants["b"].raw_data, np.float32).reshape(-1, *[1] * (len(x) - 2))
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a"])
@pytest.mark.parametrize("name", WINDOWS)
def test_convolutions_of_nothing_compile_for_gpus(name, target, tmp_path):
    op, x, w = WINDOWS[name]
    with pytest.raises(knapper.DeviceError):  # compiled, and no GPU is here
        knapper.compile(convolution(op, x, w, True), target=target, cache=False, output=tmp_path / "m.knap", device="cuda")
    assert (tmp_path / "m.knap").exists()


@pytest.mark.parametrize("m, k, n", [s for s in itertools.product([0, 1, 5, "d"], repeat=3) if 0 in s], ids=str)
def test_matmuls_of_nothing(m, k, n):
    """Constant matrices and inputs, floats and bytes."""
    sizes = {"d": 3}
    at = lambda *dims: [sizes.get(d, d) for d in dims]  # noqa: E731
    x = random(*at(m, k))
    w = random(*at(k, n))
    bias = random(*at(n))
    same(model([node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, [m, k])}, {"y": (FLOAT, None)}, {"w": w}), {"x": x})
    same(model([node("Gemm", ["x", "w", "b"], ["y"])], {"x": (FLOAT, [m, k]), "w": (FLOAT, [k, n]), "b": (FLOAT, [n])},
               {"y": (FLOAT, None)}), {"x": x, "w": w, "b": bias})  # fmt: skip
    bytes_ = model([node("MatMulInteger", ["x", "w"], ["y"])], {"x": (2, [m, k])}, {"y": (6, None)}, {"w": w.astype(np.int8)})
    same(bytes_, {"x": x.astype(np.uint8)}, wanted=[np.zeros(at(m, n), np.int32)])


@pytest.mark.parametrize("heads", [0, 2])
def test_attention_without_a_head(heads):
    """As exporters write it; zero heads are shared by none."""
    nodes = [node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), node("MatMul", ["q", "kt"], ["s"]),
             node("Softmax", ["s"], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"])]  # fmt: skip
    made = reads(nodes, {"q": F(2, heads, 4, 8), "k": F(2, heads, "n", 8), "v": F(2, heads, "n", 3)})
    module = knapper.compile(made, cache=False)
    for n in (0, 3):
        q, k, v = (np.zeros(shape, np.float32) for shape in ((2, heads, 4, 8), (2, heads, n, 8), (2, heads, n, 3)))
        assert np.asarray(module(q=q, k=k, v=v)["y"]).shape == (2, heads, 4, 3)
