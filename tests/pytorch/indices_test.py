"""Indices from the end, masks, and assertions: what is taken, and what is an error as in eager."""

import pytest
import torch

import knapper
import knapper.torch

F = torch.nn.functional

pytestmark = pytest.mark.usefixtures("fresh")


def compiled(function, **options):
    return knapper.torch.compile(function, fullgraph=True, fallback="error", cache=False, **options)


# Operators of eager that refuse an index below zero.
FROM_FRONT = {
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding_bag": lambda x, i: F.embedding_bag(i, x, torch.tensor([0])),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add": lambda x, i: x.index_add(0, i, torch.ones(1, 2)),
    "index_copy": lambda x, i: x.index_copy(0, i, torch.ones(1, 2)),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 1.0),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i[:, None], torch.ones(1, 1), "sum"),
    "nll_loss": lambda x, i: F.nll_loss(x[:1], i, ignore_index=-100),
    "cross_entropy": lambda x, i: F.cross_entropy(x[:1], i),
}


@pytest.mark.parametrize("name", FROM_FRONT)
def test_an_index_below_zero_is_an_error_where_eager_has_one(name):
    function, x = compiled(FROM_FRONT[name]), torch.randn(3, 2)
    inside = torch.tensor([1])
    torch.testing.assert_close(function(x, inside), FROM_FRONT[name](x, inside))
    for outside in (-1, 3):
        with pytest.raises(knapper.UserError, match="index is out of range"):
            function(x, torch.tensor([outside]))


# Those that count from the end.
FROM_END = {
    "index": lambda x, i: x[i],
    "index_put": lambda x, i: x.index_put((i,), torch.ones(2)),
    "index_fill": lambda x, i: x.index_fill(0, i, 7.0),
    "take": lambda x, i: x.take(i),
    "put": lambda x, i: x.put(i, torch.ones(1)),
}


@pytest.mark.parametrize("name", FROM_END)
def test_an_index_below_zero_counts_from_the_end_where_eager_does(name):
    x = torch.randn(3, 2)
    for at in (-1, 1):
        given = torch.tensor([at])
        torch.testing.assert_close(compiled(FROM_END[name])(x, given), FROM_END[name](x, given))


def test_a_number_is_filled():
    function, x, at = compiled(lambda x, i: x.index_fill(0, i, 7.0)), torch.tensor(2.0), torch.tensor([0])
    torch.testing.assert_close(function(x, at), torch.tensor(7.0))


def test_targets_that_are_left_out_may_be_negative():
    x, target = torch.randn(4, 3, requires_grad=True), torch.tensor([1, -1, 0, -1])
    for reduction in ("mean", "sum", "none"):
        made = [
            call(lambda x, t: F.cross_entropy(x, t, ignore_index=-1, reduction=reduction))(x, target)
            for call in (compiled, lambda function: function)
        ]
        torch.testing.assert_close(*made)
        torch.testing.assert_close(*[torch.autograd.grad(y.sum(), x) for y in made])


def masked(x):
    return x[x > 0] * 2, x[:, x[0] > 0], x[x[:, 0] > 0].sum(0)


def test_masks_as_indices():
    function = compiled(masked)
    for x in (torch.randn(4, 5), torch.ones(4, 5), -torch.ones(4, 5), torch.randn(3, 2)):
        torch.testing.assert_close(function(x), masked(x))


def test_gradients_of_what_a_mask_picks():
    x = torch.randn(4, 5, requires_grad=True)
    for rows in (x > 0, x[:, 0] < 9, x.new_zeros(4, dtype=torch.bool)):
        found = [
            torch.autograd.grad((call(lambda x, m: x[m] ** 2)(x, rows)).sum(), x)
            for call in (compiled, lambda function: function)
        ]
        torch.testing.assert_close(*found)
        torch._dynamo.reset()


def test_assertions_are_seen():
    def function(x):
        torch._assert_async((x > 0).all(), "it is not")
        return x * 2

    ours = compiled(function)
    torch.testing.assert_close(ours(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="it is not"):
        ours(-torch.ones(3))


def test_assertions_of_what_is_trained():
    def function(x):
        torch._assert_async((x > 0).all(), "it is not")
        return (x * x).sum()

    ours, x = compiled(function), torch.ones(3, requires_grad=True)
    torch.testing.assert_close(torch.autograd.grad(ours(x), x), (2 * x.detach(),))
    with pytest.raises(RuntimeError, match="it is not"):
        ours(-x)


def test_slices_that_begin_where_data_says():
    x, narrowed = torch.arange(15.0).reshape(5, 3), compiled(lambda x, at: x.narrow(0, at, 2))
    for at in (1, 3, 0):
        got = narrowed(x, torch.tensor(at))
        torch.testing.assert_close(got, x.narrow(0, at, 2))
        assert got.data_ptr() == x.narrow(0, at, 2).data_ptr()
    with pytest.raises(RuntimeError, match="exceeds dimension size"):
        narrowed(x, torch.tensor(4))
    # A start from the end is a limit (docs/pytorch.md).
    with pytest.raises(knapper.UserError, match="at least 0"):
        narrowed(x, torch.tensor(-2))
    with pytest.raises(Exception, match="begins or ends where data says"):
        compiled(lambda x, at: x.tensor_split(at))(x, torch.tensor([1, 4]))
