"""Triton kernels of the user's in a graph: refused by their names, never left out.
The graphs are made by hand, as torch makes them where there is Triton."""

import operator

import pytest
import torch
from torch._higher_order_ops import triton_kernel_wrap as wrap
from torch._subclasses.fake_tensor import FakeTensorMode

from knapper.errors import UserError
from knapper.torch.describe import describe


class Kernel:
    """What torch keeps of a `triton.jit` function."""

    def __init__(self, fn):
        self.fn = fn


def add_kernel(x, y, out):
    pass


@pytest.mark.parametrize("fallback", [True, False])
@pytest.mark.parametrize("functional", [True, False])
def test_a_triton_kernel_is_refused_by_its_name(functional, fallback):
    graph = torch.fx.Graph()
    with FakeTensorMode() as mode:
        x, out = (graph.placeholder(name) for name in ("x", "out"))
        for node in (x, out):
            node.meta["val"] = mode.from_tensor(torch.empty(8))
        given = {
            "kernel_idx": wrap.kernel_side_table.add_kernel(Kernel(add_kernel)),
            "constant_args_idx": wrap.kernel_side_table.add_constant_args({}),
            "grid": [(8, 1, 1)],
            "tma_descriptor_metadata": {},
            "kwargs": {"x": x, "out": out},
        }
        if functional:
            target = wrap.triton_kernel_wrapper_functional
            called = graph.call_function(target, (), {**given, "tensors_to_clone": ["out"]})
            called.meta["val"] = {"out": torch.empty(8)}
            result = graph.call_function(operator.getitem, (called, "out"))
            result.meta["val"] = called.meta["val"]["out"]
        else:
            called = graph.call_function(wrap.triton_kernel_wrapper_mutation, (), given)
            called.meta["val"] = None
            result = graph.call_function(torch.ops.aten.mul.Tensor, (out, 2))
            result.meta["val"] = torch.empty(8)
        called.meta["stack_trace"] = '  File "model.py", line 7, in forward\n    add_kernel[(8,)](x, out)'
    graph.output((result,))
    with pytest.raises(UserError, match=r"(?s)the Triton kernel 'add_kernel'.*model.py:7"):
        describe(torch.fx.GraphModule({}, graph), fallback)
