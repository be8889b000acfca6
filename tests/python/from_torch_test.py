"""torch's modules and exported programs as models."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import knapper

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 8)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x, y):
        return self.dropout(self.linear(x)) + y


class Branches(torch.nn.Module):
    def forward(self, x):
        return x.item() if x.sum() > 0 else x


X, Y = torch.randn(2, 4), torch.randn(2, 8)


@pytest.fixture(scope="module", autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return Net().eval()


def right(module, net, x=X, y=Y):
    expected = net(x, y).detach().numpy()
    np.testing.assert_allclose(module(x, y)[0], expected, rtol=1e-5, atol=1e-6)


def test_module_with_a_dim_that_calls_decide(net):
    net.train()
    try:
        module = knapper.compile(
            net,
            example_inputs=(X, Y),
            dynamic_shapes={"x": {0: "batch"}, "y": {0: "batch"}},
        )
        assert net.training and net.dropout.training  # as it was
    finally:
        net.eval()
    assert module.symbols == ("batch",)
    assert [info.name for info in module.inputs] == ["x", "y"]
    right(module, net)
    right(module, net, torch.randn(5, 4), torch.randn(5, 8))


def test_example_inputs_by_name(net, tmp_path):
    path = tmp_path / "net.knap"
    right(knapper.compile(net, example_inputs={"x": X, "y": Y}, output=path), net)
    right(knapper.load(path), net)


def test_programs(net):
    program = torch.export.export(net, (X, Y))
    right(knapper.compile(program), net)
    with pytest.raises(ValueError, match="has them already"):
        knapper.compile(program, example_inputs=(X, Y))
    exported = torch.onnx.export(program, dynamo=True, verbose=False)
    for model in (exported, exported.model_proto, exported.model_proto.SerializeToString()):
        right(knapper.compile(model), net)
    assert {op["op"] for op in knapper.inspect(exported)["operators"]} == {"Add", "Gemm"}
    assert not [k for k in knapper.verify(exported, [X, Y])["kernels"] if not k["passed"]]


def test_refused(net):
    for call, kind, text in (
        (lambda: knapper.compile(net), ValueError, "torch module Net, inputs are needed"),
        (lambda: knapper.compile(net, example_inputs=(X,)), ValueError, "cannot export Net: .*'y'"),
        (lambda: knapper.compile(Branches(), example_inputs=(X,)), ValueError, "cannot export Branches"),
        (lambda: knapper.compile(Net, example_inputs=(X, Y)), TypeError, "Net is a class.*\n.*Net()"),
        (lambda: knapper.compile("m.onnx", example_inputs=(X, Y)), ValueError, "example_inputs.*str"),
        (lambda: knapper.inspect(net), TypeError, "not the torch module Net"),
        (lambda: knapper.quantize(net, weights_only="int8"), TypeError, "not the torch module Net"),
        (lambda: knapper.verify(net, [X, Y]), TypeError, "not the torch module Net"),
    ):  # fmt: skip
        with pytest.raises(kind, match=text) as caught:
            call()
        assert isinstance(caught.value, knapper.UserError) and caught.value.hint
