"""The op cases: the reference against NumPy, compiled code against the reference."""

import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import cases
import check_numpy
import ptx
import pytest
import support

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KNAPPER_BUILD", Path(__file__).parents[2] / "build" / "dev"))


@pytest.fixture(scope="session")
def case_list(tmp_path_factory):
    path = tmp_path_factory.mktemp("ops") / "cases.json"
    cases.write(path)
    return path


def run(case_list, *arguments):
    runner = BUILD / "tests" / "ops" / "op_cases"
    if not runner.exists():
        pytest.skip(f"{runner} is not built")
    return subprocess.run([runner, case_list, *map(str, arguments)], capture_output=True, text=True)


def supported(isa):
    """Whether this machine runs the instruction set."""
    flags = Path("/proc/cpuinfo").read_text()
    return {
        "x86-64-v3": "avx2",
        "x86-64-v4": "avx512vl",
        "x86-64-v4-vnni": "avx512_vnni",
        "x86-64-v4-bf16": "avx512_bf16",
        "x86-64-v4-amx": "amx_bf16",
    }[isa] in flags


WHOLE = bool(os.environ.get("KNAPPER_WHOLE"))


def commit() -> str:
    """What samples are drawn by, so that no case is tuned to."""
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout


ISAS = ["x86-64-v4", "x86-64-v3"]
QUICK = bool(os.environ.get("KNAPPER_QUICK"))  # tests/run.py --quick: one part
PARTS = 40 if QUICK else 4
SAMPLE = [random.Random(commit()).randrange(PARTS)] if QUICK else range(PARTS)
GPU = "sm_90a"


def has_gpu() -> bool:
    tool = BUILD / "bin" / "knapper"
    if not tool.exists():
        return False
    devices = subprocess.run([tool, "devices", "--json"], capture_output=True, text=True).stdout
    return any(device["device"] == "cuda" for device in json.loads(devices))


OTHERS = 16  # the most that a kernel has
not_quick = pytest.mark.skipif(QUICK, reason="KNAPPER_QUICK=1 compiles as the model chooses, and no more")


@pytest.fixture(scope="module")
def part_of_cases(case_list, tmp_path_factory):
    """`part_of_cases(i)`: where the ith part was written, and how the run ended. One process evaluates the reference
    once and compares with it all that its cases are compiled as."""
    made = {}
    isas = ",".join(isa for isa in ISAS if supported(isa))

    def get(part):
        if part not in made:
            folder = tmp_path_factory.mktemp("part")
            arguments = ["--part", part, "--parts", PARTS, "--results", folder / "results.json"]
            arguments += ["--isa", isas] if isas else []
            arguments += [] if QUICK else ["--dump", folder, *(["--others", OTHERS] if isas else [])]
            made[part] = folder, run(case_list, *arguments)
        return made[part]

    return get


def check_outcomes(of, part_of_cases, part) -> dict[str, str]:
    """Outcomes of the part's rows of which `of` is true, by name; none has failed."""
    folder, done = part_of_cases(part)
    results = folder / "results.json"
    assert results.exists(), f"op_cases ended with {done.returncode}: {done.stderr[-6000:]}"
    every = json.loads(results.read_text())
    # A case that cannot be read, or whose reference fails, has no row of an instruction set.
    broken = {row["name"]: row["outcome"] for row in every if row["isa"] == "" and row["outcome"] != "passed"}
    assert not broken, f"{broken}\n{done.stderr[-6000:]}"
    rows = {row["name"]: row["outcome"] for row in every if of(row)}
    wrong = {name: what for name, what in rows.items() if what not in ("passed", "no other choice")}
    assert rows and not wrong, f"{wrong}\n{done.stderr[-6000:]}"
    # What belongs to no case, such as an op without one, fails every test.
    assert done.returncode == 0 or "failed: " in results.read_text() or "unsupported: " in results.read_text(), done.stderr
    return rows


def test_a_damaged_case_fails_whoever_asks(case_list, tmp_path):
    """The rows of an instruction set say nothing of a case that has none."""
    isa = next(isa for isa in ISAS if supported(isa))
    good = json.loads(case_list.read_text())[0]
    wrong = good | {"name": "neg of a wrong case", "mlir": good["mlir"].replace("ts.neg", "ts.no_such_op")}
    for listed, fails in (([good], False), ([good, wrong], True)):
        (tmp_path / "list.json").write_text(json.dumps(listed))
        done = run(tmp_path / "list.json", "--results", tmp_path / "results.json", "--isa", isa)
        done.returncode = 0  # what it says of ops without a case is another failure
        try:
            check_outcomes(lambda row: row["isa"] == isa, lambda part: (tmp_path, done), 0)
        except AssertionError as error:
            assert fails and "neg of a wrong case" in str(error), error
        else:
            assert not fails, done.stderr


@pytest.fixture(scope="session")
def outcomes():
    """Of each case, by instruction set and part."""
    return {isa: {} for isa in ISAS}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("part", SAMPLE)
def test_compiled_equals_reference(part_of_cases, outcomes, isa, part):
    """None is refused: a new gap of the support page is a failure here."""
    if not supported(isa):
        pytest.skip(f"this machine has no {isa}")
    outcomes[isa][part] = check_outcomes(lambda row: row["isa"] == isa and "other" not in row, part_of_cases, part)


@not_quick
def test_reference_equals_numpy(part_of_cases, capsys):
    for part in range(PARTS):
        check_outcomes(lambda row: row["isa"] == "", part_of_cases, part)
        folder, _ = part_of_cases(part)
        status = check_numpy.main(folder)
        assert status == 0, capsys.readouterr().out
        for file in [*folder.glob("*.in"), *folder.glob("*.out")]:
            file.unlink()


@not_quick
@pytest.mark.parametrize("number", range(OTHERS))
def test_other_choices_of_schedules_equal_reference(part_of_cases, number):
    """What tuning may choose is as right as what the model chooses: another part of the cases each."""
    isa = next(isa for isa in ISAS if supported(isa))
    rows = check_outcomes(lambda row: row["isa"] == isa and row.get("other") == number, part_of_cases, number % PARTS)
    if number < 2:  # later choices are those of few schedules
        assert "passed" in rows.values(), rows


def test_no_case_is_no_success(case_list):
    done = run(case_list, "--filter", "no such case")
    assert done.returncode == 2
    assert "no case is meant by these options" in done.stderr


def test_a_refused_case_is_a_failure(case_list):
    done = run(case_list, "--isa", "x86-64-v9", "--filter", "neg long")
    assert done.returncode == 1
    assert "refused: unknown instruction set 'x86-64-v9'" in done.stderr


BYTES, PAIRS = "i8,ui8", "bf16"  # whose matmuls these levels have instructions for


@pytest.mark.parametrize(
    "isa, types, cases",
    [("x86-64-v4-vnni", BYTES, name) for name in ("dot", "conv bytes")]
    + [("x86-64-v4-bf16", PAIRS, name) for name in ("dot", "conv ", "attention")],
)
def test_matmuls_in_groups(case_list, isa, types, cases):
    """What these levels add to x86-64-v4; all else is compiled as there (TargetDesc::extends)."""
    if not supported(isa):
        pytest.skip(f"this machine has no {isa}")
    done = run(case_list, "--isa", isa, "--filter", cases, "--type", types)
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.mark.parametrize("cases", ["dot", "conv ", "attention"])
def test_matmuls_in_tile_registers(case_list, cases):
    """By the processor, or its tile instructions in software (targets/cpu/testing)."""
    isa = "x86-64-v4-amx"
    if not supported("x86-64-v4-bf16"):
        pytest.skip(f"this machine runs no code around tiles: no {isa} and no x86-64-v4-bf16")
    done = run(case_list, "--isa", isa, "--filter", cases, "--type", f"{BYTES},{PAIRS}", "--emulate-tiles")
    assert done.returncode == 0, done.stderr[-6000:]


# bf16x3 is for results that may be off by 1e-5, which the cases do not allow.
@pytest.mark.parametrize("other", [None, 6])
def test_matmuls_of_float32_in_parts(case_list, monkeypatch, other):
    """No less exact than those of float32: as the model chooses, and where it would not."""
    isa = "x86-64-v4-amx"
    if not supported("x86-64-v4-bf16"):
        pytest.skip(f"this machine runs no code around tiles: no {isa} and no x86-64-v4-bf16")
    monkeypatch.setenv("KNAPPER_FLOAT32_MATMUL", "bf16x6")
    number = [] if other is None else ["--other", other]
    done = run(case_list, "--isa", isa, "--filter", "dot", "--type", "f32", "--emulate-tiles", *number)
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.fixture(scope="session")
def for_a_gpu(case_list, tmp_path_factory):
    """The cases compiled for a GPU, which need not be there, and what became of each."""
    folder = tmp_path_factory.mktemp("gpu")
    results = folder / "results.json"
    done = run(case_list, "--isa", GPU, "--write", folder, "--results", results)
    assert done.returncode == 0, done.stderr[-6000:]
    return folder, support.outcomes(results)


def test_gpu_kernels_assemble(for_a_gpu):
    """A quarter of them, another one with every commit; all with `tests/run.py --slow`."""
    if not shutil.which("ptxas"):
        pytest.skip("the assembler of CUDA is not installed")
    assert ptx.check(for_a_gpu[0], GPU, 1 if WHOLE else 0.25, commit()) == []


BEFORE_HOPPER = ["sm_80", "sm_86", "sm_89"]


@pytest.mark.parametrize("isa", BEFORE_HOPPER)
def test_matmuls_for_gpus_before_hopper_assemble(case_list, tmp_path, isa):
    """One of them a commit."""
    if not shutil.which("ptxas"):
        pytest.skip("the assembler of CUDA is not installed")
    if not WHOLE and isa != random.Random(commit()).choice(BEFORE_HOPPER):
        pytest.skip("another commit's turn: KNAPPER_WHOLE=1 takes all")
    done = run(case_list, "--isa", isa, "--filter", "dot", "--write", tmp_path)
    assert done.returncode == 0, done.stderr[-6000:]
    assert any(b"mma.sync" in file.read_bytes() for file in tmp_path.glob("*bf16.knap"))
    assert ptx.check(tmp_path, isa) == []


def test_compiled_for_a_gpu_equals_reference(case_list):
    if not has_gpu():
        pytest.skip("this machine has no NVIDIA GPU")
    done = run(case_list, "--isa", GPU)
    assert done.returncode == 0, done.stderr[-6000:]


def test_operators_of_the_support_page_are_current():
    """What they refuse, too: read from the front end's messages."""
    import onnx

    page = (ROOT / "docs" / "support.md").read_text()
    if f"onnx {onnx.__version__} " not in page:
        pytest.skip("the page was made with another onnx")
    assert page == support.with_operators(page), "write it again: tests/ops/support.py --operators docs/support.md"
    assert "| com.microsoft.MatMulNBits | g_idx" in page


def test_support_page_is_current(case_list, outcomes, for_a_gpu):
    if any(len(parts) < PARTS for parts in outcomes.values()):
        pytest.skip("not every part ran on every instruction set")
    page = (ROOT / "docs" / "support.md").read_text()
    results = {isa: {n: o for p in parts.values() for n, o in p.items()} for isa, parts in outcomes.items()}
    results[GPU] = for_a_gpu[1]
    import onnx

    if f"onnx {onnx.__version__} " not in page:
        pytest.skip("the page was made with another onnx")
    assert page == support.render(json.loads(case_list.read_text()), results), (
        "write it again: tests/ops/support.py"
    )
