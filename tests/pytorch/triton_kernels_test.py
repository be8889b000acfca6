"""Triton kernels of the user's in a graph. The graphs are made by hand, as torch makes
them where there is Triton, and a function of Python stands for each kernel."""

import operator

import knapper.torch
import pytest
import torch
from knapper.errors import UserError
from knapper.torch import triton_kernels
from knapper.torch.backend import compile_graph
from knapper.torch.describe import describe
from knapper.torch.options import Options
from torch._higher_order_ops import triton_kernel_wrap as wrap
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext


class Kernel:
    """What a `triton.jit` function is to the program: `kernel[grid](...)`."""

    def __init__(self, fn, configs=None):
        self.fn = fn
        self.arg_names = list(fn.__code__.co_varnames[: fn.__code__.co_argcount])
        if configs is not None:
            self.configs = configs
        self.grids = []

    def __getitem__(self, grid):
        def launch(*args, **kwargs):
            found = grid({**dict(zip(self.arg_names, args)), **kwargs}) if callable(grid) else grid
            self.grids.append(found)
            self.fn(*args, **kwargs)

        return launch


def add_kernel(x, y, out, n, BLOCK):
    assert BLOCK == 4 and n == out.numel()
    out.copy_(x + y)


def double_kernel(x, n):
    x.mul_(2)


class Graph:
    """A functional graph with launches in it."""

    def __init__(self):
        self.graph = torch.fx.Graph()
        self.mode = FakeTensorMode(shape_env=ShapeEnv())

    def input(self, tensor, dynamic=False):
        node = self.graph.placeholder(f"x{len(self.graph.nodes)}")
        how = DimDynamic.DYNAMIC if dynamic else DimDynamic.STATIC
        context = StatelessSymbolicContext(dynamic_sizes=[how] * tensor.dim())
        source = torch._dynamo.source.ConstantSource(node.name)
        node.meta["val"] = self.mode.from_tensor(tensor, symbolic_context=context, source=source)
        return node

    def call(self, op, *args, **kwargs):
        node = self.graph.call_function(op, args, kwargs)
        values = torch.utils._pytree.tree_map_only(torch.fx.Node, lambda n: n.meta["val"], (args, kwargs))
        with self.mode:
            node.meta["val"] = op(*values[0], **values[1])
        node.meta["stack_trace"] = '  File "model.py", line 7, in forward\n    kernel[grid](x, out)'
        return node

    def launch(self, kernel, grid, constants, written, **kwargs):
        node = self.graph.call_function(
            wrap.triton_kernel_wrapper_functional,
            (),
            {
                "kernel_idx": wrap.kernel_side_table.add_kernel(kernel),
                "constant_args_idx": wrap.kernel_side_table.add_constant_args(constants),
                "grid": grid,
                "tma_descriptor_metadata": {},
                "kwargs": kwargs,
                "tensors_to_clone": written,
            },
        )
        with self.mode:
            node.meta["val"] = {
                name: torch._prims_common.clone_preserve_strides(kwargs[name].meta["val"]) for name in written
            }
        node.meta["stack_trace"] = '  File "model.py", line 7, in forward\n    kernel[grid](x, out)'
        return {name: self.call(operator.getitem, node, name) for name in written}

    def module(self, *results):
        self.graph.output(tuple(results))
        return torch.fx.GraphModule({}, self.graph)

    def compiled(self, *results):
        options = Options(fallback="error", cache=False)
        run = compile_graph(self.module(*results), [], options=options)
        return lambda *given: run(list(given))


@pytest.fixture
def on_cpu(monkeypatch):
    monkeypatch.setattr(triton_kernels, "DEVICES", ("cpu", "cuda"))


@pytest.mark.parametrize("fallback", [True, False])
def test_on_the_cpu_it_is_refused_by_its_name(fallback):
    g = Graph()
    x = g.input(torch.empty(8))
    made = g.launch(Kernel(double_kernel), [(2, 1, 1)], {"n": 8}, ["x"], x=x)
    text = r"(?s)the Triton kernel 'double_kernel': 'x' is on the CPU.*NVIDIA GPUs.*model.py:7"
    with pytest.raises(UserError, match=text):
        describe(g.module(made["x"]), fallback)


def test_a_launch_that_is_not_functional_is_refused():
    g = Graph()
    x = g.input(torch.empty(8))
    given = {
        "kernel_idx": wrap.kernel_side_table.add_kernel(Kernel(double_kernel)),
        "constant_args_idx": wrap.kernel_side_table.add_constant_args({}),
        "grid": [(8, 1, 1)],
        "tma_descriptor_metadata": {},
        "kwargs": {"x": x, "n": 8},
    }
    node = g.graph.call_function(wrap.triton_kernel_wrapper_mutation, (), given)
    node.meta["val"] = None
    with pytest.raises(UserError, match=r"the Triton kernel 'double_kernel'"):
        describe(g.module(g.call(torch.ops.aten.mul.Tensor, x, 2)), False)


def test_between_kernels_of_the_program(on_cpu):
    knapper.torch.reset_counters()
    g, kernel = Graph(), Kernel(add_kernel)
    x = g.input(torch.empty(8))
    y = g.call(torch.ops.aten.mul.Tensor, x, 3)
    out = g.call(torch.ops.aten.empty_like.default, x)
    made = g.launch(kernel, [(2, 1, 1)], {"n": 8, "BLOCK": 4}, ["out"], x=x, y=y, out=out)
    f = g.compiled(g.call(torch.ops.aten.add.Tensor, made["out"], 1))
    for _ in range(2):
        given = torch.randn(8)
        torch.testing.assert_close(f(given)[0], given * 4 + 1)
    assert kernel.grids == [(2, 1, 1)] * 2
    assert knapper.torch.counters()["fallback_ops"] == 0


def test_launches_keep_their_order_and_what_they_write(on_cpu):
    """x is doubled, read, doubled again: the argument itself stays."""
    g, kernel = Graph(), Kernel(double_kernel)
    x = g.input(torch.empty(6))
    once = g.launch(kernel, [(1, 1, 1)], {"n": 6}, ["x"], x=x)["x"]
    read = g.call(torch.ops.aten.add.Tensor, once, 1)
    twice = g.launch(kernel, [(1, 1, 1)], {"n": 6}, ["x"], x=once)["x"]
    f = g.compiled(x, once, read, twice)
    given = torch.randn(6)
    before = given.clone()
    _, a, b, c = f(given)
    assert torch.equal(given, before)
    torch.testing.assert_close((a, b, c), (before * 2, before * 2 + 1, before * 4))


def test_an_argument_is_written_in_place(on_cpu):
    g, kernel = Graph(), Kernel(double_kernel)
    x = g.input(torch.empty(6))
    made = g.launch(kernel, [(1, 1, 1)], {"n": 6}, ["x"], x=x)["x"]
    written = g.call(torch.ops.aten.copy_.default, x, made)
    f = g.compiled(written)
    given = torch.randn(6)
    wanted, address = given * 2, given.data_ptr()
    (made,) = f(given)
    torch.testing.assert_close(given, wanted)
    assert made.data_ptr() == address


def test_a_tensor_under_two_names_is_one_memory(on_cpu):
    def kernel(source, target, n):
        assert source.data_ptr() == target.data_ptr()
        target.add_(source)

    g = Graph()
    x = g.input(torch.empty(6))
    made = g.launch(Kernel(kernel), [(1, 1, 1)], {"n": 6}, ["target"], source=x, target=x)
    given = torch.randn(6)
    torch.testing.assert_close(g.compiled(made["target"])(given)[0], given * 2)


def test_strides_are_those_of_the_trace(on_cpu):
    seen = []

    def kernel(x, wide, out):
        seen.append((x.stride(), wide.stride(), out.stride()))
        out.copy_(x + wide)

    g = Graph()
    x = g.input(torch.empty(4, 3))
    transposed = g.call(torch.ops.aten.permute.default, x, [1, 0])
    row = g.input(torch.empty(4))
    wide = g.call(torch.ops.aten.expand.default, row, [3, 4])
    out = g.call(torch.ops.aten.empty_strided.default, [3, 4], [1, 3])
    made = g.launch(Kernel(kernel), [(1, 1, 1)], {}, ["out"], x=transposed, wide=wide, out=out)
    given = torch.randn(4, 3), torch.randn(4)
    result = g.compiled(made["out"])(*given)[0]
    torch.testing.assert_close(result, given[0].t() + given[1])
    assert seen == [((1, 3), (0, 1), (1, 3))] and result.stride() == (1, 3)


def test_grids_and_numbers_of_symbolic_sizes(on_cpu):
    def kernel(x, n, less, BLOCK):
        x.add_(n).add_(less, alpha=BLOCK)

    g, fake = Graph(), Kernel(kernel)
    x = g.input(torch.empty(7, 5), dynamic=True)
    rows, columns = (g.call(torch.ops.aten.sym_size.int, x, dim) for dim in (0, 1))
    blocks = g.call(operator.floordiv, g.call(operator.add, rows, 3), 4)
    less = g.call(operator.sub, rows, 20)
    made = g.launch(fake, [(blocks, columns, 1)], {"BLOCK": 2}, ["x"], x=x, n=columns, less=less)
    f = g.compiled(made["x"])
    for m, n in ((7, 5), (9, 2), (30, 4)):
        given = torch.randn(m, n)
        torch.testing.assert_close(f(given)[0], given + n + 2 * (m - 20))
        assert fake.grids[-1] == ((m + 3) // 4, n, 1)


def test_each_configuration_has_its_grid(on_cpu):
    class Config:
        def __init__(self, block):
            self.kwargs = {"BLOCK": block}

    class Tuned(Kernel):
        """As `triton.autotune` does: the chosen configuration is an argument."""

        def __getitem__(self, grid):
            launch = super().__getitem__(grid)
            return lambda *args, **kwargs: launch(*args, **kwargs, **self.configs[1].kwargs)

    def kernel(x, n, BLOCK):
        x.add_(BLOCK)

    fake = Tuned(kernel, [Config(2), Config(4)])
    g = Graph()
    x = g.input(torch.empty(8))
    made = g.launch(fake, [(4, 1, 1), (2, 1, 1)], {"n": 8}, ["x"], x=x)
    torch.testing.assert_close(g.compiled(made["x"])(torch.zeros(8))[0], torch.full((8,), 4.0))
    assert fake.grids == [(2, 1, 1)]


def test_dtypes_and_empty_tensors(on_cpu):
    for dtype in (torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn):
        def kernel(x, out):
            assert x.dtype == out.dtype == dtype
            out.copy_(x)

        g, fake = Graph(), Kernel(kernel)
        x = g.input(torch.empty(5).to(dtype))
        out = g.call(torch.ops.aten.empty_like.default, x)
        f = g.compiled(g.launch(fake, [(1, 1, 1)], {}, ["out"], x=x, out=out)["out"])
        given = torch.tensor([1.0, 0, 3, 4, 0]).to(dtype)
        assert torch.equal(f(given)[0].float(), given.float())

    def never(x, n):
        raise AssertionError

    g = Graph()
    x = g.input(torch.empty(0, 3))
    f = g.compiled(g.launch(Kernel(never), [(0, 1, 1)], {"n": 0}, ["x"], x=x)["x"])
    assert f(torch.empty(0, 3))[0].shape == (0, 3)


def test_an_error_of_a_kernel_is_the_users(on_cpu):
    def kernel(x):
        raise RuntimeError("out of resources: shared memory")

    g = Graph()
    x = g.input(torch.empty(4))
    f = g.compiled(g.launch(Kernel(kernel), [(1, 1, 1)], {}, ["x"], x=x)["x"])
    with pytest.raises(Exception, match="out of resources: shared memory"):
        f(torch.randn(4))


def test_kernels_with_other_constants_are_other_operators(on_cpu):
    g, kernel = Graph(), Kernel(lambda x, by: x.mul_(by))
    x = g.input(torch.empty(4))
    made = [g.launch(kernel, [(1, 1, 1)], {"by": by}, ["x"], x=x)["x"] for by in (2, 3.0, 2, True)]
    given = torch.randn(4)
    results = g.compiled(*made)(given)
    torch.testing.assert_close(results, [given * 2, given * 3, given * 2, given])


def test_is_kept_in_no_cache(on_cpu):
    from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache

    g = Graph()
    x = g.input(torch.empty(4))
    module = g.module(g.launch(Kernel(double_kernel), [(1, 1, 1)], {"n": 4}, ["x"], x=x)["x"])
    artefact = compile_graph(module, [], options=Options(fallback="error", cache=False))
    with pytest.raises(BypassAOTAutogradCache, match="Triton"):
        artefact.prepare_for_serialization()
