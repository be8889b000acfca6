"""Operators of PyTorch against eager: special functions, factorisations of
matrices, orders, and results as large as the data says."""

import pytest
import torch

import knapper
import knapper.torch
from knapper.torch import nodes

S = torch.special


pytestmark = pytest.mark.usefixtures("fresh")


def check(function, *inputs, rtol=1.3e-5, atol=1.5e-5):
    want = function(*[x.clone() for x in inputs])
    got = knapper.torch.compile(function, fullgraph=True, fallback="error", cache=False)(*inputs)
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)


def test_special_functions_of_one_number():
    def function(x):
        size = x.abs()
        return (
            torch.i0(x), S.i0e(x), S.i1(x), S.i1e(x), S.erfcx(x), S.airy_ai(x), S.spherical_bessel_j0(x),
            S.bessel_j0(x), S.bessel_j1(x), S.bessel_y0(size), S.bessel_y1(size),
            S.modified_bessel_i0(x), S.modified_bessel_i1(x), S.modified_bessel_k0(size), S.modified_bessel_k1(size),
            S.scaled_modified_bessel_k0(size), S.scaled_modified_bessel_k1(size), S.ndtri(torch.sigmoid(x)),
        )  # fmt: skip

    x = torch.cat([torch.linspace(-9, 9, 37), torch.tensor([0.0, 1e-6, -1e-6])])
    check(function, x)
    check(function, x.double(), rtol=1e-5, atol=1e-5)
    check(function, torch.arange(-3, 9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bool, torch.int64])
def test_the_zeros_of_the_logarithm_of_gamma_are_exact(dtype):
    x = torch.tensor([1, 2, 1]).to(dtype)
    check(lambda x: (torch.lgamma(x), torch.logical_and(x, torch.lgamma(x))), x, rtol=0, atol=0)


def test_modified_bessel_functions_of_infinities():
    x = torch.tensor([float("inf"), float("-inf"), float("nan"), 3e38, -3e38, 0.0, -1.0])
    for dtype in (torch.float32, torch.float64):
        check(lambda x: (torch.i0(x), S.i1(x), S.modified_bessel_i0(x), S.modified_bessel_i1(x), S.i0e(x)), x.to(dtype))
    check(torch.i0, x.half())


def test_special_functions_of_float64():
    x = torch.linspace(-0.95, 0.95, 12, dtype=torch.float64)
    check(lambda x: (torch.erfc(x), torch.erfinv(x), torch.lgamma(x), torch.digamma(x)), x, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_polygamma(n):
    check(lambda x: torch.polygamma(n, x), torch.linspace(0.1, 9, 20))


def test_functions_of_two_numbers():
    a, x = torch.rand(30) * 9, torch.rand(30) * 12
    check(lambda a, x: (torch.special.gammainc(a, x), torch.special.gammaincc(a, x), S.zeta(a + 1.1, x + 0.1)), a, x)


def test_polynomials():
    def function(x, n):
        return (
            S.chebyshev_polynomial_t(x, n), S.chebyshev_polynomial_u(x, n), S.chebyshev_polynomial_v(x, n),
            S.chebyshev_polynomial_w(x, n), S.hermite_polynomial_h(x, n), S.hermite_polynomial_he(x, n),
            S.laguerre_polynomial_l(x, n), S.legendre_polynomial_p(x, n), S.shifted_chebyshev_polynomial_t(x, n),
            S.shifted_chebyshev_polynomial_u(x, 3), S.shifted_chebyshev_polynomial_v(x, n),
            S.shifted_chebyshev_polynomial_w(x, n),
        )  # fmt: skip

    x = torch.cat([torch.linspace(-2, 2, 21), torch.tensor([1.0, -1.0, 0.0])])
    n = torch.arange(-1, 11)[:, None]
    check(function, x, n, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_parts_of_a_number(dtype):
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 3.5, -0.1, 1e30, float("inf"), float("-inf"), float("nan")], dtype=dtype)
    check(lambda x: (torch.frexp(x), torch.nextafter(x, -x), torch.nextafter(x, x * 0 + 2)), x, rtol=0, atol=0)


def test_the_parts_of_a_denormal_number():
    x = torch.tensor([5e-324, -5e-324, 1.5e-310, 2.2250738585072014e-308, -2.225073858507201e-308], dtype=torch.float64)
    check(lambda x: (torch.frexp(x), torch.nextafter(x, -x)), x, rtol=0, atol=0)


def test_divisors():
    x, y = torch.randint(-40, 40, (50,)), torch.randint(-40, 40, (50,))
    check(lambda x, y: (torch.gcd(x, y), torch.lcm(x, y)), x, y)
    check(lambda x, y: (torch.gcd(x, y), torch.lcm(x, y)), x.to(torch.int32), torch.zeros(50, dtype=torch.int32))


# ---- matrices


def positive(n, *batch):
    x = torch.randn(*batch, n, n)
    return x @ x.mT + torch.eye(n)


def test_determinants_and_inverses():
    def function(x):
        return torch.linalg.det(x), torch.linalg.slogdet(x), torch.linalg.inv_ex(x)[0], torch.matrix_exp(x / 4)

    check(function, positive(4, 3), rtol=1e-4)
    check(function, torch.randn(3, 3, dtype=torch.float64), rtol=1e-9)


def test_factorisations():
    def function(x, a):
        return (
            torch.linalg.cholesky_ex(x), torch.linalg.cholesky_ex(x, upper=True), torch.linalg.lu(a),
            torch.linalg.lu_factor_ex(a), torch.linalg.qr(a), torch.linalg.qr(a, "complete"),
            torch.linalg.svdvals(a), torch.linalg.eigvalsh(x), torch.linalg.pinv(a),
        )  # fmt: skip

    for shape in [(2, 4, 3), (3, 5), (4, 4)]:
        check(function, positive(4, 2), torch.randn(shape), rtol=1e-4, atol=1e-5)


def test_systems():
    def function(a, b, t):
        return (
            torch.linalg.solve_ex(a, b)[0], torch.linalg.solve_triangular(t, b, upper=False),
            torch.linalg.solve_triangular(t.mT, b.mT, upper=True, left=False),
            torch.triangular_solve(b, t, upper=False, transpose=True)[0], torch.cholesky_solve(b, t),
            torch.cholesky_inverse(t),
        )  # fmt: skip

    a = positive(4, 2)
    check(function, a, torch.randn(2, 4, 3), torch.linalg.cholesky(a), rtol=1e-4, atol=1e-5)


def test_a_factorisation_that_fails_raises_torchs_error():
    fast = knapper.torch.compile(lambda x: torch.linalg.inv(x) + 1, fallback="error", cache=False)
    x = positive(3)
    torch.testing.assert_close(fast(x), torch.linalg.inv(x) + 1, rtol=1e-4, atol=1e-5)
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        fast(torch.zeros(3, 3))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
@pytest.mark.parametrize("full", [False, True])
def test_singular_vectors(shape, full):
    a = torch.randn(shape)
    a[..., 1] = a[..., 0]  # a value of 0
    fast = knapper.torch.compile(lambda a: torch.linalg.svd(a, full_matrices=full), fallback="error", cache=False)
    u, s, vh = fast(a)
    k = min(shape[-2:])
    torch.testing.assert_close(u[..., :k] * s[..., None, :] @ vh[..., :k, :], a)
    torch.testing.assert_close(u.mT @ u, torch.eye(u.shape[-1]).expand(*u.shape[:-2], -1, -1))
    torch.testing.assert_close(vh @ vh.mT, torch.eye(vh.shape[-2]).expand(*vh.shape[:-2], -1, -1))


def test_eigenvectors():
    a = positive(4, 3)
    values, vectors = knapper.torch.compile(torch.linalg.eigh, fallback="error", cache=False)(a)
    torch.testing.assert_close(vectors * values[..., None, :] @ vectors.mT, a, rtol=1e-4, atol=1e-5)


def test_masks_of_the_first_dims():
    def function(x, mask, values, one):
        a, b, c = x.clone(), x.clone(), x.clone()
        a[mask], b[mask] = values, one
        return a, b, c.index_put((mask,), values, accumulate=True)

    x, mask = torch.randn(4, 3), torch.tensor([True, False, True, True])
    check(function, x, mask, torch.randn(3, 3), torch.randn(3))
    check(lambda x, v: x.index_put((x > 0,), v), x, torch.randn(()))


def test_what_torch_takes_apart_with_numbers_of_tensors():
    x = torch.rand(4, 3)
    edges, order = torch.linspace(1, 0, 6), torch.arange(5, -1, -1)
    check(lambda x, e, o: torch.searchsorted(e, x, sorter=o), x, edges, order)
    check(lambda x, e: (torch.bucketize(x, e.flip(0)), torch.take(x, torch.tensor(2))), x, edges)
    check(lambda x: torch.geqrf(x), x)
    b = x > 0.5
    check(lambda a, b: (torch.fmax(a, b), torch.fmin(a, b), a.clamp_min(b), a.clamp_max(b)), b, ~b.flip(0))


# ---- orders and pools


def test_orders():
    x = torch.randint(0, 4, (3, 9)).float()
    x[1, 3] = float("nan")
    check(lambda x: (torch.mode(x, 1), torch.mode(x.nan_to_num(), 0), torch.nanmedian(x, 1)[0], torch.nanmedian(x)), x)
    check(lambda x: torch.mode(x), torch.randint(0, 3, (4, 7)))
    distinct = torch.randperm(24).float().reshape(4, 6)  # of an even number the lower one
    check(lambda x: (torch.median(x, 1), torch.median(x, 0), torch.median(x), torch.kthvalue(x, 2, 1)), distinct)


def test_running_sums_of_exponentials_lose_nothing():
    x = torch.tensor([[-900.0, -901.0, 0.0, 5.0, float("-inf")], [float("-inf"), float("-inf"), 1.0, 900.0, -3.0]])
    check(lambda x: torch.logcumsumexp(x, 1), x)


def test_adaptive_pools():
    check(lambda x: torch.nn.functional.adaptive_max_pool2d(x, (3, 2), return_indices=True), torch.randn(2, 3, 7, 5))
    check(lambda x: torch.nn.functional.adaptive_max_pool3d(x, (2, 3, 1)), torch.randn(2, 4, 5, 3))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_distances(p):
    def function(x, y):
        return torch.cdist(x, y, p, "donot_use_mm_for_euclid_dist"), torch.nn.functional.pdist(x[0], p)

    check(function, torch.randn(2, 4, 3), torch.randn(2, 5, 3), rtol=1e-4)


@pytest.mark.parametrize("how", ["mean", "prod", "amin", "amax"])
@pytest.mark.parametrize("own", [True, False])
def test_index_reduce(how, own):
    x, at, y = torch.randn(5, 3), torch.tensor([0, 2, 2, 4]), torch.randn(4, 3)
    check(lambda x, y: x.index_reduce(0, at, y, how, include_self=own), x, y)
    check(lambda x, y: x.index_reduce(0, at, y, how, include_self=own), (x * 9).long(), (y * 9).long())


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode):
    weight, at, offsets = torch.randn(6, 4), torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2, 2])
    check(lambda w, at, o: torch.nn.functional.embedding_bag(at, w, o, mode=mode), weight, at, offsets)


def test_samples_of_a_volume():
    x, grid = torch.randn(1, 2, 3, 4, 5), torch.rand(1, 2, 2, 2, 3) * 3 - 1.5
    for padding in ("zeros", "border", "reflection"):
        check(lambda x, g: torch.nn.functional.grid_sample(x, g, padding_mode=padding, align_corners=False), x, grid)


def test_results_as_large_as_the_data_says():
    def function(x, mask):
        return torch.nonzero(x), torch.masked_select(x, mask), torch.unique(x, return_inverse=True, return_counts=True)

    x = torch.tensor([[0, 3, 3], [1, 0, 3]])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(function, x, x > 0)
        check(lambda x: torch.masked_select(x, x > 0) * 2, x.float())


@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_positions_of_a_given_number(size):
    x = torch.tensor([[0, 3, 3, 0], [1, 0, 0, 3]])
    check(lambda x: torch.nonzero_static(x, size=size, fill_value=-7), x)


def test_gradients_of_distances_and_pools():
    def function(a, b, x):
        far = [torch.cdist(a, b, p).sin().sum() for p in (1.0, 2.0, 3.0, float("inf"))]
        pools = torch.nn.functional.max_pool3d(x, 2, 1).cos().sum()
        return sum(far) + pools + torch.nn.functional.adaptive_max_pool3d(x, 2).sin().sum()

    given = [torch.randn(3, 4), torch.randn(5, 4), torch.randn(1, 2, 4, 5, 3)]
    given[1][0] = given[0][0]  # a distance of 0
    found = []
    for f in (function, knapper.torch.compile(function, fullgraph=True, fallback="error", cache=False)):
        leaves = [x.clone().requires_grad_() for x in given]
        f(*leaves).backward()
        found.append([x.grad for x in leaves])
    torch.testing.assert_close(found[1], found[0])


def test_bounds_are_searched_in_the_common_dtype():
    bounds = torch.tensor([-1.0, 0.25, 1.5])
    for x in (torch.arange(-3, 4), torch.arange(-3, 4).to(torch.int16), torch.randn(7).half(), torch.randn(7).double()):
        check(lambda x, bounds: (torch.bucketize(x, bounds), torch.bucketize(x, bounds, right=True)), x, bounds)


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


def test_writes_to_a_view_by_index():
    def function(x):
        v = x.permute(2, 0, 1)
        v.index_fill_(-3, torch.tensor([0]), 3)
        return v + 1

    check(function, torch.randn(4, 2, 3))


def test_an_index_of_another_rank_that_is_empty():
    def function(x, src):
        none = torch.empty((0, 1), dtype=torch.int64)
        return x.scatter_add(1, none, src), x.scatter(1, none, src), x.scatter_reduce(1, none, src, "amax")

    check(function, torch.randn(2, 1), torch.randn(2))


def test_a_diagonal_that_is_written_beside_another_kernel():
    def function(x, y):
        torch.diagonal(x, 1, 1, 0)[0:].mul_(7)
        return torch.nn.functional.adaptive_avg_pool2d(y, 3)

    f = torch.compile(function, backend=knapper.torch.backend)
    x, y = torch.arange(14, dtype=torch.int32).reshape(2, 7), torch.randn(1, 7, 4)
    want = x.clone()
    torch.testing.assert_close(f(x, y), function(want, y))
    assert torch.equal(x, want)


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
    check(function, x)
    x = torch.randn(2, 7, 11, requires_grad=True)
    made = knapper.torch.compile(function, dynamic=True, fallback="error", cache=False)
    weight = torch.full_like(function(x), 2.0)
    weight[0, 0, 0] = torch.inf
    torch.testing.assert_close(*(torch.autograd.grad(f(x), x, weight)[0] for f in (made, function)))


F = torch.nn.functional
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


@pytest.mark.parametrize("name", POOLS)
def test_pools_of_symbolic_sizes(name):
    # Torch traces anew where windows come to be equal, where one more begins behind
    # the image, and for each of the sizes that it divides by one another.
    again = at_sizes(POOLS[name], (3, 4, 7, 5), (2, 4, 13, 11), (3, 4, 19, 17))
    assert again == 0 or name == "adaptive_max to sizes"
    at_sizes(POOLS[name], (3, 4, 9, 8), (2, 4, 7, 10), (3, 4, 16, 5))


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


@pytest.mark.parametrize("shape", [(0, 3, 6), (0, 6), (2, 0, 6)])
def test_convolutions_of_images_without_elements(shape):
    """Torch's result has as many channels as the image then, whatever the filter."""
    filter = torch.randn(2, shape[-2], 3, requires_grad=True)
    x = torch.randn(shape, requires_grad=True)
    made = knapper.torch.compile(F.conv1d, fullgraph=True, fallback="error", cache=False)
    for bias in (None, torch.randn(2, requires_grad=True)):
        leaves = [t for t in (x, filter, bias) if t is not None]
        got, want = made(x, filter, bias, padding=1), F.conv1d(x, filter, bias, padding=1)
        torch.testing.assert_close(got, want)
        gradients = [torch.autograd.grad(y.sum(), leaves) for y in (got, want)]
        torch.testing.assert_close(*gradients)


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


def test_attention_without_dropout_is_not_random():
    """Torch may compute it where `fallback` allows that only."""
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    assert not nodes.is_by_torch(attention, {"dropout_p": 0.0})
    assert nodes.is_by_torch(attention, {"dropout_p": 0.1})
    assert nodes.is_by_torch(torch.ops.aten.rand.default, {"size": [2]})


@pytest.mark.parametrize(
    "x",
    [torch.arange(-8, 8), torch.randn(3, 4), torch.randn(2, 8).half(), torch.randint(0, 256, (2, 8)).to(torch.uint8), torch.rand(3, 8) > 0.5],
)
def test_views_as_elements_of_another_size(x):
    """The bits stay, the first elements of a larger one are its low bits."""
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        check(lambda x, dtype=dtype: x.view(dtype), x, rtol=0, atol=0)
    if x.dtype == torch.uint8:
        check(lambda x: (x % 2).view(torch.bool), x)
        check(lambda x: x.view(torch.float64), x, rtol=0, atol=0)


def test_an_index_without_elements_may_have_any_rank():
    for rank in range(1, 4):
        check(lambda x, at: torch.gather(x, 1, at), torch.randn(3, 2), torch.empty([0] * rank, dtype=torch.int64))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("shape", [(4,), (4, 4), (3, 4, 4)])
@pytest.mark.parametrize("turned", [False, True])
def test_gradients_of_systems(left, shape, turned):
    if shape == (4,) and not left:
        pytest.skip("torch takes vectors from the left")
    a = torch.randn(shape if len(shape) == 3 else (4, 4)) + 4 * torch.eye(4)  # not symmetric
    a, b = (a.mT.contiguous().mT if turned else a).requires_grad_(), torch.randn(shape, requires_grad=True)
    made = knapper.torch.compile(torch.linalg.solve, fullgraph=True, fallback="error", cache=False)
    found = []
    for f in (made, torch.linalg.solve):
        x = f(a, b, left=left)
        found.append([x, *torch.autograd.grad((x * torch.arange(1.0, 5)).sum(), [a, b])])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_ranges_to_a_quotient_of_sizes():
    made = knapper.torch.compile(lambda x: torch.arange(x.shape[0] / 2) * x[0], dynamic=True, fallback="error", cache=False)
    for size in (8, 5, 12):
        x = torch.randn(size)
        torch.testing.assert_close(made(x), torch.arange(size / 2) * x[0])
    assert knapper.torch.counters()["graphs"] == 1


def test_places_of_the_largest_among_nans_and_infinities():
    """Of NaNs the last is the place; where all are -inf, the first inside of the image."""
    x = torch.randn(2, 3, 8, 6)
    x[x > 0.5], x[:, 1], x[0, 2] = torch.nan, -torch.inf, -0.0
    x[0, 2, ::2] = 0.0

    def function(x):
        return (
            F.max_pool2d(x, 3, 2, 1, return_indices=True),
            F.adaptive_max_pool2d(x, (3, 4), return_indices=True),
            F.max_pool3d(x, (3, 2, 2), return_indices=True),
        )

    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        check(function, x.to(dtype))


def test_quotients_rounded_down_have_the_sign_of_the_quotient():
    x = torch.tensor([-0.3, 0.3, -2, 2, 0.0, -0.0, 1.5, -1.5])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for by in (-1.5, 1.5):
            y = x.to(dtype)
            made = knapper.torch.compile(lambda y: torch.div(y, by, rounding_mode="floor"), cache=False)(y)
            want = torch.div(y, by, rounding_mode="floor")
            assert torch.equal(made, want) and torch.equal(made.signbit(), want.signbit())


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "uint8"])
def test_medians_of_nothing(dtype):
    check(lambda x: (x.median(), x.nanmedian()), torch.zeros(0, 5, dtype=getattr(torch, dtype)))


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


def test_results_whose_elements_lie_in_one_place():
    def function(x):
        y = x.sort(2)[0]
        return y.expand(3, -1, y.shape[1], -1)[..., :4, :, 3:5], (x + 1).unfold(2, 3, 1)[:, 1:]

    made = knapper.torch.compile(function, fullgraph=True, fallback="error", cache=False)
    x = torch.randint(-9, 9, (6, 6, 6), dtype=torch.int32)
    got, want = made(x), function(x)
    assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(got, want))


def test_adaptive_averages_to_a_symbolic_size():
    def function(x, y):
        return torch.nn.functional.adaptive_avg_pool2d(x, (y.shape[0], y.shape[1]))

    made = knapper.torch.compile(function, fullgraph=True, dynamic=True, fallback="error", cache=False)
    for rows, columns in ((3, 2), (4, 6), (9, 7)):
        x, y = torch.randn(2, 8, 5), torch.randn(rows, columns)
        torch.testing.assert_close(made(x, y), function(x, y))


def test_gradients_of_averages_of_symbolic_channels():
    def function(x):
        return torch.nn.functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)

    assert at_sizes(function, (2, 3, 6, 7), (4, 5, 8, 9), (3, 7, 5, 4)) == 0
    at_sizes(lambda x: torch.nn.functional.avg_pool2d(x, 3, 1), (3, 4, 6), (5, 3, 9))


def test_group_norm_of_symbolic_channels():
    weight = torch.randn(4, 1)

    def function(x):
        channels = x.shape[1]
        scale = weight.expand(4, channels // 4).reshape(-1)
        return torch.nn.functional.group_norm(x, 4, scale, scale.exp())

    assert at_sizes(function, (2, 8, 5), (3, 12, 7), (2, 20, 3)) == 0
    at_sizes(lambda x: torch.nn.functional.group_norm(x, 2), (2, 4, 5, 3), (3, 6, 2, 7))


EIGHT_BITS = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_floats_of_eight_bits(dtype):
    limits = [0.0, -0.0, 1e-3, 1e-6, 1e-10, 240, 448, 449, 464, 465, 480, 57344, 61440, 1e5, 1e30, torch.inf]
    wide = torch.cat([torch.tensor([*limits, *(-x for x in limits)]), torch.randn(100) * 50])
    every = torch.arange(256, dtype=torch.uint8).view(dtype)
    for source in (torch.float32, torch.bfloat16, torch.float16):
        torch._dynamo.reset()
        convert = knapper.torch.compile(lambda x: x.to(dtype).reshape(4, -1).t(), fallback="error", cache=False)
        got, want = convert(wide.to(source)), wide.to(source).to(dtype).reshape(4, -1).t()
        assert torch.equal(got.contiguous().view(torch.uint8), want.contiguous().view(torch.uint8))
        back = knapper.torch.compile(lambda x: x.to(source) * 2, fallback="error", cache=False)
        torch.testing.assert_close(back(every), every.to(source) * 2, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_float64_is_rounded_as_torch_does(dtype):
    """To float32 first: a number just above the middle of two of 16 bits."""
    middle = 1 + 2.0 ** (-11 if dtype == torch.float16 else -8)
    x = torch.tensor([middle + 2**-40, middle, middle - 2**-40, 1.0], dtype=torch.float64)
    assert torch.equal(knapper.torch.compile(lambda x: x.to(dtype), fallback="error")(x), x.to(dtype))
