"""Portable artefacts as files and bytes: signatures, refusals, damage."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from damage import write_programs
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
        return rng(x), lax.linalg.schur(x[:, :4] + 1j)[0]

    text = refusal(program(function, X))
    assert "rng(" in text
    assert "custom_call(2x4x4xf32): of complex numbers" in text
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


def test_a_number_of_devices_that_nobody_runs():
    exported = program(lambda x: x * 2, X)
    with pytest.raises(knapper.UserError, match="is cut for 1 device, and the option says 2"):
        knapper.compile(exported, devices=2, cache=False)


def test_devices_are_asked_for():
    """Also where somebody runs programs for several: in a process of its own, which the operator stays in."""
    text = program(lambda x: x * 2, X).mlir_module().replace("num_partitions = 1", "num_partitions = 2")
    code = (
        "import sys, knapper\n"
        "knapper.register_operator('knapper.devices', 'Exchange', compute=lambda *inputs, **parameters: None)\n"
        "def compile(**options): return knapper.compile(text, model_format='stablehlo', isa='x86-64-v3', cache=False, **options)\n"
        "text = sys.stdin.buffer.read()\n"
        "print(compile(devices=2))\n"
        "try: compile()\n"
        "except knapper.UserError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], input=text.encode(), capture_output=True, timeout=120, check=True)
    assert "is cut for 2 devices, and the option says 1" in run.stdout.decode() and "give devices=2" in run.stdout.decode(), run.stdout


def test_a_size_option():
    with pytest.raises(knapper.UserError, match="sizes of a StableHLO program are numbers"):
        knapper.compile(program(lambda x: x, X), dim={"n": 3}, cache=False)


def test_no_bytecode():
    with pytest.raises(knapper.UserError, match="holds no MLIR bytecode, and no text"):
        knapper.compile(b"something else", model_format="stablehlo", cache=False)


def test_damage(tmp_path):
    write_programs(tmp_path)
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


def builtin_attributes(data):
    """The numbers of the builtin dialect's attributes in a program, and where their codes stand."""
    section, at = {}, data.index(b"\0", 4) + 1
    while at < len(data):
        section[data[at] & 0x7F], at = behind(data, at), behind(data, at)[1]
    count, at = number(data, section[0][0])  # the texts' sizes, the last first
    sizes = []
    for _ in range(count):
        size, at = number(data, at)
        sizes.insert(0, size)
    texts = [at + sum(sizes[:i]) for i in range(count)]
    count, at = number(data, section[1][0])  # the dialects' names
    names = []
    for _ in range(count):
        head, at = number(data, at)
        at = behind(data, at)[1] if head & 1 else at
        names.append(data[texts[head >> 1] :].partition(b"\0")[0])
    count, at = number(data, section[3][0])
    _types, at = number(data, at)
    place, found, index = section[2][0], [], 0
    while count > 0:  # groups of attributes, each of a dialect
        dialect, at = number(data, at)
        size, at = number(data, at)
        count -= size
        for _ in range(size):
            head, at = number(data, at)
            if names[dialect] == b"builtin":
                found.append((index, place))
            place, index = place + (head >> 1), index + 1
    return found


# Elements, numbers and the like: MLIR's reader takes their bytes unchecked.
@pytest.mark.parametrize("code", [16, 17, 18, 19, 20, 21, 60])
def test_attributes_that_no_artefact_has(code):
    data = program(lambda x: x + x, X).mlir_module_serialized
    places = builtin_attributes(data)
    assert places
    for _index, place in places:
        damaged = bytearray(data)
        damaged[place] = code << 1 | 1
        with pytest.raises(knapper.UserError, match="of a kind that no portable artefact has"):
            knapper.compile(bytes(damaged), model_format="stablehlo", cache=False)


def test_an_attribute_that_is_a_part_of_itself():
    data = program(lambda x: x + x, X).mlir_module_serialized
    named = 14  # a place in the source: its name, then the place around it, a number each
    index, place = next(each for each in builtin_attributes(data) if data[each[1]] == named << 1 | 1)
    damaged = bytearray(data)
    assert data[place + 1] & data[place + 2] & 1 and index < 64
    damaged[place + 2] = index << 1 | 1
    assert "is a part of itself" in refusal(bytes(damaged))


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
