"""Random numbers are drawn in the program's order, also in regions that are computed again."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import knapper.torch


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


NET = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 4))


def noisy(x):
    return torch.sin(NET(x)) * torch.rand_like(x) + torch.bernoulli(x.sigmoid())


def again(x):
    return checkpoint(noisy, x, use_reentrant=False)


FUNCTIONS = {
    "twice": lambda x: noisy(x).sum() + noisy(x * 2).sum(),
    "computed again": lambda x: again(x).sum() + again(x * 2).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_draws_keep_their_order(name):
    compiled = knapper.torch.compile(FUNCTIONS[name], fallback="error", cache=False)
    for seed in (1, 2):
        found = []
        for function in (compiled, FUNCTIONS[name]):
            x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
            torch.manual_seed(seed)
            result = function(x)
            result.backward()
            found.append((result.detach(), x.grad))
        torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)


def test_draws_without_a_backward_keep_their_order():
    compiled = knapper.torch.compile(FUNCTIONS["twice"], fallback="error", cache=False)
    x = torch.randn(3, 4)
    with torch.no_grad():
        torch.manual_seed(1)
        got = compiled(x)
        torch.manual_seed(1)
        torch.testing.assert_close(got, FUNCTIONS["twice"](x), rtol=1e-5, atol=1e-5)
