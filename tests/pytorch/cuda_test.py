"""torch.compile of modules on an NVIDIA GPU; skipped where there is none."""

from __future__ import annotations

import knapper
import knapper.torch
import pytest
import torch
from torch import nn

pytestmark = [pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"), pytest.mark.usefixtures("fresh")]


def compiled(function, **options):
    return knapper.torch.compile(function, fallback="error", cache=False, **options)


def close(got, wanted, scale=1.0):
    torch.testing.assert_close(got, wanted, rtol=1e-4 * scale, atol=1e-4 * scale)


def captured(f, x):
    """A graph of a call, and where its replays leave the result."""
    for _ in range(3):
        f(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = f(x)
    return graph, y


class Mlp(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def test_a_module():
    model = Mlp().cuda()
    x = torch.randn(8, 64, device="cuda")
    close(compiled(model)(x), model(x))
    assert knapper.torch.counters()["fallback_ops"] == 0


def test_attention_of_bf16():
    q, k, v = (torch.randn(2, 8, 128, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def attend(q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    close(compiled(attend)(q, k, v).float(), attend(q, k, v).float(), scale=200)


@pytest.mark.parametrize("training", [False, True])
def test_masks_of_bool_and_shared_heads(training):
    """Torch takes its own attention of float32 for such a mask."""
    x = [torch.randn(2, heads, 96, 64, device="cuda", dtype=torch.bfloat16, requires_grad=training) for heads in (8, 2, 2)]
    mask = torch.rand(2, 1, 96, 96, device="cuda") > 0.3

    def attend(q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)

    wanted = attend(*(t.detach().double() for t in x))
    with torch.set_grad_enabled(training):
        made = compiled(attend)(*x)
    close(made.double(), wanted, scale=200)
    if training:
        made.float().square().sum().backward()
        again = [t.detach().double().requires_grad_() for t in x]
        attend(*again).square().sum().backward()
        for got, want in zip(x, again):
            close(got.grad.double(), want.grad, scale=1000)


def test_a_training_step():
    model, again = Mlp().cuda(), Mlp().cuda()
    again.load_state_dict(model.state_dict())
    x = torch.randn(8, 64, device="cuda")
    compiled(model)(x).square().mean().backward()
    again(x).square().mean().backward()
    for got, wanted in zip(model.parameters(), again.parameters()):
        close(got.grad, wanted.grad)


def test_mutation_in_place():
    def step(state, x):
        state.mul_(0.5).add_(x)
        return state.sum()

    state, x = torch.ones(1000, device="cuda"), torch.randn(1000, device="cuda")
    wanted = torch.ones(1000, device="cuda")
    total = compiled(step)(state, x)
    close(total, step(wanted, x))
    close(state, wanted)


def test_the_callers_stream_decides_the_order():
    """A long kernel before, in the same stream, on a stream of the user's."""
    f = compiled(lambda x: x * 2 + 1)
    x = torch.zeros(1 << 20, device="cuda")
    f(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for turn in range(20):
            torch.cuda._sleep(2_000_000)
            x.fill_(turn)
            y = f(x)
            x.fill_(-5)
            z = y + 0
            del y
            junk = torch.full((1 << 20,), 7.0, device="cuda")
            assert float(z.max()) == float(z.min()) == 2 * turn + 1
            del junk


def test_a_call_does_not_wait():
    f = compiled(lambda x: x + 1)
    x = torch.zeros(8, device="cuda")
    for _ in range(3):
        f(x)
    torch.cuda.synchronize()
    torch.cuda._sleep(500_000_000)
    y = f(x)
    assert not torch.cuda.current_stream().query(), "the call waited for the GPU"
    assert float(y[0]) == 1


def test_captured_by_the_user():
    f = compiled(lambda x: (x * 3).relu())
    x = torch.randn(4096, device="cuda")
    graph, y = captured(f, x)
    for _ in range(3):
        x.normal_()
        graph.replay()
        close(y, (x * 3).relu())


def test_replays_beside_calls_and_other_captures():
    """A scan keeps marks in work memory, and a call of other sizes makes that memory anew."""

    def scanned(x):
        return (x.sin() * 3).cumsum(0)

    def check(got, x):
        torch.testing.assert_close(got.double(), scanned(x.double()), rtol=1e-4, atol=0.05)

    f = compiled(scanned, dynamic=True)
    x, other = torch.randn(1 << 20, 1, device="cuda"), torch.randn(1 << 21, 2, device="cuda")
    f(other)
    graph, y = captured(f, x)
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second):  # without a call in between: its work memory is allocated in the capture
        z = f(x)
    streams = [torch.cuda.Stream() for _ in range(2)]
    for _ in range(10):
        x.normal_()
        torch.cuda.synchronize()
        for each, stream in zip((graph, second), streams):
            with torch.cuda.stream(stream):
                each.replay()
        again = f(other)
        torch.cuda.synchronize()
        check(again, other)
        check(y, x)
        check(z, x)


def test_a_bound_call_in_a_stream():
    """It does not wait, and a graph may capture it."""
    module = knapper.torch.export(Mlp(), (torch.randn(8, 64),), target="cuda", cache=False)
    x, y = torch.randn(8, 64, device="cuda"), torch.empty(8, 64, device="cuda")
    stream = torch.cuda.Stream()
    call = module.bind([x], [y], stream=stream)
    with pytest.raises(knapper.UserError, match="needs memory of the GPU"):
        module.bind([x], stream=stream)
    wanted = torch.from_dlpack(module(x).tensor(0)).cuda()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        call()
        assert not stream.query()
    stream.synchronize()
    close(y, wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        call()
    for _ in range(3):
        x.normal_()
        graph.replay()
        close(y, torch.from_dlpack(module(x).tensor(0)).cuda())


def test_sizes_that_change():
    model = Mlp().cuda()
    f = compiled(model, dynamic=True)
    for rows in (3, 8, 5, 64, 7):
        x = torch.randn(rows, 64, device="cuda")
        close(f(x), model(x))


def test_numbers_of_the_host_beside_tensors():
    f = compiled(lambda x, s: x * s)
    x = torch.randn(64, device="cuda")
    close(f(x, torch.tensor(3.0)), x * 3)


def test_strides_as_they_are():
    f = compiled(lambda x, y: x + y)
    x, y = torch.randn(64, 32, device="cuda").t(), torch.randn(32, 64, device="cuda")
    close(f(x, y), x + y)
    close(f(x[::2], y[::2]), x[::2] + y[::2])
    image = torch.randn(2, 8, 6, 6, device="cuda").to(memory_format=torch.channels_last)
    made = compiled(lambda x: x * 2)(image)
    assert made.stride() == image.stride()
    close(made, image * 2)


def test_two_devices_are_refused():
    with pytest.raises(Exception, match="is on the CPU, others are on cuda:0"):
        compiled(lambda x, y: x + y.to("cuda"))(torch.ones(4, device="cuda"), torch.ones(4))


def test_convolutions():
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1)).cuda().eval()
    x = torch.randn(2, 3, 32, 32, device="cuda")
    allowed = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        with torch.no_grad():
            close(compiled(model)(x), model(x))
    finally:
        torch.backends.cudnn.allow_tf32 = allowed


def test_an_exported_module_runs_on_the_gpu():
    net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 8)).eval()
    x = torch.randn(4, 64)
    module = knapper.torch.export(net, (x,), dynamic_shapes=({0: "batch"},), target="cuda", cache=False)
    for batch in (4, 1, 33):
        x = torch.randn(batch, 64)
        with torch.no_grad():
            want = net(x)
        close(torch.from_dlpack(module(x.cuda()).tensor(0)).cpu(), want)


def test_dropout_follows_the_seed_and_its_gradient_has_the_same_mask():
    f = compiled(lambda x: nn.functional.dropout(x, 0.5) * 2)
    x = torch.ones(1000, 100, device="cuda", requires_grad=True)
    torch.manual_seed(5)
    first = f(x)
    torch.manual_seed(5)
    again = f(x)
    assert torch.equal(first, again) and not torch.equal(again, f(x))
    assert set(first.unique().tolist()) == {0.0, 4.0}
    assert abs(float(first.mean()) - 2) < 0.05
    again.sum().backward()
    close(x.grad, again.detach())


def test_random_numbers_that_are_the_result_themselves():
    drawn = compiled(lambda x: torch.rand_like(x))
    x = torch.zeros(64, 64, device="cuda")
    torch.manual_seed(3)
    first, second = drawn(x), drawn(x)
    torch.manual_seed(3)
    assert torch.equal(drawn(x), first) and not torch.equal(first, second)
    assert 0 <= float(first.min()) and float(first.max()) < 1 and abs(float(first.mean()) - 0.5) < 0.05


def test_random_numbers_differ_in_every_replay():
    f = compiled(lambda x: x + torch.rand_like(x))
    x = torch.zeros(4096, device="cuda")
    graph, y = captured(f, x)
    graph.replay()
    first = y.clone()
    graph.replay()
    assert not torch.equal(first, y) and 0.45 < float(y.mean()) < 0.55


def test_embeddings_and_their_gradient():
    table, again = nn.Embedding(50, 16).cuda(), nn.Embedding(50, 16).cuda()
    again.load_state_dict(table.state_dict())
    ids = torch.randint(0, 50, (64, 7), device="cuda")
    compiled(table)(ids).square().sum().backward()
    again(ids).square().sum().backward()
    close(table.weight.grad, again.weight.grad)


def test_autocast():
    model = Mlp().cuda()
    x = torch.randn(16, 64, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        close(compiled(model)(x).float(), model(x).float(), scale=300)


@pytest.mark.parametrize("name", ["cholesky", "qr", "lu"])
def test_what_the_host_computes(name):
    """Right, or refused by name."""
    x = torch.randn(5, 5, device="cuda")
    x = x @ x.t() + torch.eye(5, device="cuda")
    functions = {"cholesky": torch.linalg.cholesky, "qr": lambda x: torch.linalg.qr(x).R.abs(), "lu": torch.linalg.det}
    try:
        made = compiled(functions[name])(x)
    except knapper.UserError as error:
        assert "linalg" in str(error) or "CPU" in str(error)
        return
    close(made, functions[name](x), scale=10)


def test_sizes_that_the_data_decides():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        f = compiled(lambda x: torch.nonzero(x > 0) * 2)
        for _ in range(3):
            x = torch.randn(100, device="cuda")
            assert torch.equal(f(x), torch.nonzero(x > 0) * 2)


def test_integers_are_counted():
    """Mixtures of experts do so on GPUs; eager has no such operator on the CPU."""
    x = torch.randint(0, 8, (1000,), device="cuda")
    made = compiled(lambda x: torch.histc(x, 8, 0, 7))(x)
    assert torch.equal(made.long(), torch.bincount(x, minlength=8))


def test_operators_that_torch_computes():
    """An operator without a row beside tensors of the GPU: right, or refused by name."""
    f = knapper.torch.compile(lambda x: torch.linalg.lstsq(x, x).solution + 1, fallback="allow", cache=False)
    x = torch.randn(4, 4, device="cuda")
    try:
        made = f(x)
    except knapper.UserError as error:
        assert "lstsq" in str(error)
        return
    close(made, torch.eye(4, device="cuda") + 1, scale=100)


def test_memory_belongs_to_torch():
    f = compiled(lambda x: x * 2)
    x = torch.zeros(1 << 20, device="cuda")
    f(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    y = f(x)
    assert torch.cuda.memory_allocated() - before == 4 << 20
    del y
    assert torch.cuda.memory_allocated() == before


def test_an_optimiser_step():
    model, again = Mlp().cuda(), Mlp().cuda()
    again.load_state_dict(model.state_dict())
    ours, theirs = torch.optim.AdamW(model.parameters(), 1e-2), torch.optim.AdamW(again.parameters(), 1e-2)
    step, x = compiled(ours.step), torch.randn(8, 64, device="cuda")
    for _ in range(3):
        for m, update, optimiser in ((model, step, ours), (again, theirs.step, theirs)):
            optimiser.zero_grad()
            m(x).square().mean().backward()
            update()
    for got, wanted in zip(model.parameters(), again.parameters()):
        close(got, wanted, scale=5)


def test_several_results_views_and_numbers():
    def f(x, n: int):
        return x.t() + n, x[0], x.shape[0], (x * 2)[:, :1]

    x = torch.randn(6, 4, device="cuda")
    for got, wanted in zip(compiled(f)(x, 3), f(x, 3)):
        if isinstance(wanted, torch.Tensor):
            assert got.stride() == wanted.stride() and got.device == wanted.device
        assert got == wanted if isinstance(wanted, int) else torch.equal(got, wanted)


def test_empty_tensors():
    f = compiled(lambda x: (x * 2, x.sum(0)))
    x = torch.zeros(0, 5, device="cuda")
    double, total = f(x)
    assert double.shape == (0, 5) and torch.equal(total, torch.zeros(5, device="cuda"))


def test_frozen_weights():
    model = Mlp().cuda().eval()
    with torch.no_grad():
        frozen, x = compiled(model, freeze=True), torch.randn(8, 64, device="cuda")
        close(frozen(x), model(x))


class Chain(nn.Module):
    """Several launches, which leave what they compute in memory of the program's."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.layer_norm(layer(x).relu(), (256,))
        return x


def test_streams_in_turns_share_the_programs_memory():
    model = Chain().cuda()
    with torch.no_grad():
        f = compiled(model)
        x = [torch.randn(512, 256, device="cuda") for _ in range(2)]
        wanted = [model(each) for each in x]
        f(x[0])
        streams = [torch.cuda.Stream() for _ in x]
        torch.cuda.synchronize()
        for _ in range(20):
            made = []
            for stream, each in zip(streams, x):
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(300_000)
                    made.append(f(each))
            torch.cuda.synchronize()
            for got, want in zip(made, wanted):
                close(got, want)


def test_results_in_turns_at_two_addresses():
    model = Chain().cuda()
    with torch.no_grad():
        f, x = compiled(model), torch.randn(64, 256, device="cuda")
        kept = None
        for _ in range(40):
            x.normal_()
            kept = f(x)  # the last one is still there while this one is made
            close(kept, model(x))
        f(x.clone())
        many = [f(x) for _ in range(12)]  # addresses that never come again
        for each in many:
            close(each, model(x))


def test_a_run_follows_the_capture_of_one():
    model = Chain().cuda()
    with torch.no_grad():
        f, x = compiled(model), torch.randn(64, 256, device="cuda")
        graph, y = captured(f, x)
        for _ in range(3):
            x.normal_()
            graph.replay()
            close(y, model(x))
            close(f(x), model(x))


def test_the_guard_waits_for_nothing_and_is_captured():
    """guard="measure": calls are timed by events of the stream; a capture runs one side."""

    def f(x):
        return torch.softmax(x @ x, -1) * 2

    fast = knapper.torch.compile(f, guard="measure", cache=False)
    x = torch.randn(64, 64, device="cuda")
    with torch.no_grad():
        wanted = f(x)
        close(fast(x), wanted)
        graph, y = captured(fast, x)  # not measured to the end yet
        graph.replay()
        close(y, wanted)
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            made = [fast(x) for _ in range(20)]
        finally:
            torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()
        for each in (*made, fast(x), fast(x)):
            close(each, wanted)
        told = knapper.torch.explain(f, x, options={"guard": "measure", "cache": False})
        [found] = told.graphs[0].measured
        assert found.known and found.program > 0 and found.eager > 0, str(told)
        graph, y = captured(fast, x)
        graph.replay()
        close(y, wanted)
        drawn = knapper.torch.explain(lambda x: torch.rand_like(x) * 2, x, options={"guard": "measure", "cache": False})
        assert "other random numbers" in str(drawn)
