"""Complex numbers: as planes, and by torch where these have no definition."""

import math

import pytest
import torch

import knapper
import knapper.torch


pytestmark = pytest.mark.usefixtures("fresh")


def numbers(*shape):
    return torch.randn(*shape, dtype=torch.complex64)


def check(function, *inputs, **options):
    options.setdefault("fallback", "error")
    options.setdefault("cache", False)
    want = function(*[x.clone() for x in inputs])
    got = knapper.torch.compile(function, **options)(*[x.clone() for x in inputs])
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    return got


def rotate(q, turns):
    """Rotary embedding as the first Llama has it."""
    pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None, :, None]).flatten(3).type_as(q)


def test_rotary_embedding_of_complex_numbers():
    turns = torch.polar(torch.ones(5, 4), torch.randn(5, 4))
    for dynamic in (False, True):
        torch._dynamo.reset()
        check(rotate, torch.randn(2, 5, 3, 8), turns, dynamic=dynamic)
    check(rotate, torch.randn(2, 5, 3, 8).bfloat16(), turns)
    assert knapper.torch.counters()["fallback_ops"] == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parts_that_broadcast(dtype):
    check(torch.complex, torch.randn(5, 1, dtype=dtype), torch.randn(3, dtype=dtype))
    check(torch.complex, torch.randn(5, dtype=dtype), torch.randn((), dtype=dtype))


def test_gradients_through_complex_numbers():
    turns = torch.polar(torch.ones(5, 4), torch.randn(5, 4))
    x = torch.randn(2, 5, 3, 8, requires_grad=True)
    weight = numbers(9).requires_grad_()

    def power(x, weight):
        return (torch.fft.rfft(x) * weight).abs().square().sum()

    for function, given, wrt in (
        (lambda x, t: rotate(x, t).square().sum(), (x, turns), x),
        (power, (torch.randn(3, 16), weight), weight),
    ):
        (want,) = torch.autograd.grad(function(*given), wrt)
        compiled = knapper.torch.compile(function, fallback="error", cache=False)
        (got,) = torch.autograd.grad(compiled(*given), wrt)
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


OPERATORS = {
    "arithmetic": lambda a, b: a * b - a / b + 2j * a + b**2 + a * 3,
    "functions": lambda a, b: torch.exp(a) + torch.sqrt(b) + torch.tanh(a) + torch.log(b),
    "parts": lambda a, b: a.real + b.imag + a.abs() + b.angle(),
    "conjugates": lambda a, b: a.conj() * b + (b.conj() @ a.mH).sum(),
    "matmuls": lambda a, b: a @ b.mT + torch.einsum("ij,kj->ik", a, b),
    "sums": lambda a, b: a.sum(0) + b.mean(0) + a.cumsum(0)[1] + b.prod(0),
    "order": lambda a, b: torch.cat([a.t(), b.t()]).roll(1, 0).flip(0)[1:].unsqueeze(0),
    "choice": lambda a, b: torch.where(a.real > 0, a, b).gather(0, torch.zeros(1, 4).long()),
    "written parts": lambda a, b: a.index_put((torch.tensor([1]),), b[0]).index_copy(
        0, torch.tensor([0]), b[1:2]
    ),
    "tests": lambda a, b: (a == a.conj()) | b.isnan() | a.isinf(),
    "made": lambda a, b: torch.zeros(3, 4, dtype=torch.complex64) + torch.full((4,), 1 + 2j) + a.new_ones(4),
    "made of two numbers": lambda a, b: torch.linspace(1, 1 + 2j, 4, dtype=torch.complex64) * a + b.new_full((4,), 2),
    "made of reals": lambda a, b: a.new_zeros(4, dtype=torch.float32) + b.new_full((4,), 2, dtype=torch.float64),
    "quotients": lambda a, b: a / 2.5 + 3 / b + (1 + 2j) / a + b.real / a + torch.arange(4) / b + a.reciprocal(),
    "products added": lambda a, b: torch.addcmul(a, b, a, value=2j) + torch.addmv(b[0, :3], a[:, :3], b[1, :3], alpha=1j).sum(),
    "between": lambda a, b: torch.lerp(a, b, 0.3) + torch.lerp(a, b, 0.8),
    "powers and logarithms": lambda a, b: torch.exp2(a) + torch.log2(b) + torch.log10(a) + torch.sigmoid(b),
    "deviations": lambda a, b: (*torch.std_mean(a, 0), *torch.var_mean(b), a.std(1, correction=0)),
    "no NaN": lambda a, b: torch.nan_to_num(a / 0, nan=1.5) + b,
    "padded": lambda a, b: torch.nn.functional.pad(a, (-1, 2), value=2.0)[:, :4] * b,
    "of reals": lambda a, b: torch.complex(a.real, b.imag) + torch.polar(a.abs(), b.angle()),
    "constants": lambda a, b: a * torch.tensor([1j, 2, 3, 4 - 1j]),
    "several results": lambda a, b: torch.split(a, 1)[1] + b.unbind()[0],
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_compiled(name):
    check(OPERATORS[name], numbers(3, 4), numbers(3, 4))


@pytest.mark.parametrize(
    "function",
    [lambda a: a, lambda a: a.t(), lambda a: a[1:], lambda a: a.conj(), lambda a: (a * 2).conj(),
     lambda a: a.imag, torch.view_as_real, lambda a: a[:, ::2], lambda a: a.expand(2, 3, 4)],
)  # fmt: skip
def test_results_that_lie_in_a_complex_argument(function):
    got = check(function, numbers(3, 4))
    assert got.stride() == function(numbers(3, 4)).stride()


def test_complex_arguments_are_written_where_they_lie():
    def double(z):
        z.mul_(2j)
        return z + 1

    for view in (lambda z: z, lambda z: z.conj(), lambda z: z[:, ::2]):
        torch._dynamo.reset()
        ours, theirs = numbers(3, 4), None
        theirs = ours.clone()
        got = knapper.torch.compile(double, fallback="error", cache=False)(view(ours))
        torch.testing.assert_close(got, double(view(theirs)))
        torch.testing.assert_close(ours, theirs)


FOURIER = {
    "real": lambda x: torch.fft.rfft(x).abs(),
    "real and back": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=15),
    "two dims and back": lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * 2),
    "several dims": lambda x: torch.fft.fftn(x.reshape(2, 3, 16), dim=(0, 2), norm="ortho"),
    "inverse": lambda x: torch.fft.ifft(torch.complex(x, x.flip(0)), dim=0),
    "hermitian": lambda x: torch.fft.hfft(torch.complex(x, x.flip(0)), norm="forward") + torch.fft.ihfft(x).real.sum(),
    "cut and padded": lambda x: torch.fft.fft(x, n=11) + torch.fft.fft(x, n=24)[:, :11],
    "shifted": lambda x: torch.fft.fftshift(torch.fft.fft(x)),
    "short times": lambda x: torch.stft(x, 8, window=torch.hann_window(8), return_complex=True),
    "short times and back": lambda x: torch.istft(
        torch.stft(x, 8, window=torch.hann_window(8), return_complex=True), 8, window=torch.hann_window(8)
    ),
    "one element": lambda x: torch.fft.rfft(x[:, :1]) + torch.fft.fft(x[:1], dim=0)[:, :1],
}  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FOURIER)
def test_fourier_transforms_are_compiled(name, dynamic):
    check(FOURIER[name], torch.randn(6, 16), dynamic=dynamic)
    assert knapper.torch.counters()["fallback_ops"] == 0


@pytest.mark.parametrize("length", [97, 100, 1000, 4096])
def test_long_fourier_transforms(length):
    for function, x in (
        (torch.fft.fft, numbers(3, length)),
        (torch.fft.rfft, torch.randn(3, length)),
        (lambda z: torch.fft.irfft(z, n=length), numbers(3, length // 2 + 1)),
    ):
        want = function(x.to(torch.promote_types(x.dtype, torch.float64)))
        got = knapper.torch.compile(function, fallback="error", cache=False)(x)
        assert (got - want).abs().max() < 1e-6 * want.abs().max()


def test_gradients_of_fourier_transforms():
    def function(x):
        spectrum = torch.fft.rfftn(x, dim=(0, 1))
        back = torch.fft.irfft(spectrum * torch.fft.fft(x, dim=1)[:, : spectrum.shape[1]], n=9)
        return (back * torch.arange(9)).sum() + torch.fft.ifft2(x).abs().sum()

    x = torch.randn(4, 12, requires_grad=True)
    (want,) = torch.autograd.grad(function(x), x)
    (got,) = torch.autograd.grad(knapper.torch.compile(function, fallback="error", cache=False)(x), x)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-4)


def test_lengths_that_the_call_gives():
    def function(x, n):
        return torch.fft.hfft2(torch.fft.fft(x, n=n), s=(3, n))

    compiled = knapper.torch.compile(function, fallback="error", cache=False, dynamic=True)
    for rows, length in ((6, 10), (5, 20), (6, 9)):
        x = torch.randn(rows, 16)
        torch.testing.assert_close(compiled(x, length), function(x, length), rtol=1e-5, atol=1e-4)


def test_what_has_no_planes_is_computed_by_torch():
    check(lambda x: torch.linalg.eigvals(x[:, :6]).abs().sort().values, torch.randn(6, 16), fallback="allow")
    # A prime factor above 2048 has no matrix of its own.
    check(lambda x: torch.fft.rfft(x) / 50, torch.randn(2, 2053), fallback="allow")
    assert knapper.torch.counters()["fallback_ops"] == 2


@pytest.mark.parametrize("length", [2053, 8209, 16001])
def test_a_transform_of_a_long_prime_is_no_matrix(length):
    with pytest.raises(Exception, match="_fft_r2c"):
        check(torch.fft.rfft, torch.randn(length))


def test_nothing_overflows_in_between():
    large = torch.tensor([1e30 + 1e30j, 1e38, 1e-30 + 1e-30j, 0, complex("inf"), 1e30 + 1j])
    check(lambda z: z.abs(), large)
    check(lambda z: z / (z * 1.5), large[:3])
    check(lambda z: torch.sqrt(z), large)
    for function in (lambda z: (1 + 2j) / z, torch.reciprocal):
        torch._dynamo.reset()
        got = knapper.torch.compile(function, fallback="error", cache=False)(large)
        torch.testing.assert_close(got, function(large), equal_nan=True)


def test_arguments_that_are_only_read_may_overlap():
    one = numbers(1).expand(4).conj()  # a copy of it could not be written back
    got = knapper.torch.compile(lambda z: z * 2, fallback="error", cache=False)(one)
    torch.testing.assert_close(got, one * 2)


def test_a_complex_argument_is_overwritten_with_reals():
    z, x = numbers(3), torch.randn(3)
    knapper.torch.compile(lambda z, x: z.copy_(x), fallback="error", cache=False)(z, x)
    torch.testing.assert_close(z, x.to(torch.complex64))


def test_half_complex_numbers_are_refused():
    with pytest.raises(Exception, match="torch.complex32 is not supported"):
        check(lambda z: z.to(torch.complex32).to(torch.complex64), numbers(3))


def test_what_has_no_planes_is_named():
    with pytest.raises(Exception, match=r"(?s)linalg_eig.*of complex numbers.*complex_test.py:\d+"):
        check(lambda x: torch.linalg.eigvals(x).abs(), torch.randn(6, 6))


def test_parts_of_storage_of_complex_numbers_are_refused():
    with pytest.raises(Exception, match="as_strided.default of complex numbers is not supported"):
        check(lambda z: (z * 2).as_strided((2,), (3,)) + 1, numbers(9))


def test_a_number_is_written_to_the_real_plane_alone():
    index = torch.zeros(1, 4).long()
    check(lambda z: z.scatter(0, index, 3.0) + 1, numbers(3, 4), fallback="allow")


def test_complex_results_come_from_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    z = numbers(3, 4)
    for _ in range(2):
        torch._dynamo.reset()
        knapper.torch.reset_counters()
        check(lambda z: z * 2j + z.abs(), z, cache=True)
        check(lambda z: torch.fft.fft(z) + 1, z, cache=True, fallback="allow")
    assert knapper.torch.counters()["cache_hits"] == 2


def test_nested_tensors_of_ragged_rows():
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU())
    compiled = knapper.torch.compile(net, fallback="error", cache=False)
    for rows in ((2, 3), (5, 1, 4), (2, 2)):
        given = torch.nested.nested_tensor([torch.randn(n, 4) for n in rows], layout=torch.jagged)
        torch.testing.assert_close(compiled(given).values(), net(given).values())


def test_printing_from_within_a_graph_is_named():
    def loud(x):
        torch._higher_order_ops.print("{}", 1)
        return x + 1

    with pytest.raises(Exception, match=r"(?s)not supported yet:\n  print\n.*complex_test.py:\d+"):
        knapper.torch.compile(loud, fullgraph=True, cache=False)(torch.ones(2))


def test_an_exported_model_with_complex_numbers(tmp_path):
    class Rotated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("turns", torch.polar(torch.ones(5, 4), torch.randn(5, 4)))

        def forward(self, q):
            return rotate(q, self.turns), torch.view_as_complex(q.reshape(2, 5, 3, 4, 2)) * 2j

    model, q = Rotated(), torch.randn(2, 5, 3, 8)
    knapper.torch.export(model, (q,)).save(str(tmp_path / "rotated.knap"))
    real, complex_ = knapper.load(str(tmp_path / "rotated.knap"))(q).values()
    want = model(q)
    torch.testing.assert_close(torch.as_tensor(real), want[0])
    torch.testing.assert_close(torch.view_as_complex(torch.as_tensor(complex_)), want[1])


def test_ends_of_interpolations():
    """At 1 it is the end, however far the start is."""
    x, y = torch.tensor([1e8 + 1j, 3e7 - 5j]), torch.tensor([1 + 2j, 3 - 1j])
    for weight in (0.0, 0.25, 0.9, 1.0):
        check(lambda x, y: torch.lerp(x, y, weight), x, y)
    check(torch.lerp, x, y, torch.tensor([1.0, 0.9], dtype=torch.complex64))


def test_what_beta_0_leaves_out_is_not_read():
    x = torch.full((2,), math.inf, dtype=torch.complex64)
    a, v = torch.ones(2, 2, dtype=torch.complex64), torch.ones(2, dtype=torch.complex64)
    check(lambda x, a, v: torch.addmv(x, a, v, beta=0), x, a, v)
    check(lambda x, a: torch.addmm(x, a, a, beta=0), x.expand(2, 2).contiguous(), a)
