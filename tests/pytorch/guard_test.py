"""guard="measure": eager runs where it measures faster, and only there."""

import logging
import os
import re
import subprocess
import sys
import threading

import pytest
import torch

import knapper.torch
from knapper.errors import WrongValue
from knapper.torch import guard
from knapper.torch.guard import CALLS


pytestmark = pytest.mark.usefixtures("fresh")


def slower(x):
    """Ours is computed in double precision, on few elements at a time."""
    return torch.special.modified_bessel_k0(x.abs() + 0.1)


def faster(x):
    for _ in range(12):
        x = (x * 1.01 + 0.5).sigmoid() - x.tanh()
    return x


def guarded(function, **given):
    return knapper.torch.compile(function, guard="measure", cache=False, **given)


class Clock(threading.local):
    now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def seconds():
    """What a call of each side takes by the clock of `by_eager`."""
    return {"eager": 1.0, "program": 2.0}


@pytest.fixture
def by_eager(monkeypatch, seconds):
    """Which side each call ran: "eager" or "program". The guard's clock is one that no other work slows down."""
    ran = []
    clock = Clock()
    eager, program = guard.Guard._by_eager, guard.Program.__call__

    def noted(side, function):
        def call(self, arguments):
            ran.append(side)
            clock.now += seconds[side]
            return function(self, arguments)

        return call

    monkeypatch.setattr(guard, "time", clock)
    monkeypatch.setattr(guard.Guard, "_by_eager", noted("eager", eager))
    monkeypatch.setattr(guard.Program, "__call__", noted("program", program))
    return ran


def test_eager_runs_where_it_is_faster_and_is_counted(by_eager, caplog):
    f = guarded(slower)
    x = torch.randn(96, 96)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "knapper"):
        for _ in range(CALLS + 4):
            torch.testing.assert_close(f(x), slower(x))
    assert by_eager[-4:] == ["eager"] * 4
    assert by_eager[:CALLS].count("program") == CALLS // 2
    assert knapper.torch.counters()["eager_graphs"] == 1
    assert "eager runs: eager " in caplog.text


def test_the_program_stays_where_it_is_faster(by_eager, seconds):
    seconds["eager"] = 2.0  # as fast is not faster
    f = guarded(faster)
    x = torch.randn(1 << 13)
    with torch.no_grad():
        for _ in range(CALLS + 4):
            torch.testing.assert_close(f(x), faster(x))
    assert by_eager[-4:] == ["program"] * 4 and "eager" in by_eager
    assert knapper.torch.counters()["eager_graphs"] == 0


def test_each_size_is_measured(by_eager):
    f = guarded(slower, dynamic=True)
    with torch.no_grad():
        for n in (64, 96):
            x = torch.randn(n, n)
            for _ in range(CALLS + 1):
                f(x)
            assert by_eager[-1] == "eager"
        f(torch.randn(3, 3))
    assert by_eager[-1] == "program"  # a new size begins with the program
    assert knapper.torch.counters()["eager_graphs"] == 2


def test_off_is_the_default(by_eager):
    with torch.no_grad():
        f = knapper.torch.compile(slower, cache=False)
        for _ in range(CALLS + 1):
            f(torch.eye(64))
    assert set(by_eager) == {"program"}
    assert knapper.torch.counters()["eager_graphs"] == 0


@pytest.mark.parametrize("other", [{"fallback": "error"}, {"freeze": True}])
def test_options_that_forbid_it(other):
    with pytest.raises(WrongValue, match="forbids it"):
        knapper.torch.compile(slower, guard="measure", **other)
    with pytest.raises(WrongValue, match="guard is 'measured'") as error:
        knapper.torch.compile(slower, guard="measured")
    assert "measure?" in str(error.value)


def test_deterministic_settings_forbid_it(by_eager):
    torch.use_deterministic_algorithms(True)
    try:
        with torch.no_grad():
            told = knapper.torch.explain(slower, torch.eye(64), options={"guard": "measure", "cache": False})
    finally:
        torch.use_deterministic_algorithms(False)
    assert by_eager == ["program"]
    assert "not measured: torch.use_deterministic_algorithms" in str(told)


def test_inputs_are_written_once_a_call(by_eager):
    def f(x, counts):
        counts.add_(1)
        x.t().mul_(2)
        return slower(x) + counts.sum()

    fast = guarded(f)
    x, counts = torch.randn(96, 96), torch.zeros(3)
    y, other = x.clone(), counts.clone()
    with torch.no_grad():
        for call in range(CALLS + 3):
            x.div_(2), y.div_(2)
            made, wanted = fast(x, counts), f(y, other)
            assert counts.tolist() == other.tolist() == [call + 1] * 3
            assert torch.equal(x, y)
            torch.testing.assert_close(made, wanted)
    assert {"program", "eager"} == set(by_eager)


def test_random_numbers_are_drawn_once_a_call(by_eager):
    def f(x):
        return torch.nn.functional.dropout(x, 0.5) * slower(x).sign() + torch.rand(96)

    fast = guarded(f)
    x = torch.eye(96)
    with torch.no_grad():
        torch.manual_seed(3)
        made = [fast(x) for _ in range(CALLS + 3)] + [torch.rand(2)]
        torch.manual_seed(3)
        wanted = [f(x) for _ in range(CALLS + 3)] + [torch.rand(2)]
    assert {"program", "eager"} == set(by_eager)
    for a, b in zip(made, wanted):
        assert torch.equal(a, b)


def test_training_sides_may_differ(by_eager):
    """Forward and backward are measured apart; what the forward saves lies as the
    backward was traced, whoever made it."""
    def f(x, w):
        q, k = (x @ w).chunk(2, -1)
        return (q.softmax(-1) * k).square().sum()

    x, w = torch.randn(6, 8), torch.randn(8, 16, requires_grad=True)
    fast = guarded(f)
    (wanted,) = torch.autograd.grad(f(x, w), w)
    for _ in range(2 * CALLS):
        (made,) = torch.autograd.grad(fast(x, w), w)
        torch.testing.assert_close(made, wanted)
    assert {"program", "eager"} == set(by_eager)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.t().expand(3, 4, 5),
        lambda x: (x.unsqueeze(0).expand(2, 5, 4) + 1, x[1:], x.t() * 2),
        lambda x: (x.shape[0], x.sum(), None, x),
        lambda x: torch.zeros(0, 4),
        lambda x: (x.to(torch.float64).flip(0), x.bool()),
    ],
)
def test_results_of_eager_are_those_of_the_program(f, monkeypatch):
    monkeypatch.setattr(guard, "_BLOCK", 1)  # each second call is eager's
    fast = guarded(f, dynamic=True)
    x = torch.randn(5, 4)
    with torch.no_grad():
        wanted = f(x)
        for _ in range(6):
            made = fast(x)
            for a, b in zip(*((r,) if isinstance(r, torch.Tensor) else r for r in (made, wanted))):
                if isinstance(b, torch.Tensor):
                    torch.testing.assert_close(a, b)
                    assert a.stride() == b.stride()
                    assert (a.data_ptr() == x.data_ptr()) == (b.data_ptr() == x.data_ptr())
                else:
                    assert a == b


def test_claimed_strides_are_kept():
    x = torch.randn(4, 3)
    for size, stride in (((4, 3), (1, 4)), ((4, 3), (5, 1)), ((4, 1), (7, 9))):
        made = guard._as_claimed(x[:, : size[1]].contiguous(), size, stride)
        assert made.shape == size and torch.equal(made, x[:, : size[1]])
        assert all(a == b for n, a, b in zip(size, made.stride(), stride) if n != 1)
    made = guard._as_claimed(x[:1].repeat(4, 1), (4, 3), (0, 1))
    assert made.stride() == (0, 1) and torch.equal(made, x[:1].expand(4, 3))


@pytest.mark.parametrize(
    "f, why",
    [
        (lambda x: torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,)), "in the compiled program alone"),
        (lambda x: x.nonzero() * 2, "data decides a size"),
    ],
)
def test_what_is_not_measured_says_why(f, why, by_eager):
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), torch.no_grad():
        told = knapper.torch.explain(f, torch.ones(3, 3), options={"guard": "measure", "cache": False})
    assert why in str(told) and "eager" not in by_eager


def test_explain_says_which_side_runs():
    with torch.no_grad():
        told = knapper.torch.explain(slower, torch.eye(96), options={"guard": "measure", "cache": False})
    [graph] = told.graphs
    [found] = graph.measured
    assert found.known and found.by_eager and found.program > found.eager > 0
    assert re.search(r"eager runs: eager [\d.e+-]+ ms, the program [\d.e+-]+ ms", str(told))


def test_sizes_beyond_the_most_are_not_kept(monkeypatch, by_eager):
    monkeypatch.setattr(guard, "_MOST_SIZES", 3)
    with torch.no_grad():
        told = knapper.torch.explain(
            lambda x: x * 2, torch.ones(2), options={"guard": "measure", "dynamic": True, "cache": False}
        )
        f = guarded(lambda x: x * 3, dynamic=True)
        for n in range(2, 9):
            for _ in range(6):
                assert torch.equal(f(torch.ones(n)), torch.full((n,), 3.0))
    assert len(told.graphs[0].measured) == 1
    assert by_eager[-24:] == ["program"] * 24


def test_calls_of_several_threads(by_eager, at_once):
    f = guarded(slower)
    x = torch.randn(64, 64)
    wanted = slower(x)
    errors = []

    def work(_):
        try:
            with torch.no_grad():
                for _ in range(CALLS):
                    torch.testing.assert_close(f(x), wanted)
        except Exception as error:
            errors.append(error)

    with torch.no_grad():
        f(x)
    at_once(work, range(3))
    assert not errors
    assert knapper.torch.counters()["eager_graphs"] == 1


def test_calls_that_fail_are_not_measured(monkeypatch, by_eager):
    f = guarded(faster)
    x = torch.randn(8)
    with torch.no_grad():
        f(x)
        with monkeypatch.context() as patch:
            patch.setattr(guard.Guard, "_by_eager", lambda self, arguments: 1 / 0)
            for call in range(1, CALLS):
                if call // 4 % 2:
                    with pytest.raises(ZeroDivisionError):
                        f(x)
                else:
                    f(x)
        by_eager.clear()
        for _ in range(CALLS + 2):
            torch.testing.assert_close(f(x), faster(x))
    assert by_eager.count("eager") >= CALLS // 2  # measured again


SECOND = """
import logging, torch, knapper.torch
logging.disable()
def f(x, w):
    return torch.special.modified_bessel_k0(x.abs() + w.abs() + 0.1) + torch.rand(64)
x, w = torch.randn(64, 64), torch.randn(64, 64)
made = knapper.torch.compile(f, guard="measure", dynamic=True)
with torch.no_grad():
    for call in range(20):
        torch.manual_seed(call)
        got = made(x, w)
        torch.manual_seed(call)
        torch.testing.assert_close(got, f(x, w))
told = torch._dynamo.utils.counters["aot_autograd"]
print("eager", knapper.torch.counters()["eager_graphs"], "hits", told["autograd_cache_hit"])
"""


def test_a_second_process_has_the_graph_from_the_cache(tmp_path):
    given = {
        **os.environ, "KNAPPER_CACHE_DIR": str(tmp_path / "ours"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch")
    }  # fmt: skip
    given.pop("KNAPPER_CACHE", None)  # "off" where other tests run
    told = []
    for _ in range(2):
        made = subprocess.run([sys.executable, "-c", SECOND], env=given, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        told.append(made.stdout.strip())
    assert told == ["eager 1 hits 0", "eager 1 hits 1"]
