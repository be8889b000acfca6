"""Resizing with antialiasing and hashes of tensors, against eager."""

import knapper.torch
import pytest
import torch
from torch.nn.functional import interpolate


def compiled(function, **options):
    torch._dynamo.reset()
    return knapper.torch.compile(function, fallback="error", cache=False, fullgraph=True, **options)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(3, 5), (17, 11), (1, 1), None])
def test_resized(mode, align, size):
    given = {"size": size} if size else {"scale_factor": (0.45, 1.7)}
    x = torch.randn(2, 3, 12, 9, requires_grad=True)

    def f(x):
        return interpolate(x, **given, mode=mode, align_corners=align, antialias=True)

    made, wanted = compiled(f)(x), f(x)
    torch.testing.assert_close(made, wanted)
    assert made.stride() == wanted.stride()
    weights = torch.randn_like(wanted)
    torch.testing.assert_close(*(torch.autograd.grad(y, x, weights)[0] for y in (made, wanted)))


def test_symbolic_sizes_and_infinities():
    f = compiled(lambda x: interpolate(x, size=(7, 4), mode="bilinear", antialias=True), dynamic=True)
    for shape in ((1, 2, 20, 13), (3, 2, 5, 30), (2, 1, 7, 4)):
        x = torch.randn(shape)
        x[0, 0, 2, 1] = torch.inf
        wanted = interpolate(x, size=(7, 4), mode="bilinear", antialias=True)
        torch.testing.assert_close(f(x), wanted, equal_nan=True)


@pytest.mark.skipif(not hasattr(torch, "hash_tensor"), reason="this torch has no hash_tensor")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.bool])
def test_hashes(dtype):
    x = (torch.randn(3, 5, 4) * 9).to(dtype)
    for given in ({}, {"dim": 1}, {"dim": (0, 2), "keepdim": True}):
        assert torch.equal(compiled(lambda x: torch.hash_tensor(x, **given))(x), torch.hash_tensor(x, **given))
    assert compiled(torch.hash_tensor)(torch.ones(())) == torch.hash_tensor(torch.ones(()))
