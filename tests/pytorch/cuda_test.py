"""CUDA tensors: what the backend says of them. Skipped without a GPU."""

import pytest
import torch

import knapper
import knapper.torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def test_tensors_of_a_gpu_are_refused_with_a_way_out():
    f = knapper.torch.compile(lambda x: x * 2, fallback="error", cache=False)
    with torch.no_grad(), pytest.raises(Exception, match="CUDA tensors are not taken") as caught:
        f(torch.ones(3, device="cuda"))
    assert "torch.compile" in str(caught.value)


def test_an_exported_module_runs_on_the_gpu():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)).eval()
    x = torch.randn(4, 64)
    module = knapper.torch.export(net, (x,), dynamic_shapes=({0: "batch"},), target="cuda", cache=False)
    for batch in (4, 1, 33):
        x = torch.randn(batch, 64)
        with torch.no_grad():
            want = net(x)
        got = torch.from_dlpack(module(x.cuda()).tensor(0)).cpu()
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
