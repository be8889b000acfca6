"""Functions that nobody chose do what eager does (a fixed sample), and the fuzzer sees what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))

from random_functions import function_check, function_compare, function_draw, function_minimise, functions  # noqa: E402
from random_functions.functions import Function, Input  # noqa: E402

CASES = os.environ.get("KNAPPER_FUNCTION_CASES", "300")
SECONDS = os.environ.get("KNAPPER_FUNCTION_SECONDS", "90")
LEAST = 5  # of a machine with much else to do


def test_random_functions_do_what_eager_does(tmp_path):
    """Of a fixed seed: what searches is bench/torch_functions.py, by the commit's. `KNAPPER_FUNCTION_CASES` and
    `_SECONDS` say how many."""
    rows = tmp_path / "rows.jsonl"
    ended: list[dict] = []
    for _ in range(10):  # a machine with much else to do goes on where it was
        done = subprocess.run(
            [sys.executable, ROOT / "bench" / "torch_functions.py", "--seed", "cc", "--first", "700",
             "--cases", CASES, "--seconds", SECONDS, "--timeout", "400", "--resume", rows],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        ended = [json.loads(line) for line in rows.read_text().splitlines()]
        if done.returncode or len(ended) >= min(int(CASES), LEAST):
            break
    assert done.returncode == 0, done.stdout + done.stderr
    same = sum(row["status"] == "same" for row in ended)
    assert same >= 0.8 * len(ended) and len(ended) >= min(int(CASES), LEAST), done.stdout


def test_a_number_of_a_seed_is_always_the_same_function():
    for number in range(12):
        made, again = function_draw.function("fixed", number), function_draw.function("fixed", number)
        assert made == again
        assert Function.of(json.loads(json.dumps(functions.record(made)))) == made
        for a, b in zip(made.arguments(0), again.arguments(0)):
            assert torch.equal(a.nan_to_num(), b.nan_to_num()) and a.stride() == b.stride()


def made_of(*lines: str, results: list[str], dtype: str = "float32", **options) -> Function:
    inputs = {"x0": Input([3, "n"], dtype), "x1": Input([3, "n"], dtype, seed=1)}
    return Function(inputs, list(lines), results, [{"n": 4}], **options)


def test_noise_explains_rounding_and_nothing_else():
    rounded = made_of("v0 = x0 * 0.1", "v1 = torch.floor(v0 * 10 / x0)", results=["v1"])  # floor of what is nearly 1
    plain = made_of("v0 = x0 + x1", results=["v0"])
    for function, off, explained in ((rounded, 1.0, True), (plain, 1e-3, False)):
        want = function_compare.call(function.build(), function, 0)
        got = function_compare.call(function.build(), function, 0)
        got.results[0] = got.results[0] - off
        assert function_compare.differences(got, want)
        assert (function_compare.explained(function, 0, got, want) == "") == explained


def test_what_is_nearer_to_float64_than_eager_is_explained():
    """A remainder jumps: eager's sum is rounded to bfloat16 first, and lands elsewhere."""
    function = Function(
        {"x0": Input([33, 8], "bfloat16"), "x1": Input([8], "bfloat16", values="positive", seed=3)},
        ["v0 = torch.remainder(x0.sum(0) * 50, x1)"], ["v0"], [{}],
    )  # fmt: skip
    want, got = (function_compare.call(function.build(), function, 0) for _ in range(2))
    wide = function.in_float64()
    exact = function_compare.call(wide.build(), wide, 0)
    assert exact.results[0].dtype == torch.float64 and torch.equal(exact.inputs[0], want.inputs[0].double())
    got.results[0] = exact.results[0].to(torch.bfloat16)
    assert function_compare.differences(got, want) and function_compare.as_exact(function, 0, got, want)
    got.results[0][0] += 5
    assert not function_compare.as_exact(function, 0, got, want)
    # Within eager's largest error, at an element where eager's is small.
    theirs = (want.results[0].double() - exact.results[0]).abs()
    at = int((theirs - 0.017).abs().argmin())
    assert theirs[at] < 0.05 and theirs.max() > 0.7
    got.results[0] = exact.results[0].to(torch.bfloat16)
    got.results[0][at] += 0.7
    assert not function_compare.as_exact(function, 0, got, want)


@pytest.mark.parametrize("lines", [["v0 = x0 * 30000 * 4"], ["v0 = x0 * 30000 * 4", "v1 = v0 - v0"]])
def test_nothing_finite_is_as_exact_as_infinity_or_nan(lines):
    result = f"v{len(lines) - 1}"
    function = Function({"x0": Input([64], "float16", "dense", "normal", 3)}, lines, [result], [{}])
    want, got = (function_compare.call(function.build(), function, 0) for _ in range(2))
    assert not want.results[0].isfinite().all()
    got.results[0] = torch.zeros_like(got.results[0])
    assert not function_compare.as_exact(function, 0, got, want)
    assert function_compare.explained(function, 0, got, want) != ""


@pytest.mark.parametrize("narrow", ["x0.half()", "x0.bfloat16()", "x0.to(torch.half)", "x0.to(torch.float)", "x0.to(torch.bfloat16)"])
def test_no_conversion_stays_narrow_in_float64(narrow):
    function = Function({"x0": Input([8], "float64")}, [f"v0 = {narrow} * 1"], ["v0"], [{}])
    wide = function.in_float64()
    assert function_compare.call(wide.build(), wide, 0).results[0].dtype == torch.float64


@pytest.mark.parametrize(("seed", "number"), [("1795797", 651), ("4ec0aec3", 2382)])
def test_a_sum_that_no_reader_sees_rounded_is_as_exact(seed, number):
    answer = function_check.check(function_draw.function(seed, number))
    assert answer["status"] == "same", answer


def test_what_two_of_torchs_kernels_make_is_explained_and_no_third_thing():
    odd = Input([1, 1, 8, 4], "float32", values="given", given=[1.0] * 28 + [float("nan")] + [0.5] * 3)
    function = Function({"x0": odd}, ["v0 = F.scaled_dot_product_attention(x0, x0, x0)"], ["v0"], [{}])
    want = function_compare.call(function.build(), function, 0)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        other = function_compare.call(function.build(), function, 0)
    assert function_compare.differences(other, want) and function_compare.explained(function, 0, other, want) == ""
    odd = Input([70, 2], "float32", values="given", given=[float("inf")] * 140)
    gelu = Function({"x0": odd}, ["v0 = F.gelu(x0)"], ["v0"], [{}])
    want, other = (function_compare.call(gelu.build(), gelu, 0) for _ in range(2))
    if want.results[0].isnan().any():  # where torch's two kernels differ
        other.results[0] = torch.full((70, 2), float("inf"))
        assert function_compare.differences(other, want) and function_compare.explained(gelu, 0, other, want) == ""
    finite = Function({"x0": Input([1, 1, 8, 4], "float32")}, function.lines, ["v0"], [{}])
    want, off = (function_compare.call(finite.build(), finite, 0) for _ in range(2))
    off.results[0][0, 0, 0, 0] = float("nan")
    assert function_compare.explained(finite, 0, off, want) != ""


@pytest.mark.parametrize("what", ["result", "input", "gradient", "dtype", "alias"])
def test_what_is_wrong_is_seen(what):
    function = made_of("v0 = x0 * x1", "v1 = v0.exp()", results=["v1"], grad=True)
    want, got = (function_compare.call(function.build(), function, 0) for _ in range(2))
    assert function_compare.differences(got, want) == ""
    if what == "result":
        got.results[0][0, 0] += 1
    elif what == "input":
        got.inputs[1][0, 0] += 1
    elif what == "gradient":
        got.gradients[0] = None
    elif what == "dtype":
        got.results[0] = got.results[0].double()
    else:
        got.aliases.append((0, 0))
    assert function_compare.differences(got, want) != ""


def test_conversions_that_no_integer_holds_are_undefined():
    function = made_of("v0 = (x0 / 0).to(torch.int32)", results=["v0"])
    want = function_compare.call(function.build(), function, 0)
    assert function_compare.explained(function, 0, want, want) == "undefined"


def test_a_failing_function_becomes_small():
    function = made_of(
        "v0 = x0 + x1", "v1 = v0.exp()", "v2 = v1.t()", "v3 = torch.erf(v2)", "v4 = v3 * 2",
        results=["v1", "v4"], dynamic=True, inference=True,
    )  # fmt: skip
    small = function_minimise.minimise(function, lambda f: any("erf" in line for line in f.lines))
    assert len(small.lines) == 1 and "erf" in small.lines[0] and len(small.inputs) == 1 and small.dynamic is False
    small.build()(*small.arguments(0))


def test_a_function_without_a_row_is_missing():
    answer = function_check.check(made_of("v0 = torch.linalg.ldl_factor_ex(x0 @ x1.t())[0]", results=["v0"]))
    assert answer["status"] == "missing" and "ldl_factor_ex" in answer["why"]


def test_the_first_of_equal_elements_is_as_good_as_torchs_choice():
    """Function 929 of seed 1795782099; which of equal elements `topk` takes is seen in gradients."""
    answer = function_check.check(function_draw.function("1795782099", 929))
    assert answer["status"] == "same", answer
