"""`module.explain(inputs=...)`: times, shares of the roofline, advice and two modules compared, as the command has them."""

from __future__ import annotations

import numpy as np
import pytest
from affine_models import affine_model

import knapper

X = np.ones((2, 4), np.float32)


@pytest.mark.parametrize("inputs", [[X], {"input.1": X}])
def test_times_of_measured_runs(affine, inputs, tmp_path):
    report = affine.explain(tmp_path / "r.html", inputs=inputs, runs=4)
    times = report.times
    assert times["runs"] == 4 and times["sizes"] == {"batch": 2}
    assert times["peak_gflops"] > 0 and times["total_us"] > 0
    launches = affine.describe()["launches"]
    assert [launch["index"] for launch in times["launches"]] == list(range(len(launches)))
    assert sum(kernel["share_percent"] for kernel in times["kernels"]) == pytest.approx(100)
    assert all(kernel["advice"][0]["text"] for kernel in times["kernels"])
    assert report.comparison is None
    assert 'id="times"' in report and "batch=2" in report
    assert (tmp_path / "r.html").read_text() == report


def test_without_inputs_nothing_runs(affine):
    report = affine.explain()
    assert report.times is None and report.comparison is None
    assert 'id="times"' not in report


def test_two_modules_are_compared(affine):
    fixed = knapper.compile(affine_model(), dim={"batch": 2})
    report = affine.explain(inputs=[X], runs=3, compare=fixed)
    comparison = report.comparison
    assert comparison["ratio"] == pytest.approx(comparison["total_us"][1] / comparison["total_us"][0])
    assert [row["origin"] for row in comparison["kernels"]]
    assert 'id="comparison"' in report
    assert affine(X)["y"].shape == (2, 4)


@pytest.mark.parametrize("arguments, kind, parts", [
    ({"runs": 5}, ValueError, ["runs is for measured runs", "explain(inputs=[...], runs=...)"]),
    ({"compare": None, "runs": -1, "inputs": [X]}, ValueError, ["runs is -1", "0 to 1000"]),
    ({"inputs": [X, X]}, ValueError, ["takes 1 input"]),
    ({"inputs": [X], "compare": "m.knap"}, TypeError, ["compare: str is no knapper.Module"]),
    ({"inputs": [np.ones((2, 5), np.float32)]}, ValueError, ["input.1", "5"]),
])  # fmt: skip
def test_refusals(affine, arguments, kind, parts):
    with pytest.raises(kind) as caught:
        affine.explain(**arguments)
    for part in parts:
        assert part in str(caught.value)


def test_a_module_to_compare_has_the_same_inputs(affine, subtract):
    with pytest.raises(knapper.UserError, match="other inputs: input.1 f32 of rank 2; and a f32"):
        affine.explain(inputs=[X], compare=subtract)
    with pytest.raises(ValueError, match="compare is for measured runs"):
        affine.explain(compare=subtract)
