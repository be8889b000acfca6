"""Rows that are reduced and stored past the caches, each while the next is read."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import onnx
import pytest
from node_models import at_offset, model
from onnx import TensorProto, helper

import knapper

# Results from 24 MB on stream past the caches.
SIZES = [(4100, 2048), (3001, 2500), (2050, 4099), (33, 200_003), (7001, 1040), (400_003, 17)]


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs, [output], name=output, **attributes)


def mean(x):
    return x.mean(1, keepdims=True)


def centred(x):
    return x - mean(x)


def layer_norm(x, gain, bias):
    return centred(x) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gain + bias


# name: nodes from x (and r: rows; g, b: columns) to y, the same in NumPy
KERNELS = {
    "layer norm": (
        [node("LayerNormalization", ["x", "g", "b"], "y", axis=-1)],
        lambda x, r, g, b: layer_norm(x, g, b),
    ),
    "residual and layer norm": (
        [
            node("Add", ["x", "r"], "sum"),
            node("LayerNormalization", ["sum", "g", "b"], "y", axis=-1),
        ],
        lambda x, r, g, b: layer_norm(x + r, g, b),
    ),
    "rms norm": (
        [
            node("Mul", ["x", "x"], "square"),
            node("ReduceMean", ["square", "last"], "mean"),
            node("Add", ["mean", "one"], "more"),
            node("Sqrt", ["more"], "root"),
            node("Div", ["x", "root"], "unit"),
            node("Mul", ["unit", "g"], "y"),
        ],
        lambda x, r, g, b: x / np.sqrt(mean(x * x) + 1) * g,
    ),
    "between least and most": (
        [
            node("ReduceMax", ["x", "last"], "most"),
            node("ReduceMin", ["r", "last"], "least"),
            node("Sub", ["most", "least"], "between"),
            node("Abs", ["between"], "distance"),
            node("Add", ["distance", "one"], "range"),
            node("Sub", ["x", "least"], "above"),
            node("Div", ["above", "range"], "y"),
        ],
        lambda x, r, g, b: (x - r.min(1, keepdims=True))
        / (np.abs(x.max(1, keepdims=True) - r.min(1, keepdims=True)) + 1),
    ),
}


def compiled(kernel, rows, columns, kind=TensorProto.FLOAT):
    """The module, and its inputs by name."""
    nodes, _ = KERNELS[kernel]
    read = {name for n in nodes for name in n.input}
    shapes = {"x": (rows, columns), "r": (rows, columns), "g": (columns,), "b": (columns,)}
    shapes = {name: shape for name, shape in shapes.items() if name in read}
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    constants = {"last": np.array([1]), "one": np.array(1, dtype)}
    constants = {name: value for name, value in constants.items() if name in read}
    inputs = {name: (kind, shape) for name, shape in shapes.items()}
    made = model(nodes, inputs, [("y", kind, (rows, columns))], constants, opset=18, ir=9)
    onnx.checker.check_model(made)
    return knapper.compile(made, threads=2), shapes


def inputs_of(shapes, dtype=np.float32):
    generator = np.random.default_rng(8)
    values = {}
    for name, shape in shapes.items():
        value = generator.standard_normal(shape, np.float32)
        if len(shape) == 2:
            value *= generator.uniform(0.1, 30, (shape[0], 1)).astype(np.float32)
            value += generator.uniform(-9, 9, (shape[0], 1)).astype(np.float32)
        values[name] = value.astype(dtype)
    return values


def check(kernel, y, values, rtol=2e-5):
    """Some rows at a time, whose numbers in float64 stay in the caches."""
    at_once = max(1, (1 << 17) // y.shape[1])
    for first in range(0, len(y), at_once):
        rows = slice(first, first + at_once)
        wide = {name: (value[rows] if value.ndim == 2 else value).astype(np.float64) for name, value in values.items()}
        wanted = KERNELS[kernel][1](*(wide.get(name) for name in "xrgb"))
        size = np.abs(wanted).max(1, keepdims=True)
        wrong = np.abs(y[rows] - wanted) / size
        assert wrong.max() <= rtol, f"row {first + wrong.max(1).argmax()}: {wrong.max():.1e}"


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rows,columns", SIZES)
def test_rows(kernel, rows, columns):
    module, shapes = compiled(kernel, rows, columns)
    values = inputs_of(shapes)
    (y,) = module(*values.values())
    check(kernel, y, values)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rows,columns", [SIZES[1], SIZES[5]])
def test_the_bits_are_those_of_any_placement(kernel, rows, columns):
    """Stores begin at whole cache lines wherever the results are, and end there."""
    module, shapes = compiled(kernel, rows, columns)
    values = inputs_of(shapes)
    expected = None
    for offset in [0, 4, 16, 60, 2048, 4092]:
        space = at_offset((rows + 2, columns), offset)
        space[:] = 7
        module.run(list(values.values()), [space[1:-1]])
        assert (space[0] == 7).all() and (space[-1] == 7).all()
        if expected is None:
            expected = space[1:-1].view(np.int32).copy()
            check(kernel, space[1:-1], values)
        np.testing.assert_array_equal(space[1:-1].view(np.int32), expected)


def before_nothing(shape):
    """A float32 array whose last element ends where memory may not be read."""
    bytes_ = int(np.prod(shape)) * 4
    length = -(-bytes_ // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, length + mmap.PAGESIZE)
    array = np.frombuffer(memory, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    after = ctypes.c_void_p(array.ctypes.data + length)
    assert libc.mprotect(after, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    return array[length - bytes_ : length].view(np.float32).reshape(shape)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rows,columns", [SIZES[1], SIZES[2], SIZES[5]])
def test_nothing_behind_the_operands_is_read(kernel, rows, columns):
    module, shapes = compiled(kernel, rows, columns)
    values = inputs_of(shapes)
    placed = {name: before_nothing(shape) for name, shape in shapes.items()}
    for name, value in values.items():
        placed[name][...] = value
    (y,) = module(*placed.values())
    check(kernel, y, values)


@pytest.mark.parametrize("kernel", KERNELS)
def test_special_values_stay_in_their_rows(kernel):
    rows, columns = SIZES[0]
    module, shapes = compiled(kernel, rows, columns)
    values = inputs_of(shapes)
    clean = {name: value.copy() for name, value in values.items()}
    (expected,) = module(*clean.values())
    values["x"][5, columns - 1] = np.nan
    values["x"][31, 0] = np.inf
    values["x"][64] = np.nan
    (y,) = module(*values.values())
    touched = [5, 31, 64]
    others = np.delete(np.arange(rows), touched)
    np.testing.assert_array_equal(y[others], expected[others])
    assert np.isnan(y[[5, 64]]).all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rows,columns", [(4100, 4096), (3007, 5003), (800_001, 17)])
def test_half_precision(kernel, rows, columns):
    module, shapes = compiled(kernel, rows, columns, TensorProto.FLOAT16)
    values = inputs_of(shapes, np.float16)
    (y,) = module(*values.values())
    check(kernel, y, values, rtol=3e-3)
