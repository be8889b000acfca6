"""Softmax of rows that stream to memory: by a guessed maximum, rows overlapped."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from node_models import at_offset, model
from onnx import TensorProto, helper

import knapper

# Results from 24 MB on stream past the caches.
SIZES = [(4100, 2048), (3001, 2500), (2050, 4099), (33, 200_003), (7000, 1040)]


def compiled(rows, columns, *, scaled=False, kind=TensorProto.FLOAT):
    nodes = [helper.make_node("Softmax", ["x"], ["p"], name="softmax", axis=-1)]
    if scaled:
        nodes = [
            helper.make_node("Add", ["x", "mask"], ["masked"], name="add"),
            helper.make_node("Softmax", ["masked"], ["s"], name="softmax", axis=-1),
            helper.make_node("Neg", ["s"], ["p"], name="neg"),
        ]
    inputs = {"x": (kind, (rows, columns))}
    if scaled:
        inputs["mask"] = (kind, (columns,))
    made = model(nodes, inputs, [("p", kind, (rows, columns))], opset=18, ir=9)
    onnx.checker.check_model(made)
    return knapper.compile(made, threads=2)


def reference(x):
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        e = np.exp(wide - wide.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)


def rows_of_every_kind(rows, columns):
    """Random rows; some where the first elements tell nothing of the maximum."""
    x = np.random.default_rng(5).standard_normal((rows, columns), np.float32) * 4
    lowest = np.finfo(np.float32).min
    x[1, : columns - 1] = -np.inf
    x[2, : columns // 2] = -np.inf
    x[3, :-3] = lowest
    x[4, columns - 1] = 300  # far above every sample
    x[5, columns // 2 + 7] = np.inf  # NaN in all of the row
    x[6, columns - 2] = np.nan
    x[7] = -np.inf
    x[8] = lowest
    x[9] += 5000
    x[10] *= 50  # differences up to a thousand
    x[11, 5] = 43
    x[12, ::2] = lowest
    x[13] = -80 - 0.001 * np.arange(columns)  # denormal without the shift
    x[14, columns // 3] = 88
    x[rows - 1, : columns - 1] = -np.inf
    return x


def check(y, x):
    wanted = reference(x)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    good = ~np.isnan(wanted)
    # Relative, as far as exp(x - max) is a normal number.
    tiny = 2.0**-126 * 4
    np.testing.assert_allclose(y[good], wanted[good], rtol=2e-5, atol=tiny)
    large = good & (wanted > 1e-9)
    # The sum of a long row is one of floats, in 64 parts.
    bound = 3e-6 * max(1, (x.shape[1] / 4096) ** 0.5)
    np.testing.assert_allclose(y[large], wanted[large], rtol=bound)
    finite = good.all(1)
    np.testing.assert_allclose(y[finite].astype(np.float64).sum(1), 1, rtol=bound)


@pytest.mark.parametrize("rows,columns", SIZES)
def test_rows_of_every_kind(rows, columns):
    x = rows_of_every_kind(rows, columns)
    (y,) = compiled(rows, columns)(x)
    check(y, x)


@pytest.mark.parametrize("offset", [0, 4, 16, 60, 64, 2048, 4092])
def test_results_anywhere(offset):
    """Stores begin at whole cache lines wherever the results are, and end there."""
    rows, columns = SIZES[1]
    x = rows_of_every_kind(rows, columns)
    module = compiled(rows, columns)
    space = at_offset((rows + 2, columns), offset)
    space[:] = 7
    module.run([x], [space[1:-1]])
    check(space[1:-1], x)
    assert (space[0] == 7).all() and (space[-1] == 7).all()


def test_the_bits_are_those_of_any_placement():
    rows, columns = SIZES[2]
    x = rows_of_every_kind(rows, columns)
    module = compiled(rows, columns)
    results = []
    for offset in [0, 4, 960]:
        here, there = at_offset(x.shape, offset), at_offset(x.shape, 4 * offset % 4096)
        here[:] = x
        module.run([here], [there])
        results.append(there.view(np.int32))
    assert all((r == results[0]).all() for r in results)


def test_around_it_fused():
    rows, columns = SIZES[0]
    x = np.random.default_rng(6).standard_normal((rows, columns), np.float32)
    mask = np.zeros(columns, np.float32)
    mask[: columns // 3] = -np.inf
    (y,) = compiled(rows, columns, scaled=True)(x, mask)
    check(-y, x + mask)


def test_half_precision():
    rows, columns = 4100, 4096
    x = rows_of_every_kind(rows, columns).clip(-6e4, 6e4).astype(np.float16)
    (y,) = compiled(rows, columns, kind=TensorProto.FLOAT16)(x)
    wanted = reference(x)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=2e-3, atol=6e-8)
