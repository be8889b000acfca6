"""Portable artefacts as files and bytes: signatures, refusals, damage."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import _jax
from jax_models import program

import knapper

HERE = Path(__file__).parent
X = np.arange(20, dtype=np.float32).reshape(4, 5)


def test_every_way_in(tmp_path):
    weights = np.random.default_rng(0).standard_normal((5, 5000)).astype(np.float32)
    exported = program(lambda x: x @ jnp.asarray(weights), X)
    wanted = X @ weights
    data = exported.mlir_module_serialized
    path = tmp_path / "model.mlirbc"
    path.write_bytes(data)
    for model, kind in (
        (exported, ""), (data, ""), (path, ""), (bytes(exported.serialize()), "stablehlo"),
    ):  # fmt: skip
        module = knapper.compile(model, model_format=kind, cache=False)
        np.testing.assert_allclose(np.asarray(module(X)[0]), wanted, rtol=1e-4, atol=1e-3)


def every_kind(x, i):
    y = lax.conv(x.reshape(1, 1, 4, 5), jnp.ones((2, 1, 3, 3)), (1, 1), "SAME")
    z = lax.fori_loop(0, 3, lambda k, c: c * x, x)
    parts = lax.dynamic_slice(x, (i[0], 0), (2, 3)), jnp.pad(x, 1)[::2], lax.sort(x)
    return jnp.take(x, i, axis=0) @ x.T, x.at[i].add(1.0), jnp.argmax(x, 1), y, z, parts


# Each of another version of the bytecode, of gather, scatter, dot, exp.
@pytest.mark.parametrize(
    "version", ["0.9.0", "0.10.0", "0.12.0", "0.14.0", "0.15.0", "1.0.0", "1.6.0", "1.17.0"]
)
def test_versions(version):
    i = np.array([1, 2, 0, 3], np.int32)
    text = program(every_kind, X, i).mlir_module()
    with jax_mlir.make_ir_context():
        data = _jax.mlir.serialize_portable_artifact(text, version)
    given = knapper.compile(data, cache=False)(X, i)
    wanted = jax.tree.leaves(jax.jit(every_kind)(X, i))
    for j, each in enumerate(wanted):
        np.testing.assert_allclose(np.asarray(given[j]), each, rtol=1e-4, atol=1e-5)


def test_inspecting(tmp_path):
    data = program(lambda x: x, X).mlir_module_serialized
    found = knapper.inspect(data)
    assert found["inputs"] == [{"name": "x", "dtype": "f32", "dims": [4, 5], "donated": False}]
    assert found["outputs"][0]["dims"] == [4, 5] and not found["unsupported"]
    donating = jax.export.export(jax.jit(lambda x, y: (x + y, rng(lax.complex(x, y))), donate_argnums=1))(X, X)
    found = knapper.inspect(donating.mlir_module_serialized)
    assert [each["donated"] for each in found["inputs"]] == [False, True]
    assert [each["op"] for each in found["unsupported"]] == ["rng"]
    assert {"op": "add", "count": 2}.items() <= found["operators"][0].items()
    with pytest.raises(knapper.UserError, match="only these are quantised"):
        knapper.quantize(data, calibration=[{"x": X}])


def test_the_cache_knows_a_program(tmp_path):
    data = program(lambda x: x * 3, X).mlir_module_serialized
    for _ in range(2):
        module = knapper.compile(data, cache_dir=str(tmp_path))
        np.testing.assert_array_equal(np.asarray(module(X)[0]), X * 3)


def test_names():
    exported = program(lambda image, scale: {"y": image * scale, "z": scale}, X, X)
    module = knapper.compile(exported, cache=False)
    assert [each.name for each in module.inputs] == ["image", "scale"]
    assert [each.name for each in module.outputs] == ["result['y']", "result['z']"]


def rng(x):
    return x.real + lax.rng_uniform(0.0, 1.0, x.shape)


def refusal(exported):
    with pytest.raises(knapper.UserError) as caught:
        knapper.compile(exported, cache=False)
    return str(caught.value)


def test_everything_missing_at_once():
    def function(x):
        return rng(x), jnp.linalg.cholesky(x[:, :4])

    text = refusal(program(function, X))
    assert "rng(" in text
    assert "custom_call(4x4xf32): target 'lapack_spotrf_ffi'" in text
    assert text.count("artefacts_test.py:") >= 2


LOOP_OF_WHAT_IS_MISSING = b"""module { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %m = stablehlo.custom_call @nobodys(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %i = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %e = stablehlo.constant dense<1> : tensor<i32>
  %w:2 = stablehlo.while(%a = %i, %y = %x) : tensor<i32>, tensor<4xf32>
  cond { %t = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1> }
  do { %b = stablehlo.add %a, %e : tensor<i32>
    stablehlo.return %b, %m : tensor<i32>, tensor<4xf32> }
  return %w#1 : tensor<4xf32> } }"""


def test_a_loop_that_reads_what_is_missing():
    with pytest.raises(knapper.UserError) as caught:
        knapper.compile(LOOP_OF_WHAT_IS_MISSING, model_format="stablehlo", cache=False)
    assert "target 'nobodys'" in str(caught.value) and "while(" not in str(caught.value)


def test_sizes_that_a_call_decides():
    shapes = jax.export.symbolic_args_specs(X, "n, 5")
    text = refusal(program(lambda x: jnp.cumsum(x, 0), shapes))
    assert "sizes that only a call knows" in text


def test_several_devices():
    exported = program(lambda x: x * 2, X)
    text = exported.mlir_module().replace("num_partitions = 1", "num_partitions = 2")
    with jax_mlir.make_ir_context():
        data = _jax.mlir.serialize_portable_artifact(text, "1.8.0")
    assert "is cut for several devices: mhlo.num_partitions is 2" in refusal(data)


def test_a_size_option():
    with pytest.raises(knapper.UserError, match="sizes of a StableHLO program are numbers"):
        knapper.compile(program(lambda x: x, X), dim={"n": 3}, cache=False)


def test_no_bytecode():
    with pytest.raises(knapper.UserError, match="holds no MLIR bytecode, and no text"):
        knapper.compile(b"something else", model_format="stablehlo", cache=False)


def function(x, i):
    taken = jnp.take(x, i, axis=0), x.at[i].add(1.0), jnp.argmax(x, 1)
    last, all = lax.scan(lambda c, t: (c + t, c * t), jnp.zeros(5), x)
    chosen = lax.cond(x[0, 0] > 0, lambda: jax.nn.softmax(x), lambda: lax.sort(x))
    return taken, last, all, chosen, jnp.cumsum(x, 1) @ jnp.ones((5, 3))


def convolved(x, w):
    y = lax.conv(x, w, (1, 1), "SAME")
    return lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "SAME")


FOR_DEVICES = """
import jax, jax.export, sys, numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

def part(x, w):
    y = lax.scan(lambda c, _: (lax.psum(c, "a") + lax.ppermute(c, "b", [(0, 1), (1, 0)]), None), x @ w, None, length=2)[0]
    return lax.psum_scatter(y, "a", tiled=True), lax.all_gather(y, "b"), lax.all_to_all(x, ("a", "b"), 0, 0, tiled=True)

def function(x, w):
    inner = jax.shard_map(part, mesh=mesh, in_specs=(P("a"), P()), out_specs=(P("a"), P(), P(("a", "b"))), check_vma=False)
    y, z, t = inner(jax.numpy.tanh(x) * 2, w)
    return lax.with_sharding_constraint(y + 1, NamedSharding(mesh, P("b"))), z, t

x = jax.ShapeDtypeStruct((8, 4), np.float32, sharding=NamedSharding(mesh, P("a")))
exported = jax.export.export(jax.jit(function))(x, np.ones((4, 4), np.float32))
open(sys.argv[1], "wb").write(exported.mlir_module_serialized)
"""


def test_damage(tmp_path):
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    subprocess.run([sys.executable, "-c", FOR_DEVICES, str(tmp_path / "devices")], check=True, env=os.environ | flags)
    i = np.array([1, 2, 0, 3], np.int32)
    x, w = np.ones((1, 3, 6, 6), np.float32), np.ones((4, 3, 3, 3), np.float32)
    for name, exported in (
        ("mixed", program(function, X, i)),
        ("convolved", program(jax.grad(lambda x, w: convolved(x, w).sum()), x, w)),
    ):
        (tmp_path / name).write_bytes(exported.mlir_module_serialized)
        (tmp_path / f"{name}.mlir").write_text(exported.mlir_module())
    run = subprocess.run(
        [sys.executable, str(HERE / "mutate.py"), str(tmp_path), "0", "150"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    tail = "\n".join(run.stdout.splitlines()[-2:]) + run.stderr[-2000:]
    assert run.returncode == 0, tail
    assert int(run.stdout.rpartition("refused ")[2]) > 100


def with_code(data, change):
    """The program whose outermost block is `change` of what it was."""
    data = bytearray(data)
    at = data.index(b"\0", 4) + 1
    while data[at] & 0x7F != 4:  # the section of ops
        at = behind(data, at)[1]
    begin = behind(data, at)[0]
    data[begin] = change(data[begin])
    return bytes(data)


def behind(data, at):
    """Where a section's bytes begin and end."""
    aligned, at = data[at] & 0x80, at + 1
    size, at = number(data, at)
    if aligned:
        alignment, at = number(data, at)
        at += -at % alignment
    return at, at + size


def number(data, at):
    more = 8 if data[at] == 0 else (data[at] & -data[at]).bit_length() - 1
    value = int.from_bytes(data[at : at + more + 1], "little")
    return value >> (more + 1), at + more + 1


@pytest.mark.parametrize("form", ["1.17.0", "0.9.0"])
def test_the_outermost_block_has_no_arguments(form):
    # In a process of its own: MLIR's reader dies of them.
    with jax_mlir.make_ir_context():
        text = program(lambda x: x + x, X).mlir_module()
        data = _jax.mlir.serialize_portable_artifact(text, form)
    code = "import sys, knapper; knapper.compile(sys.stdin.buffer.read(), model_format='stablehlo', cache=False)"
    damaged = with_code(data, lambda head: head | 2)
    assert damaged != data
    for given, wanted in ((data, ""), (damaged, "its sections hold less than they say")):
        run = subprocess.run(
            [sys.executable, "-c", code], input=given, capture_output=True, timeout=120, check=False
        )  # fmt: skip
        assert run.returncode == (1 if wanted else 0), run.stderr
        assert wanted in run.stderr.decode()


def test_complex_arrays_are_pairs_of_floats():
    z = (X + 1j * X[::-1]).astype(np.complex64)
    module = knapper.compile(program(lambda z: z * 2j, z), cache=False)
    given = np.asarray(module(z.view(np.float32).reshape(4, 5, 2))[0])
    np.testing.assert_allclose(given.view(np.complex64)[..., 0], z * 2j, rtol=1e-6)
