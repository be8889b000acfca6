"""What a call promises beside its numbers: identities, memory, dtypes, what is written and when it is seen."""

import copy
import threading

import pytest
import torch

import knapper
import knapper.torch


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiled(function, **options):
    return knapper.torch.compile(function, fallback="error", cache=False, **options)


def test_an_input_that_is_two_outputs_is_itself():
    x = torch.randn(4)
    first, _, last = compiled(lambda x: (x, x * 2, x))(x)
    assert first is x and last is x


def write_one_read_other(a, b):
    a.mul_(2)
    b.add_(1)
    return a.sum() + b.sum()


@pytest.mark.parametrize("views", [lambda x: (x, x), lambda x: (x, x.view(2, 4)), lambda x: (x[:5], x[3:])])
def test_arguments_over_one_memory(views):
    ours = torch.randn(8)
    theirs = ours.clone()
    function = compiled(write_one_read_other)
    for _ in range(2):
        torch.testing.assert_close(function(*views(ours)), write_one_read_other(*views(theirs)))
        torch.testing.assert_close(ours, theirs)
    apart = torch.randn(3), torch.randn(3)  # the same code after another compile
    want = write_one_read_other(*[t.clone() for t in apart])
    torch.testing.assert_close(function(*apart), want)


# What torch's own test of arguments over one memory misses: rectangles of a matrix
# whose second begins before the first.
MISSED = [
    lambda x: (x[1:4, 1:3], x[:3, 2:4]),
    lambda x: (x[1:4, 1:3], x[:3, 1:3]),
]


@pytest.mark.parametrize("views", MISSED)
def test_arguments_over_one_memory_that_torch_misses(views):
    """The numbers of eager, or an error before anything is written."""
    ours = torch.randn(6, 4)
    theirs, before = ours.clone(), ours.clone()
    want = write_one_read_other(*views(theirs))
    try:
        got = compiled(write_one_read_other)(*views(ours))
    except knapper.UserError as error:
        assert "lie over each other" in str(error) and torch.equal(ours, before)
    else:
        torch.testing.assert_close((got, ours), (want, theirs))


def test_later_arguments_over_one_memory():
    """Compiled for arguments apart; torch guards that for symbolic sizes alone."""
    function = compiled(write_one_read_other, dynamic=False)
    function(torch.randn(4), torch.randn(4))
    x = torch.randn(12)
    before = x.clone()
    with pytest.raises(knapper.UserError, match="lie over each other"):
        function(x[:4], x[2:6])
    assert torch.equal(x, before)
    for views in (lambda x: (x[:4], x[4:8]), lambda x: (x[4:8], x[:4])):
        theirs = x.clone()
        want = write_one_read_other(*views(theirs))
        torch.testing.assert_close((function(*views(x)), x), (want, theirs))
    apart = compiled(write_one_read_other, dynamic=False)
    for views in (lambda x: (x[::2], x[1::2]), lambda x: (x[1::3], x[::3])):  # between each other
        torch._dynamo.reset()
        theirs = x.clone()
        want = write_one_read_other(*views(theirs))
        torch.testing.assert_close((apart(*views(x)), x), (want, theirs))


RESULTS_OVER_ONE_MEMORY = [
    lambda y: (y, y.view(-1)),
    lambda y: (y.t(), y.view(-1), y[1], y),
    lambda y: (y[0], y.t()),
    lambda y: (y, y.clone()),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("results", RESULTS_OVER_ONE_MEMORY)
def test_results_over_one_memory(results, dynamic):
    """What is written into one is seen in the others, as in eager."""
    x = torch.randn(3, 4)
    got, want = compiled(lambda x: results(x * 2), dynamic=dynamic)(x), results(x * 2)
    got[0].zero_(), want[0].zero_()
    for mine, other in zip(got, want, strict=True):
        assert torch.equal(mine, other) and mine.stride() == other.stride()


def test_a_graph_of_views_alone():
    def function(x):
        return x.view(2, 3), x[1:], x.expand(2, 6)

    x = torch.randn(6)
    for got, want in zip(compiled(function)(x), function(x)):
        assert got.data_ptr() == want.data_ptr() and got.stride() == want.stride()


def test_results_that_are_none_and_graphs_without_tensors():
    none, _, held = compiled(lambda x: (None, x + 1, {"a": None, "b": (x * 2, 3)}))(torch.randn(3))
    assert none is None and held["a"] is None and held["b"][1] == 3
    assert compiled(lambda n: (n * 2, n + 1))(3) == (6, 4)
    assert compiled(lambda: torch.zeros(0))().shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64])
def test_numbers_and_tensors_of_one_number_promote_as_in_eager(dtype):
    def function(x, s):
        return x * 3.141592653589793 + 1e-9, x * s, x + s, torch.where(x > s, x, s)

    x = torch.arange(5).to(dtype)
    for s in (torch.tensor(2.0, dtype=torch.float64), torch.tensor(3), torch.tensor(True)):
        torch.testing.assert_close(compiled(function)(x, s), function(x, s))


def test_shifts_by_operators():
    x = torch.tensor([2**62, -(2**63), 2**63 - 1, 7])
    for function in (lambda x: (x << 1, x >> 3), lambda x: (x << x % 5, x >> x % 5)):
        torch.testing.assert_close(compiled(function)(x), function(x))


def test_weights_that_are_written_in_any_way_are_seen():
    layer, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    function = compiled(layer)

    def state():
        return {key: torch.randn_like(value) for key, value in layer.state_dict().items()}

    writes = (
        lambda: layer.weight.data.add_(1),
        lambda: setattr(layer.weight, "data", torch.randn(4, 4)),
        lambda: layer.weight.zero_(),
        lambda: layer.load_state_dict(state()),
        lambda: layer.load_state_dict(state(), assign=True),
    )
    with torch.no_grad():
        for write in (lambda: None, *writes):
            write()
            torch.testing.assert_close(function(x), layer(x))


@pytest.mark.parametrize(
    "layer, image",
    [
        (torch.nn.Conv2d(128, 512, 3, padding=1), (1, 128, 7, 7)),  # read in place
        (torch.nn.Conv2d(64, 64, 3, padding=1), (1, 64, 28, 28)),  # transformed
        (torch.nn.Conv2d(64, 128, 1, stride=2), (2, 64, 56, 56)),  # packed
    ],
)
def test_filters_that_are_written_in_any_way_are_seen(layer, image):
    net = torch.nn.Sequential(layer, torch.nn.BatchNorm2d(layer.out_channels), torch.nn.ReLU()).eval()
    function, x = compiled(net), torch.randn(image)
    state = {key: value * 2 + 1 for key, value in net.state_dict().items()}
    writes = (
        lambda: layer.weight.data.copy_(layer.weight.flip(0)),
        lambda: layer.weight.data.numpy().fill(0.01),
        lambda: setattr(layer.weight, "data", torch.randn_like(layer.weight) / 20),
        lambda: layer.weight.mul_(2),
        lambda: net[1].running_var.data.fill_(3),
        lambda: net.load_state_dict(state),
        lambda: net.load_state_dict({key: -value for key, value in state.items() if "var" not in key}, strict=False, assign=True),
    )  # fmt: skip
    with torch.no_grad():
        for write in (lambda: None, *writes):
            write()
            torch.testing.assert_close(function(x), net(x), rtol=1e-4, atol=1e-4)


def test_frozen_weights_beside_others_of_one_module():
    layer, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    frozen, live = compiled(layer, freeze=True), compiled(layer)
    with torch.no_grad():
        want = layer(x)
        torch.testing.assert_close(frozen(x), want)
        torch.testing.assert_close(live(x), want)
        layer.weight.add_(1)
        torch.testing.assert_close(live(x), layer(x))
        torch.testing.assert_close(frozen(x), want)


def test_autocast_and_modes_of_gradients_in_turns():
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    function, x = compiled(net), torch.randn(3, 8)
    for gradients in (True, False):
        for narrow in (True, False, True):
            with torch.set_grad_enabled(gradients), torch.autocast("cpu", torch.bfloat16, enabled=narrow):
                got, want = function(x), net(x)
            assert got.dtype == want.dtype and got.requires_grad == want.requires_grad
            torch.testing.assert_close(got, want, rtol=3e-2, atol=3e-2)


def test_a_compiled_function_within_another_and_one_left_out():
    @torch.compiler.disable
    def counted(x):
        return float(x.numpy().sum())

    inner = compiled(lambda x: x.sin() * 2)
    x = torch.randn(4)
    torch.testing.assert_close(compiled(lambda x: inner(x) + 1)(x), x.sin() * 2 + 1)
    torch.testing.assert_close(compiled(lambda x: (x * 2).exp() + counted(x * 3))(x), (x * 2).exp() + counted(x * 3))


def test_counters_in_buffers():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros((), dtype=torch.long))
            self.norm = torch.nn.BatchNorm1d(3)

        def forward(self, x):
            self.calls += 1
            return self.norm(x) * self.calls

    ours = Counting()
    theirs = copy.deepcopy(ours)
    function = compiled(ours)
    for _ in range(3):
        x = torch.randn(4, 3)
        torch.testing.assert_close(function(x), theirs(x))
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


def test_threads_call_one_function():
    function = compiled(lambda x: (x @ x.T).sum())
    right = []

    def call():
        for _ in range(5):
            x = torch.randn(8, 8)
            torch.testing.assert_close(function(x), (x @ x.T).sum(), rtol=1e-4, atol=1e-3)
        right.append(True)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(right) == 4
