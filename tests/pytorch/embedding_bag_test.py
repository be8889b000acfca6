"""Bags of embeddings and their gradients (frontends/torch/AtenEmbedding.cpp,
python/knapper/torch/embedding_bag.py)."""

import pytest
import torch

import knapper.torch

INDICES = torch.tensor([1, 2, 4, 5, 4, 3, 2, 0, 2])
OFFSETS = torch.tensor([0, 2, 2, 6, 9])  # an empty bag within, one at the end


def compare(function, given, dtype, dynamic=None, reference=None):
    torch._dynamo.reset()
    got = knapper.torch.compile(function, fallback="error", cache=False, dynamic=dynamic)(*given)
    want = (reference or function)(*given)
    against = torch.randn(want.shape, dtype=want.dtype)
    leaves = [x for x in given if x.requires_grad]
    tolerances = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {}
    torch.testing.assert_close(got, want, **tolerances)
    torch.testing.assert_close(
        torch.autograd.grad(got, leaves, against),
        torch.autograd.grad(want, leaves, against),
        **tolerances,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_gradients_are_eagers(mode, dtype):
    torch.manual_seed(0)
    weight = torch.randn(6, 4, dtype=dtype, requires_grad=True)

    def function(w):
        return torch.stack([
            torch.nn.functional.embedding_bag(INDICES, w, OFFSETS, mode=mode, padding_idx=padding)
            for padding in (None, 2, -1)
        ])  # fmt: skip

    compare(function, [weight], dtype)


@pytest.mark.parametrize(
    "dtype, last, padding", [(torch.float32, False, None), (torch.float64, True, 2)]
)
def test_weights_of_samples_have_gradients(dtype, last, padding):
    torch.manual_seed(0)
    weight = torch.randn(6, 4, dtype=dtype, requires_grad=True)
    own = torch.randn(9, dtype=dtype, requires_grad=True)

    def function(w, p):
        return torch.nn.functional.embedding_bag(
            INDICES, w, OFFSETS, mode="sum", per_sample_weights=p,
            include_last_offset=last, padding_idx=padding,
        )  # fmt: skip

    compare(function, [weight, own], dtype)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_gradients_scaled_by_how_often_a_row_is_read(mode):
    """Torch's bags on CPUs scale by the counts of other rows; its embedding does not."""
    torch.manual_seed(0)
    weight, at = torch.randn(6, 4, requires_grad=True), INDICES.int().reshape(3, 3)

    def function(w):
        return torch.nn.functional.embedding_bag(at, w, mode=mode, scale_grad_by_freq=True)

    def reference(w):
        rows = torch.nn.functional.embedding(at, w, scale_grad_by_freq=True)
        return rows.sum(1) if mode == "sum" else rows.mean(1)

    compare(function, [weight], torch.float32, reference=reference)


def test_equal_maxima_go_to_the_first_and_padding_to_none():
    weight = torch.tensor([[1.0, 5.0], [3.0, 2.0], [3.0, 7.0]], requires_grad=True)
    at, offsets = torch.tensor([1, 2, 2, 0, 1, 2]), torch.tensor([0, 2, 3])

    def function(w):
        return torch.nn.functional.embedding_bag(at, w, offsets, mode="max", padding_idx=2)

    compare(function, [weight], torch.float32)


@pytest.mark.parametrize("mode", ["mean", "max"])
def test_symbolic_sizes(mode):
    torch.manual_seed(0)
    weight = torch.randn(6, 4, requires_grad=True)
    compare(
        lambda w, at, o: torch.nn.functional.embedding_bag(at, w, o, mode=mode),
        [weight, INDICES, OFFSETS],
        torch.float32,
        dynamic=True,
    )


def test_a_sparse_gradient_is_refused():
    torch._dynamo.reset()
    weight = torch.randn(6, 4, requires_grad=True)

    def function(w):
        return torch.nn.functional.embedding_bag(INDICES, w, OFFSETS, mode="sum", sparse=True)

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="sparse|embedding_bag"):
        knapper.torch.compile(function, fallback="error", cache=False)(weight).sum().backward()
