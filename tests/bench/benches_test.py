"""What the benches compare: figures of both sides that mean the same."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import comparison  # noqa: E402
import gpu_against_torch  # noqa: E402
import gpu_kernels  # noqa: E402
import irregular  # noqa: E402
import ratios  # noqa: E402


@pytest.mark.parametrize("times, fast", [([1, 1, 1.1, 1.2], True), ([1, 1, 1.1, 0.9], False), ([1, 1, 0.9, 1.1], False)])
def test_bars_are_of_the_worse_of_burst_and_sustained(times, fast):
    ours_burst, ours_sustained, burst, sustained = times
    bench = gpu_against_torch.Bench.__new__(gpu_against_torch.Bench)
    bench.options = SimpleNamespace(bars=True)
    bench.medians = lambda _: ([ours_burst, burst], [ours_sustained, sustained])
    row = {}
    bench.measure(row, [None, None], 1.0)
    assert row["fast"] == fast


def test_time_of_several_kernels_has_the_gaps_between_them():
    events = [{"start_ns": 0, "ns": 1_000_000}, {"start_ns": 3_000_000, "ns": 2_000_000}]
    assert gpu_kernels.span(events) == 5


@pytest.mark.parametrize("ours, theirs", [(np.nan, 1), (1, np.nan), (1, np.inf)])
def test_what_is_not_finite_is_an_infinite_difference(ours, theirs):
    one = np.ones(3, np.float32)
    assert comparison.difference(one * ours, one * theirs, 0) == np.inf
    assert comparison.difference(one, one, 0) == 0


def test_a_reason_lets_a_shape_off_only_so_far():
    import floors

    bars = floors.Reason("rows are transposed", share=0.5, nest=0.9).bars()
    assert bars == pytest.approx((0.4, 0.72))
    assert floors.Reason("moves (least 0.79)", share=0.99, nest=1.25).bars() == (0.6, 0.79)
    assert floors.reasons()["index of the largest 1024x1000"].bars() == pytest.approx((0.464, 0.95))


@pytest.mark.parametrize("causal", [False, True])
def test_masks_of_torch_are_made_once_and_as_small_as_they_go(causal):
    torch = pytest.importorskip("torch")
    import gpu_attention

    case = gpu_attention.Case("t", 2, 4, 5, 8, dtype="f32", mask="keys", causal=causal)
    attention = gpu_attention.Attention.__new__(gpu_attention.Attention)
    attention.torch = torch
    q, k, v = (torch.randn(2, 4, 5, 8, generator=torch.Generator().manual_seed(i)) for i in range(3))
    mask = torch.arange(5) < torch.tensor([3, 5]).reshape(2, 1, 1, 1)
    forms = attention.masks(case, mask)
    assert {tuple(form.shape) for form in forms.values()} == {(2, 1, 5 if causal else 1, 5)}
    assert attention.graphs  # short kernels: not what launching them costs
    scores = (q.double() @ k.double().mT * 8**-0.5).masked_fill(~mask, float("-inf"))
    if causal:
        scores = scores.masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(), float("-inf"))
    wanted = torch.softmax(scores, -1) @ v.double()
    for form in forms.values():
        got = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=form)
        assert (got - wanted).abs().max() < 1e-5


def test_short_rows_have_no_part_in_the_second_mean(monkeypatch, tmp_path, capsys):
    """Of small networks the peers' own overhead is most of the time: the table gives both means."""
    figures = {"refused": {}, "errors": {"ort": 0.0}, "error": 0.0, "knapper_ms": 1.0}
    rows = [
        comparison.Row(name, "1", SimpleNamespace(path=tmp_path, threads=1)) for name in ("short", "long")
    ]
    measured = iter([{"ratio": 4.0, "peers_ms": {"ort": 0.5}}, {"ratio": 1.0, "peers_ms": {"ort": 50.0}}])
    monkeypatch.setattr(comparison, "measure", lambda *_: figures | next(measured))
    monkeypatch.setattr(comparison.knapper, "compile", lambda *_, **__: None)
    arguments = SimpleNamespace(peers="ort", threads=1, rounds=1, json=None, bars=False)
    assert comparison.compare(rows, arguments, comparison.Bars(1, 1)) == 0
    printed = capsys.readouterr().out
    assert "geometric mean 2.00x, least 1.00x" in printed
    assert "of the 1 rows of 2 ms and more 1.00x" in printed


@pytest.mark.parametrize("family", [f.__name__ for f in irregular.FAMILIES])
def test_irregular_rows_are_right(family):
    """One of each family: what ONNX says is what the peer computes, and so do we."""
    pytest.importorskip("torch")
    row = irregular.measured(family, "fixed", 0, 0.001, 1)
    assert row["right"] and row["ratio"] > 0, row


def test_an_irregular_row_that_is_wrong_is_seen():
    one = np.arange(6, dtype=np.float32)
    assert irregular.same(one, one, 0) and irregular.same(one, one * (1 + 1e-6), 1e-5)
    assert not irregular.same(one, one * (1 + 1e-6), 0) and not irregular.same(one, one * 1.001, 1e-5)
    assert not irregular.same(one, one[:5], 0)


def test_a_distribution_is_of_sorted_ratios():
    assert ratios.quantile([1, 2, 4, 8], 0.5) == 4
    assert ratios.geometric_mean([0.5, 2, 8]) == pytest.approx(2)
    assert ratios.geometric_mean([]) == 0
    row = ratios.distribution("sort", [4.0, 0.5, 2.0])
    assert row.split() == "sort 3 median 2.00 5th 0.50 least 0.500 most 4.00".split()


def test_gradients_of_narrow_floats_are_as_exact_as_eagers():
    """Of halves eager rounds too: what is as far from float64 as its own is right, and nothing else."""
    torch = pytest.importorskip("torch")
    import torch_ops

    options = SimpleNamespace(backward=True, inference=False)
    x = torch.linspace(-4, 9, 125, dtype=torch.float16).reshape(5, 5, 5).requires_grad_()

    def call(x):
        return torch.logcumsumexp(x, 0)

    eager = torch_ops.evaluated(call, [x], [x], options)
    want = torch_ops.evaluated(call, [x.float()], [x], options)
    assert torch_ops.as_exact(call, [x], eager, want, options)
    assert not torch_ops.as_exact(call, [x], [eager[0] + 1], want, options)
    i1e = torch.special.i1e
    assert torch_ops.eager_runs(call, [x], options) and not torch_ops.eager_runs(i1e, [x], options)


def test_operators_named_after_random_ones_are_compared():
    torch_ops = pytest.importorskip("torch_ops")
    assert torch_ops.is_random("normal.in_place") and torch_ops.is_random("rand_like")
    assert not any(map(torch_ops.is_random, ("nn.functional.normalize", "nn.functional.poisson_nll_loss", "__rand__")))
