"""Control flow of torch: branches, loops, scans, and attention with graphs inside."""

import warnings

import pytest
import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import knapper
import knapper.torch


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of eager flex attention
        yield


def compiled(function, dynamic=None, fallback="error"):
    return knapper.torch.compile(function, dynamic=dynamic, fullgraph=True, fallback=fallback, cache=False)


def check(function, *inputs, dynamic=None):
    torch.testing.assert_close(compiled(function, dynamic)(*inputs), function(*inputs))


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_branch_that_data_chooses(dynamic):
    def function(x, y):
        def yes(x, y):
            return x.sin() + y, x * 2

        def no(x, y):
            return torch.cond(y.sum() > 0, lambda x: (x - 7, x + 1), lambda x: (x.cos(), x * 3), (x,))

        return torch.cond(x.sum() > 0, yes, no, (x, y))

    fast = compiled(function, dynamic)
    x, y = torch.rand(5) + 1, torch.rand(5) + 1
    for a, b in [(x, y), (-x, y), (-x, -y)]:
        torch.testing.assert_close(fast(a, b), function(a, b))


def test_a_branch_reads_parameters_and_trains():
    layer = torch.nn.Linear(4, 4)
    x = torch.randn(2, 4)

    def function(x, p):
        return torch.cond(p, lambda x: layer(x).relu(), lambda x: x.sin(), (x,)).sum()

    fast = compiled(function)
    for p in (torch.tensor(True), torch.tensor(False)):
        grads = []
        for f in (function, fast):
            a = x.clone().requires_grad_()
            f(a, p).backward()
            grads.append([a.grad, layer.weight.grad])
            layer.weight.grad = None
        torch.testing.assert_close(grads[1][0], grads[0][0])
        if p:
            torch.testing.assert_close(grads[1][1], grads[0][1])


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_loop_that_data_ends(dynamic):
    def function(x, w):
        def go(i, x):
            return (i < 9) & (x.sum() < 100)

        return while_loop(go, lambda i, x: (i + 1, x * 1.5 + w), (torch.tensor(0), x))

    x, w = torch.rand(4, 3), torch.rand(3)
    check(function, x, w, dynamic=dynamic)
    check(function, x + 100, w, dynamic=dynamic)  # no turn


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_scan(dynamic):
    def function(x, w):
        return scan(lambda c, x: (c * w + x, c.sin() * x), torch.zeros(4), x)

    check(function, torch.rand(6, 4), torch.rand(4), dynamic=dynamic)


def test_a_loop_in_a_branch_with_a_missing_operator_is_refused_with_its_line():
    def function(x):
        def yes(x):
            return while_loop(lambda x: x.sum() < 9, lambda x: (x + torch.linalg.ldl_factor_ex(x).LD,), (x,))[0]

        return torch.cond(x.sum() > 0, yes, lambda x: x + 1, (x,))

    with pytest.raises(Exception, match=r"ldl_factor_ex(.|\n)*control_test.py"):
        compiled(function)(torch.rand(3, 3))


def causal(b, h, i, j):
    return i >= j


@pytest.mark.parametrize("dynamic", [None, True])
def test_flex_attention(dynamic):
    def function(q, k, v, bias):
        def score(s, b, h, i, j):
            return torch.tanh(s / 5) * 5 + bias[h] * (i - j)

        mask = create_block_mask(causal, None, None, q.shape[2], k.shape[2], device="cpu")
        return flex_attention(q, k, v, score, block_mask=mask, enable_gqa=True)

    q, k = torch.randn(2, 4, 20, 8), torch.randn(2, 2, 20, 8)
    check(function, q, k, torch.randn(2, 2, 20, 8), torch.randn(4), dynamic=dynamic)


def test_flex_attention_is_one_kernel():
    def function(q, k, v):
        mask = create_block_mask(causal, None, None, 64, 64, device="cpu")
        return flex_attention(q, k, v, lambda s, b, h, i, j: s + (j - i) * 0.125, block_mask=mask)

    q, k, v = (torch.randn(2, 4, 64, 16) for _ in range(3))
    report = knapper.torch.explain(function, q, k, v)
    matmuls = [kernel for kernel in report.graphs[0].kernels if "bmm" in str(kernel)]
    assert len(matmuls) == 1


def test_results_lie_as_torch_says():
    q = torch.randn(2, 8, 4, 8).transpose(1, 2)  # [2, 4, 8, 8]
    want = flex_attention(q, q, q)
    got = compiled(lambda q: flex_attention(q, q, q))(q)
    torch.testing.assert_close(got, want)
    assert got.stride() == want.stride()
