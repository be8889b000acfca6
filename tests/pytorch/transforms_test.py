"""Transforms of torch's around and inside of compiled functions: each works, or says
that it does not."""

import warnings

import knapper.torch
import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap
from torch.utils.checkpoint import checkpoint

close = torch.testing.assert_close
X = torch.arange(20.0).reshape(5, 4).sin()


@pytest.fixture(autouse=True)
def without_warnings(fresh):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def compiled(function, **options):
    return knapper.torch.compile(function, fallback="error", cache=False, **options)


def f(x):
    return (x.sin() * x).sum()


def running(x):
    return x.sin().cumsum(0)


def pulled(x):
    y, pull = vjp(f, x)
    return y, pull(torch.ones_like(y))[0]


INSIDE = {
    "vmap": lambda x: vmap(torch.dot)(x, x + 1),
    "vmap of vmap": lambda x: vmap(vmap(lambda a: a * a.sin()))(x),
    "vmap over another dim": lambda x: vmap(f, 1)(x),
    "grad": grad(f),
    "vmap of grad": vmap(grad(f)),
    "vjp": pulled,
    "jvp": lambda x: jvp(f, (x,), (torch.ones_like(x),)),
    "jacrev": lambda x: jacrev(running)(x[0]),
    "jacfwd": lambda x: jacfwd(running)(x[0]),
    "hessian": lambda x: hessian(f)(x[0]),
}


@pytest.mark.parametrize("name", INSIDE)
def test_inside(name):
    close(compiled(INSIDE[name], fullgraph=True)(X), INSIDE[name](X))
    assert knapper.torch.counters()["graphs"] == 1


def test_gradients_of_samples_and_ensembles():
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def of(weights, x):
        return vmap(grad(lambda w, x: functional_call(net, w, (x,)).square().sum()), (None, 0))(weights, x)

    weights = {name: p.detach() for name, p in net.named_parameters()}
    close(compiled(of, fullgraph=True)(weights, X), of(weights, X))
    weights, buffers = stack_module_state([nn.Linear(4, 3) for _ in range(3)])
    base = nn.Linear(4, 3).to("meta")

    def every(weights, buffers, x):
        return vmap(lambda w, b: functional_call(base, (w, b), (x,)))(weights, buffers)

    close(compiled(every, fullgraph=True)(weights, buffers, X), every(weights, buffers, X))


def test_random_numbers_of_vmap():
    def noisy(x):
        return vmap(lambda y: y + torch.rand(4), randomness="different")(x)

    torch.manual_seed(3)
    ours = compiled(noisy)(X)
    torch.manual_seed(3)
    close(ours, noisy(X))


AROUND = {
    "vmap": lambda f: vmap(f)(X),
    "grad": lambda f: grad(f)(X),
    "vmap of grad": lambda f: vmap(grad(f))(X),
    "jvp": lambda f: jvp(f, (X,), (torch.ones_like(X),)),
    "vjp": lambda f: vjp(f, X)[1](torch.tensor(1.0)),
    "jacrev": lambda f: jacrev(f)(X),
}


@pytest.mark.parametrize("name", AROUND)
def test_around_a_compiled_function_dynamo_runs_it_eager(name):
    """It is counted; with fullgraph=True torch refuses."""
    close(AROUND[name](compiled(f)), AROUND[name](f))
    assert knapper.torch.counters()["graphs"] == 0
    assert knapper.torch.counters()["graph_breaks"] > 0
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="functorch"):
        AROUND[name](compiled(f, fullgraph=True))


def test_what_dynamo_leaves_to_eager_is_told():
    def broken(x):
        for _ in range(2):
            torch._dynamo.graph_break()
            x = x + 1
        return x

    told = knapper.torch.explain(broken, X)
    assert not told.graphs and told.breaks


def test_tangents_are_refused():
    g = compiled(f)
    g(X)
    with forward_ad.dual_level():
        g(X)  # has none
        with pytest.raises(knapper.UserError, match="(?s)tangent.*torch.func.jvp"):
            g(forward_ad.make_dual(X, torch.ones_like(X)))


def test_functionalize_around_is_refused():
    with pytest.raises(Exception, match="functionalize is around"):
        torch.func.functionalize(compiled(lambda x: x.clone().add_(1)))(X)


def test_second_derivatives_are_refused_by_torch():
    x = X.clone().requires_grad_()
    (first,) = torch.autograd.grad(compiled(f)(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))


def step(model, call):
    model.zero_grad()
    made = call(X.clone().requires_grad_())
    made.square().sum().backward()
    return [made.detach()] + [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_checkpoint(inside, reentrant):
    model = net()

    def call(x, m):
        return checkpoint(m, x, use_reentrant=reentrant)

    whole = compiled(model)
    ours = compiled(lambda x: call(x, model)) if inside else lambda x: call(x, whole)
    close(step(model, ours), step(model, lambda x: call(x, model)))
    assert knapper.torch.counters()["graphs"] >= 2


def test_hooks_of_modules():
    model, seen = net(), []
    model[0].register_forward_hook(lambda module, given, made: made * 2)
    model[1].register_forward_pre_hook(lambda module, given: (given[0] + 1,))
    close(step(model, compiled(model, fullgraph=True)), step(model, model))
    model[0].register_full_backward_hook(lambda module, to, of: seen.append(of[0].clone()))
    torch._dynamo.reset()
    close(step(model, compiled(model)), step(model, model))
    close(seen[0], seen[1])
    whole = compiled(net())
    whole.register_forward_hook(lambda module, given, made: made + 1)
    close(whole(X), net()(X) + 1)


def test_hooks_of_tensors():
    def hooked(x):
        y = x.sin()
        y.register_hook(lambda g: g * 3)
        return y.sum()

    x = X.clone().requires_grad_()
    compiled(hooked)(x).backward()
    close(x.grad, 3 * X.cos())
    model, seen = net(), []
    for p in model.parameters():
        p.register_hook(lambda g: g * 2)
        p.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
    close(step(model, compiled(model)), step(model, model))
    close(sorted(seen[:4]), sorted(seen[4:]), rtol=1e-5, atol=1e-5)  # torch's order of parameters is open


def test_hooks_of_saved_tensors():
    model, packed = net(), []

    def run(call):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t.clone(), lambda t: t):
            return step(model, call)

    ours = run(compiled(model))
    assert packed
    close(ours, run(model))


def test_functions_with_backwards_of_their_own():
    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x.cos() * 2

    x = X.clone().requires_grad_()
    compiled(lambda x: Sine.apply(x).sum(), fullgraph=True)(x).backward()
    close(x.grad, 2 * X.cos())
