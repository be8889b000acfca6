"""Entries of AOTAutograd's cache: traced once, by this compiler and these options."""

import os
import re
import shutil
import subprocess
import sys

import pytest
import torch

import knapper
import knapper.torch
from forked_process import ForkServer

backends = sys.modules["knapper.torch.backend"]

MODEL = """
import os, sys
import torch, knapper, knapper.torch
backends = sys.modules["knapper.torch.backend"]
traced = []
def counted(function):
    def call(*arguments, **given):
        traced.append(function.__name__)
        return function(*arguments, **given)
    return call
backends.describe = counted(backends.describe)
if os.environ.get("AS_VERSION"):
    import knapper.torch.artefact
    knapper.torch.artefact.version = lambda: os.environ["AS_VERSION"]

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.GELU(), torch.nn.Linear(16, 4))
x = torch.randn(6, 8)

def step(made, rows):
    torch.manual_seed(1)
    net.zero_grad()
    made(x[:rows]).square().sum().backward()
    return [p.grad.clone() for p in net.parameters()]

def run(options):
    made = knapper.torch.compile(net.train(), fallback="error", **options)
    for rows in (4, 6):
        got, want = step(made, rows), step(net, rows)
        torch.testing.assert_close(got, want)
    with torch.no_grad():
        net.eval()
        torch.testing.assert_close(made(x), net(x))
        counts = torch.zeros(3)
        add = knapper.torch.compile(lambda c, n: (c.add_(n), c[1:], n.shape[0], n.reshape(-1, 3).t()), fallback="error", **options)
        for _ in range(2):
            _, part, rows, transposed = add(counts, torch.ones(3))
        assert rows == 3 and counts.tolist() == [2, 2, 2] and part.data_ptr() == counts.data_ptr() + 4

told = torch._dynamo.utils.counters["aot_autograd"]
for options in eval(os.environ.get("OPTIONS", "[{}]")):  # each as if it were the first of the process
    torch._dynamo.reset()
    knapper.torch.reset_counters()
    traced.clear()
    before = told["autograd_cache_hit"]
    run(options)
    print("traced", len(traced), "hits", told["autograd_cache_hit"] - before, "own", knapper.torch.counters()["cache_hits"])
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = ForkServer(tmp_path_factory.mktemp("server"))
    yield made
    made.stop()


def caches_in(folder):
    """The environment of a process with its caches in the folder."""
    return {
        **{name: value for name, value in os.environ.items() if name != "KNAPPER_CACHE"},  # "off" where other tests run
        "KNAPPER_CACHE_DIR": str(folder / "ours"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch"),
    }  # fmt: skip


def numbers(printed):
    """A dict for each line."""
    lines = [re.findall(r"(\w+) (\d+)", line) for line in printed.splitlines()]
    return [{key: int(number) for key, number in line} for line in lines if line]


def run_in(server, folder, code=MODEL, **environment):
    """A process with its caches in the folder: what it told."""
    return numbers(server.run(code, {**caches_in(folder), **environment}))


@pytest.fixture
def process(server, tmp_path):
    return lambda code=MODEL, **environment: run_in(server, tmp_path, code, **environment)


@pytest.fixture(scope="module")
def one_process(server, tmp_path_factory):
    """The caches that one process of MODEL left, and what it told."""
    folder = tmp_path_factory.mktemp("one")
    return folder, run_in(server, folder)


@pytest.fixture
def filled(one_process, tmp_path):
    """A copy of these caches, where `process` looks."""
    shutil.copytree(one_process[0], tmp_path, dirs_exist_ok=True)
    return one_process[1]


def entries(tmp_path):
    return sorted(p for p in (tmp_path / "torch" / "aotautograd").rglob("*") if p.is_file())


NEW, KNOWN = {"traced": 6, "hits": 0}, {"traced": 0, "hits": 4}


def told(lines):
    return [{key: line[key] for key in NEW} for line in lines]


def test_a_second_process_only_traces_with_dynamo(tmp_path):
    """Processes that Python starts: forks of one share the seed of hashes and addresses, which a key must not depend on."""
    first, second = (
        numbers(subprocess.run([sys.executable, "-c", MODEL], env=caches_in(tmp_path), stdout=subprocess.PIPE, text=True, check=True).stdout)
        for _ in range(2)
    )  # fmt: skip
    assert told(first) == [NEW]
    assert told(second) == [KNOWN] and second[0]["own"] >= 4


def test_the_environment_turns_the_caches_off(process, tmp_path):
    twice = process(KNAPPER_CACHE="off", OPTIONS="[{}, {}]")
    assert told(twice) == [NEW, NEW] and [line["own"] for line in twice] == [0, 0]
    assert not entries(tmp_path) and not any((tmp_path / "ours").rglob("*"))
    process(KNAPPER_CACHE="off", OPTIONS="[{'cache': True}]")  # what a call says is above it
    assert entries(tmp_path) and any((tmp_path / "ours").rglob("*"))


def test_a_word_that_the_environment_cannot_have(monkeypatch):
    monkeypatch.setenv("KNAPPER_CACHE", "of")
    with pytest.raises(ValueError, match="KNAPPER_CACHE is 'of'"):
        knapper.torch.compile(lambda x: x + 1)


def test_versions_and_options_do_not_meet(filled, process):
    assert told(process(AS_VERSION="9.9", OPTIONS="[{}, {}]")) == [NEW, KNOWN]
    options = "[{'threads': 1}, {'threads': 1}, {'verify': True}, {'verify': True}, {}]"
    assert told(process(OPTIONS=options)) == [NEW, KNOWN, NEW, KNOWN, KNOWN]


BY_TORCH = """
import torch, knapper.torch
@torch.library.custom_op("mine::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * FACTOR
@twice.register_fake
def _(x):
    return torch.empty_like(x)
@torch.library.custom_op("mine::less", mutates_args=())
def less(x: torch.Tensor) -> torch.Tensor:
    return x - 1
@less.register_fake
def _(x):
    return torch.empty_like(x)
knapper.torch.register_external("mine::twice")  # the other is a fallback

def function(x):
    return torch.nn.functional.dropout(x, 0.5).exp() + torch.rand_like(x), twice(x + 1), less(x * 2)

x = torch.linspace(0, 1, 50)
made = knapper.torch.compile(function)
with torch.no_grad():
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        got = made(x)
        torch.manual_seed(seed)
        torch.testing.assert_close(got, function(x))
told = knapper.torch.counters()
print("own", told["cache_hits"], "graphs", told["graphs"], "fallbacks", told["fallback_ops"])
"""


def test_programs_in_which_torch_computes_are_kept(process):
    [first], [second] = process(BY_TORCH.replace("FACTOR", "2")), process(BY_TORCH.replace("FACTOR", "2"))
    assert first["own"] == 0 and first["graphs"] >= 1
    assert second["own"] == second["graphs"] == first["graphs"]
    assert second["fallbacks"] == first["fallbacks"] >= 1
    # What the operator computes is the process's, not the entry's.
    [third] = process(BY_TORCH.replace("FACTOR", "3"))
    assert third["own"] == first["graphs"]


def test_inductor_does_not_meet_ours(process):
    """Whoever comes first: of each function one of them makes an entry before the other looks."""
    code = """
import torch, knapper.torch
from torch._functorch import config
from torch._inductor import config as inductor
from knapper.torch.program import Program
inductor.compile_threads = 1  # without processes that compile
ran = []
call = Program.__call__
Program.__call__ = lambda self, arguments: ran.append("knapper") or call(self, arguments)
x = torch.randn(5)
for function, order in ((lambda x: x.sin() * 2, ("knapper", "inductor")), (lambda x: x.cos() * 3, ("inductor", "knapper"))):
    for name in order:
        torch._dynamo.reset()
        ran.clear()
        backend = knapper.torch.backend if name == "knapper" else name
        with torch.no_grad(), config.patch(bundled_autograd_cache=True):
            torch.testing.assert_close(torch.compile(function, backend=backend)(x), function(x))
        assert bool(ran) == (name == "knapper"), (name, ran)
print("hits", torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"])
"""
    assert process(code) == [{"hits": 0}]
    assert process(code) == [{"hits": 4}]


@pytest.mark.parametrize("how", ["cut", "changed", "empty"])
def test_a_damaged_entry_is_compiled_again(filled, process, tmp_path, how):
    assert entries(tmp_path)
    for entry in entries(tmp_path):
        content = entry.read_bytes()
        if how == "cut":
            entry.write_bytes(content[: len(content) // 2])
        elif how == "empty":
            entry.write_bytes(b"")
        else:  # in what is ours: still a pickle, with another number in it
            assert content.count(b'"shape":[') > 0
            entry.write_bytes(content.replace(b'"shape":[', b'"shapE":['))
    assert told(process(OPTIONS="[{}, {}]")) == [NEW, KNOWN]


def test_processes_at_once(process):
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: process(), range(2)))
    assert told(process()) == [KNOWN]


def test_tensors_that_a_graph_holds_are_in_no_key(process):
    code = """
import torch, knapper.torch
graph = torch.fx.Graph()
x = graph.placeholder("x")
graph.output((graph.call_function(torch.add, (x, graph.get_attr("held"))),))
module = torch.fx.GraphModule({"held": torch.full((3,), NUMBER)}, graph)
with torch.no_grad():
    print("sum", int(torch.compile(module, backend=knapper.torch.backend)(torch.zeros(3))[0].sum()))
"""
    for number in (1, 2):
        assert process(code.replace("NUMBER", str(float(number)))) == [{"sum": 3 * number}]


def test_a_backward_that_cannot_be_compiled_leaves_the_forward(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(backends, "describe", fails_at_backward(backends.describe))
    x = torch.randn(3, requires_grad=True)
    y = knapper.torch.compile(lambda x: x.sin() * x, fallback="error")(x)
    torch.testing.assert_close(y, x.sin() * x)
    with pytest.raises(knapper.UserError, match="no row"):
        y.sum().backward()


def fails_at_backward(describe):
    def call(module, fallback, saved=None, frozen=None):
        if any("tangents" in node.name for node in module.graph.nodes):
            raise knapper.UserError("no row", where="here")
        return describe(module, fallback, saved, frozen)

    return call


def test_a_backward_runs_twice(process):
    code = """
import torch, knapper.torch
x = torch.randn(3, requires_grad=True)
made = knapper.torch.compile(lambda x: x.sin().exp() * x, fallback="error")
for first in (True, False):
    for keep in (first, True):
        x.grad = None
        y = made(x).sum()
        y.backward(retain_graph=True)
        y.backward()
        want = torch.autograd.grad((x.sin().exp() * x).sum(), x)[0]
        torch.testing.assert_close(x.grad, 2 * want)
print("fine", 1)
"""
    assert process(code) == [{"fine": 1}]
