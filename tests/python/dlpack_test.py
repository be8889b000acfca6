"""Sharing memory with other libraries."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from onnx import TensorProto, helper

import knapper
from conftest import build

torch = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.fixture(scope="module")
def double_bf16():
    shape = ("n",)
    return knapper.compile(
        build(
            [helper.make_node("Add", ["x", "x"], ["y"], name="double")],
            [("x", TensorProto.BFLOAT16, shape)],
            [("y", TensorProto.BFLOAT16, shape)],
        )
    )


def test_torch_in(affine):
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    np.testing.assert_array_equal(affine(x)["y"], x.numpy() * 2 + 1)


def test_torch_in_place(affine):
    y = torch.zeros(3, 4)
    affine.run([torch.ones(3, 4)], {"y": y})
    assert torch.equal(y, torch.full((3, 4), 3.0))


def test_torch_out(affine):
    result = affine(np.ones((2, 4), np.float32))
    tensor = torch.from_dlpack(result.tensor("y"))
    assert tensor.data_ptr() == result["y"].ctypes.data
    del result
    gc.collect()
    for _ in range(5):
        affine(np.zeros((2, 4), np.float32))
    assert torch.equal(tensor, torch.full((2, 4), 3.0))


def test_capsule_that_nobody_takes(affine):
    from knapper import dlpack

    before = len(dlpack._lent)
    capsule = affine(np.ones((2, 4), np.float32)).tensor(0).__dlpack__()
    assert len(dlpack._lent) == before + 1
    del capsule
    gc.collect()
    assert len(dlpack._lent) == before


def test_bf16(double_bf16):
    x = torch.arange(5, dtype=torch.bfloat16)
    result = double_bf16(x)
    assert torch.equal(torch.from_dlpack(result.tensor("y")), x + x)
    assert result["y"].dtype == ml_dtypes.bfloat16
    array = np.arange(5).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(double_bf16(array)["y"], array + array)


def test_bf16_without_ml_dtypes(double_bf16, monkeypatch):
    monkeypatch.setattr("knapper.dtypes._ml_dtypes", lambda: None)
    y = double_bf16(torch.ones(3, dtype=torch.bfloat16))["y"]
    assert isinstance(y, knapper.Tensor)
    assert repr(y) == "Tensor(bf16[3])"
    with pytest.raises(TypeError, match="install ml_dtypes"):
        y.numpy()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: torch.ones(4, 3).T, "not contiguous"),
        (lambda: torch.ones(3, 8)[:, ::2], "not contiguous"),
        (lambda: torch.ones(6, 4)[::2], "not contiguous"),
        (lambda: torch.ones(3, 4, requires_grad=True), "cannot be shared"),
        (lambda: torch.ones(3, 4, dtype=torch.complex64), "no such dtype"),
    ],
)
def test_refused(affine, make, message):
    with pytest.raises(knapper.UserError, match=message):
        affine(make())
