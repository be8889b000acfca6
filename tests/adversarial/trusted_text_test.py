"""Tensor IR as text is trusted: read where the caller says so, never because of what the bytes hold."""

from __future__ import annotations

import random as randomness
import subprocess
import sys

import numpy as np
import pytest
from against import FLOAT, model, node

import knapper

TEXT = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = ts.neg %x : tensor<4xf32>\n  return %y : tensor<4xf32>\n}\n"
READS = """module attributes {{ts.files = ["{path}"]}} {{
  func.func @main() -> tensor<16xui8> {{
    %w = ts.weight<0, 0, 16, "w"> : tensor<16xui8>
    return %w : tensor<16xui8>
  }}
}}
"""
X = np.arange(4, dtype=np.float32)


def text(program: str, **options):
    return knapper.compile(program.encode(), model_format="mlir", cache=False, **options)


def test_text_is_asked_for(tmp_path):
    (tmp_path / "m.mlir").write_text(TEXT)
    for module in (text(TEXT), knapper.compile(tmp_path / "m.mlir")):
        np.testing.assert_array_equal(module(X)[0], -X)
    made = model([node("Neg", ["x"], ["y"])], {"x": (FLOAT, [4])}, {"y": (FLOAT, None)}).SerializeToString()
    (tmp_path / "m.mlir").write_bytes(made)  # an ONNX model that is named so
    module = knapper.compile(tmp_path / "m.mlir", model_format="onnx")
    np.testing.assert_array_equal(module(X)[0], -X)
    with pytest.raises(knapper.UserError):
        knapper.compile(tmp_path / "m.mlir")
    with pytest.raises(knapper.UserError, match="option model-format"):
        knapper.compile(made, model_format="text")


@pytest.mark.parametrize("options", [{}, {"model_format": "onnx"}], ids=str)
def test_bytes_are_onnx(tmp_path, options):
    """They could name any file of the process."""
    (tmp_path / "secret").write_bytes(b"s" * 16)
    for program in (TEXT, READS.format(path=tmp_path / "secret")):
        with pytest.raises(knapper.UserError, match="the model"):
            knapper.compile(program.encode(), cache=False, **options)


@pytest.mark.parametrize("place", ["node", "graph", "doc"])
def test_names_say_nothing(place):
    name = "torch.func.functional_call/func.func"
    made = model([node("Neg", ["x"], ["y"], name=name if place == "node" else "n")], {"x": (FLOAT, [4])}, {"y": (FLOAT, None)})
    made.graph.name = name if place == "graph" else "g"
    made.doc_string = name if place == "doc" else ""
    np.testing.assert_array_equal(knapper.compile(made, cache=False)(X)[0], -X)
    np.testing.assert_array_equal(knapper.compile(made.SerializeToString(), cache=False)(X)[0], -X)


def attributes(value: str) -> str:
    return f"module attributes {{t.a = {value}}} {{\n{TEXT}}}\n"


DEEP = {
    "arrays": attributes("[" * 200_000),
    "dictionaries": attributes("{a = " * 200_000),
    "tuples": attributes("tuple<" * 200_000),
    "functions": attributes("(" * 200_000),
    "regions": '"a.b"() ({' * 200_000,
    "modules": "module {" * 200_000,
    "not_in_a_string": attributes('["a]]]" ' + ", [" * 200_000),
    "sums": attributes("affine_map<(d0) -> (d0" + " + d0" * 200_000 + ")>"),
    "signs": attributes("affine_map<(d0) -> (" + "-" * 200_000 + "d0)>"),
    "remainders": attributes("affine_map<(d0) -> (d0" + " mod 3" * 200_000 + ")>"),
}  # fmt: skip


@pytest.mark.parametrize("name", DEEP)
def test_nesting_is_bounded(tmp_path, name):
    (tmp_path / "m.mlir").write_text(DEEP[name])
    for call in (lambda: text(DEEP[name]), lambda: text(DEEP[name], start_from="fuse"), lambda: knapper.compile(tmp_path / "m.mlir")):
        with pytest.raises(knapper.UserError, match="nested too deeply|expression that is too long"):
            call()


@pytest.mark.parametrize("value", [
    "[" * 200 + "]" * 200, '"' + "[(<{" * 1000 + '"', '"\\"[[["', "dense<1> : tensor<3x4x5xi8>", "unit // [[[[ ((((\n",
    "affine_set<(d0) : (d0 >= 0, d0 - 5 <= 0)>", "affine_map<(d0) -> (-d0 + 3)>", "() -> ((i8) -> i8)",
    "array<i64: " + ", ".join(["1"] * 20_000) + ">",
], ids=lambda value: value[:20])  # fmt: skip
def test_what_is_not_deep(value):
    np.testing.assert_array_equal(text(attributes(value))(X)[0], -X)


def test_bytecode_is_no_text():
    with pytest.raises(knapper.UserError, match="bytecode"):
        knapper.compile(b"ML\xefR" + bytes(100), model_format="mlir")


SIGNATURES = {
    "sizes": ("%x: tensor<4xf32>, %n: tensor<?xindex, #ts.dims<\"b\">>", "argument 1 of main is of the type tensor<"),
    "numbers": ("%x: tensor<4xf32>, %n: i32", "argument 1 of main is of the type i32"),
    "vectors": ("%x: tensor<4xf32>, %n: vector<4xf32>", "argument 1 of main"),
    "any_rank": ("%x: tensor<4xf32>, %n: tensor<*xf32>", "argument 1 of main"),
    "complexes": ("%x: tensor<4xf32>, %n: tensor<4xcomplex<f32>>", "argument 1 of main"),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_what_main_may_take(name):
    arguments, message = SIGNATURES[name]
    with pytest.raises(knapper.UserError, match=message):
        text(TEXT.replace("%x: tensor<4xf32>", arguments))


@pytest.mark.parametrize("start, step", [(4, 1), (-1, 1), (0, 2), (3, -2), (1 << 62, 1 << 62), (1, 1)])
def test_slices_stay_inside(start, step):
    sliced = f"ts.slice %x [#ts.dim<{start}>] [{step}] : tensor<4xf32> to tensor<4xf32>"
    with pytest.raises(knapper.UserError, match="its input does not have"):
        text(TEXT.replace(PLAIN, sliced))


PLAIN = "ts.neg %x : tensor<4xf32>"
IN_A_KERNEL = """ts.kernel pointwise (%a = %x : {line}) -> {line} {{
    %s = {sliced}
    ts.yield %s : {line}
  }}"""


@pytest.mark.parametrize("place", ["function", "kernel", "resumed function", "resumed kernel"])
@pytest.mark.parametrize("start, step, inside, outside", [
    ("n - 1", -1, (0, 1, 5), ()), ("0", 1, (0, 5), ()), ("n - 4", -1, (0,), (3, 5)), ("3 * n", -1, (0,), (1, 5)),
    ("n - 4611686018427387904", -4611686018427387904, (0,), (1, 2, 5)), ("n", 1, (0,), (1, 4)), ("0", 2, (0, 1), (2, 5)),
])  # fmt: skip
def test_slices_of_symbolic_sizes_stay_inside(start, step, inside, outside, place):
    line_of = lambda n: np.arange(n, dtype=np.float32)  # noqa: E731
    line = 'tensor<?xf32, #ts.dims<"n">>'
    kernel = place.endswith("kernel")
    sliced = f'ts.slice %{"a" if kernel else "x"} [#ts.dim<"{start}">] [{step}] : {line} to {line}'
    if kernel:
        sliced = IN_A_KERNEL.format(line=line, sliced=sliced)
    options = {"start_from": "schedule" if kernel else "simplify"} if place.startswith("resumed") else {}
    module = text(TEXT.replace(PLAIN, sliced).replace("tensor<4xf32>", line), **options)
    for n in inside:
        np.testing.assert_array_equal(module(line_of(n))[0], line_of(n)[::step])
    for n in outside:
        with pytest.raises(knapper.UserError, match="its input does not have|overflows"):
            module(line_of(n))


LOOP = """module attributes {{ts.symbols = [#ts.symbol<"i", 0, -1, 1>, #ts.symbol<"n", 0, -1, 1>]}} {{
  func.func @main(%x: {line}) -> tensor<1xf32> {{
    %z = ts.constant dense<0.0> : tensor<1xf32>
    %0 = ts.loop @body counter "i" trips <"{trips}"> carried(%z : tensor<1xf32>) captures(%x : {line}) symbols [] reversed [] to(tensor<1xf32>)
    return %0 : tensor<1xf32>
  }}
  func.func private @body(%s: tensor<1xf32>, %x: {line}) -> tensor<1xf32> {{
    %0 = ts.slice %x [#ts.dim<"{start}">] [1] : {line} to tensor<1xf32>
    %1 = ts.add %s, %0 : tensor<1xf32>
    return %1 : tensor<1xf32>
  }}
}}
"""


@pytest.mark.parametrize("start, trips, stays", [
    ("i", "n", True), ("n - 1 - i", "n", True), ("3 * i", "n", False), ("i", "n + 1", False), ("i * i", "n", False), ("n - i", "n", False),
])  # fmt: skip
def test_slices_of_an_iteration_stay_inside(tmp_path, start, trips, stays):
    """What holds for the first and the last iteration is not checked in each; recurrences have no checks in them."""
    program = LOOP.format(line='tensor<?xf32, #ts.dims<"n">>', start=start, trips=trips)
    module = text(program, dump_dir=tmp_path, print_after="import")
    assert any("its input does not have" in path.read_text() for path in tmp_path.rglob("*import*.mlir")) != stays
    x = np.arange(5, dtype=np.float32)
    if stays:
        np.testing.assert_array_equal(module(x)[0], [10])
    else:
        with pytest.raises(knapper.UserError, match="its input does not have"):
            module(x)


@pytest.mark.parametrize("lists", ['ts.symbols = ["n"]', "ts.symbols = 3", "ts.files = [3]", 'ts.files = "w"'])
def test_lists_of_the_module_hold_what_front_ends_write(lists):
    name = lists.split(" ")[0]
    with pytest.raises(knapper.UserError, match=f"the module's {name} is no list of"):
        text(f"module attributes {{{lists}}} {{\n{TEXT}}}\n")
    text(f"module attributes {{{name} = []}} {{\n{TEXT}}}\n")


def test_main_has_a_body():
    with pytest.raises(knapper.UserError, match="main has no body"):
        text("func.func private @main(tensor<4xf32>) -> tensor<4xf32>")


def damaged(seed: int) -> str:
    """A program with pieces moved, repeated and nested."""
    random, program = randomness.Random(seed), attributes('{b = [1, "two"], c = affine_map<(d0) -> (d0 * 2)>}')
    for _ in range(random.randint(1, 6)):
        at, length = random.randrange(len(program)), random.randint(1, 24)
        piece = program[at : at + length]
        kind = random.randrange(4)
        if kind == 0:
            program = program[:at] + program[at + length :]
        elif kind == 1:
            program = program[:at] + piece * random.choice([2, 50, 5000]) + program[at:]
        elif kind == 2:
            program = program[:at] + random.choice("()[]{}<>\"'%@#!,:=-/\\\0") * random.choice([1, 3, 3000]) + program[at:]
        else:
            to = random.randrange(len(program))
            program = program[:to] + piece + program[to:]
    return program


def test_damaged_text_ends_in_an_error_or_a_program():
    """In a process of its own: a crash is a failure, and says of which case."""
    work = "import sys; sys.path.insert(0, sys.argv[1]); import trusted_text_test; trusted_text_test.compile_damaged(400)"
    done = subprocess.run([sys.executable, "-c", work, __file__.rpartition("/")[0]], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.stdout[-300:], done.stderr[-2000:])
    refused, taken = map(int, done.stdout.splitlines()[-1].split())
    assert refused > 200 and taken > 4


def compile_damaged(count: int) -> None:
    refused = 0
    for seed in range(count):
        print("case", seed, flush=True)
        try:
            text(damaged(seed), stop_after="import", threads=1)
        except knapper.UserError as error:
            refused += "before there was an artefact" not in str(error)
    print(refused, count - refused)


def test_damaged_programs_of_the_op_cases():
    """As many as 20 s allow; `damaged_programs.py --first SEED` goes on."""
    import damaged_programs

    ran, problems, ends = damaged_programs.campaign(0, 400, seconds=20, size=60)
    assert not problems and ran >= 60, "\n".join(problems)
    assert ends["refused"] > ran // 4 and ends.get("ran", 0) > ran // 50, ends
