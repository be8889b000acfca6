"""Operators of torch.library that users bring rows for."""

import pytest
import torch

import knapper
import knapper.torch
from knapper.torch import custom, nodes


@torch.library.custom_op("knapper_test::gate", mutates_args=())
def gate(x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
    return x * torch.sigmoid(y) * scale


@gate.register_fake
def _(x, y, scale):
    return torch.empty_like(x)


@torch.library.custom_op("knapper_test::double_", mutates_args={"x"})
def double_(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x + y


@double_.register_fake
def _(x, y):
    return torch.empty_like(x)


@torch.library.custom_op("knapper_test::fill_", mutates_args={"x"})
def fill_(x: torch.Tensor) -> None:
    x.fill_(2)


@fill_.register_fake
def _(x):
    return None


@torch.library.custom_op("knapper_test::thin", mutates_args=(), tags=[torch.Tag.nondeterministic_seeded])
def thin(x: torch.Tensor, dropout_p: float) -> torch.Tensor:
    return x + torch.rand_like(x)


@thin.register_fake
def _(x, dropout_p):
    return torch.empty_like(x)


@torch.library.custom_op("knapper_test::thin_by", mutates_args=())
def thin_by(x: torch.Tensor, dropout_p: torch.Tensor) -> torch.Tensor:
    return x * (1 - dropout_p)


@thin_by.register_fake
def _(x, dropout_p):
    return torch.empty_like(x)


@pytest.fixture(autouse=True)
def registries(fresh, monkeypatch):
    monkeypatch.setattr(custom, "_decompositions", {})
    monkeypatch.setattr(custom, "_externals", set())


def compiled(function, fallback="error"):
    return knapper.torch.compile(function, fullgraph=True, fallback=fallback, cache=False)


def gated(x, y):
    return gate(x + 1, y, 2.0) * 3


def written(x, y):
    z = x + 1
    r = double_(z, y)
    fill_(y)
    return z, r, y + 1


said = []


@torch.library.custom_op("knapper_test::say", mutates_args=())
def say(x: torch.Tensor, word: str) -> torch.Tensor:
    said.append(word)
    return x + 1


@say.register_fake
def _(x, word):
    return torch.empty_like(x)


def test_effects_keep_their_order():
    effects = pytest.importorskip("torch._higher_order_ops.effects")
    effects._register_effectful_op(torch.ops.knapper_test.say.default, effects._EffectType.ORDERED)

    def function(x):
        say(x, "first")  # nobody reads it
        y = say(x * 2, "second")
        say(y, "third")
        return say(x, "fourth") + y

    fast = compiled(function, "allow")
    x = torch.randn(4)
    torch.testing.assert_close(fast(x), function(x))
    said.clear()
    for _ in range(2):
        fast(x)
    assert said == ["first", "second", "third", "fourth"] * 2


def test_an_operator_without_a_row_is_refused_by_name():
    with pytest.raises(Exception, match=r"knapper_test.gate.default(.|\n)*custom_test.py"):
        compiled(gated)(torch.randn(4), torch.randn(4))


def test_a_decomposition_is_compiled_with_what_is_around_it():
    @knapper.torch.register_decomposition(gate)
    def _(x, y, scale):
        return x * torch.sigmoid(y) * scale

    x, y = torch.randn(4), torch.randn(4)
    torch.testing.assert_close(compiled(gated)(x, y), gated(x, y))
    report = knapper.torch.explain(gated, x, y)
    assert len(report.graphs[0].kernels) == 1


def test_an_external_call():
    knapper.torch.register_external("knapper_test::gate")
    x, y = torch.randn(4), torch.randn(4)
    torch.testing.assert_close(compiled(gated)(x, y), gated(x, y))
    assert knapper.torch.counters()["fallback_ops"] == 0


@pytest.mark.parametrize("probability", [0.0, 0.5])
def test_an_operator_that_draws_whatever_its_arguments_say(probability):
    assert nodes.is_random(torch.ops.knapper_test.thin.default, {"dropout_p": probability})
    x = torch.zeros(64)
    # Computed by torch, as what draws is, whatever `fallback` says.
    made = compiled(lambda x: thin(x * 2, probability) + 1)
    assert not torch.equal(made(x), made(x))
    assert knapper.torch.counters()["fallback_ops"] == 0


def test_a_tensor_that_is_named_as_a_probability():
    assert not nodes.is_random(torch.ops.knapper_test.thin_by.default, {"dropout_p": 0.5})
    x, p = torch.randn(4), torch.tensor(0.25)
    function = lambda x, p: thin_by(x * 2, p) + 1  # noqa: E731
    torch.testing.assert_close(compiled(function, "allow")(x, p), function(x, p))
    assert knapper.torch.counters()["fallback_ops"] == 1


@pytest.mark.parametrize("fallback", ["error", "allow"])
def test_operators_that_write_into_their_arguments(fallback):
    if fallback == "error":
        knapper.torch.register_external(double_)
        knapper.torch.register_external(torch.ops.knapper_test.fill_)
    x, y = torch.randn(4), torch.randn(4)
    a, b = y.clone(), y.clone()
    torch.testing.assert_close(compiled(written, fallback)(x, a), written(x, b))
    assert torch.equal(a, b)


@pytest.mark.parametrize(
    "op, text",
    [
        ("knapper_test::gat", "there is no operator"),
        ("gate", "there is no operator"),
        ("aten::add.Tensor", "torch's own"),
        (3, "is no operator"),
    ],
)
def test_what_is_no_custom_operator(op, text):
    with pytest.raises(knapper.UserError, match=text):
        knapper.torch.register_external(op)


def test_a_decomposition_has_no_place_for_writes():
    with pytest.raises(knapper.UserError, match="writes into its arguments"):
        knapper.torch.register_decomposition(double_, lambda x, y: x)


def test_another_decomposition_is_another_program():
    before = custom.key()
    knapper.torch.register_decomposition(gate, lambda x, y, scale: x * y * scale)
    one = custom.key()
    knapper.torch.register_decomposition(gate, lambda x, y, scale: x + y * scale)
    assert len({before, one, custom.key()}) == 3
