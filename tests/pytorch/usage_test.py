"""What users do with modules around a compiled one: state, copies, parametrizations, kinds of tensors."""

import copy
import pickle
import threading

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

import knapper.torch

F = torch.nn.functional

pytestmark = pytest.mark.usefixtures("fresh")


def compiled(model, **options):
    return knapper.torch.compile(model, fallback="error", cache=False, **options)


class Ring(nn.Module):
    """Counts its calls, keeps a mean and the last rows."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("rows", torch.zeros(3, 4))
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        self.calls += 1
        y = self.layer(x)
        self.mean.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        self.rows[self.calls % 3] = y[0].detach()
        self.rows[:2, ::2] *= 2
        return y + self.mean


MODULES = {
    "buffers": (Ring, (3, 4)),
    "weight_norm": (lambda: parametrizations.weight_norm(nn.Linear(4, 5), dim=1), (3, 4)),
    "spectral_norm": (lambda: parametrizations.spectral_norm(nn.Linear(4, 5)), (3, 4)),
    "orthogonal": (lambda: parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="cayley"), (3, 4)),
    "batch norm": (lambda: nn.Sequential(nn.Conv1d(4, 3, 1), nn.BatchNorm1d(3)), (3, 4, 2)),
}


@pytest.mark.parametrize("name", MODULES)
def test_states_and_gradients_of_modules(name):
    make, shape = MODULES[name]
    theirs = make()
    ours = copy.deepcopy(theirs)
    function = compiled(ours)
    for _ in range(3):
        x = torch.randn(shape)
        got, want = function(x), theirs(x)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        for y in (got, want):
            y.square().sum().backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(dict(ours.named_buffers()), dict(theirs.named_buffers()), rtol=1e-4, atol=1e-5)


def test_copies_have_weights_of_their_own():
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    function = compiled(model)
    function(x)
    other = copy.deepcopy(function)
    with torch.no_grad():
        other._orig_mod.weight.zero_()
    torch.testing.assert_close(other(x), model.bias.expand(2, 4))
    torch.testing.assert_close(function(x), model(x))


def test_a_module_that_compiles_itself_is_pickled():
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    want = model(x)
    model.compile(backend=knapper.torch.backend, options={"cache": False})
    torch.testing.assert_close(model(x), want)
    torch.testing.assert_close(pickle.loads(pickle.dumps(model))(x), want)


def test_functional_calls_of_a_compiled_module():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(3, 4)
    state = {f"_orig_mod.{name}": torch.randn_like(value) for name, value in model.state_dict().items()}
    got = torch.func.functional_call(compiled(model), state, (x,))
    torch.testing.assert_close(got, torch.tanh(F.linear(x, state["_orig_mod.0.weight"], state["_orig_mod.0.bias"])))


def test_threads_train_at_sizes_of_their_own():
    function, failed = compiled(lambda x, w: F.gelu(x @ w).sum()), []

    def work(size):
        try:
            for _ in range(4):
                x, w = torch.randn(size, 8), torch.randn(8, 8, requires_grad=True)
                torch.testing.assert_close(
                    torch.autograd.grad(function(x, w), w), torch.autograd.grad(F.gelu(x @ w).sum(), w)
                )
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=work, args=(size,)) for size in (4, 5, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]


def test_subclasses_of_tensors():
    from torch.testing._internal.two_tensor import TwoTensor

    a, b = torch.randn(4), torch.randn(4)
    got = compiled(lambda x: x.sin() * 2)(TwoTensor(a, b))
    torch.testing.assert_close((got.a, got.b), (a.sin() * 2, b.sin() * 2))


def test_dynamo_leaves_sparse_tensors_to_eager():
    given = torch.eye(3).to_sparse()
    torch.testing.assert_close(compiled(lambda x, y: x @ y)(given, torch.ones(3, 3)), torch.ones(3, 3))
    assert knapper.torch.counters()["graph_breaks"] == 1
    with pytest.raises(Exception, match="sparse"):
        compiled(lambda x, y: x @ y, fullgraph=True)(given, torch.ones(3, 3))
