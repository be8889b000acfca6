"""torch.compile of functions that launch Triton kernels of their own, on an NVIDIA GPU;
skipped where there is none, or no Triton."""

from __future__ import annotations

import knapper.torch
import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)
triton = pytest.importorskip("triton", reason="there is no Triton")
import triton.language as tl  # noqa: E402


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask) + tl.load(y + at, mask), mask)


@triton.jit
def scale_kernel(x, n, by, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) * by, at < n)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256}, num_warps=8)], key=["n"])
@triton.jit
def tuned_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + 1, at < n)


@triton.jit
def rows_kernel(x, out, rows, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    tl.store(out + row, tl.sum(tl.load(x + row * stride + at, mask, 0.0), 0))


def add(x, y, block=128):
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block)
    return out


def scale(x, by):
    scale_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, x.numel(), by, BLOCK=64)


pytestmark = pytest.mark.usefixtures("fresh")


def compiled(function, **options):
    return knapper.torch.compile(function, fallback="error", cache=False, fullgraph=True, **options)


def randn(*shape, **options):
    return torch.randn(*shape, device="cuda", **options)


def test_between_kernels_of_the_program():
    f = compiled(lambda x, y: add(x * 2, y.sin()).relu() + 1)
    for _ in range(3):
        x, y = randn(1000), randn(1000)
        torch.testing.assert_close(f(x, y), (x * 2 + y.sin()).relu() + 1)
    assert knapper.torch.counters()["fallback_ops"] == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32])
def test_dtypes(dtype):
    x = (randn(300) * 10).to(dtype)
    assert torch.equal(compiled(add)(x, x), x + x)


def test_an_argument_is_written_and_the_order_kept():
    def f(x):
        a = x + 1
        scale(x, 2.0)
        b = x + 1
        scale(x, 3.0)
        return a, b

    x = randn(200)
    before, address = x.clone(), x.data_ptr()
    a, b = compiled(f)(x)
    torch.testing.assert_close((x, a, b), (before * 6, before + 1, before * 2 + 1))
    assert x.data_ptr() == address


def test_each_size_has_its_grid():
    f = compiled(lambda x, y: add(x, y) * 2, dynamic=True)
    for n in (1000, 77, 4096, 129):
        x, y = randn(n), randn(n)
        torch.testing.assert_close(f(x, y), (x + y) * 2)
    assert knapper.torch.counters()["graphs"] == 1


def test_autotuned():
    def f(x):
        out = torch.empty_like(x)
        tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
        return out * 2

    g = compiled(f)
    for _ in range(2):
        x = randn(5000)
        torch.testing.assert_close(g(x), (x + 1) * 2)


def test_strides_of_a_view():
    def f(x):
        y = (x + 1).t()
        out = torch.empty(y.shape[1], device=x.device)
        rows_kernel[(y.shape[1],)](y, out, y.shape[1], y.shape[0], y.stride(1), BLOCK=64)
        return out

    x = randn(20, 50)
    torch.testing.assert_close(compiled(f)(x), (x + 1).sum(1))


def test_a_triton_op():
    @torch.library.triton_op("knapper_test::add", mutates_args=())
    def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        torch.library.wrap_triton(add_kernel)[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), BLOCK=64)
        return out

    added.register_autograd(lambda ctx, grad: (grad, grad))
    f = compiled(lambda x, y: added(x.sin(), y).cos())
    x, y = randn(333, requires_grad=True), randn(333)
    made = f(x, y)
    torch.testing.assert_close(made, (x.sin() + y).cos())
    (ours,) = torch.autograd.grad(made.sum(), x)
    (wanted,) = torch.autograd.grad((x.sin() + y).cos().sum(), x)
    torch.testing.assert_close(ours, wanted)


def test_in_a_stream_of_the_callers():
    f = compiled(lambda x, y: add(x * 2, y) + 1)
    x, y = randn(1 << 20), randn(1 << 20)
    f(x, y)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(20):
            x = x + 1
        made = f(x, y)
        made = made * 2
    stream.synchronize()
    torch.testing.assert_close(made, (x * 2 + y + 1) * 2)


def test_its_place_in_the_programs_order():
    f = compiled(lambda x, w: add(x @ w @ w @ w, x) @ w)
    x, w = randn(4096, 4096), randn(4096, 4096) / 64
    for _ in range(3):
        torch.testing.assert_close(f(x, w), (x @ w @ w @ w + x) @ w, rtol=1e-3, atol=1e-2)


def test_captured_by_the_user():
    f = compiled(lambda x, y: add(x * 2, y) + 1)
    x, y = randn(1000), randn(1000)
    for _ in range(3):
        f(x, y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = f(x, y)
    for _ in range(2):
        x.copy_(randn(1000))
        graph.replay()
        torch.testing.assert_close(made, x * 2 + y + 1)


def test_nothing_waits_for_the_device():
    f = compiled(lambda x, y: add(x * 2, y) + 1)
    x, y = randn(1000), randn(1000)
    f(x, y)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        f(x, y)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_of_the_cpu_is_refused():
    with pytest.raises(Exception, match="(?s)the Triton kernel 'add_kernel'.*CPU"):
        compiled(add)(torch.randn(8), torch.randn(8))
