"""Operators of PyTorch whose sizes are symbols against eager: one program for all sizes, results and gradients."""

import pytest
import torch

import knapper
import knapper.torch

F = torch.nn.functional

pytestmark = pytest.mark.usefixtures("fresh")


def at_sizes(function, *shapes, dtype=torch.float32):
    """One program for all of the shapes, results and gradients as eager's."""
    torch._dynamo.reset()
    knapper.torch.reset_counters()
    made = knapper.torch.compile(function, fullgraph=True, dynamic=True, fallback="error", cache=False)
    for shape in shapes:
        x = torch.randn(*shape, dtype=dtype, requires_grad=True)
        got, want = made(x), function(x)
        scale = dict(rtol=1.3e-5, atol=1.5e-5) if dtype == torch.float32 else dict(rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(got, want, **scale)
        weight = torch.randn_like(want)
        gradients = [torch.autograd.grad((y * weight).sum(), x)[0] for y in (got, want)]
        torch.testing.assert_close(*gradients, **scale)
    return knapper.torch.counters()["recompiles"]


POOLS = {
    "adaptive_max": lambda x: F.adaptive_max_pool2d(x, (3, 2)),
    "adaptive_max1d": lambda x: F.adaptive_max_pool1d(x[..., 0], 4),
    "adaptive_max3d": lambda x: F.adaptive_max_pool3d(x[None], (3, 3, 2)),
    "adaptive_max to sizes": lambda x: F.adaptive_max_pool2d(x, (x.shape[-2] // 2, x.shape[-1] // 2)),
    "strided averages": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "averages of the rest": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "strided averages 3d": lambda x: F.avg_pool3d(x[None], 2, 2),
    "windows with gaps": lambda x: F.avg_pool2d(x, 1, 3, ceil_mode=True),
    "largest of the rest": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "powers": lambda x: F.lp_pool2d(x.abs() + 0.1, 2, 2),
}


def test_running_log_sums_of_symbolic_sizes():
    f = knapper.torch.compile(lambda x: x.logcumsumexp(0), fullgraph=True, fallback="error", cache=False, dynamic=True)
    for size in (5, 9, 2):
        x = torch.randn(size, 3) * 30
        x[1, 0], x[0, 1] = float("-inf"), float("inf")
        torch.testing.assert_close(f(x), x.logcumsumexp(0))


def test_symbolic_sizes_that_the_trace_found_to_be_1_are_broadcast():
    def parts(x):
        return torch.chunk(x, 3, 0)[-1] + x  # x.shape[0] - 2 * ((x.shape[0] + 2) // 3)

    def pooled(x, y):
        return torch.where(y > 0, torch.nn.functional.avg_pool1d(x, 2), -1.5)  # x.shape[2] // 2

    for function, given in ((parts, (torch.randn(5),)), (pooled, (torch.randn(2, 8, 2), torch.randn(8)))):
        f = knapper.torch.compile(function, fullgraph=True, fallback="error", cache=False, dynamic=True)
        torch.testing.assert_close(f(*given), function(*given))


@pytest.mark.parametrize("size", [(2, 3), 5])
def test_adaptive_averages_of_symbolic_sizes(size):
    def function(x):
        return torch.nn.functional.adaptive_avg_pool2d(x, size)

    for dtype in (torch.float32, torch.float64):
        assert at_sizes(function, (2, 3, 7, 5), (3, 4, 6, 9), (2, 5, 13, 40), (4, 3, 10, 15), dtype=dtype) == 0
    at_sizes(function, (3, 4, 2), (3, 7, 9))
    # Infinite elements and gradients stay in their windows.
    x = torch.randn(2, 7, 11)
    x[0, 3, 4], x[1, 0, 0] = torch.inf, torch.nan
    made = knapper.torch.compile(function, fullgraph=True, fallback="error", cache=False)
    torch.testing.assert_close(made(x), function(x), rtol=1.3e-5, atol=1.5e-5, equal_nan=True)
    x = torch.randn(2, 7, 11, requires_grad=True)
    made = knapper.torch.compile(function, dynamic=True, fallback="error", cache=False)
    weight = torch.full_like(function(x), 2.0)
    weight[0, 0, 0] = torch.inf
    torch.testing.assert_close(*(torch.autograd.grad(f(x), x, weight)[0] for f in (made, function)))


def test_adaptive_averages_to_a_symbolic_size():
    def function(x, y):
        return torch.nn.functional.adaptive_avg_pool2d(x, (y.shape[0], y.shape[1]))

    made = knapper.torch.compile(function, fullgraph=True, dynamic=True, fallback="error", cache=False)
    for rows, columns in ((3, 2), (4, 6), (9, 7)):
        x, y = torch.randn(2, 8, 5), torch.randn(rows, columns)
        torch.testing.assert_close(made(x, y), function(x, y))


@pytest.mark.parametrize("name", POOLS)
def test_pools_of_symbolic_sizes(name):
    # Torch traces anew where windows come to be equal, where one more begins behind
    # the image, and for each of the sizes that it divides by one another.
    again = at_sizes(POOLS[name], (3, 4, 7, 5), (2, 4, 13, 11), (3, 4, 19, 17))
    assert again == 0 or name == "adaptive_max to sizes"
    at_sizes(POOLS[name], (3, 4, 9, 8), (2, 4, 7, 10), (3, 4, 16, 5))


def test_gradients_of_averages_of_symbolic_channels():
    def function(x):
        return torch.nn.functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)

    assert at_sizes(function, (2, 3, 6, 7), (4, 5, 8, 9), (3, 7, 5, 4)) == 0
    at_sizes(lambda x: torch.nn.functional.avg_pool2d(x, 3, 1), (3, 4, 6), (5, 3, 9))


@pytest.mark.parametrize("how", ["strided", "groups", "dilated", "transposed"])
def test_gradients_of_convolutions_of_symbolic_images(how):
    layer = {
        "strided": lambda: torch.nn.Conv2d(4, 6, 3, 2, 1),
        "groups": lambda: torch.nn.Conv2d(4, 8, 3, 1, 1, groups=2),
        "dilated": lambda: torch.nn.Conv2d(4, 6, (3, 2), (2, 3), 2, dilation=2),
        "transposed": lambda: torch.nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1),
    }[how]()
    made = knapper.torch.compile(layer, fullgraph=True, dynamic=True, fallback="error", cache=False)
    for shape in (3, 4, 9, 8), (2, 4, 7, 10), (3, 4, 16, 5):
        x = torch.randn(shape, requires_grad=True)
        weight = torch.randn_like(layer(x))
        got, want = (torch.autograd.grad((f(x) * weight).sum(), [x, *layer.parameters()]) for f in (made, layer))
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert knapper.torch.counters()["recompiles"] == 0


def test_group_norm_of_symbolic_channels():
    weight = torch.randn(4, 1)

    def function(x):
        channels = x.shape[1]
        scale = weight.expand(4, channels // 4).reshape(-1)
        return torch.nn.functional.group_norm(x, 4, scale, scale.exp())

    assert at_sizes(function, (2, 8, 5), (3, 12, 7), (2, 20, 3)) == 0
    at_sizes(lambda x: torch.nn.functional.group_norm(x, 2), (2, 4, 5, 3), (3, 6, 2, 7))


ATTENTION = {
    "plain": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "masked": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, (q[..., :1] + k[..., :1].mT) > -1.0),
}


@pytest.mark.parametrize(
    "name, dtype", [*((name, torch.float32) for name in ATTENTION), ("causal", torch.bfloat16)]
)
def test_attention_of_a_symbolic_head_size(name, dtype):
    """One program for all head sizes, forward and backward, and none of it torch's."""
    made = knapper.torch.compile(ATTENTION[name], fullgraph=True, dynamic=True, fallback="error", cache=False)
    knapper.torch.reset_counters()
    scale = dict(rtol=1e-4, atol=1e-5) if dtype == torch.float32 else dict(rtol=3e-2, atol=3e-2)
    for batch, rows, keys, head in (2, 7, 9, 8), (3, 5, 6, 12), (2, 11, 4, 40):
        wide = [torch.randn(batch, 4, n, head, dtype=dtype) for n in (rows, keys, keys)]
        given = [x.clone().requires_grad_() for x in wide]
        others = [x.float().requires_grad_() for x in wide]
        made(*given)  # tracing calls torch
        with torch.profiler.profile() as profile:
            got = made(*given)
        assert not [e.name for e in profile.events() if "attention" in e.name]
        want = ATTENTION[name](*others)
        torch.testing.assert_close(got.float(), want, **scale)
        weight = torch.randn_like(want)
        mine = torch.autograd.grad(got, given, weight.to(dtype))
        for a, b in zip(mine, torch.autograd.grad(want, others, weight.to(dtype).float())):
            torch.testing.assert_close(a.float(), b, **scale)
    counted = knapper.torch.counters()
    assert counted["recompiles"] == 0 and counted["fallback_ops"] == 0


@pytest.mark.parametrize("name", ["plain", "masked"])
def test_attention_of_16_bits_and_a_symbolic_head_size_is_as_exact_as_torchs(name):
    """The scale is not rounded into 16 bits with the query: large scores show it."""
    torch.manual_seed(0)
    made = knapper.torch.compile(ATTENTION[name], fullgraph=True, dynamic=True, fallback="error", cache=False)
    mine = torchs = 0.0
    for rows, keys, head in (33, 65, 24), (40, 50, 40), (17, 70, 72):
        q, k, v = (torch.randn(2, 4, n, head, dtype=torch.bfloat16) for n in (rows, keys, keys))
        q *= 6
        want = ATTENTION[name](q.double(), k.double(), v.double())
        mine = max(mine, (made(q, k, v).double() - want).abs().max().item())
        torchs = max(torchs, (ATTENTION[name](q, k, v).double() - want).abs().max().item())
    assert mine <= 2 * torchs, (mine, torchs)


def test_ranges_to_a_quotient_of_sizes():
    made = knapper.torch.compile(lambda x: torch.arange(x.shape[0] / 2) * x[0], dynamic=True, fallback="error", cache=False)
    for size in (8, 5, 12):
        x = torch.randn(size)
        torch.testing.assert_close(made(x), torch.arange(size / 2) * x[0])
    assert knapper.torch.counters()["graphs"] == 1


def test_numbers_of_either_sign_that_become_symbols():
    def function(x, n):
        rolled = torch.roll(x, n, 0) + torch.tril(x, n) + torch.add(x, x, alpha=n)
        return rolled * n, x[n:], torch.full((2,), n) + n // 2

    made = knapper.torch.compile(function, fullgraph=True, dynamic=True, fallback="error", cache=False)
    for n in (-3, -1, 3, -2):
        x = torch.randn(5, 5)
        torch.testing.assert_close(made(x, n), function(x, n))
    torch._dynamo.reset()
    knapper.torch.reset_counters()
    made = knapper.torch.compile(lambda x, n: x * n, fullgraph=True, dynamic=True, fallback="error", cache=False)
    for n in (3, 5, -3, -7, -2, 9):
        torch.testing.assert_close(made(x, n), x * n)
    assert knapper.torch.counters()["graphs"] <= 2


def test_norms_of_an_order_that_the_run_gives():
    made = knapper.torch.compile(
        lambda x, n: torch.linalg.vector_norm(x, n, 1), fullgraph=True, dynamic=True, fallback="error", cache=False
    )
    x = torch.randn(3, 4)
    x[1, 2] = 0
    for n in (2, 3, 4, -2):
        torch.testing.assert_close(made(x, n), torch.linalg.vector_norm(x, n, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factor", [0.5, 1.25])
def test_images_by_factors_whose_products_are_exact(factor):
    assert at_sizes(lambda x: F.interpolate(x, scale_factor=factor, mode="nearest-exact"), (2, 3, 5, 4), (3, 2, 7, 9)) == 0
