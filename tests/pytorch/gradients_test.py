"""Gradients by formulas of our own (python/knapper/torch/gradients.py, factors.py)."""

import pytest
import torch
import torch.nn.functional as F

import knapper.torch


def scattered(x, y):
    return (x * 1.5).masked_scatter(torch.arange(20).reshape(4, 5) % 3 > 0, y * 2)


CASES = {
    "masked_scatter": (scattered, [(4, 5), (5, 5)]),
    "replicate 1d": (lambda x: F.pad(x, (3, -2), mode="replicate"), [(2, 3, 5)]),
    "replicate 2d": (lambda x: F.pad(x, (1, 2, 3, 0), mode="replicate"), [(2, 3, 5, 4)]),
    "replicate 3d": (lambda x: F.pad(x, (1, 0, 0, 2, 2, 1), mode="replicate"), [(3, 5, 4, 3)]),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, (3, 2, 5)), [(2, 3, 7, 6, 4)]),
    "det": (torch.linalg.det, [(2, 3, 3)]),
    "logdet": (lambda x: torch.logdet(x @ x.mT + torch.eye(4)), [(4, 4)]),
    "slogdet of columns": (lambda x: torch.linalg.slogdet(x.mT)[1], [(2, 4, 4)]),
    "inverse of nothing": (torch.linalg.inv, [(1, 1, 0, 0)]),
    "solution of nothing": (torch.linalg.solve, [(0, 5, 5), (0, 5)]),
    **{f"pdist {p}": (lambda x, p=p: F.pdist(x, p), [(4, 3)]) for p in (0, 1, 1.5, 2, 3, float("inf"))},
    "fake quantization": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7), [(3, 5)]),
    "adaptive_avg_pool3d of nothing": (lambda x: F.adaptive_avg_pool3d(x, (3, 2, 5)), [(0, 3, 7, 6, 4)]),
}


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_eagers(case):
    torch._dynamo.reset()
    torch.manual_seed(0)
    function, shapes = CASES[case]
    given = [torch.randn(shape).requires_grad_() for shape in shapes]
    got = knapper.torch.compile(function, fallback="error", cache=False)(*given)
    want = function(*given)
    against = torch.randn(want.shape)
    torch.testing.assert_close(
        torch.autograd.grad(got, given, against),
        torch.autograd.grad(want, given, against),
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_a_tensor_that_index_fill_writes_has_a_gradient():
    """Of each row once, however often the index names it: torch asks which are unique."""
    torch._dynamo.reset()
    at = torch.tensor([2, 0, 2])

    def function(x, y):
        return (x * 1.5).index_fill(0, at, y.sum()).sin().sum()

    given = [torch.randn(4, 5, requires_grad=True), torch.randn(3, requires_grad=True)]
    knapper.torch.reset_counters()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = knapper.torch.compile(function, fullgraph=True, fallback="error", cache=False)
        got = torch.autograd.grad(compiled(*given), given)
    torch.testing.assert_close(got, torch.autograd.grad(function(*given), given))
    assert knapper.torch.counters()["graphs"] == 2


def test_of_masked_select():
    """How many were taken is a number of the forward that the backward reads."""
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        f = knapper.torch.compile(lambda x, m: x.sin().masked_select(m) * 2, fallback="error", cache=False)
        for share in (0.3, 0.8, 2.0):
            x, mask = torch.randn(5, 7, requires_grad=True), torch.rand(5, 7) > share
            made = f(x, mask)
            weights = torch.randn_like(made)
            (ours,) = torch.autograd.grad(made, x, weights)
            (wanted,) = torch.autograd.grad(x.sin().masked_select(mask) * 2, x, weights)
            torch.testing.assert_close(ours, wanted)


def test_numbers_that_data_decides_are_results():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        f = knapper.torch.compile(
            lambda x: (x.nonzero().shape[0] + 1, x.sum().item(), x * 2), fallback="error", cache=False, fullgraph=True
        )
        for x in (torch.tensor([1, 0, 5]), torch.tensor([0, 0, 0]), torch.tensor([3, 4, 5, 6])):
            found, total, doubled = f(x)
            assert (found, total) == (int((x != 0).sum()) + 1, int(x.sum()))
            assert torch.equal(doubled, x * 2)


def test_nothing_of_a_symbolic_source_is_read():
    def f(x, mask, source):
        return x.masked_scatter(mask, source * 2), torch.where(mask, x, 1).index_put((mask,), source.sin())

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        g = knapper.torch.compile(f, fallback="error", cache=False, dynamic=True)
        x = torch.arange(6.0)
        for mask in (x > 3, x > 2, x > 9):
            source = torch.randn(int(mask.sum()))
            torch.testing.assert_close(g(x, mask, source), f(x, mask, source))
