"""Torch's attention operators of GPUs: their formulas against attention in float64."""

import math

import pytest
import torch
from knapper.torch import fused_attention

FORMS = ("efficient", "flash", "cudnn")


def plain(q, k, v, bias, causal, scale):
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = scores.masked_fill(torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(-1) @ v


def call(form, q, k, v, bias, p, causal, scale):
    """The result, and the gradients as a function of its gradient."""
    if form == "flash":
        made = fused_attention.flash(q, k, v, p, causal, scale=scale)
        return made[0], lambda g: fused_attention.flash_backward(
            g, q, k, v, *made[:6], p, causal, made[6], made[7], scale=scale
        )
    if form == "cudnn":
        made = fused_attention.cudnn(q, k, v, bias, True, p, causal, scale=scale)
        return made[0], lambda g: fused_attention.cudnn_backward(
            g, q, k, v, made[0], made[1], made[6], made[7], bias, *made[2:6], p, causal, scale=scale
        )
    made = fused_attention.efficient(q, k, v, bias, True, p, causal, scale=scale)
    wanted = [True, True, True, bias is not None]
    return made[0], lambda g: fused_attention.efficient_backward(
        g, q, k, v, bias, *made, p, wanted, causal, scale=scale
    )


@pytest.mark.parametrize(
    "form, biased", [("efficient", False), ("efficient", True), ("flash", False), ("cudnn", False), ("cudnn", True)]
)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_results_and_gradients(form, causal, biased, scale):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 7, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8)
    bias = torch.randn(2, 3, 7, 9) if biased else None
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    wide_bias = bias.double().requires_grad_() if biased else None
    want = plain(*wide, wide_bias, causal, scale)
    got, backward = call(form, q, k, v, bias, 0.0, causal, scale)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)
    grad = torch.randn(got.shape)
    want.backward(grad.double())
    wanted = [x.grad for x in wide] + ([wide_bias.grad] if biased and form == "efficient" else [])
    for given, one in zip(backward(grad), wanted):
        torch.testing.assert_close(given.double(), one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_dropout_has_one_mask_forward_and_backward(form):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 6, 4) for _ in range(3))
    torch.manual_seed(7)
    got, backward = call(form, q, k, v, None, 0.4, True, None)
    torch.manual_seed(7)
    scores = plain(q, k, torch.eye(6).expand(1, 2, 6, 6), None, True, None)
    mask = torch.ops.aten.native_dropout(scores, 0.4, True)[1]
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    shares = plain(wide[0], wide[1], torch.eye(6).double().expand(1, 2, 6, 6), None, True, None)
    want = (shares * mask / 0.6) @ wide[2]
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)
    grad = torch.randn(got.shape)
    want.backward(grad.double())
    for given, one in zip(backward(grad), wide):
        torch.testing.assert_close(given.double(), one.grad, rtol=1e-4, atol=1e-5)


def test_rows_without_a_key_are_zero():
    q, k, v = (torch.randn(1, 1, 3, 4) for _ in range(3))
    bias = torch.zeros(1, 1, 3, 3)
    bias[..., 1, :] = -math.inf
    out, backward = call("efficient", q, k, v, bias, 0.5, False, None)
    assert out[0, 0, 1].abs().sum() == 0
    assert not any(x.isnan().any() for x in backward(torch.ones_like(out)))


def test_gradients_beside_a_row_without_keys():
    """The row of the operator whose forward all of these use."""
    import knapper.torch

    torch._dynamo.reset()
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    mask[3] = False

    def f(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).sum()

    x = [torch.randn(1, 2, 4, 16, requires_grad=True) for _ in range(3)]
    again = [t.detach().clone().requires_grad_() for t in x]
    knapper.torch.compile(f, cache=False)(*x).backward()
    f(*again).backward()
    for got, want in zip(x, again):
        assert torch.isfinite(got.grad).all()
        torch.testing.assert_close(got.grad, want.grad, rtol=1e-4, atol=1e-5)
