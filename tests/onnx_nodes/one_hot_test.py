"""A one-hot row times a matrix becomes a row of the matrix; sums of one-hot rows."""

from __future__ import annotations

import numpy as np
from node_models import check, model, node
from onnx import TensorProto

INDICES = np.array([0, 4, -1, 2, -5, 5, 7, -6, 1])
MATRIX = np.random.default_rng(1).standard_normal((5, 6)).astype(np.float32)


def rows(index):
    inside = (index >= 0) & (index < len(MATRIX))
    return MATRIX[np.clip(index, 0, 4)] * inside[..., None]


def test_by_comparison_outside_is_zero():
    made = model(
        [
            node("Unsqueeze", ["i", "last"], ["column"]),
            node("Equal", ["column", "positions"], ["hit"]),
            node("Cast", ["hit"], ["hot"], to=TensorProto.FLOAT),
            node("MatMul", ["hot", "m"], ["y"]),
        ],
        {"i": (TensorProto.INT32, ["b", "n"])},
        ["y"],
        {"last": np.array([-1]), "positions": np.arange(5, dtype=np.int32), "m": MATRIX},
    )
    feeds = [{"i": INDICES.reshape(shape).astype(np.int32)} for shape in ((1, 9), (3, 3), (9, 1))]
    check(made, feeds, 1e-6, lambda feed: [rows(feed["i"])])


def test_by_one_hot_negative_counts_from_the_end():
    made = model(
        [
            node("OneHot", ["i", "depth", "values"], ["hot"]),
            node("MatMul", ["hot", "m"], ["y"]),
        ],
        {"i": (TensorProto.INT64, ["n"])},
        ["y"],
        {"depth": np.array(5), "values": np.float32([0, 1]), "m": MATRIX},
    )
    wrapped = np.where(INDICES < 0, INDICES + 5, INDICES)
    check(made, [{"i": INDICES}], 1e-6, lambda feed: [rows(wrapped)])


def test_sum_of_two_numbers_many_times():
    """Roundings of equal numbers do not cancel: a sum over several loops is made in two steps."""
    made = model(
        [
            node("OneHot", ["i", "depth", "values"], ["hot"], axis=0),
            node("ReduceSumSquare", ["hot"], ["y"], keepdims=0),
        ],
        {"i": (TensorProto.INT32, ["a", 100, "b"])},
        ["y"],
        {"depth": np.array(5), "values": np.float32([0.6975374, 0.31955037])},
    )
    feeds = [{"i": np.arange(a * 100 * b, dtype=np.int32).reshape(a, 100, b) % 7} for a, b in ((3, 2), (8, 3))]

    def sums(feed):
        count = feed["i"].size
        hits = int((feed["i"] < 5).sum())
        off, on = (np.float64(np.float32(value)) ** 2 for value in (0.6975374, 0.31955037))
        return [on * hits + off * (5 * count - hits)]

    for feed in feeds:
        check(made, [feed], 2e-6 * sums(feed)[0], sums)
