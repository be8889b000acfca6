"""knapper.torch.export: files that run without torch."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import knapper
import knapper.torch

ROOT = Path(__file__).resolve().parents[2]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 16)
        self.linear = torch.nn.Linear(16, 1100)  # more than 64 KiB
        self.norm = torch.nn.LayerNorm(1100)
        self.drop = torch.nn.Dropout(0.5)
        self.head = torch.nn.Linear(16, 50, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("kept", torch.arange(1100) % 3 != 0)
        self.register_buffer("scale", torch.tensor(2.0), persistent=False)

    def forward(self, ids, bias):
        x = self.table(ids)
        y = self.norm(torch.nn.functional.gelu(self.linear(x)))
        y = torch.where(self.kept, y, torch.zeros_like(y))
        return {"y": self.drop(y) * self.scale + bias, "tied": self.head(x)}


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return Net()


def inputs(*shape):
    return torch.randint(0, 50, shape), torch.randn(1100)


SHAPES = {"ids": {0: "batch", 1: "length"}, "bias": None}


@pytest.fixture(scope="module")
def exported(net):
    return knapper.torch.export(net.train(), inputs(2, 7), dynamic_shapes=SHAPES, cache=False)


def right(module, net, *shape):
    ids, bias = inputs(*shape)
    training = net.training
    want = net.eval()(ids, bias)
    net.train(training)
    got = module(ids, bias)
    for name, value in want.items():
        np.testing.assert_allclose(np.asarray(got[name]), value.detach(), rtol=1e-4, atol=2e-5)


def test_names_sizes_and_training_mode(exported, net):
    assert net.training  # as it was
    assert exported.symbols == ("batch", "length")
    assert [info.name for info in exported.inputs] == ["ids", "bias"]
    assert [info.name for info in exported.outputs] == ["y", "tied"]
    for shape in ((2, 7), (5, 3), (1, 1)):
        right(exported, net, *shape)


def test_the_file_runs_without_torch_to_the_same_bits(exported, tmp_path):
    ids, bias = inputs(3, 4)
    path = tmp_path / "net.knap"
    exported.save(path)
    np.savez(tmp_path / "in.npz", ids=ids.numpy(), bias=bias.numpy())
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np, knapper\n"
        f"given = np.load(r'{tmp_path}/in.npz')\n"
        f"made = knapper.load(r'{path}')(given['ids'], given['bias'])\n"
        f"np.savez(r'{tmp_path}/out.npz', y=np.asarray(made['y']), tied=np.asarray(made['tied']))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT / "python")})
    made = np.load(tmp_path / "out.npz")
    here = exported(ids, bias)
    for name in ("y", "tied"):
        assert made[name].tobytes() == np.asarray(here[name]).tobytes()


def test_programs_and_their_files(net, tmp_path):
    net.eval()
    program = torch.export.export(net, inputs(2, 7))
    path = tmp_path / "net.pt2"
    torch.export.save(program, path)
    for model in (program, path):
        right(knapper.compile(model), net, 2, 7)
    right(knapper.torch.export(str(path)), net, 2, 7)


class Pair(torch.nn.Module):
    def forward(self, x, *, scale):
        return x * scale, x


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return x + self.calls


class Factors(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.ldl_factor_ex(x).LD


def test_keywords_and_results_that_are_inputs():
    x, scale = torch.randn(3), torch.randn(3)
    module = knapper.torch.export(Pair(), (x,), {"scale": scale}, cache=False)
    assert [info.name for info in module.inputs] == ["x", "scale"]
    assert [info.name for info in module.outputs] == ["output", "output_1"]
    made = module(x, scale)
    assert np.array_equal(made[0], x * scale) and np.array_equal(made[1], x)


def test_refused(net, tmp_path):
    damaged = tmp_path / "bad.pt2"
    damaged.write_bytes(b"no archive")
    program = torch.export.export(Pair(), (torch.ones(2),), {"scale": torch.ones(2)})
    for call, kind, text in (
        (lambda: knapper.torch.export(Counts(), (torch.ones(2),)), ValueError, "writes into 'calls'"),
        (lambda: knapper.torch.export(Factors(), (torch.ones(4, 4),)), ValueError, "ldl_factor_ex"),
        (lambda: knapper.torch.export(net, (torch.ones(2),)), ValueError, "cannot export Net"),
        (lambda: knapper.torch.export(program, (torch.ones(2),)), ValueError, "has them already"),
        (lambda: knapper.compile(program, example_inputs=()), ValueError, "has them already"),
        (lambda: knapper.compile(damaged), ValueError, "cannot read"),
        (lambda: knapper.compile(tmp_path / "none.pt2"), FileNotFoundError, "none.pt2"),
    ):
        with pytest.raises(kind, match=text):
            call()


def test_large_weights_go_by_a_file(monkeypatch, net):
    from knapper.torch import weights

    monkeypatch.setattr(weights, "_MOST_IN_MEMORY", 0)
    right(knapper.torch.export(net, inputs(2, 7), cache=False), net, 2, 7)


def test_the_file_gives_the_same_bits_from_the_command(tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)).eval()
    x = torch.randn(4, 64)
    module = knapper.torch.export(net, (x,), dynamic_shapes=({0: "batch"},), cache=False)
    module.save(tmp_path / "m.knap")
    np.savez(tmp_path / "in.npz", **{module.inputs[0].name: x.numpy()})
    command = [sys.executable, "-m", "knapper", "run", "m.knap", "-i", "in.npz", "-o", "out.npy"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "out.npy").tobytes() == np.asarray(module(x.numpy())[0]).tobytes()


def test_other_weights(tmp_path):
    torch.manual_seed(1)
    first, second = Net().eval(), Net().eval()
    ids, bias = inputs(2, 3)
    module = knapper.torch.export(first, (ids, bias), cache=False)
    state = second.state_dict()

    def check(net):
        want = net(ids, bias)
        got = module(ids.numpy(), bias.numpy())
        for key in want:
            np.testing.assert_allclose(got[key], want[key].detach().numpy(), rtol=1e-4, atol=1e-4)

    check(first)
    module.load_state_dict(state)
    check(second)
    module.save(tmp_path / "net.knap")
    again = knapper.load(tmp_path / "net.knap")(ids.numpy(), bias.numpy())
    np.testing.assert_array_equal(again["y"], module(ids.numpy(), bias.numpy())["y"])
    module.load_state_dict({"norm.weight": first.norm.weight}, strict=False)
    with torch.no_grad():
        second.norm.weight.copy_(first.norm.weight)
    check(second)
    with pytest.raises(knapper.UserError, match="missing: table.weight"):
        module.load_state_dict({})
    with pytest.raises(knapper.UserError, match="not have: bias"):
        module.load_state_dict({**state, "bias": bias})
    with pytest.raises(knapper.UserError, match="the program has"):
        module.load_state_dict({**state, "norm.weight": torch.zeros(3)})
    check(second)
