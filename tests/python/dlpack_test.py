"""Sharing memory with other libraries."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from onnx import TensorProto, helper

import knapper
from affine_models import build

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


LAYOUTS = {
    "transposed": lambda: torch.randn(4, 3).T,
    "steps": lambda: torch.randn(3, 8)[:, ::2],
    "rows": lambda: torch.randn(6, 4)[::2],
    "expanded": lambda: torch.randn(1, 4).expand(3, 4),
    "permuted": lambda: torch.randn(4, 1, 3).permute(2, 0, 1)[:, :, 0],
    "offset": lambda: torch.randn(20)[3:15].reshape(3, 4),
    "gradient": lambda: torch.randn(3, 4, requires_grad=True),
    "gradient, transposed": lambda: torch.randn(4, 3, requires_grad=True).T,
    "parameter": lambda: torch.nn.Parameter(torch.randn(3, 4)),
    # A view whose memory has the other sign.
    "negated": lambda: torch.randn(3, 4, dtype=torch.complex64).conj().imag,
    "empty": lambda: torch.empty(4, 0).T,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(affine, layout):
    """As NumPy's arrays: what is not contiguous is copied, and counted."""
    x = LAYOUTS[layout]()
    before = affine.copied_inputs.get("input.1", 0)
    values = x.detach().resolve_neg().numpy()
    wanted = np.ascontiguousarray(values) * 2 + 1
    for result in (affine(x), affine.run([x]), affine.start([x]).wait()):
        np.testing.assert_array_equal(result["y"], wanted)
    copies = affine.copied_inputs.get("input.1", 0) - before
    assert copies == (0 if x.is_contiguous() and not x.is_neg() else 3)


class _Rows:
    """A library's rows that begin behind the first of their memory, as those on GPUs do."""

    def __init__(self, array: np.ndarray, first: int) -> None:
        self.array, self.first = array, first

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        from knapper import dlpack, dtypes

        rows = self.array[self.first :]
        code = dtypes.code_of(self.array.dtype)
        capsule = dlpack.lend(self.array.ctypes.data, rows.shape, code, self.array)
        managed = next(reversed(dlpack._lent.values()))[0]
        managed.tensor.byte_offset = rows.ctypes.data - self.array.ctypes.data
        return capsule


def test_what_begins_behind_its_memory(affine):
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    np.testing.assert_array_equal(affine(_Rows(x, 2))["y"], x[2:] * 2 + 1)
    y = np.zeros((5, 4), np.float32)
    affine.run([_Rows(x, 2)], {"y": _Rows(y, 2)})
    np.testing.assert_array_equal(y, np.vstack([np.zeros((2, 4)), x[2:] * 2 + 1]))


def test_copies_are_counted(affine_artefact):
    module = knapper.load(affine_artefact)
    x = np.ones((4, 3), np.float32)
    assert module.copied_inputs == {} and "id=\"copies\"" not in module.explain()
    module(x.T.copy())
    assert module.copied_inputs == {}
    module(x.T), module(torch.from_numpy(x).T), module(x.T.tolist())
    assert module.copied_inputs == {"input.1": 3}
    page = module.explain()
    assert "<td>input.1</td><td>3</td>" in page and "contiguous" in page


def test_bf16_that_is_not_contiguous(double_bf16, monkeypatch):
    monkeypatch.setattr("knapper.dtypes._ml_dtypes", lambda: None)
    x = torch.arange(10, dtype=torch.bfloat16)[::3]
    assert torch.equal(torch.from_dlpack(double_bf16(x).tensor("y")), x + x)


def test_bound_tensors_are_not_copied(affine):
    bound = affine.bind([torch.ones(3, 4, requires_grad=True)])
    np.testing.assert_array_equal(bound()[0], np.full((3, 4), 3))
    with pytest.raises(knapper.UserError, match="not contiguous"):
        affine.bind([torch.ones(4, 3).T])
    with pytest.raises(knapper.UserError, match="not contiguous"):
        affine.run([torch.ones(3, 4)], {"y": torch.ones(4, 3).T})


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: torch.ones(3, 4, dtype=torch.complex64), "no such dtype"),
        (lambda: torch.ones(3, 4).to_sparse(), "cannot be shared"),
        (lambda: torch.ones(3, 4, device="meta"), "cannot be shared|is on another device"),
        (lambda: torch.ones(3, 4, dtype=torch.float64), "expected f32, got f64"),
    ],
)
def test_refused(affine, make, message):
    with pytest.raises(knapper.UserError, match=message):
        affine(make())
