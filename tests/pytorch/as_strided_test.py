"""Parts of the memory that tensors lie in: as_strided over storage with gaps and offsets."""

import pytest
import torch

import knapper
import knapper.torch

GIVEN = {
    "whole": lambda: torch.arange(24.0),
    "behind an offset": lambda: torch.arange(60.0)[7:31],
    "with gaps": lambda: torch.arange(49.0)[1::2],
}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def compiled(function, **options):
    return knapper.torch.compile(function, fallback="error", cache=False, **options)


def placed(x):
    return torch.as_strided(x, (3, 2), (4, 2), 1) + 1


def behind_the_tensor(x):
    return torch.as_strided(x, (3, 2), (1, 1)) + 1


def of_a_view(x):
    return torch.as_strided(x.reshape(2, -1).t()[::2], (3, 2), (1, 2)) * 2


def of_a_result(x):
    return torch.as_strided((x + 1).reshape(2, -1).t()[1::2], (3, 2), (1, 2), 1) * 2


def of_a_placed_view(x):
    """The inner one says where in the storage the outer one begins."""
    return torch.as_strided(torch.as_strided(x, (4, 2), (4, 2), 1), (3, 2), (1, 2)) - 1


def copied(x):
    return torch.as_strided_copy(x, (2, 3), (1, 4), 1), torch.as_strided_copy(x, (3, 2), (2, 2))


@pytest.mark.parametrize("function", [placed, behind_the_tensor, of_a_view, of_a_result, of_a_placed_view, copied])
@pytest.mark.parametrize("dynamic", [None, True])
def test_storage_is_read_wherever_the_tensor_begins(function, dynamic):
    f = compiled(function, dynamic=dynamic)
    for make in GIVEN.values():  # one graph serves those of equal strides
        if function is not of_a_view or make is not GIVEN["with gaps"]:  # reshape copies
            torch.testing.assert_close(f(make()), function(make()), rtol=0, atol=0)


def test_a_part_of_a_written_argument_is_what_it_was():
    def function(x):
        before = torch.as_strided(x, (5,), (4,), 1) * 2
        x.add_(1)
        return before, torch.as_strided(x, (5,), (4,), 1) * 2

    x, y = torch.arange(24.0), torch.arange(24.0)
    got, want = compiled(function)(x), function(y)
    assert all(torch.equal(a, b) for a, b in zip(got, want)) and torch.equal(x, y)


def test_gradients_through_gaps():
    x = torch.randn(48)[::2].requires_grad_()
    y = x.detach().requires_grad_()

    def function(x):
        return torch.as_strided(x.sin(), (4, 2), (5, 2)).exp().sum()

    compiled(function)(x).backward()
    function(y).backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_scatter_into_a_part_of_a_result():
    def function(x):
        return torch.as_strided_scatter((x * 2)[2:], x.new_zeros(3, 2), (3, 2), (1, 2), 4)

    x = torch.randn(24)
    assert torch.equal(compiled(function)(x), function(x))


def test_scatter_into_a_view_of_an_argument():
    def function(x):
        return torch.as_strided_scatter(x.view(4, 6).t(), x.new_zeros(3, 2), (3, 2), (4, 2), 1)

    x = torch.randn(24)
    assert torch.equal(compiled(function)(x), function(x))


def test_a_write_counts_from_the_storage():
    """A later tensor that begins elsewhere is an error, not other numbers."""

    def function(x):
        torch.as_strided(x, (3, 2), (4, 2), 1).mul_(2)
        return x.sum()

    f = compiled(function)
    x, y = torch.arange(24.0), torch.arange(24.0)
    assert torch.equal(f(x), function(y)) and torch.equal(x, y)
    with pytest.raises(knapper.UserError, match="beginning of a storage"):
        f(torch.arange(48.0)[4:28])


def test_sizes_that_are_numbers_of_the_call():
    f = compiled(lambda x, n: torch.as_strided(x, (n, 2), (2, 1), 1) + 1, dynamic=True)
    for n in (3, 4, 5):
        x = torch.arange(24.0)
        assert torch.equal(f(x, n), torch.as_strided(x, (n, 2), (2, 1), 1) + 1)


def test_results_that_begin_where_data_says():
    def function(x, at):
        place = at.item()
        torch._check(place >= 0)
        torch._check(place < 5)
        return x.narrow(0, place, 2), (x + 1).narrow(0, place, 2)

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        f = compiled(function, fullgraph=True)
        for place in (1, 3, 0):
            x = torch.randn(7)
            got = f(x, torch.tensor(place))
            assert all(torch.equal(a, b) for a, b in zip(got, function(x, torch.tensor(place))))
            assert got[0].data_ptr() == x.data_ptr() + 4 * place


def test_a_float_made_of_sizes_is_compared():
    f = compiled(lambda x: x < x.shape[0] / 2, dynamic=True)
    for n in (3, 4, 7):
        assert torch.equal(f(torch.arange(n)), torch.arange(n) < n / 2)


def _scaled(x):
    x[2:4].mul_(3)
    return x.as_strided((4,), (1,), 5) + 1


def _added(x):
    x.add_(1)
    return x.as_strided((4,), (1,), 5) + 1


@pytest.mark.parametrize("function", [_scaled, _added])
def test_an_argument_that_is_changed_first_begins_its_storage(function):
    """The places of as_strided count from the beginning of the storage, which what the
    trace makes of a changed argument does not have."""
    f = compiled(function)
    x, y = torch.arange(15.0), torch.arange(15.0)
    assert torch.equal(f(x), function(y)) and torch.equal(x, y)
    with pytest.raises(knapper.Error):
        f(torch.arange(40.0)[4:19])
    torch._dynamo.reset()
    with pytest.raises(Exception, match="as_strided"):
        compiled(function)(torch.arange(40.0)[4:19])
