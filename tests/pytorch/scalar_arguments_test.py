"""Numbers of a call: symbols that rows and operators of torch's own take."""

import pytest
import torch
import torch.nn.functional as F

import knapper.torch


pytestmark = pytest.mark.usefixtures("fresh")


ROWS = {
    "softplus": lambda x, n: F.softplus(x, beta=n, threshold=n),
    "leaky_relu": lambda x, n: F.leaky_relu(x, n),
    "elu": lambda x, n: F.elu(x, n),
    "celu": lambda x, n: F.celu(x, n),
    "hardtanh": lambda x, n: F.hardtanh(x, -n, n),
    "hardshrink": lambda x, n: F.hardshrink(x * 4, n),
    "softshrink": lambda x, n: F.softshrink(x * 4, n),
    "pow": lambda x, n: x.abs() ** n,
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "addcdiv": lambda x, n: torch.addcdiv(x, x, x.square() + 1, value=n),
    "add": lambda x, n: torch.add(x, x, alpha=n),
    "clamp": lambda x, n: x.clamp(-n, n),
}


@pytest.mark.parametrize("name", ROWS)
def test_one_program_for_all_numbers(name):
    compiled = knapper.torch.compile(ROWS[name], dynamic=True, fallback="error", cache=False)
    with torch.no_grad():
        for number in (2, 3, 5):
            x = torch.randn(4, 9)
            torch.testing.assert_close(compiled(x, number), ROWS[name](x, number), rtol=1e-5, atol=1e-5)
    assert knapper.torch.counters()["graphs"] == 1


# Torch's own derivative of a power refuses symbols.
@pytest.mark.parametrize("name", sorted(ROWS.keys() - {"pow"}))
def test_gradients_with_numbers_of_the_call(name):
    compiled = knapper.torch.compile(ROWS[name], dynamic=True, fallback="error", cache=False)
    for number in (2, 3):
        ours = torch.randn(4, 9, requires_grad=True)
        theirs = ours.detach().clone().requires_grad_()
        compiled(ours, number).sum().backward()
        ROWS[name](theirs, number).sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=1e-5)


def test_torch_computes_with_sizes_of_the_call():
    def half(x):
        size = (x.shape[2] // 2, x.shape[3] // 2)
        return F.interpolate(x, size=size, mode="bilinear", antialias=True) * 2

    compiled = knapper.torch.compile(half, dynamic=True, fallback="allow", cache=False)
    for height, width in ((8, 10), (12, 8), (16, 20)):
        x = torch.randn(1, 2, height, width)
        torch.testing.assert_close(compiled(x), half(x))
    assert knapper.torch.counters()["recompiles"] == 0


def test_torch_computes_with_numbers_of_the_call():
    def function(x, y, step):
        return torch.slice_scatter(x, y, 0, 0, x.shape[0], step) + 1

    compiled = knapper.torch.compile(function, dynamic=True, fallback="allow", cache=False)
    for count, step in ((8, 2), (12, 3), (12, 4)):
        x, y = torch.randn(count), torch.randn(count // step)
        torch.testing.assert_close(compiled(x, y, step), function(x, y, step))
