"""Sorts by comparators of every form, as text."""

import struct

import numpy as np
import pytest

import knapper

F, I, B = "tensor<f32>", "tensor<i32>", "tensor<i1>"
X = np.array([[3, -0.0, 0.0, np.nan, -np.inf, 1, -3, 1], [0.5, 2, -2, 0.0, -0.0, -np.nan, np.inf, 2]], np.float32)
K = np.array([[1, 0, 1, 0, 2, 2, 1, 0], [3, 3, 1, 1, 0, 0, 1, 3]], np.int32)
Z = np.array([1 + 2j, 1 - 2j, -1 + 0j, 1 + 2j, 0j, 1 - 3j], np.complex64)


def program(body, types=("f32", "i32"), shape="2x8", dimension=1, before=""):
    """A sort of arrays of these elements; the comparator's arguments are a0, b0, a1, b1... `before` stands in front of it."""
    arrays = [f"tensor<{shape}x{each}>" for each in types]
    names = [f"%x{i}" for i in range(len(types))]
    scalars = ", ".join(f"%a{i}: tensor<{each}>, %b{i}: tensor<{each}>" for i, each in enumerate(types))
    result = f"%y:{len(types)}" if len(types) > 1 else "%y"
    given = ", ".join(f"%y#{i}" for i in range(len(types))) if len(types) > 1 else "%y"
    return f"""module {{
  func.func public @main({", ".join(f"{n}: {t}" for n, t in zip(names, arrays))}) -> ({", ".join(arrays)}) {{
    {before}
    {result} = "stablehlo.sort"({", ".join(names)}) <{{dimension = {dimension} : i64, is_stable = true}}> ({{
    ^bb0({scalars}):
      {body}
      stablehlo.return %r : {B}
    }}) : ({", ".join(arrays)}) -> ({", ".join(arrays)})
    return {given} : {", ".join(arrays)}
  }}
}}
""".encode()


def compare(name, direction, x, y, type="f32", kind=""):
    return f"%{name} = stablehlo.compare {direction}, %{x}, %{y}{', ' + kind if kind else ''} : (tensor<{type}>, tensor<{type}>) -> {B}\n"


def ordered(key, *arrays):
    """The arrays by a key of the elements at a place, row by row, stable."""
    results = [np.empty_like(array) for array in arrays]
    for place in np.ndindex(arrays[0].shape[:-1]):
        order = sorted(range(arrays[0].shape[-1]), key=lambda i: key(*(array[place][i] for array in arrays)))
        for result, array in zip(results, arrays, strict=True):
            result[place] = array[place][order]
    return results


def total(value):
    """The place of a float in the total order."""
    bits, = struct.unpack("<i", struct.pack("<f", value))
    return bits if bits >= 0 else bits ^ 0x7FFFFFFF


def check(text, wanted, *arrays):
    outputs = knapper.compile(text, cache=False)(*arrays)
    for i, each in enumerate(wanted):
        np.testing.assert_array_equal(np.asarray(outputs[i]).view(np.int32), each.view(np.int32))


TOTAL = compare("r", "LT", "a0", "b0", kind="TOTALORDER")
FALLING = compare("r", "GT", "a0", "b0", kind="TOTALORDER")
SWAPPED = compare("r", "GT", "b0", "a0", kind="TOTALORDER")
SIZE = "%p = stablehlo.abs %a0 : tensor<f32>\n %q = stablehlo.abs %b0 : tensor<f32>\n" + compare("r", "LT", "p", "q", kind="TOTALORDER")
BOTH = "%p = stablehlo.add %a1, %a1 : tensor<i32>\n %q = stablehlo.add %b1, %b1 : tensor<i32>\n" + compare("l", "GT", "p", "q", "i32")
THEN = BOTH + compare("e", "EQ", "p", "q", "i32") + compare("n", "LT", "a0", "b0", kind="TOTALORDER")
LOGIC = THEN + f"%c = stablehlo.and %n, %e : {B}\n %r = stablehlo.or %c, %l : {B}\n"
SELECT = THEN + f"%r = stablehlo.select %e, %n, %l : {B}, {B}\n"
UNEQUAL = BOTH + compare("e", "NE", "p", "q", "i32") + compare("n", "LT", "a0", "b0", kind="TOTALORDER") + f"%r = stablehlo.select %e, %l, %n : {B}, {B}\n"


@pytest.mark.parametrize(
    "body, key",
    [
        (TOTAL, lambda x, k: total(x)),
        (FALLING, lambda x, k: -total(x)),
        (SWAPPED, lambda x, k: total(x)),
        (SIZE, lambda x, k: total(abs(x))),
        (LOGIC, lambda x, k: (-k, total(x))),
        (SELECT, lambda x, k: (-k, total(x))),
        (UNEQUAL, lambda x, k: (-k, total(x))),
    ],
    ids=["total order", "falling", "swapped", "of sizes", "or and", "select", "select unequal"],
)
def test_keys(body, key):
    check(program(body), ordered(key, X, K), X, K)


CONSTANTS = f"%zero = stablehlo.constant dense<0.0> : {F}\n %nan = stablehlo.constant dense<0x7FC00000> : {F}\n"


def canonical(name, tested, taken):
    """Zeros alike and NaNs alike, as JAX writes it."""
    return (
        compare(f"{name}z", "EQ", tested, "zero", kind="FLOAT") + f"%{name}s = stablehlo.select %{name}z, %zero, %{taken} : {B}, {F}\n"
        + compare(f"{name}n", "NE", tested, tested, kind="FLOAT") + f"%{name} = stablehlo.select %{name}n, %nan, %{name}s : {B}, {F}\n"
    )  # fmt: skip


ALIKE = canonical("p", "a0", "a0") + canonical("q", "b0", "b0")


@pytest.mark.parametrize("before", [True, False], ids=["before the sort", "in the comparator"])
@pytest.mark.parametrize("scale", [False, True], ids=["elements", "computed"])
def test_constants(before, scale):
    """Where the constants stand decides nothing; arrays of this length are sorted by keys only."""
    constants = CONSTANTS + f"%two = stablehlo.constant dense<-2.0> : {F}\n"
    body = ALIKE
    if scale:
        body += f"%v = stablehlo.multiply %p, %two : {F}\n %w = stablehlo.multiply %q, %two : {F}\n"
    body += compare("r", "LT", *("vw" if scale else "pq"), kind="TOTALORDER")
    x = np.resize(X, (1, 20000))
    k = np.arange(20000, dtype=np.int32).reshape(1, -1)
    wanted = ordered(lambda x, k: (np.isnan(x), 0 if np.isnan(x) else -2 * x if scale else x), x, k)
    check(program(body if before else constants + body, shape="1x20000", before=constants if before else ""), wanted, x, k)


def test_another_dim():
    first, second = (np.ascontiguousarray(each.T) for each in ordered(lambda x, k: total(x), X, K))
    text = program(TOTAL, shape="8x2", dimension=0)
    check(text, [first, second], np.ascontiguousarray(X.T), np.ascontiguousarray(K.T))


def test_a_key_of_two_operands():
    """0 where the first is 0, else the second: neither operand's elements."""
    body = CONSTANTS + compare("c", "EQ", "a0", "zero") + compare("d", "EQ", "b0", "zero") + "".join(
        f"%{name} = stablehlo.select %{test}, %zero, %{taken} : {B}, {F}\n" for name, test, taken in (("p", "c", "a1"), ("q", "d", "b1"))
    )  # fmt: skip
    x, y = np.array([0, 1, 1, 1], np.float32), np.array([5, -1, 2, -3], np.float32)
    wanted = ordered(lambda x, y: y if x else 0, x, y)
    check(program(body + compare("r", "LT", "p", "q"), ["f32", "f32"], "4", 0), wanted, x, y)


def test_a_comparator_of_no_keys():
    """Even numbers first, each half in its own order: the direction hangs on both elements."""
    body = (
        "%one = stablehlo.constant dense<1> : tensor<i32>\n %p = stablehlo.and %a1, %one : tensor<i32>\n"
        " %q = stablehlo.and %b1, %one : tensor<i32>\n %s = stablehlo.add %p, %q : tensor<i32>\n"
        + compare("even", "LT", "s", "one", "i32") + compare("less", "LT", "a1", "b1", "i32") + compare("more", "GT", "a1", "b1", "i32")
        + compare("apart", "LT", "p", "q", "i32") + compare("mixed", "EQ", "s", "one", "i32")
        + f"%same = stablehlo.select %even, %less, %more : {B}, {B}\n %r = stablehlo.select %mixed, %apart, %same : {B}, {B}\n"
    )  # fmt: skip
    wanted = ordered(lambda x, k: (k % 2, -k if k % 2 else k), X, K)
    check(program(body), wanted, X, K)


def test_a_long_comparator_of_no_keys():
    body = "%p = stablehlo.subtract %a0, %b0 : tensor<i32>\n %zero = stablehlo.constant dense<0> : tensor<i32>\n" + compare("r", "LT", "p", "zero", "i32")
    numbers = np.random.default_rng(0).integers(0, 50, (1, 700)).astype(np.int32)
    check(program(body, ["i32"], "1x700"), [np.sort(numbers, 1)], numbers)
    # Each element is compared with each of its line: what counts is how many pairs all lines have.
    for shape in ("1x20000", "1000x1000"):
        with pytest.raises(knapper.UserError, match="with a comparator that is not one of keys: more than 268435456 pairs"):
            knapper.compile(program(body, ["i32"], shape), cache=False)


@pytest.mark.parametrize("length", [8, 20000])
@pytest.mark.parametrize("kind, tie", [("TOTALORDER", "FLOAT"), ("FLOAT", "TOTALORDER"), ("FLOAT", "FLOAT"), ("TOTALORDER", "TOTALORDER")])
def test_ties_of_another_kind(kind, tie, length):
    """NaNs are one place for TOTALORDER, then the second key decides; for FLOAT they are unequal and stay in order."""
    body = (
        CONSTANTS + ALIKE + compare("l", "LT", "p", "q", kind=kind) + compare("e", "EQ", "p", "q", kind=tie) + compare("n", "LT", "a1", "b1", "i32")
        + f"%c = stablehlo.and %e, %n : {B}\n %r = stablehlo.or %l, %c : {B}\n"
    )  # fmt: skip
    x = np.resize(X, (2, length))
    if kind == "FLOAT":  # for which NaNs and numbers have no order
        x[0], x[1] = np.nan, np.nan_to_num(x[1])
    k = np.random.default_rng(0).integers(0, 1000, x.shape).astype(np.int32)
    check(program(body, shape=f"2x{length}"), ordered(lambda x, k: (np.isnan(x), *((0, k if tie == "TOTALORDER" else 0) if np.isnan(x) else (x, k))), x, k), x, k)


def test_ties_that_part_zeros():
    """-0 and 0 are apart in one comparison and alike in the other: no order of keys."""
    body = (
        compare("l", "LT", "a0", "b0", kind="TOTALORDER") + compare("e", "EQ", "a0", "b0", kind="FLOAT") + compare("n", "LT", "a1", "b1", "i32")
        + f"%c = stablehlo.and %e, %n : {B}\n %r = stablehlo.or %l, %c : {B}\n"
    )  # fmt: skip
    with pytest.raises(knapper.UserError, match="with a comparator that is not one of keys"):
        knapper.compile(program(body, shape="1x20000"), cache=False)


def test_complex_numbers():
    c = "complex<f32>"
    parts = "".join(
        f"%{name}{part} = stablehlo.{part} %{name} : (tensor<{c}>) -> tensor<f32>\n" for name in ("a0", "b0") for part in ("real", "imag")
    )
    body = (
        parts + compare("l", "LT", "a0real", "b0real") + compare("e", "EQ", "a0real", "b0real") + compare("n", "LT", "a0imag", "b0imag")
        + f"%c = stablehlo.and %e, %n : {B}\n %r = stablehlo.or %l, %c : {B}\n"
    )  # fmt: skip
    pairs = Z.view(np.float32).reshape(6, 2)
    output = np.asarray(knapper.compile(program(body, [c], "6", 0), cache=False)(pairs)[0])
    np.testing.assert_array_equal(output.reshape(-1).view(np.complex64), np.sort(Z))
