"""Attention of GPUs that stays whole: traced with tensors that are nowhere."""

import operator

import pytest
import torch
from knapper.torch import whole_attention
from knapper.torch.whole_attention import attend, keep_whole
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

WHOLE = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


def traced(mask=None, heads=4, dtype=torch.bfloat16, device="cuda", value=16, **options):
    """The calls that a trace of `attend` makes."""
    with FakeTensorMode():
        q = torch.empty(2, 4, 7, 16, dtype=dtype, device=device)
        k = torch.empty(2, heads, 9, 16, dtype=dtype, device=device)
        v = torch.empty(2, heads, 9, value, dtype=dtype, device=device)
        given = torch.empty(mask[0], dtype=mask[1], device=device) if mask else None
        module = make_fx(lambda q, k, v, m: attend(q, k, v, m, **options))(q, k, v, given)
    nodes = [n for n in module.graph.nodes if n.op == "call_function"]
    result = next(n for n in module.graph.nodes if n.op == "output").args[0]
    assert result.meta["val"].shape == (2, 4, 7, value) and result.meta["val"].dtype == dtype
    return nodes


@pytest.mark.parametrize("mask", [None, ((7, 9), torch.bool), ((2, 1, 7, 9), torch.bfloat16), ((1, 7, 9), torch.bool)])
@pytest.mark.parametrize("heads", [4, 2])
def test_it_is_one_operator_in_the_users_dtype(mask, heads):
    nodes = traced(mask, heads, enable_gqa=heads == 2)
    assert [n.target for n in nodes if n.target is not operator.getitem] == [WHOLE]


def test_what_is_torchs_stays_torchs():
    def is_whole(**options):
        return any(n.target is WHOLE for n in traced(**options))

    assert is_whole()
    assert not is_whole(dropout_p=0.5)
    assert not is_whole(value=8)
    assert not is_whole(dtype=torch.float64)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert not is_whole()


def test_batches_and_masks_that_broadcast_are_torchs():
    def is_ours(q, k, mask=None):
        with FakeTensorMode():
            q, k = (torch.empty(shape, device="cuda") for shape in (q, k))
            mask = torch.empty(mask, dtype=torch.bool, device="cuda") if mask else None
            return whole_attention._is_ours(q, k, k, mask, 0.0, False)

    assert is_ours((4, 2, 8, 16), (4, 2, 9, 16), (4, 1, 8, 9))
    assert is_ours((1, 2, 8, 16), (1, 2, 9, 16), (1, 9))
    assert not is_ours((4, 2, 8, 16), (1, 2, 9, 16))
    assert not is_ours((1, 2, 8, 16), (1, 2, 9, 16), (4, 2, 8, 9))


@pytest.mark.parametrize("layout", ["rows", "heads"])
def test_the_result_lies_as_torchs_did(layout, monkeypatch):
    monkeypatch.setattr(whole_attention, "_is_ours", lambda *_: True)
    for x in (torch.randn(2, 3, 5, 8), torch.randn(2, 5, 3, 8).transpose(1, 2)):
        made = attend(x, x, x, layout=layout)
        torch.testing.assert_close(made, torch.nn.functional.scaled_dot_product_attention(x, x, x))
        assert (made.transpose(1, 2) if layout == "rows" else made).is_contiguous()


def test_autocast_leaves_float64():
    torch.set_autocast_enabled("cuda", True)
    try:
        with FakeTensorMode():
            x = torch.empty(1, 2, 8, 16, device="cuda", dtype=torch.float64)
            assert attend(x, x, x).dtype == torch.float64
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_autocast_casts():
    torch.set_autocast_enabled("cuda", True)  # torch.autocast turns itself off without a GPU
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    try:
        with FakeTensorMode():
            x = torch.empty(1, 2, 8, 16, device="cuda")
            assert attend(x, x, x).dtype == torch.bfloat16
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_calls_in_a_graph_are_replaced():
    def f(q):
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)

    module = torch.fx.symbolic_trace(f)
    keep_whole(module)
    q = torch.randn(1, 2, 5, 8)
    assert [n.target for n in module.graph.nodes if n.op == "call_function"] == [attend]
    torch.testing.assert_close(module(q), f(q))
