"""torch.compile(backend="knapper"): what a user sees of it."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import knapper
import knapper.torch

ROOT = Path(__file__).resolve().parents[2]


pytestmark = pytest.mark.usefixtures("fresh")


def compiled(function, **options):
    options.setdefault("fallback", "error")
    return knapper.torch.compile(function, cache=False, **options)


def check(function, *inputs, tolerance=1e-5, **options):
    want = function(*[x.clone() for x in inputs])
    got = compiled(function, **options)(*inputs)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    return got


# ---- registration and options


def test_importing_knapper_does_not_import_torch():
    code = "import sys, knapper; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_backend_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    text = importlib.import_module("wheel").ENTRY_POINTS
    info = tmp_path / "knapper-0.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: knapper\nVersion: 0.0.0\n")
    (info / "entry_points.txt").write_text(text)
    code = (
        "import sys, torch; x = torch.ones(3)\n"
        "y = torch.compile(lambda x: x + 1, backend='knapper', options={'fallback': 'error'})(x)\n"
        "assert (y == 2).all() and 'knapper.torch' in sys.modules"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT / 'python'}")
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "options, hint",
    [({"falback": "error"}, "fallback?"), ({"fallback": "eror"}, "error?"), ({"threads": -1}, "count")],
)
def test_options_that_there_are_not(options, hint):
    with pytest.raises(knapper.UserError) as caught:
        knapper.torch.compile(lambda x: x, **options)
    assert hint in str(caught.value)


def test_a_mode_that_there_is_not():
    with pytest.raises(knapper.UserError, match="max-autotune"):
        knapper.torch.compile(lambda x: x, mode="max-autotun")


def test_a_mode_beside_options():
    function = knapper.torch.compile(lambda x: x + 1, mode="max-autotune", threads=1, cache=False)
    assert function(torch.ones(2)).tolist() == [2, 2]


# ---- results


def test_a_linear_layer_is_one_matmul():
    layer = torch.nn.Linear(8, 16)
    with torch.no_grad():
        check(lambda x: layer(x).relu(), torch.randn(4, 8))


def test_views_and_strides():
    def function(x):
        return x.t(), x[1:, ::2], x.expand(3, 4, 6), x.view(2, 2, 6).sum(1), x.flip(0)

    got = check(function, torch.randn(4, 6))
    want = function(torch.randn(4, 6))
    assert [y.stride() for y in got] == [y.stride() for y in want]


def test_inputs_that_are_not_contiguous():
    wide = torch.randn(5, 14)
    check(lambda x: (x * 2).sum(0), wide[1:, 1::2])
    check(lambda x: x + 1, torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last))
    check(lambda x: x + 1, torch.randn(1, 3).expand(4, 3))
    check(lambda x: x * 3, torch.tensor(2.5))
    check(lambda x: x * 3, torch.empty(0, 3))


def test_inputs_are_written_in_place():
    def function(x, y):
        x.add_(1)
        y[0] = 7
        return x * 2

    x, y = torch.randn(4), torch.randn(3, 2)
    a, b = x.clone(), y.clone()
    want = function(a, b)
    got = compiled(function)(x, y)
    torch.testing.assert_close((got, x, y), (want, a, b))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int8, torch.bool])
def test_dtypes(dtype):
    x = torch.randint(0, 2, (3, 5)).to(dtype)
    check(lambda x: (x + x, x == x, x.sum(1), x * 1), x, tolerance=0)


def test_booleans_add_up_to_or():
    x, at = torch.zeros(4, dtype=torch.bool), torch.tensor([1, 1, 2])
    y = torch.tensor([True, False, True])
    check(lambda x, at, y: (x.scatter_add(0, at, y), x.index_add(0, at, y)), x, at, y)
    check(lambda x, at, y: x.index_put((at,), y, accumulate=True), x, at, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_in_parts_keep_negative_zeros(dtype):
    """So many updates of so few elements are added in parts, which lost the sign of a zero."""
    at = torch.arange(100000) % 1000
    x = torch.full((1000,), -0.0, dtype=dtype)
    x[3] = 0.0
    y = torch.full((100000,), -0.0, dtype=dtype)
    y[7] = 0.0

    def sums(x, at, y):
        return x.scatter_add(0, at, y), x.index_add(0, at, y), x.index_put((at,), y, accumulate=True)

    for got, want in zip(compiled(sums)(x, at, y), sums(x, at, y)):
        assert torch.equal(got.signbit(), want.signbit()) and int(got.signbit().sum()) == 998


def test_orders():
    x = torch.tensor([[3.0, 1, 2, 1], [5, float("nan"), 4, 9]])
    check(lambda x: (x.median(1), x.cummax(1), x.cummin(1), x.kthvalue(2, 1), x.median()), x)
    check(lambda x: torch.searchsorted(x, x, right=True), torch.tensor([1.0, 2, 2, 5]))


def test_special_functions():
    x = torch.linspace(-3.7, 9, 50)
    check(lambda x: (x.lgamma(), x.digamma(), x.erfc(), (x / 10).erfinv()), x, tolerance=2e-5)


def test_no_results_and_no_tensors():
    assert compiled(lambda x: (None, 3, x))(torch.ones(2))[1] == 3
    assert compiled(lambda x: x.shape[0])(torch.ones(2)) == 2


# ---- sizes


def test_two_compiles_serve_all_sizes():
    function = compiled(lambda x: torch.softmax(x, -1).sum(0))
    for rows in (3, 5, 8, 2, 17, 33):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(function(x), torch.softmax(x, -1).sum(0))
    assert knapper.torch.counters()["graphs"] == 2


def test_sizes_that_are_expressions():
    def function(x):
        half = x.shape[0] // 2
        return x[:half] + x[half : 2 * half], x.reshape(-1, 2).sum(0), x.new_zeros(half)

    made = compiled(function, dynamic=True)
    for rows in (4, 6, 10):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(made(x), function(x))


# ---- what is missing


def without_a_row(x):
    return torch.linalg.ldl_factor_ex(x).LD + 1


def test_missing_operators_are_listed_with_the_line():
    with pytest.raises(Exception) as caught:
        compiled(without_a_row)(torch.randn(3, 3))
    assert "aten.linalg_ldl_factor_ex.default(3x3xf32)" in str(caught.value)
    assert "backend_test.py:" in str(caught.value)


def test_torch_computes_what_is_missing(caplog):
    x = torch.randn(3, 3)
    torch.testing.assert_close(compiled(without_a_row, fallback="allow")(x), without_a_row(x))
    assert knapper.torch.counters()["fallback_ops"] == 1
    assert "torch computes aten.linalg_ldl_factor_ex" in caplog.text


def test_random_numbers_follow_the_seed():
    made = compiled(lambda x: torch.nn.functional.dropout(x, 0.5), fallback="allow")
    x = torch.ones(1000)
    torch.manual_seed(3)
    first = made(x)
    torch.manual_seed(3)
    assert torch.equal(made(x), first)
    assert 300 < int((first == 0).sum()) < 700


def test_graph_breaks_are_counted():
    def function(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    check(function, torch.randn(3))
    assert knapper.torch.counters()["graph_breaks"] == 1


# ---- training


def step(model, x, target):
    model.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), target)
    loss.backward()
    return loss, [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("kind", ["mlp", "convolutions", "attention"])
def test_gradients(kind):
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.MultiheadAttention(16, 4, batch_first=True)
            self.out = torch.nn.Linear(16, 4)

        def forward(self, x):
            return self.out(self.inner(x, x, x, need_weights=False)[0].mean(1))

    models = {
        "mlp": lambda: torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
        ),
        "convolutions": lambda: torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.BatchNorm2d(8), torch.nn.SiLU(), torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(8, 8, 3, 1, 1, groups=4), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
            torch.nn.Linear(8, 4),
        ),
        "attention": Attention,
    }  # fmt: skip
    inputs = {"mlp": (6, 8), "convolutions": (6, 3, 17, 15), "attention": (6, 5, 16)}
    model = models[kind]()
    x, target = torch.randn(inputs[kind]), torch.arange(6) % 4
    state = {name: value.clone() for name, value in model.state_dict().items()}
    want = step(model, x, target)
    running = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(state)
    got = step(compiled(model), x, target)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(dict(model.state_dict()), running)


def test_weights_are_never_stale():
    layer = torch.nn.Linear(3, 2)
    function = compiled(lambda x: layer(x))
    x = torch.randn(4, 3)
    with torch.no_grad():
        function(x)
        layer.weight.add_(1)
        torch.testing.assert_close(function(x), layer(x))
        layer.weight.data.mul_(2)
        torch.testing.assert_close(function(x), layer(x))
        layer.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
        torch.testing.assert_close(function(x), layer(x))


def test_frozen_functions_are_compiled_once():
    compiled = knapper.torch.compile(lambda x: x.sin() * 2, frozen=True)
    x = torch.randn(3, 4)
    assert torch.equal(compiled(x), compiled(x))
    with pytest.raises(Exception, match=r"(?s)backend_test.py:\d+: frozen=True.*size mismatch.*try: dynamic"):
        compiled(torch.randn(5, 4))
    assert knapper.torch.counters()["graphs"] == 1
    torch.testing.assert_close(compiled(x), x.sin() * 2)  # what was compiled goes on


def test_frozen_functions_begin_anew_after_a_reset():
    layer = knapper.torch.compile(torch.nn.Linear(2, 2), frozen=True)
    other = knapper.torch.compile(lambda x: x + 1, frozen=True)
    for _ in range(2):
        other(torch.ones(2))
        layer(torch.ones(3, 2))
        torch._dynamo.reset()
    layer(torch.ones(3, 2))
    assert torch.equal(other(torch.ones(2)), torch.full((2,), 2.0))


def test_frozen_functions_take_the_sizes_they_were_compiled_for():
    compiled = knapper.torch.compile(lambda x: x.cos() * 2, frozen=True, dynamic=True)
    for size in (3, 5, 40):
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), x.cos() * 2)
    assert knapper.torch.counters()["graphs"] == 1


def test_each_frozen_layer_has_a_first_compile_of_its_own():
    layers = [torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)]
    first, second = (knapper.torch.compile(layer, frozen=True) for layer in layers)
    x = torch.randn(3, 4)
    second(first(x)).sum().backward()  # a first backward is no further compile
    assert layers[0].weight.grad is not None
    with pytest.raises(Exception, match="frozen=True, and this call needs another compile"):
        second(torch.randn(7, 8))
