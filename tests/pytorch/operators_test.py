"""Operators of PyTorch against eager: special functions, factorisations of
matrices, orders, and results as large as the data says.
symbolic_operators_test.py has those whose sizes are symbols."""

import pytest
import torch

import knapper
import knapper.torch
from knapper.torch import nodes

F = torch.nn.functional
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
@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_systems(left, shape, transposed):
    if shape == (4,) and not left:
        pytest.skip("torch takes vectors from the left")
    a = torch.randn(shape if len(shape) == 3 else (4, 4)) + 4 * torch.eye(4)  # not symmetric
    a, b = (a.mT.contiguous().mT if transposed else a).requires_grad_(), torch.randn(shape, requires_grad=True)
    made = knapper.torch.compile(torch.linalg.solve, fullgraph=True, fallback="error", cache=False)
    found = []
    for f in (made, torch.linalg.solve):
        x = f(a, b, left=left)
        found.append([x, *torch.autograd.grad((x * torch.arange(1.0, 5)).sum(), [a, b])])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


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


def test_results_whose_elements_lie_in_one_place():
    def function(x):
        y = x.sort(2)[0]
        return y.expand(3, -1, y.shape[1], -1)[..., :4, :, 3:5], (x + 1).unfold(2, 3, 1)[:, 1:]

    made = knapper.torch.compile(function, fullgraph=True, fallback="error", cache=False)
    x = torch.randint(-9, 9, (6, 6, 6), dtype=torch.int32)
    got, want = made(x), function(x)
    assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(got, want))


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


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_comparisons_of_eight_bits(dtype):
    every = torch.arange(256, dtype=torch.uint8).view(dtype)
    other = torch.arange(255, -1, -1, dtype=torch.uint8).view(dtype)
    check(lambda x, y: (x == y, x != y, x == x, x == 2, torch.isnan(x)), every, other, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_sign_of_a_negative_zero_is_zero(dtype):
    x = torch.tensor([-0.0, 0.0, -1e-7, 3.0, float("inf"), float("-inf"), float("nan")]).to(dtype)
    check(lambda x: (x.sign(), x.sgn(), x.sign().signbit(), x.sgn().signbit()), x, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_float64_is_rounded_as_torch_does(dtype):
    """To float32 first: a number just above the middle of two of 16 bits."""
    middle = 1 + 2.0 ** (-11 if dtype == torch.float16 else -8)
    x = torch.tensor([middle + 2**-40, middle, middle - 2**-40, 1.0], dtype=torch.float64)
    assert torch.equal(knapper.torch.compile(lambda x: x.to(dtype), fallback="error")(x), x.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_length_of_an_infinity_and_nan(dtype):
    values = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0, -3.0, 1e30]).to(dtype)
    check(torch.hypot, values.repeat(6), values.repeat_interleave(6), rtol=1e-2)


def test_fake_quantization():
    x = torch.tensor([[-9.0, -0.26, -0.25, 0.05], [0.15, 0.25, 1.0, 99.0]])
    scales, zeros = torch.tensor([0.1, 0.5]), torch.tensor([0, 2], dtype=torch.int32)
    check(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127), x)
    check(lambda x: torch.fake_quantize_per_tensor_affine(x, scales[1], zeros[1], 0, 15), x)
    check(lambda x: torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, -8, 7), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_fake_quantization_of_every_dtype(dtype):
    """Eager computes in float32 (channels of float64 in that), takes a NaN for the least, and rounds behind a fraction."""
    x = torch.linspace(-20, 20, 2001).to(dtype)
    x[5] = float("nan")
    rows, scales = x[:2000].reshape(2, 1000), torch.tensor([0.1, 0.3])
    whole, fraction = torch.tensor([2, 0], dtype=torch.int32), torch.tensor([0.5, 1.25])
    for function in (
        lambda x, rows: torch.fake_quantize_per_tensor_affine(x, 0.13, 3, 0, 255),
        lambda x, rows: torch.fake_quantize_per_tensor_affine(x, scales[1], whole[0], -128, 127),
        lambda x, rows: torch.fake_quantize_per_channel_affine(rows, scales, whole, 0, 0, 255),
        lambda x, rows: torch.fake_quantize_per_channel_affine(rows, scales, fraction, 0, 0, 255),
    ):
        torch._dynamo.reset()
        assert torch.equal(knapper.torch.compile(function, fallback="error")(x, rows), function(x, rows))


def test_runs_along_a_dim_from_the_end_are_refused():
    # torch's trace of it has another rank.
    with pytest.raises(Exception, match="a dim from the end"):
        check(lambda x: torch.unique_consecutive(x, dim=-1), torch.tensor([1, 1, 2]))


def test_counts_in_bins():
    """Numbers on the edges of bins too."""
    x = torch.arange(300) * 0.1
    check(lambda x: (torch.histc(x, 10, 0, 3), torch.histc(x, 7, -1, 2), torch.histc(x, 6, 0.1, 0.7)), x, rtol=0, atol=0)
    check(lambda x: (torch.histc(x, 13), torch.histc(x[:4] * 0, 5), torch.histc(x[:0], 5)), x, rtol=0, atol=0)
    check(lambda x: torch.histc(x, 9), torch.randn(500, dtype=torch.float64), rtol=0, atol=0)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_bins_without_bounds_are_refused(value):
    x = torch.tensor([1.0, value])
    for function in (lambda x: torch.histc(x, 5), knapper.torch.compile(lambda x: torch.histc(x, 5), cache=False)):
        with pytest.raises((RuntimeError, knapper.UserError)):
            function(x)


@pytest.mark.parametrize("initial", [None, 1.5])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce, initial):
    def function(x, lengths, offsets, inner):
        given = {"reduce": reduce, "initial": initial}
        return (
            torch.segment_reduce(x, lengths=lengths, **given),
            torch.segment_reduce(x, offsets=offsets, **given),
            torch.segment_reduce(x, lengths=inner, axis=1, **given),
        )

    x = torch.randn(12, 2, 3)
    x[3, 1, 1] = float("nan")
    inner = torch.tensor([[1, 0, 1]] * 11 + [[0, 2, 0]])
    check(function, x, torch.tensor([3, 0, 4, 5]), torch.tensor([0, 3, 3, 12]), inner)


def test_rows_in_no_segment():
    def function(x, offsets, lengths):
        return (
            torch.segment_reduce(x, "max", offsets=offsets),
            torch.segment_reduce(x, "mean", lengths=lengths, unsafe=True),
        )

    check(function, torch.randn(12, 2), torch.tensor([2, 3, 3, 9]), torch.tensor([1, 0, 6]))


@pytest.mark.parametrize("lengths", [[3, 4], [3, 14], [13, -1]])
def test_segments_that_do_not_fill_the_axis_are_refused(lengths):
    def function(x, lengths):
        return torch.segment_reduce(x, "sum", lengths=lengths)

    for call in (function, knapper.torch.compile(function, cache=False)):
        with pytest.raises((RuntimeError, knapper.UserError)):
            call(torch.randn(12), torch.tensor(lengths))
