"""StableHLO as text: pretty and generic, with locations and without."""

import os
import subprocess
from pathlib import Path

import jax
import numpy as np
import pytest
from programs_test import OPS

import knapper


def texts(function, arguments):
    lowered = jax.jit(function).lower(*arguments)
    generic = lowered.compiler_ir().operation.get_asm(print_generic_op_form=True)
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
    leaves = jax.tree_util.tree_leaves(arguments)
    return (lowered.as_text(), generic, lowered.as_text(debug_info=True)), [np.asarray(leaves[i]) for i in kept]


@pytest.mark.parametrize("name", OPS)
def test_op(name):
    function, *arguments = OPS[name]
    forms, given = texts(function, arguments)
    wanted = jax.tree_util.tree_leaves(jax.jit(function)(*arguments))
    for text in forms:
        outputs = knapper.compile(text.encode(), cache=False)(*given)
        for i, each in enumerate(wanted):
            output = np.asarray(outputs[i])
            assert output.dtype == each.dtype
            np.testing.assert_allclose(output.astype(np.float64), np.asarray(each, np.float64), rtol=2e-5, atol=2e-5)


def test_a_file_of_either_name(tmp_path, monkeypatch):
    (text, *_), _ = texts(lambda x: x + 1, [np.ones(3, np.float32)])
    for name in ("model.mlir", "model.stablehlo"):
        (tmp_path / name).write_text(text)
        module = knapper.compile(tmp_path / name, cache=False)
        np.testing.assert_array_equal(np.asarray(module(np.ones(3, np.float32))[0]), 2)
        found = knapper.inspect(tmp_path / name)
        assert found["operators"][0]["op"] in ("add", "broadcast_in_dim") and not found["unsupported"]


def test_lines_of_the_users_program():
    (_, _, text), _ = texts(lambda x: jax.scipy.linalg.schur(x), [np.eye(3, dtype=np.complex64)])
    with pytest.raises(knapper.UserError, match=r"custom_call\(2x3x3xf32\).*\n *.*text_test.py:"):
        knapper.compile(text.encode(), cache=False)


ALL = np.array([0.0, -0.0, 0.3, 1, -1, 2.5, -2.5, 7, 40, -3, 1e-20, 0.9999, np.inf, -np.inf, np.nan], np.float32)
SPECIAL = {
    "lgamma": (jax.lax.lgamma, ALL),
    "digamma": (jax.lax.digamma, ALL),
    "erfc": (jax.lax.erfc, ALL),
    "erf_inv": (jax.lax.erf_inv, ALL),
    "bessel_i1e": (jax.lax.bessel_i1e, ALL),
    "zeta": (jax.lax.zeta, np.array([2, 3.5, 1, 8, np.nan], np.float32), np.array([1, 0.5, 2, 30, 1], np.float32)),
    "polygamma": (jax.lax.polygamma, np.array([0, 1, 2, 5, 1, -1, 0.5], np.float32), np.array([0.3, 0.3, 4, 2, 0, 1, 1], np.float32)),
    "nextafter": (jax.lax.nextafter, np.repeat(ALL, len(ALL)), np.tile(ALL, len(ALL))),
    "tan asin acos atan sinh cosh asinh acosh atanh": (
        lambda x: (jax.lax.tan(x), jax.lax.asin(x), jax.lax.acos(x), jax.lax.atan(x), jax.lax.sinh(x), jax.lax.cosh(x), jax.lax.asinh(x),
                   jax.lax.acosh(x), jax.lax.atanh(x)), ALL),
    "top_k": (lambda x: jax.lax.top_k(x, 4), ALL),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, jax.numpy.bfloat16])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions(name, dtype):
    function, *arguments = SPECIAL[name]
    arguments = [each.astype(dtype) for each in arguments]
    with jax.enable_x64(True):
        text = jax.jit(function).lower(*arguments).as_text()
        wanted = jax.tree_util.tree_leaves(jax.jit(function)(*arguments))
    assert "chlo." in text
    outputs = knapper.compile(text.encode(), cache=False)(*arguments)
    tolerance = {np.float32: 2e-5, np.float64: 1e-10}.get(dtype, 1e-2)
    for i, each in enumerate(wanted):
        ours = np.asarray(outputs[i])
        assert ours.dtype == each.dtype
        np.testing.assert_allclose(ours.astype(np.float64), np.asarray(each, np.float64), rtol=tolerance, atol=tolerance * (name != "nextafter"))


@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2", "i4", "ui8", "bf16", "f64"])
def test_constant_like(element):
    value = f"{3 if 'i' in element else 3.0} : {element}"
    text = f"""module {{
  func.func public @main(%x: tensor<3xi32>) -> tensor<3xf32> {{
    %y = stablehlo.convert %x : (tensor<3xi32>) -> tensor<3x{element}>
    %z = "chlo.constant_like"(%y) <{{value = {value}}}> : (tensor<3x{element}>) -> tensor<3x{element}>
    %r = stablehlo.convert %z : (tensor<3x{element}>) -> tensor<3xf32>
    return %r : tensor<3xf32>
  }}
}}
"""
    outputs = knapper.compile(text.encode(), cache=False)(np.zeros(3, np.int32))
    np.testing.assert_array_equal(np.asarray(outputs[0]), 3)


TOKENS = """module {
  func.func public @main(%x: tensor<4xf32>, %t: !stablehlo.token) -> (tensor<4xf32>, !stablehlo.token) {
    %a = stablehlo.create_token : !stablehlo.token
    %b = stablehlo.after_all %a, %t : !stablehlo.token
    %n = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %r:3 = stablehlo.while(%i = %n, %y = %x, %k = %b) : tensor<i32>, tensor<4xf32>, !stablehlo.token
     cond {
      %c = stablehlo.compare GT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.subtract %i, %one : tensor<i32>
      %z = stablehlo.add %y, %y : tensor<4xf32>
      %l = stablehlo.after_all %k : !stablehlo.token
      stablehlo.return %j, %z, %l : tensor<i32>, tensor<4xf32>, !stablehlo.token
    }
    return %r#1, %r#2 : tensor<4xf32>, !stablehlo.token
  }
}
"""


def test_tokens():
    outputs = knapper.compile(TOKENS.encode(), cache=False)(np.ones(4, np.float32), np.zeros(0, bool))
    np.testing.assert_array_equal(np.asarray(outputs[0]), 4)
    assert np.asarray(outputs[1]).shape == (0,)


def test_streams_are_refused():
    text = PROGRAM.format(
        "%t = stablehlo.create_token : !stablehlo.token\n"
        '%y, %u = "stablehlo.infeed"(%t) <{infeed_config = ""}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)\n'
        '%v = "stablehlo.outfeed"(%x, %u) <{outfeed_config = ""}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token\n'
    )
    with pytest.raises(knapper.UserError, match=r"infeed\(.*: a stream between the host and a running program(.|\n)*give arrays as arguments"):
        knapper.compile(text.encode(), cache=False)


PROGRAM = """module {{
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
    {}
    return %y : tensor<4xf32>
  }}
}}
"""


@pytest.mark.parametrize(
    "line, message",
    [
        ("%y = stablehlo.addd %x, %x : tensor<4xf32>", "line 3, column 10: .*stablehlo.addd"),
        ("%y = stablehlo.add %x, %z : tensor<4xf32>", "line 3, column .*undeclared SSA value"),
        ("%y = stablehlo.add %x : tensor<4xf32>", "has 1 operands"),
        ("%y = stablehlo.iota dims = 0 : tensor<4xf32>", "iota has no 'dims'"),
        ("%y = stablehlo.slice %x [0:9] : (tensor<4xf32>) -> tensor<4xf32>", "takes 0:9:1 of 4"),
        ("%y = stablehlo.reduce_precision %x, format = m5 : tensor<4xf32>", "'m5' is no format such as e5m10"),
        ("%y = stablehlo.constant dense<1.0> : vector<4xf32>", "expects different type"),
        ("%y = stablehlo.reverse %x, dims = [4] : tensor<4xf32>", "names no dims of rank 1"),
        ("%y = stablehlo.sine %x {a = " + "[" * 300 + "} : tensor<4xf32>", "is nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_wrong(line, message):
    with pytest.raises(knapper.UserError, match=message):
        knapper.compile(PROGRAM.format(line).encode(), cache=False)


C, F = "tensor<complex<f32>>", "tensor<f32>"
GIVES_REAL = f"""module {{
  func.func public @main(%x: tensor<3x4xcomplex<f32>>, %i: {C}) -> tensor<3xcomplex<f32>> {{
    %y = "stablehlo.reduce"(%x, %i) <{{dimensions = array<i64: 1>}}> ({{
    ^bb0(%a: {C}, %b: {C}):
      %r = "stablehlo.real"(%a) : ({C}) -> {F}
      "stablehlo.return"(%r) : ({F}) -> ()
    }}) : (tensor<3x4xcomplex<f32>>, {C}) -> tensor<3xcomplex<f32>>
    "func.return"(%y) : (tensor<3xcomplex<f32>>) -> ()
  }}
}}
"""
GIVES_SWAPPED = f"""module {{
  func.func public @main(%x: tensor<2x4xcomplex<f32>>, %y: tensor<2x4xf32>, %i: {C}, %j: {F}) -> (tensor<2xcomplex<f32>>, tensor<2xf32>) {{
    %z:2 = "stablehlo.reduce"(%x, %y, %i, %j) <{{dimensions = array<i64: 1>}}> ({{
    ^bb0(%a: {C}, %b: {F}, %c: {C}, %d: {F}):
      %r = "stablehlo.add"(%a, %c) : ({C}, {C}) -> {C}
      %s = "stablehlo.add"(%b, %d) : ({F}, {F}) -> {F}
      "stablehlo.return"(%s, %r) : ({F}, {C}) -> ()
    }}) : (tensor<2x4xcomplex<f32>>, tensor<2x4xf32>, {C}, {F}) -> (tensor<2xcomplex<f32>>, tensor<2xf32>)
    "func.return"(%z#0, %z#1) : (tensor<2xcomplex<f32>>, tensor<2xf32>) -> ()
  }}
}}
"""
GIVES_COMPLEX = f"""module {{
  func.func public @main(%x: tensor<8xf32>, %i: {F}) -> tensor<8xf32> {{
    %y = "stablehlo.reduce_window"(%x, %i) <{{padding = dense<[[7, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 8>}}> ({{
    ^bb0(%a: {F}, %b: {F}):
      %s = "stablehlo.multiply"(%b, %b) : ({F}, {F}) -> {F}
      %r = "stablehlo.complex"(%a, %s) : ({F}, {F}) -> {C}
      "stablehlo.return"(%r) : ({C}) -> ()
    }}) : (tensor<8xf32>, {F}) -> tensor<8xf32>
    "func.return"(%y) : (tensor<8xf32>) -> ()
  }}
}}
"""
GIVES_A_TENSOR = f"""module {{
  func.func public @main(%x: tensor<3x4xf32>, %i: {F}) -> tensor<3xf32> {{
    %y = "stablehlo.reduce"(%x, %i) <{{dimensions = array<i64: 1>}}> ({{
    ^bb0(%a: {F}, %b: {F}):
      %t = "stablehlo.constant"() <{{value = dense<1.0> : tensor<2xf32>}}> : () -> tensor<2xf32>
      %s = "stablehlo.multiply"(%a, %b) : ({F}, {F}) -> {F}
      %r = "func.call"(%s, %t) <{{callee = @first}}> : ({F}, tensor<2xf32>) -> {F}
      "stablehlo.return"(%r) : ({F}) -> ()
    }}) : (tensor<3x4xf32>, {F}) -> tensor<3xf32>
    "func.return"(%y) : (tensor<3xf32>) -> ()
  }}
  func.func private @first(%a: {F}, %t: tensor<2xf32>) -> {F} {{
    "func.return"(%a) : ({F}) -> ()
  }}
}}
"""
ANY_SIZE = """module {
  func.func public @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
    %z = "stablehlo.complex"(%x, %x) : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xcomplex<f32>>
    %y = "stablehlo.abs"(%z) : (tensor<?x3xcomplex<f32>>) -> tensor<?x3xf32>
    "func.return"(%y) : (tensor<?x3xf32>) -> ()
  }
}
"""


@pytest.mark.parametrize(
    "program, message",
    [
        (GIVES_REAL, "a region gives another type than it takes"),
        (GIVES_SWAPPED, "a region gives another type than it takes"),
        (GIVES_COMPLEX, "a region gives another type than it takes"),
        (GIVES_A_TENSOR, "not supported yet(.|\n)*a tensor given to a function of elements"),
        (ANY_SIZE, "not supported yet(.|\n)*complex numbers of sizes that only a call knows"),
    ],
    ids=["real of complex", "swapped", "complex of real", "a tensor", "any size"],
)  # fmt: skip
def test_regions_and_complex_numbers_that_are_refused(program, message):
    with pytest.raises(knapper.UserError, match=message):
        knapper.compile(program.encode(), cache=False)


def test_the_command(tmp_path):
    build = Path(os.environ.get("KNAPPER_BUILD", "build/dev"))
    (tmp_path / "m.mlir").write_text(PROGRAM.format("%y = stablehlo.sine %x : tensor<4xf32>"))
    run = subprocess.run(
        [str(build / "bin/knapper"), "compile", str(tmp_path / "m.mlir"), "-o", str(tmp_path / "m.knap")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0 and (tmp_path / "m.knap").exists(), run.stderr
