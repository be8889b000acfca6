"""Cases that nobody chose are right (a sample, seeded by the commit), and the sweep sees what is wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))

from drawn import as_written, check, minimise, other_sizes, summary, sweep_case  # noqa: E402
from drawn.workers import Worker  # noqa: E402

CASES = os.environ.get("KNAPPER_SWEEP_CASES", "60")
SECONDS = os.environ.get("KNAPPER_SWEEP_SECONDS", "30")


def first_of(family: str) -> sweep_case.Case:
    return sweep_case.draw("fixed", 0, dataclasses.replace(sweep_case.CPU, blocks=0.0), family)


def test_drawn_cases_are_right(tmp_path):
    """Of the commit's seed. `KNAPPER_SWEEP_CASES` and `_SECONDS` say how many; a failing one is printed as a record."""
    rows = tmp_path / "rows.jsonl"
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "sweep.py", "--check", "--cases", CASES, "--seconds", SECONDS, "--resume", rows],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    ended = [json.loads(line) for line in rows.read_text().splitlines()]
    bad = [row for row in ended if row["status"] not in ("right", "not exported")]
    assert not bad, "\n".join(f"{row['status']}: {row.get('why')}\n  --case '{json.dumps(row['case'])}'" for row in bad)
    assert sum(row["status"] == "right" for row in ended) >= 3, done.stdout + done.stderr


def test_a_number_of_a_seed_is_always_the_same_case():
    for number in range(40):
        case = sweep_case.draw("fixed", number, sweep_case.CPU)
        again = sweep_case.draw("fixed", number, sweep_case.CPU)
        assert case == again
        assert sweep_case.Case(**json.loads(json.dumps(dataclasses.asdict(case)))) == case
        built = sweep_case.build(case)
        assert sweep_case.build(again).inputs == built.inputs


@pytest.mark.parametrize("family", list(sweep_case.FAMILIES))
def test_families_compute_what_their_inputs_allow(family):
    built = sweep_case.build(first_of(family))
    with torch.no_grad():
        built.module(*sweep_case.values(built, torch.float32, "cpu"))


def verdict(change) -> check.Verdict:
    built = sweep_case.build(dataclasses.replace(first_of("softmax"), around=[]))
    inputs = sweep_case.values(built, torch.float32, "cpu")
    with torch.no_grad():
        eager = built.module(*inputs)
    return check.judge(change(eager.clone()), eager, check.exact(built, inputs), built, inputs)


def test_what_a_file_says_itself_is_no_error(tmp_path):
    """log(1 - sigmoid(x)) of 64 is infinite in float32, as torch's older exporter writes it. Other infinities stay errors."""

    class Entropy(torch.nn.Module):
        def forward(self, x):
            return torch.log(1 - torch.sigmoid(x))

    path = tmp_path / "entropy.onnx"
    x = torch.tensor([1.0, 64.0, -3.0])
    torch.onnx.export(Entropy(), (x,), str(path), dynamo=False)
    infinite = torch.tensor([-1.3, float("-inf"), -0.05])
    assert as_written.is_not_finite(path, [x], infinite)
    assert not as_written.is_not_finite(path, [x], infinite.roll(1))
    assert not as_written.is_not_finite(path, [x[:1]], infinite[1:2])


def test_the_judge_sees_what_is_wrong():
    def one_element(y):
        y.view(-1)[y.numel() // 2] += 0.1 * y.abs().max()
        return y

    def not_a_number(y):
        y.view(-1)[-1] = float("nan")
        return y

    assert verdict(lambda y: y).right
    assert "error" in verdict(one_element).why
    assert "error" in verdict(lambda y: y * (1 + 1e-4)).why
    assert "not finite" in verdict(not_a_number).why
    assert "shape" in verdict(lambda y: y[None]).why


@pytest.mark.parametrize("around", [[], [["silu", "before"], ["mul_all", "after"]]])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_wrong_rows_of_nearest_resizing_are_seen_where_torch_takes_others_too(dtype, around):
    def rows(size: int, to: int) -> torch.Tensor:
        return torch.nn.functional.interpolate(torch.arange(float(size))[None, None], to, mode="nearest")[0, 0].long()

    pairs = ((size, to) for size in range(20, 200) for to in range(20, 2 * size))
    size, to = next((s, t) for s, t in pairs if not torch.equal(rows(s, t), torch.arange(t) * s // t))
    choices = {"channels": 2, "image": [size, 9], "mode": "nearest", "by size": True, "height": to, "width": 9}
    built = sweep_case.build(sweep_case.Case("resizing", dtype, "script", False, 1 << 18, around, choices))
    inputs = sweep_case.values(built, sweep_case.DTYPES[dtype], "cpu")
    with torch.no_grad():
        eager, wanted = built.module(*inputs), check.exact(built, inputs)
    got = wanted.to(eager.dtype)
    assert check.judge(got, eager, wanted, built, inputs).right
    assert not check.judge(eager, eager, wanted, built, inputs).right
    got[:, :, to // 2] = got[:, :, to // 2 + 2]
    assert not check.judge(got, eager, wanted, built, inputs).right


def test_errors_of_chance_are_drawn_again_and_others_count():
    right, chance, wrong = check.Verdict(True), check.Verdict(False, doubtful=True), check.Verdict(False)
    assert check.decide(chance, lambda n: right).right
    assert not check.decide(chance, lambda n: chance).right
    assert not check.decide(wrong, lambda n: right).right
    assert not check.decide(chance, lambda n: wrong if n == 4 else right).right


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_errors_of_few_elements_are_judged_over_draws(dtype):
    """A sum that cancels in the first draw; ours is off by as much as torch's on average, or always by sixty times as much."""
    noise = 3 * torch.finfo(dtype).eps

    def verdict(number: int, factor: float, offset: float) -> check.Verdict:
        def again(n: int) -> check.Verdict:
            generator = torch.Generator().manual_seed(100 * number + n)
            wanted, ours, theirs = torch.randn(3, 1, generator=generator, dtype=torch.float64)
            wanted = wanted if n else 1e-3 * wanted
            eager = (wanted + noise * theirs).to(dtype)
            return check.judge(wanted + factor * noise * ours + offset, eager, wanted, built, [])

        return check.decide(again(0), again)

    built = sweep_case.Built(torch.nn.Identity(), [], None)
    assert all(verdict(number, 1, 0).right for number in range(300))
    assert not any(verdict(number, 0, 60 * noise).right for number in range(50))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("first, wrong", [(0.02, 0.0), (1.0, 1.1)], ids=["flushed to 0", "one draw"])
def test_one_wrong_draw_of_few_elements_is_seen(dtype, first, wrong):
    """Among 19 right ones of about 1, rounded as torch's."""
    built = sweep_case.Built(torch.nn.Identity(), [], None)

    def again(n: int, changed: bool = True) -> check.Verdict:
        wanted = 0.5 + torch.rand(1, generator=torch.Generator().manual_seed(n), dtype=torch.float64) if n else torch.tensor([first], dtype=torch.float64)
        got = torch.tensor([wrong], dtype=dtype) if changed and not n else wanted.to(dtype)
        return check.judge(got, wanted.to(dtype), wanted, built, [])

    assert not check.decide(again(0), again).right
    # All right, judged as if the first were doubtful.
    assert check.decide(dataclasses.replace(again(0, False), right=False, doubtful=True), again).right


def test_modules_with_named_sizes_are_judged_at_others(tmp_path):
    pytest.importorskip("onnxruntime")
    limits = dataclasses.replace(sweep_case.CPU, blocks=1.0, dynamo=0.0, dtypes=("f32",), elements=1 << 14)
    drawn = (sweep_case.draw("fixed", number, limits) for number in range(100))
    case = next(c for c in drawn if c.symbolic and not c.choices["image"] and c.choices["depth"] == 2)
    built = sweep_case.build(case)
    sweep_case.export(case, built, tmp_path / "m.onnx")
    changed = other_sizes.other(case, built)
    assert changed.inputs[0].shape[0] == built.inputs[0].shape[0] + 1
    assert other_sizes.other(dataclasses.replace(case, symbolic=False), built) is None

    class Module:
        """What a compiled module looks like, made of PyTorch's."""

        def __init__(self, factor):
            self.factor = factor

        def __call__(self, *inputs):
            self.y = built.module(*inputs) * self.factor
            return self

        def tensor(self, index):
            return self.y

    with torch.no_grad():
        assert other_sizes.judged(case, built, tmp_path / "m.onnx", Module(1), built.module) is None
        verdict = other_sizes.judged(case, built, tmp_path / "m.onnx", Module(1.5), built.module)
    assert not verdict.right and verdict.why.startswith("at ")


def test_a_child_that_dies_costs_one_case(tmp_path):
    worker = Worker("cpu")
    try:
        assert worker.ask({"case": {"family": "no such family"}}, 120)["status"] == "internal"
        worker.process.kill()
        assert worker.ask({}, 120)["status"] in ("crash", "internal")
        assert worker.ask({"case": {}}, 120)["status"] == "internal"
    finally:
        worker.end()


def test_the_minimiser_keeps_what_fails():
    case = sweep_case.draw("fixed", 1, dataclasses.replace(sweep_case.CPU, blocks=0.0), "reduction")
    case = dataclasses.replace(case, choices=case.choices | {"shape": [5, 96, 33], "axes": [1]})
    small = minimise.minimise(case, lambda c: c.choices["shape"][1] >= 7)
    assert small.choices["shape"] == [1, 7, 1]
    assert not small.around and small.dtype == "f32"


def test_quantiles_and_the_bars_of_ratios():
    rows = [{"status": "right", "family": "f", "ratio": r / 100} for r in range(1, 101)]
    assert summary.quantile(summary.ratios(rows), 0.05) == pytest.approx(0.06)
    assert "median 0.51" in summary.text([r | {"number": 0, "name": "n", "knapper_ms": 1.0} for r in rows])
