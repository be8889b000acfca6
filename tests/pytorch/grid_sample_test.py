"""Gradients of grid_sample (python/knapper/torch/grid_sample.py)."""

import pytest
import torch

import knapper.torch

def compare(function, given, dynamic=None, **tolerances):
    torch._dynamo.reset()
    got = knapper.torch.compile(function, fallback="error", cache=False, dynamic=dynamic)(*given)
    want = function(*given)
    torch.testing.assert_close(got, want, **tolerances)
    against = torch.randn(want.shape, dtype=want.dtype)
    leaves = [x for x in given if x.requires_grad]
    torch.testing.assert_close(
        torch.autograd.grad(got, leaves, against),
        torch.autograd.grad(want, leaves, against),
        **tolerances,
    )


def sampled(mode, padding, align):
    return lambda x, g: torch.nn.functional.grid_sample(x, g, mode, padding, align)


@pytest.mark.parametrize(
    "mode, volume, dtype",
    [
        ("bilinear", False, torch.float32),
        ("bilinear", True, torch.float64),
        ("nearest", False, torch.float64),
        ("nearest", True, torch.float32),
        ("bicubic", False, torch.float64),
    ],
)
def test_gradients_are_eagers(mode, volume, dtype):
    torch.manual_seed(0)
    x = torch.randn((2, 3, 4, 3, 5) if volume else (2, 3, 4, 5), dtype=dtype, requires_grad=True)
    grid = torch.rand((2, 2, 3, 2, 3) if volume else (2, 3, 4, 2), dtype=dtype) * 4 - 2

    def function(x, g):
        hows = [("zeros", False), ("border", True), ("reflection", False), ("reflection", True)]
        return torch.stack([sampled(mode, *how)(x, g) for how in hows])

    least = 2e-5 if dtype == torch.float32 else 1e-10
    compare(function, [x, grid.requires_grad_()], rtol=least, atol=least)


@pytest.mark.parametrize("leaf", ["image", "grid"])
def test_only_one_side_has_a_gradient(leaf):
    torch.manual_seed(0)
    x, grid = torch.randn(1, 2, 4, 4), torch.rand(1, 3, 3, 2) * 2 - 1
    (x if leaf == "image" else grid).requires_grad_()
    compare(sampled("bilinear", "zeros", False), [x, grid], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_edges_have_no_slope(padding):
    """Torch clamps what lies on an edge, too."""
    torch.manual_seed(0)
    at = torch.tensor([-1.0, 0.25, 1.0])
    grid = torch.stack(torch.meshgrid(at, at, indexing="xy"), -1)[None].requires_grad_()
    x = torch.randn(1, 2, 4, 5, requires_grad=True)
    compare(sampled("bilinear", padding, True), [x, grid], rtol=2e-5, atol=2e-5)


def test_symbolic_sizes_and_an_image_of_one_element():
    torch.manual_seed(0)
    x, grid = torch.randn(2, 3, 6, 7, requires_grad=True), torch.rand(2, 5, 4, 2) * 3 - 1.5
    compare(
        sampled("bilinear", "reflection", False),
        [x, grid.requires_grad_()],
        dynamic=True,
        rtol=2e-5,
        atol=2e-5,
    )
    one = torch.randn(1, 1, 1, 1, requires_grad=True)
    grid = torch.tensor([[[[0.0, 0.3]]]], requires_grad=True)
    compare(sampled("bilinear", "reflection", True), [one, grid], rtol=2e-5, atol=2e-5)
