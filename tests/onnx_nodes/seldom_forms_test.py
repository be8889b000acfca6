"""Forms of operators that exporters seldom write, with the values that the specification gives."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import knapper

F = np.float32
INF = np.inf


def compiled(text, initializers=()):
    made = onnx.parser.parse_model(text)
    made.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in dict(initializers).items())
    return knapper.compile(made, cache=False, threads=1)


def ramp(*dims, dtype=F):
    return np.arange(1, 1 + np.prod(dims), dtype=dtype).reshape(dims)


@pytest.mark.parametrize("equation, x, expected", [
    ("ii", ramp(3, 3), F(15)),
    ("...ii", ramp(2, 3, 3), np.array([15, 42], F)),
    ("iij", ramp(2, 2, 3), ramp(2, 2, 3)[0, 0] + ramp(2, 2, 3)[1, 1]),
    ("iii", ramp(2, 2, 2), F(9)),
    ("ji", ramp(2, 3), ramp(2, 3).T),
    ("ii->i", ramp(3, 3), np.array([1, 5, 9], F)),
])
def test_einsum_sums_over_labels_that_stand_twice(equation, x, expected):
    dims, result = ",".join(map(str, x.shape)), ",".join(map(str, np.shape(expected)))
    declared = f"float[{result}]" if result else "float"
    y = compiled(f'<ir_version: 8, opset_import: ["" : 12]> g (float[{dims}] x) => ({declared} y) {{ y = Einsum<equation="{equation}">(x) }}')(x=x)["y"]
    assert y.shape == np.shape(expected)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("width, scale, rounding, expected", [
    (5, 0.6, "round_prefer_floor", [1, 2, 4]),
    (4, 2, "floor", [0, 0, 1, 1, 2, 2, 3, 3]),
])
@pytest.mark.parametrize("known", [True, False])
def test_resize_tf_half_pixel_for_nn(width, scale, rounding, expected, known):
    text = (
        '<ir_version: 8, opset_import: ["" : 11]> g (float[1,1,1,w] x) => (float[a,b,c,d] y) { y = Resize<'
        f'coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="{rounding}">(x, "", s) }}'
    )
    text = text if not known else text.replace("1,w]", f"1,{width}]")
    y = compiled(text, {"s": np.array([1, 1, 1, scale], F)})(x=np.arange(width, dtype=F).reshape(1, 1, 1, -1))["y"]
    np.testing.assert_array_equal(y.reshape(-1), np.array(expected, F))


@pytest.mark.parametrize("width", ["4", "w"])
def test_resize_10_rounds_up_where_it_shrinks(width):
    text = f'<ir_version: 5, opset_import: ["" : 10]> g (float[1,1,2,{width}] x) => (float[a,b,c,d] y) {{ y = Resize<mode="nearest">(x, s) }}'
    y = compiled(text, {"s": np.array([1, 1, 0.6, 0.6], F)})(x=ramp(1, 1, 2, 4))["y"]
    np.testing.assert_array_equal(y.reshape(-1), [1, 3])
    y = compiled(text, {"s": np.array([1, 1, 1, 1.5], F)})(x=ramp(1, 1, 2, 4))["y"]
    np.testing.assert_array_equal(y[0, 0, 0], [1, 1, 2, 3, 3, 4])


def test_resize_refuses_modes_that_are_none():
    for attribute in ('coordinate_transformation_mode="half"', 'nearest_mode="up"'):
        with pytest.raises(knapper.UserError, match="is '(half|up)'"):
            compiled(f'<ir_version: 8, opset_import: ["" : 13]> g (float[1,1,4] x) => (float[a,b,c] y) <float[3] s={{1,1,2}}> {{ y = Resize<{attribute}>(x, "", s) }}')


@pytest.mark.parametrize("body, x, expected", [
    ("h = Mul(x, two) y = Div(h, two)", [3e38, -3e38, 1], [INF, -INF, 1]),
    ("h = Mul(x, large) y = Mul(h, small)", [3e30, 1], [INF, F(1e30) * F(1e-30)]),
    ("h = Mul(x, small) y = Mul(h, large)", [1e-20, 1], [0, F(1e-30) * F(1e30)]),
    ("h = Mul(x, two) y = Mul(h, two)", [3e38, 1], [INF, 4]),
])
def test_factors_overflow_one_after_the_other(body, x, expected):
    text = f'<ir_version: 8, opset_import: ["" : 18]> g (float[n] x) => (float[n] y) <float two={{2}}, float large={{1e30}}, float small={{1e-30}}> {{ {body} }}'
    np.testing.assert_array_equal(compiled(text)(x=np.array(x, F))["y"], np.array(expected, F))


@pytest.mark.parametrize("exponent, expected", [(0.5, [INF, 0, 0, 2, INF, np.nan]), (-0.5, [0, INF, INF, 0.5, 0, np.nan])])
def test_half_powers_are_no_roots(exponent, expected):
    text = f'<ir_version: 8, opset_import: ["" : 18]> g (float[n] x) => (float[n] y) <float e={{{exponent}}}> {{ y = Pow(x, e) }}'
    y = compiled(text)(x=np.array([-INF, -0.0, 0, 4, INF, -4], F))["y"]
    np.testing.assert_array_equal(y, np.array(expected, F))
    assert not np.signbit(y[:5]).any()


def test_quantization_divides_in_the_precision_asked_for():
    text = '<ir_version: 12, opset_import: ["" : 23]> g (float[n] x) => (int8[n] y) { y = QuantizeLinear<precision=10>(x, s, z) }'
    x, scale = np.linspace(40, 80, 400).astype(F), np.float16(0.7)
    y = compiled(text, {"s": scale, "z": np.int8(0)})(x=x)["y"]
    np.testing.assert_array_equal(y, np.rint(x.astype(np.float16) / scale))


def test_layer_normalization_of_doubles_gives_its_mean_in_float():
    text = '<ir_version: 8, opset_import: ["" : 17]> g (double[2,4] x, double[4] w) => (double[2,4] y, float[2,1] m, float[2,1] d) { y, m, d = LayerNormalization(x, w) }'
    given = compiled(text)(x=ramp(2, 4, dtype=np.float64), w=np.ones(4))
    np.testing.assert_array_equal(given["m"], np.array([[2.5], [6.5]], F))
    np.testing.assert_allclose(given["d"], np.full((2, 1), 1 / np.sqrt(1.25 + 1e-5), F), rtol=1e-6)


def test_batch_normalization_of_one_channel():
    text = '<ir_version: 8, opset_import: ["" : 15]> g (float[n] x, float[1] s, float[1] b, float[1] m, float[1] v) => (float[n] y) { y = BatchNormalization(x, s, b, m, v) }'
    one = lambda value: np.array([value], F)
    y = compiled(text)(x=ramp(5), s=one(2), b=one(1), m=one(3), v=one(4 - 1e-5))["y"]
    np.testing.assert_allclose(y, ramp(5) - 2, rtol=1e-6)


@pytest.mark.parametrize("body, declared, dims, good, bad", [
    ("y = SpaceToDepth<blocksize=2>(x)", "n,3,h,w", "a,b,c,d", (1, 3, 2, 4), (1, 3, 3, 4)),
    ("y = DepthToSpace<blocksize=2>(x)", "n,c,2,2", "a,b,k,d", (1, 4, 2, 2), (1, 6, 2, 2)),
    ('y = DepthToSpace<blocksize=2, mode="CRD">(x)', "n,c,2,2", "a,b,k,d", (1, 8, 2, 2), (1, 2, 2, 2)),
])
def test_blocks_of_symbolic_sizes(body, declared, dims, good, bad):
    head = '<ir_version: 8, opset_import: ["" : 18]> g '
    module = compiled(f"{head}(float[{declared}] x) => (float[{dims}] y) {{ {body} }}")
    fixed = compiled(f"{head}(float[{','.join(map(str, good))}] x) => (float[{dims}] y) {{ {body} }}")
    x = ramp(*good)
    np.testing.assert_array_equal(module(x=x)["y"], fixed(x=x)["y"])
    with pytest.raises(knapper.UserError, match="must be equal"):
        module(x=ramp(*bad))


def test_group_normalization_of_symbolic_channels():
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[n,c,4] x, float[c] s, float[c] b) => (float[n,c,4] y) { y = GroupNormalization<num_groups=2>(x, s, b) }'
    module, x = compiled(text), np.random.default_rng(0).standard_normal((3, 6, 4)).astype(F)
    s, b = ramp(6), ramp(6) - 9
    rows = x.reshape(3, 2, 12)
    rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(module(x=x, s=s, b=b)["y"], rows.reshape(3, 6, 4) * s[:, None] + b[:, None], rtol=1e-4, atol=1e-5)
    with pytest.raises(knapper.UserError, match="must be equal"):
        module(x=x[:, :5], s=s[:5], b=b[:5])


def test_one_hot_values_of_symbolic_length():
    text = '<ir_version: 8, opset_import: ["" : 13]> g (int64[n] x, float[k] v) => (float[a,b] y) <int64 d={3}> { y = OneHot(x, d, v) }'
    module = compiled(text)
    np.testing.assert_array_equal(module(x=np.array([1, -1]), v=np.array([5, 7], F))["y"], np.array([[5, 7, 5], [5, 5, 7]], F))
    with pytest.raises(knapper.UserError):
        module(x=np.array([1]), v=np.array([5, 7, 9], F))
