"""Random numbers as inputs of a graph, as graphs on a GPU have them."""

import importlib

import knapper.torch
import pytest
import torch
from knapper.errors import UserError
from knapper.torch.describe import describe
from knapper.torch.random_inputs import drawing, hoist
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten


def traced(function, *args, mode="symbolic"):
    """The graph with its numbers as inputs, called with fresh ones."""
    def listed(*given):
        made = function(*given)
        return list(made) if isinstance(made, tuple) else [made]

    module = make_fx(listed, tracing_mode=mode)(*args)
    draws = hoist(module)
    draw = drawing(draws, describe(module, False).symbols)

    def call(*given):
        arguments = list(given)
        draw(arguments)
        made = module(*arguments)
        return made[0] if len(made) == 1 else made

    return call, draws


def test_dropout_keeps_what_its_mask_says():
    call, draws = traced(lambda x: aten.native_dropout(x, 0.25, True), torch.ones(40, 50))
    torch.manual_seed(1)
    kept, mask = call(torch.ones(400, 500))
    assert len(draws) == 1
    assert abs(mask.double().mean() - 0.75) < 0.01
    torch.testing.assert_close(kept, mask / 0.75)
    torch.manual_seed(1)
    assert torch.equal(call(torch.ones(400, 500))[1], mask)
    assert not torch.equal(call(torch.ones(400, 500))[1], mask)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_dropout_of_nothing_and_of_everything(p):
    call, _ = traced(lambda x: aten.native_dropout(x, p, True)[0], torch.ones(8))
    torch.testing.assert_close(call(torch.full((8,), 3.0)), torch.full((8,), 0.0 if p else 3.0))


@pytest.mark.parametrize(
    "function, mean, variance",
    [
        (lambda x: torch.rand_like(x), 0.5, 1 / 12),
        (lambda x: torch.randn_like(x), 0, 1),
        (lambda x: torch.randint_like(x, 3, 7), 4.5, 1.25),
        (lambda x: aten.bernoulli.p(x, 0.3), 0.3, 0.21),
        (lambda x: aten.bernoulli.default(x.clamp(0.6, 0.6)), 0.6, 0.24),
        (lambda x: aten.uniform(x, -2.0, 4.0), 1, 3),
        (lambda x: aten.normal_functional(x, 5.0, 2.0), 5, 4),
        (lambda x: torch.rand(x.shape[0], 2 * x.shape[1]), 0.5, 1 / 12),
        (lambda x: torch.randint(0, 2, x.shape), 0.5, 0.25),
    ],
)
def test_distributions(function, mean, variance):
    call, draws = traced(function, torch.ones(5, 7))
    torch.manual_seed(0)
    made = call(torch.ones(300, 400)).double()
    assert len(draws) == 1
    assert made.shape[0] == 300
    assert abs(made.mean() - mean) < 0.03
    assert abs(made.var() - variance) < 0.05


def test_the_order_is_that_of_the_graph():
    call, draws = traced(lambda x: (torch.rand(3), torch.randn(3), torch.rand(3)), torch.ones(1))
    assert len(draws) == 3
    torch.manual_seed(3)
    got = call(torch.ones(1))
    torch.manual_seed(3)
    for given, wanted in zip(got, (torch.rand(3), torch.randn(3), torch.rand(3))):
        assert torch.equal(given, wanted)


def test_what_a_tensor_decides_is_refused_with_its_name():
    with pytest.raises(UserError, match="aten.poisson.default draws random numbers by what a tensor"):
        traced(lambda x: torch.poisson(x), torch.ones(4))


def test_through_the_backend(monkeypatch):
    """The same graphs compiled, as on a GPU, here on the CPU."""
    backend = importlib.import_module("knapper.torch.backend")
    compile_graph = backend.compile_graph

    def hoisted(module, inputs, **options):
        made = hoist(module)
        artefact = compile_graph(module, inputs, **options)
        program = artefact.program
        program.draw = drawing(made, program.description.symbols)
        return artefact

    monkeypatch.setattr(backend, "compile_graph", hoisted)
    torch._dynamo.reset()

    def f(x, w):
        return torch.nn.functional.dropout(x @ w, 0.5) * 2

    w = torch.eye(64, requires_grad=True)
    fast = knapper.torch.compile(f, dynamic=True, fallback="error", cache=False)
    for rows in (300, 500):
        y = fast(torch.ones(rows, 64), w)
        assert set(y.unique().tolist()) == {0.0, 4.0}
        assert abs(y.mean() - 2) < 0.1
        w.grad = None
        y.sum().backward()
        torch.testing.assert_close(w.grad[0], y.sum(0).detach())
