"""What a call does: memory, layouts, threads; counters; tools."""

import pytest
import torch

import knapper
import knapper.torch
from knapper.torch.program import Program


pytestmark = pytest.mark.usefixtures("fresh")


def compiled(function, **options):
    return knapper.torch.compile(function, fallback="error", cache=False, **options)


@pytest.fixture
def programs(monkeypatch):
    made = []
    build = Program.__init__

    def kept(self, *arguments):
        build(self, *arguments)
        made.append(self)

    monkeypatch.setattr(Program, "__init__", kept)
    return made


def test_tensors_are_read_in_the_library(programs):
    f = compiled(lambda x, y: (x + y, x.t() * 2))
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    with torch.no_grad():
        a, b = f(x, y)
    assert torch.equal(a, x + y) and torch.equal(b, x.t() * 2)
    assert b.stride() == (x.t() * 2).stride()
    [program] = programs
    assert program._signature is not None and not program.copied


def test_what_the_library_does_not_read_is_copied(programs):
    f = compiled(lambda x: x * 2)
    wide = torch.randn(4, 10)
    with torch.no_grad():
        for x in (wide[:, 1::2], torch.randn(1, 5).expand(4, 5), wide[:, 3:8], torch.empty(0, 5)):
            torch._dynamo.reset()
            assert torch.equal(f(x), x * 2)
        # Laid out as the graph was traced, then otherwise: the same program.
        torch._dynamo.reset()
        programs.clear()
        f(torch.randn(4, 5))
        [program] = programs
        x = wide[:, ::2]
        assert torch.equal(program([x])[0], x * 2) and program.copied == 1


def test_inputs_are_written_where_they_lie(programs):
    def f(state, x):
        state.mul_(0.5).add_(x)

    def g(state, x):
        state.mul_(0.5).add_(x)
        return x * 3

    x = torch.ones(300)
    for function, in_place in ((f, True), (g, False)):
        state = torch.ones(300)
        at, version = state.data_ptr(), state._version
        with torch.no_grad():
            made = compiled(function)(state, x)
        assert torch.equal(state, torch.full((300,), 1.5))
        assert made is None or torch.equal(made, x * 3)
        assert state.data_ptr() == at and state._version > version
        program = programs.pop()
        assert program._signature is not None and bool(program._in_place) == in_place


def test_what_only_the_backward_reads_lies_dense(programs):
    layer = torch.nn.Linear(8, 24)

    def f(x):
        q, k, v = (part.view(4, 5, 2, 4).transpose(1, 2) for part in layer(x).split(8, -1))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    x = torch.randn(4, 5, 8, requires_grad=True)
    want = torch.autograd.grad(f(x).sum(), (x, *layer.parameters()))
    got = torch.autograd.grad(compiled(f)(x).sum(), (x, *layer.parameters()))
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    forward, backward = programs
    assert forward.description.strides and not forward.copied and not backward.copied


def test_calls_from_many_threads(at_once):
    f = compiled(lambda x: torch.softmax(x, -1) @ x)
    x = torch.randn(40, 40)
    with torch.no_grad():
        want = f(x)
    wrong = []

    def run(_):
        with torch.no_grad():
            wrong.extend(i for i in range(50) if not torch.equal(f(x), want))

    at_once(run, range(4))
    assert not wrong


def test_sizes_in_any_order_compile_twice():
    f = compiled(lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]).sum(0))
    with torch.no_grad():
        for rows in (5, 9, 2, 17, 3, 8):
            x = torch.randn(rows, 6)
            want = torch.nn.functional.layer_norm(x, (6,)).sum(0)
            torch.testing.assert_close(f(x), want, rtol=1e-5, atol=1e-5)
    counts = knapper.torch.counters()
    assert (counts["graphs"], counts["recompiles"]) == (2, 1)


def test_the_cache_is_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("KNAPPER_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("KNAPPER_CACHE", raising=False)  # "off" where other tests run
    for hits in (0, 1):
        torch._dynamo.reset()
        f = knapper.torch.compile(lambda x: x.exp() - 3, fallback="error")
        with torch.no_grad():
            f(torch.ones(3))
        assert knapper.torch.counters()["cache_hits"] == hits


def step(build, backend):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    optimizer = build(model.parameters())
    update = backend(optimizer.step)
    for seed in range(3):
        torch.manual_seed(seed)
        optimizer.zero_grad()
        model(torch.randn(4, 6)).square().mean().backward()
        update()
    return [p.detach() for p in model.parameters()]


@pytest.mark.parametrize(
    "build",
    [
        lambda p: torch.optim.AdamW(p, lr=1e-2),
        lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=True),
    ],
    ids=["adamw", "sgd"],
)
def test_optimisers(build):
    for a, b in zip(step(build, lambda f: f), step(build, compiled)):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-6)


def test_gradients_accumulate_and_autocast():
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    xs = [torch.randn(4, 6) for _ in range(3)]
    made = []
    for call in (model, compiled(model)):
        model.zero_grad()
        for x in xs:
            call(x).square().mean().backward()
        made.append([p.grad.clone() for p in model.parameters()])
        with torch.autocast("cpu", torch.bfloat16):
            y = call(xs[0])
        assert y.dtype == torch.bfloat16
        made[-1].append(y.detach().float())
    for a, b in zip(*made):
        torch.testing.assert_close(b, a, rtol=1e-2 if a.dim() == 2 and a.shape == (4, 2) else 1e-5, atol=1e-2 if a.shape == (4, 2) else 1e-5)


def test_groups_of_rows():
    x = torch.randn(10, 8, dtype=torch.bfloat16, requires_grad=True)
    w = torch.randn(3, 8, 16, dtype=torch.bfloat16, requires_grad=True)
    ends = torch.tensor([4, 4, 10], dtype=torch.int32)

    def f(x, w, ends):
        return torch.nn.functional.grouped_mm(x, w, offs=ends)

    want = f(x, w, ends)
    want_grads = torch.autograd.grad(want.square().sum(), (x, w))
    got = compiled(f)(x, w, ends)
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)
    for a, b in zip(torch.autograd.grad(got.square().sum(), (x, w)), want_grads):
        torch.testing.assert_close(a, b, rtol=5e-2, atol=0.5)


@pytest.mark.parametrize("pads", [(-4, 5), (2, -1), (-1, 3), (5, -4)])
def test_pads_that_cut_one_side(pads):
    x = torch.randn(2, 3, 4)

    def f(x):
        return torch.nn.functional.pad(x, pads, "replicate")

    with torch.no_grad():
        assert torch.equal(compiled(f)(x), f(x))


@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_a_diagonal_is_replaced(offset):
    x = torch.randn(3, 2, 5)

    def f(x, y):
        return torch.diagonal_scatter(x, y, offset, 2, 0)

    y = torch.randn(x.diagonal(offset, 2, 0).shape)
    with torch.no_grad():
        assert torch.equal(compiled(f)(x, y), f(x, y))


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_of_adaptive_pools_and_weight_norm(size):
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv2d(2, 3, 3))
    x = torch.randn(2, 2, 6, 8, requires_grad=True)

    def f(x):
        return torch.nn.functional.adaptive_avg_pool2d(layer(x), size).square().sum()

    parameters = [x, *layer.parameters()]
    want = torch.autograd.grad(f(x), parameters)
    got = torch.autograd.grad(compiled(f)(x), parameters)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_explain_of_what_was_compiled_before():
    net = torch.nn.Linear(4, 4)
    with torch.no_grad():
        compiled(net)(torch.ones(2, 4))
        told = knapper.torch.explain(net, torch.ones(2, 4))
    assert len(told.graphs) == 1
    with pytest.raises(knapper.UserError, match="there is no option"):
        knapper.torch.explain(net, torch.ones(2, 4), options={"fallbak": "error"})


def test_explain_and_bench(tmp_path):
    def f(x):
        y = x.exp() * 2
        torch._dynamo.graph_break()
        return y.sum()

    with torch.no_grad():
        told = knapper.torch.explain(f, torch.ones(4), path=tmp_path)
    assert [graph.nodes for graph in told.graphs] == [2, 1] and len(told.breaks) == 1
    assert "graph 1: 1 operators, 1 kernels, by torch: none" in str(told)
    assert all("<html" in page.read_text() for page in told.pages) and len(told.pages) == 2
    assert "calls_test.py" in told.pages[0].read_text()
    times = knapper.torch.bench(f, torch.ones(4), backends=("eager", "knapper"), seconds=0.05)
    assert set(times.median) == {"eager", "knapper"} and "x eager" in str(times)
    with pytest.raises(knapper.UserError, match="backends"):
        knapper.torch.bench(f, torch.ones(4), backends=("knapper",))


def test_verify(monkeypatch, tmp_path):
    import subprocess
    import sys

    from knapper.torch import program

    def f(x):
        return torch.softmax(x, -1) @ x.t()

    x = torch.randn(4, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(f, verify=True)(x), f(x))
    module = sys.modules["knapper.torch.verify"]
    right = module.kernels

    def wrong(graph, inputs):
        made = right(graph, inputs)
        assert made and all(kernel["passed"] for kernel in made)
        return [{**made[0], "passed": False}]

    monkeypatch.setattr(module, "kernels", wrong)
    monkeypatch.setattr(module.tempfile, "mkdtemp", lambda prefix: str(tmp_path))
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(knapper.InternalError, match="calls_test.py.*differs"):
        compiled(f, verify=True)(x)
    assert program.verify is module.verify
    done = subprocess.run([sys.executable, tmp_path / "reproduce.py"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "", done.stderr


def test_tensors_elsewhere_are_refused():
    x = torch.ones(3, device="meta")
    with torch.no_grad(), pytest.raises(Exception, match="META tensors are not taken"):
        compiled(lambda x: x * 2)(x)
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(Exception, match="META tensors are not taken"):
        compiled(lambda x: torch.zeros(3, device="meta") + x.shape[0])(torch.ones(2))


def test_torch_draws_random_numbers_in_order():
    def f(x):
        a, b = torch.rand(5), torch.rand(5)
        return torch.nn.functional.dropout(x, 0.5) + a, b, torch.randn_like(x)

    x = torch.ones(5)
    run = compiled(f)  # fallback="error"
    made = []
    for call in (f, run, run):
        torch.manual_seed(3)
        with torch.no_grad():
            made.append(call(x))
    for other in made[1:]:
        assert all(torch.equal(a, b) for a, b in zip(made[0], other))
    assert not torch.equal(made[1][0], made[1][1])
    assert knapper.torch.counters()["fallback_ops"] == 0


@pytest.mark.parametrize("n", [1, 3])
def test_parts_that_begin_where_a_number_says(n):
    def function(x, n):
        y = x * 2
        return x[n : n + 2], x[n:].t(), y[n:], y[1 : n + 1], y

    def written(x, n):
        x.add_(1)
        return x[n : n + 1]

    x = torch.randn(9, 6)[2:7]
    got, want = compiled(function, dynamic=True)(x, n), function(x, n)
    torch.testing.assert_close(got, want)
    assert [t.stride() for t in got] == [t.stride() for t in want]
    assert got[0].data_ptr() == x[n].data_ptr()
    a, b = x.clone(), x.clone()
    part = compiled(written, dynamic=True)(a, n)
    assert torch.equal(part, written(b, n)) and part.data_ptr() == a[n].data_ptr()


def test_a_part_that_begins_where_data_says_is_refused():
    def function(x, m):
        return x[int(m.sum()) :]

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        x, m = torch.randn(5, 3), torch.tensor([1, 0, 1])
        with pytest.raises(Exception, match="return a clone of it"):
            compiled(function, fullgraph=True)(x, m)
        torch._dynamo.reset()
        got = compiled(lambda x, m: function(x, m) * 2, fullgraph=True)(x, m)
        assert torch.equal(got, x[2:] * 2)


SLICES = {
    "to": lambda x, m: x[: int(m.sum())] * 2,
    "from": lambda x, m: x[int(m.sum()) :] * 2,
    "from the end": lambda x, m: x[-int(m.sum()) :] * 2,
    "to the end": lambda x, m: x[: -int(m.sum())] * 2,
    "between": lambda x, m: x[int(m[0]) : int(m.sum())] * 2,
    "steps": lambda x, m: x[int(m[0]) :: 2] * 2,
    "twice": lambda x, m: x[: int(m.sum())][1:] * 2,
    "beside": lambda x, m: x[:, 1 : int(m.sum())] * 2,
    "view": lambda x, m: x[: int(m.sum())],
}


@pytest.mark.parametrize("name", SLICES)
def test_slices_by_data(name):
    """One program for every place; past the dim, from its end, of nothing."""
    program, x = compiled(SLICES[name], fullgraph=True), torch.randn(5, 3)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for m in ([1, 1, 1], [0, 0, 0], [2, 2, 1], [3, 4, 2], [1, 0, 0]):
            got, want = program(x, torch.tensor(m)), SLICES[name](x, torch.tensor(m))
            assert torch.equal(got, want) and got.stride() == want.stride()
            assert name != "view" or got.data_ptr() == want.data_ptr()
    torch._dynamo.reset()


def test_frozen_weights():
    net = torch.nn.Sequential(torch.nn.Linear(6, 300), torch.nn.BatchNorm1d(300), torch.nn.Linear(300, 4)).eval()
    x = torch.randn(3, 6)
    free, frozen = compiled(net), compiled(net, freeze=True)
    with torch.no_grad():
        want = net(x)
        for _ in range(2):
            torch.testing.assert_close(free(x), want)
            torch.testing.assert_close(frozen(x), want)
        net[0].weight.data.zero_()
        torch.testing.assert_close(frozen(x), want)  # as promised
        torch.testing.assert_close(free(x), net(x))
    torch._dynamo.reset()
    with pytest.raises(Exception, match="freeze=True is for inference"):
        compiled(net, freeze=True)(x)


def test_what_is_written_is_not_frozen():
    net = torch.nn.BatchNorm1d(6)
    copy = torch.nn.BatchNorm1d(6)
    fast = compiled(net, freeze=True)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(5, 6)
            torch.testing.assert_close(fast(x), copy(x))
    torch.testing.assert_close(net.running_mean, copy.running_mean)


def test_views_of_arguments_are_views():
    """Also of several from one call, whose memory torch leaves to the backend."""
    x = torch.randn(6, 4, requires_grad=True)
    for function in (lambda x: x.unbind(0)[0], lambda x: x.chunk(2)[0], lambda x: x.split(2, 1)[1]):
        made = compiled(function)(x)
        assert made.data_ptr() == function(x).data_ptr() and made.stride() == function(x).stride()
        made.sum().backward()


def test_floats_that_sizes_decide():
    """They are no constants: one program serves all sizes."""

    def function(x):
        scale = x.shape[0] ** -0.5
        return x * scale, x / (x.shape[1] / 2), scale - x, torch.where(x > 0, x, x.shape[0] / 4), x * max(x.shape[0], 2.5)

    f = compiled(function, dynamic=True, fullgraph=True)
    knapper.torch.reset_counters()
    for rows, columns in ((4, 6), (9, 3), (25, 7)):
        x = torch.randn(rows, columns)
        torch.testing.assert_close(f(x), function(x))
    assert knapper.torch.counters()["graphs"] == 1


def test_attention_of_a_symbolic_width():
    f = compiled(torch.nn.functional.scaled_dot_product_attention, dynamic=True, fullgraph=True)
    for dtype in (torch.float32, torch.bfloat16):
        for size in (8, 5, 16):
            q = torch.randn(2, 7, size, dtype=dtype)
            want = torch.nn.functional.scaled_dot_product_attention(q.double(), q.double(), q.double())
            torch.testing.assert_close(f(q, q, q).double(), want, rtol=2e-2 if dtype == torch.bfloat16 else 1e-5, atol=2e-2 if dtype == torch.bfloat16 else 1e-5)


def test_resizing_of_symbolic_sizes():
    f = compiled(lambda x: torch.nn.functional.interpolate(x, scale_factor=2, mode="nearest"), dynamic=True, fullgraph=True)
    for size in (3, 8):
        x = torch.randn(2, 3, size, 2 * size)
        torch.testing.assert_close(f(x), torch.nn.functional.interpolate(x, scale_factor=2, mode="nearest"))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("part", [lambda v: v[..., :1], lambda v: v[:3], lambda v: v.mT[:, :1]])
def test_a_part_of_memory_is_nobodys_base(part, dynamic):
    """A result that begins where memory does need not be all of it: another one may lie beside it."""

    def function(x):
        v = x.roll(1, 0)
        return v[10:13, ::3, None], part(v), v[2:4]

    f = compiled(function, dynamic=dynamic)
    for rows in (17, 21):
        x = torch.randn(rows, 4, 5)
        for _ in range(3):
            for got, want in zip(f(x), function(x), strict=True):
                assert torch.equal(got, want)
