"""A sample of the corpus in each form: nothing wrong, nothing that dies."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parent / "corpus_run.py"


@pytest.mark.parametrize("form, offset", [("bytecode", 83), ("pretty", 89), ("generic", 97)])
def test_a_sample(form, offset):
    run = subprocess.run(
        [sys.executable, str(RUN), "--form", form, "--every", str(offset)], capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-2000:]
    right, total = (int(re.search(pattern, run.stdout).group(1)) for pattern in (r"(\d+) right", r"of (\d+)\n"))
    # The rest is refused: docs/stablehlo-support.md says which.
    assert right > 0.95 * total, run.stdout


@pytest.mark.parametrize("match", ["9 rows at an iota of i64", "f32 zeros"])
def test_all_scatters_that(match):
    run = subprocess.run([sys.executable, str(RUN), "--match", match], capture_output=True, text=True, timeout=600, check=False)
    right, total = re.search(r"(\d+) right of (\d+)\n", run.stdout).groups()
    assert run.returncode == 0 and right == total, run.stdout[-3000:] + run.stderr[-2000:]


def test_it_finds_what_is_wrong():
    sys.path.insert(0, str(RUN.parent))
    import dataclasses

    import corpus_run
    from corpus.collect import everything

    program = next(p for p in everything() if p.name == "sine f32 many")
    assert corpus_run.outcome(program, "bytecode")[0] == "right"
    other = dataclasses.replace(program, text=program.text.replace("sine", "cosine"), expected=(program.arguments[0],))
    assert corpus_run.outcome(other, "bytecode")[0] == "wrong"
