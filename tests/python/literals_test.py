"""Numbers without a dtype: what they become, and what they do not in silence."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import knapper
from affine_models import build

KINDS = {
    "f32": TensorProto.FLOAT,
    "f16": TensorProto.FLOAT16,
    "i64": TensorProto.INT64,
    "i8": TensorProto.INT8,
    "u8": TensorProto.UINT8,
    "i1": TensorProto.BOOL,
}


@pytest.fixture(scope="module")
def same():
    """A module for each dtype that gives its input back."""
    return {
        name: knapper.compile(
            build([helper.make_node("Identity", ["x"], ["y"])], [("x", kind, ("n",))], [("y", kind, ("n",))]), threads=1
        )
        for name, kind in KINDS.items()
    }


@pytest.mark.parametrize(
    "dtype, numbers",
    [
        ("f32", [1, 2.5]),
        ("f32", (1, -2)),
        ("f16", [0.5]),
        ("i64", [1, -(2**62)]),
        ("i8", [-128, 127]),
        ("u8", [0, 255]),
        ("u8", range(5)),
        ("i1", [True, False]),
        ("i64", []),
        ("i1", []),
        ("f32", [np.float64(1.5), np.int64(2)]),
    ],
)
def test_taken(same, dtype, numbers):
    found = same[dtype](numbers)["y"]
    assert found.dtype == same[dtype].inputs[0].dtype
    assert found.tolist() == list(numbers)


@pytest.mark.parametrize(
    "dtype, numbers, kind, parts",
    [
        ("i64", [1.5], TypeError, "no array of i64: it holds float64"),
        ("i64", [1.0, 2.0], TypeError, "no array of i64: it holds float64"),
        ("i64", [True], TypeError, "no array of i64: it holds bool"),
        ("f32", [True, False], TypeError, "no array of f32: it holds bool"),
        ("f32", ["1", "2"], TypeError, "no array of f32: it holds <U1"),
        ("f32", [1 + 2j], TypeError, "no array of f32: it holds complex128"),
        ("i1", [0, 1, 2], TypeError, "no array of i1: it holds int64"),
        ("u8", [256], ValueError, "256 is no u8, which has 0 to 255"),
        ("u8", [-1], ValueError, "-1 is no u8"),
        ("i8", [1, 128], ValueError, "128 is no i8, which has -128 to 127"),
        ("f32", np.float64(1.5), TypeError, r"expected f32, got f64\[\]"),
        ("i64", np.int32(1), TypeError, r"expected i64, got i32\[\]"),
    ],
)
def test_refused(same, dtype, numbers, kind, parts):
    with pytest.raises(kind, match=parts) as caught:
        same[dtype](numbers)
    assert isinstance(caught.value, knapper.UserError)
    assert "input x: " in str(caught.value) and "\n  try: " in str(caught.value)


def test_a_table_keeps_its_dtype(same):
    class Table:
        def __array__(self, dtype=None, copy=None):
            return np.ones(3, np.float64)

    with pytest.raises(TypeError, match=r"expected f32, got f64\[3\]"):
        same["f32"](Table())
