"""Programs of JAX that nobody chose are the same on `knapper`, and what searches for others sees what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))

from random_programs import program_compare, program_data, program_draw, program_minimise  # noqa: E402
from random_programs.program_data import Input, Program  # noqa: E402

SEED = os.environ.get("KNAPPER_PROGRAM_SEED", "programs")
CASES = os.environ.get("KNAPPER_PROGRAM_CASES", "150")
SECONDS = os.environ.get("KNAPPER_PROGRAM_SECONDS", "90")
LEAST = 5  # of a machine with much else to do


def command(*options):
    environment = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    return subprocess.run([sys.executable, ROOT / "bench" / "jax_programs.py", *options], capture_output=True, text=True, check=False, env=environment)


def test_random_programs_are_what_jax_computes(tmp_path):
    """Of one seed: whether a difference is more than rounding is judged by bounds, which 1 of some 200 new programs has
    passed. `KNAPPER_PROGRAM_SEED` gives another, `KNAPPER_PROGRAM_CASES` and `_SECONDS` say how many."""
    rows = tmp_path / "rows.jsonl"
    done = command("--seed", SEED, "--cases", CASES, "--seconds", SECONDS, "--timeout", "400", "--resume", rows)
    ended = [json.loads(line) for line in rows.read_text().splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr
    same = sum(row["status"] == "same" for row in ended)
    assert same >= 0.95 * len(ended) and len(ended) >= min(int(CASES), LEAST), done.stdout


def made_of(*lines, results, dtype="float32", dims=(3, 5), **options) -> Program:
    inputs = {f"x{i}": Input(list(dims), dtype, seed=i) for i in range(2)}
    dtypes = {name: dtype for name in (*inputs, *(line.partition(" = ")[0] for line in lines))}
    return Program(inputs, list(lines), results, dtypes, **options)


def on_cpu(program: Program):
    return program_compare.leaves(program.build()(*program.arguments()))


def test_a_number_of_a_seed_is_always_the_same_program():
    for number in range(8):
        made, again = program_draw.program("fixed", number), program_draw.program("fixed", number)
        assert made == again and Program.of(json.loads(json.dumps(program_data.record(made)))) == made
        for a, b in zip(made.arguments(), again.arguments()):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("what", ["result", "gradient", "nan", "dtype", "shape"])
def test_what_is_wrong_is_seen(what):
    program = made_of("v0 = x0 * x1", "v1 = jnp.exp(v0)", results=["v1"], transform="grad")
    want, got = on_cpu(program), [leaf.copy() for leaf in on_cpu(program)]
    assert program_compare.wrong(program, got, want) == ""
    if what == "result":
        got[0][0, 0] *= 1.0001
    elif what == "gradient":
        got[2][1, 1] += 1e-4
    elif what == "nan":
        got[0][2, 2] = np.nan
    elif what == "dtype":
        got[0] = got[0].astype(np.float64)
    else:
        got[0] = got[0].reshape(5, 3)
    assert program_compare.wrong(program, got, want) != ""


def test_integers_are_exact():
    program = made_of("v0 = x0 * x1", results=["v0"], dtype="int32")
    want, got = on_cpu(program), [leaf.copy() for leaf in on_cpu(program)]
    assert program_compare.wrong(program, got, want) == ""
    got[0][0, 0] += 1
    assert program_compare.wrong(program, got, want) != ""


def test_rounding_explains_what_jumps_and_nothing_else():
    # Floors of what is nearly one; in 16 bits a sum that cancels, rounded or not.
    jumps = made_of("v0 = x0 * 0.1", "v1 = jnp.floor(v0 * 10 / x0)", results=["v1"])
    sums = made_of("v0 = x0 * x1", "v1 = jnp.sum(v0) - jnp.sum(x0 * x1)", results=["v1"], dtype="bfloat16")
    plain = made_of("v0 = x0 + x1", results=["v0"])
    for program, off, explained in ((jumps, 1.0, True), (sums, 0.01, True), (sums, 1.0, False), (plain, 1e-3, False)):
        want = on_cpu(program)
        got = [(leaf - np.asarray(off, leaf.dtype)).astype(leaf.dtype) for leaf in want]
        assert (program_compare.wrong(program, got, want) == "") == explained


def test_roundings_inside_of_a_line_are_seen():
    """The variance of numbers that are nearly the same cancels in 16 bits."""
    near = Input([1, 3], "float16", values="given", given=[-0.6083984375, -0.7001953125, -0.70458984375])
    program = Program({"x0": near}, ["v0 = jax.nn.standardize(x0, -1)"], ["v0"], {"x0": "float16", "v0": "float16"})
    want = on_cpu(program)
    for factor, explained in ((0.95, True), (100.0, False)):
        got = [(leaf * np.float16(factor)).astype(np.float16) for leaf in want]
        assert (program_compare.wrong(program, got, want) == "") == explained


def test_a_failing_program_becomes_small():
    program = made_of("v0 = x0 + x1", "v1 = jnp.exp(v0)", "v2 = v1.T", "v3 = lax.erf(v2)", "v4 = v3 * 2", results=["v1", "v4"], transform="vmap")
    small = program_minimise.minimise(program, lambda p: any("erf" in line for line in p.lines))
    assert len(small.lines) == 1 and "erf" in small.lines[0] and len(small.inputs) == 1 and small.transform == "none"
    small.build()(*small.arguments())


def test_a_process_that_dies_costs_one_program(tmp_path):
    dying = made_of("v0 = jax.pure_callback(lambda x: __import__('os').abort(), x0, x0)", results=["v0"])
    done = command("--program", json.dumps(program_data.record(dying)), "--log", tmp_path / "log")
    assert done.returncode == 1 and "crash" in done.stdout, done.stdout + done.stderr
