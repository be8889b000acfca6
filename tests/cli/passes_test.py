"""Passes of a phase by name: stopped at, printed after, left out, timed."""

from __future__ import annotations

import json

import onnx
import pytest

# A matmul, and a softmax that an exporter took apart.
MODEL = """
<ir_version: 10, opset_import: ["": 21]>
g (float[n, 8] x) => (float[n, 8] y) <int64[2] shape = {8, 8}, int64[1] last = {-1}> {
  w = ConstantOfShape <value = float[1] {0.5}> (shape)
  a = MatMul(x, w)
  m = ReduceMax <keepdims = 1> (a, last)
  d = Sub(a, m)
  e = Exp(d)
  s = ReduceSum <keepdims = 1> (e, last)
  y = Div(e, s)
}"""


@pytest.fixture
def model(tmp_path):
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    return "m.onnx"


def test_stop_after_a_pass(tool, model):
    before = tool("compile", model, "--stop-after=fold-simplified")
    after = tool("compile", model, "--stop-after=find-composites")
    assert "ts.exp" in before and "ts.softmax" not in before
    assert "ts.softmax" in after and "ts.exp" not in after
    assert "ts.kernel" not in tool("compile", model, "--stop-after=prepare-for-target")
    assert "ts.kernel" not in tool("compile", model, "--stop-after=cpu:split-reductions")
    formed = tool("compile", model, "--stop-after=form-kernels")
    assert "ts.kernel" in formed and "schedules =" not in formed


def test_a_pass_that_is_left_out_does_not_run(tool, model):
    kept = tool("compile", model, "--disable=find-composites", "--stop-after=simplify")
    assert "ts.exp" in kept and "ts.softmax" not in kept


def test_every_pass_that_runs_is_timed(tool, model):
    stats = json.loads(tool("compile", model, "-o", "m.knap", "--no-cache", "--json"))
    phases = {phase["name"]: phase for phase in stats["phases"]}
    names = [one["name"] for one in phases["simplify"]["passes"]]
    assert names[0] == "transforms" and names[-1] == "mark-index-limits"
    assert names.index("find-composites") < names.index("layout") < names.index("fold-constants-again")
    fused = [one["name"] for one in phases["fuse"]["passes"]]
    assert fused.index("cpu:decompose") < fused.index("cpu:split-reductions") < fused.index("form-kernels")
    assert not [name for name in fused if name.startswith("cuda:")]
    assert all(phase["passes"] for phase in phases.values())
    for phase in phases.values():
        assert sum(one["seconds"] for one in phase["passes"]) <= phase["seconds"]
    without = json.loads(tool("compile", model, "-o", "m.knap", "--no-cache", "--json", "--disable=layout,merge-dots"))
    left = [one["name"] for phase in without["phases"] for one in phase["passes"]]
    assert "layout" not in left and "merge-dots" not in left and "find-composites" in left


def test_help_lists_the_passes(tool):
    text = tool("compile", "--help")
    for name in ("form-kernels", "cuda:split-sorts", "choose-schedules", "find-composites", "plan-memory"):
        assert name in text
