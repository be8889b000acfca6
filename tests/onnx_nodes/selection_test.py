"""Operators whose results are as large as the data says."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import check, model, node
from onnx import TensorProto

import knapper

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_nonzero(rank):
    dims = ["a", "b", "c"][:rank]
    made = model([node("NonZero", ["x"], ["y"])], {"x": dims}, [("y", INT64)])
    rng = np.random.default_rng(rank)
    feeds = []
    for size in (1, 4, 0, 9):
        x = rng.standard_normal([size, 3, 5][:rank]).astype(np.float32)
        feeds += [{"x": x}, {"x": x * (x > 0)}, {"x": x * 0}]
    check(made, feeds, reference=lambda feed: [np.stack(np.nonzero(feed["x"]))])


def test_what_follows_has_the_size_too():
    """Gathered, computed with, summed; two sizes of one kind in one model."""
    made = model(
        [
            node("NonZero", ["x"], ["i"]),
            node("Transpose", ["i"], ["t"]),
            node("GatherND", ["x", "t"], ["v"]),
            node("Sqrt", ["v"], ["root"]),
            node("ReduceSum", ["root"], ["sum"], keepdims=0),
            node("Greater", ["root", "one"], ["large"]),
            node("Compress", ["v", "large"], ["kept"]),
            node("Concat", ["v", "kept"], ["y"], axis=0),
            node("Shape", ["y"], ["shape"]),
        ],
        {"x": ["n", 4]},
        ["y", "sum", ("shape", INT64)],
        {"one": np.float32(1)},
    )
    rng = np.random.default_rng(0)

    def reference(feed):
        v = feed["x"][np.nonzero(feed["x"])]
        y = np.concatenate([v, v[np.sqrt(v) > 1]])
        return [y, np.sqrt(v).sum(), np.array(y.shape)]

    feeds = [
        {"x": np.maximum(rng.standard_normal((n, 4)) * 2, 0).astype(np.float32)}
        for n in (1, 40, 3, 40)
    ]
    check(made, feeds, 1e-4, reference)


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_compress(axis):
    attributes = {} if axis is None else {"axis": axis}
    made = model(
        [node("Compress", ["x", "c"], ["y"], **attributes)],
        {"x": ["n", 6], "c": (BOOL, ["m"])},
    )
    rng = np.random.default_rng(3)
    feeds = [
        {"x": rng.standard_normal((n, 6)).astype(np.float32), "c": rng.random(m) < p}
        for n, m, p in ((6, 6, 0.5), (7, 3, 0), (9, 5, 1))
    ]
    check(made, feeds)


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique(axis, ordered):
    attributes = {} if axis is None else {"axis": axis}
    names = ["y", ("first", INT64), ("number", INT64), ("count", INT64)]
    made = model(
        [node("Unique", ["x"], ["y", "first", "number", "count"], sorted=ordered, **attributes)],
        {"x": ["n", 3]},
        names,
    )

    def reference(feed):
        x = feed["x"] if axis is not None else feed["x"].ravel()
        y, first, number, count = np.unique(x, True, True, True, axis=axis)
        number = number.ravel()
        if not ordered:
            order = np.argsort(first)
            y, first, count = np.take(y, order, axis or 0), first[order], count[order]
            number = np.argsort(order)[number]
        return [y, first, number, count]

    rng = np.random.default_rng(4)
    feeds = [
        {"x": rng.integers(-k, k + 1, (n, 3)).astype(np.float32)}
        for n, k in ((1, 0), (8, 1), (30, 2), (17, 50))
    ]
    check(made, feeds, reference=reference)


def test_unique_of_nan_and_booleans():
    made = model([node("Unique", ["x"], ["y"])], {"x": ["n"]})
    x = np.array([2, np.nan, 1, np.nan, -np.inf, 2], np.float32)
    check(made, [{"x": x}], reference=lambda feed: [np.unique(feed["x"])])
    made = model([node("Unique", ["x"], ["y"])], {"x": (BOOL, ["n"])}, [("y", BOOL)])
    check(made, [{"x": np.array([True, False, True])}, {"x": np.array([True])}])


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float32, np.float64])
def test_range(kind):
    element = {np.int32: 6, np.int64: 7, np.float32: 1, np.float64: 11}[kind]
    made = model(
        [node("Range", ["a", "b", "c"], ["y"])],
        {name: (element, []) for name in "abc"},
        [("y", element)],
    )
    feeds = [
        dict(zip("abc", map(kind, bounds)))
        for bounds in ((0, 5, 1), (3, -7, -3), (4, 4, 1), (5, 1, 2), (-8, 9, 4), (1, 2, 100))
    ]
    module = check(made, feeds)
    with pytest.raises(knapper.UserError):
        module(a=kind(0), b=kind(3), c=kind(0))
