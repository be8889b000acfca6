"""Kernels of the user's in PTX, run on an NVIDIA GPU: taken, measured by `tune`, checked by `--verify`."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

TENSOR = helper.make_tensor_value_info
ONE = np.linspace(1, 2, 24, dtype=np.float32)
# y = x + one + MARK, a CTA of 64 threads a row.
CODE = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry plus(.param .u64 one, .param .u64 x, .param .u64 y, .param .u64 rows, .param .u64 status, .param .u64 grid)
{
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .b64 %d<8>;
  .reg .f32 %f<3>;
  mov.u32 %r0, %tid.x;
  setp.ge.u32 %p, %r0, 24;
  @%p bra END;
  mov.u32 %r1, %ctaid.x;
  mad.lo.u32 %r2, %r1, 24, %r0;
  mul.wide.u32 %d0, %r0, 4;
  mul.wide.u32 %d1, %r2, 4;
  ld.param.u64 %d2, [one];
  ld.param.u64 %d3, [x];
  ld.param.u64 %d4, [y];
  add.u64 %d5, %d2, %d0;
  add.u64 %d6, %d3, %d1;
  add.u64 %d7, %d4, %d1;
  ld.global.f32 %f0, [%d5];
  ld.global.f32 %f1, [%d6];
  add.f32 %f2, %f0, %f1;
  add.f32 %f2, %f2, MARK;
  st.global.f32 [%d7], %f2;
END:
  ret;
}
"""


@pytest.fixture
def on_gpu(tool):
    if not any(device["device"] == "cuda" for device in json.loads(tool("devices", "--json"))):
        pytest.skip("no NVIDIA GPU is here")


@pytest.fixture
def model(on_gpu, tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"])], "g",
        [TENSOR("x", TensorProto.FLOAT, ["rows", 24])], [TENSOR("y", TensorProto.FLOAT, ["rows", 24])],
        [numpy_helper.from_array(ONE, "one")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((700, 24)).astype(np.float32))
    return "m.onnx"


@pytest.fixture
def offer(tool, model, tmp_path):
    """Writes plus.ptx, which adds `mark` too, and kernels.json, which offers it."""
    tool("compile", model, "-o", "plain.knap", "--target", "cuda")
    (kernel,) = json.loads(tool("explain", "plain.knap", "--json"))["report"]["unique_kernels"]

    def written(mark, **more):
        (tmp_path / "plus.ptx").write_text(CODE.replace("MARK", f"0f{np.float32(mark).view(np.uint32):08X}"))
        entry = {"name": "plus_one", "signature": kernel["signature"], "target": "cuda", "isa": "sm_80", "code": "plus.ptx", "entry": "plus", "grid": "k0", "threads": 64}
        (tmp_path / "kernels.json").write_text(json.dumps({"knapper_kernels": 1, "kernels": [entry | more]}))

    return written


def added(tool, tmp_path, *words):
    """What the result has more than x + one."""
    tool("run", *words, "-i", "x.npy", "-o", "y.npy")
    return np.load(tmp_path / "y.npy") - np.load(tmp_path / "x.npy") - ONE


def test_always_replaces_ours(tool, model, offer, tmp_path):
    offer(2, always=True)
    tool("compile", model, "-o", "m.knap", "--target", "cuda", "--kernels", "kernels.json")
    (tmp_path / "plus.ptx").unlink()  # the file holds the code
    np.testing.assert_allclose(added(tool, tmp_path, "m.knap"), 2, rtol=1e-5)
    np.testing.assert_allclose(added(tool, tmp_path, "plain.knap"), 0, atol=1e-5)


def test_tune_measures_it(tool, model, offer, tmp_path):
    offer(0)
    tool("tune", model, "--target", "cuda", "--kernels", "kernels.json", "--budget", "10s", "--dim", "rows=4096", "-o", "t.knap")
    (kernel,) = json.loads(tool("explain", "t.knap", "--json"))["report"]["unique_kernels"]
    (knob,) = [knob for knob in kernel["knobs"] if knob["alone"]]
    assert knob["name"] == "user:plus_one" and kernel["user_kernels"][0]["taken"] == knob["value"] <= kernel["recorded"]
    np.testing.assert_allclose(added(tool, tmp_path, "t.knap"), 0, atol=1e-5)


def test_verify_charges_it(tool, model, offer):
    offer(0, always=True)
    words = ("run", model, "--target", "cuda", "--kernels", "kernels.json", "--verify", "-i", "x.npy")
    assert "verified: 1 kernels" in tool(*words)
    offer(2, always=True)
    assert "mend the user kernel 'plus_one'" in tool(*words, code=1, output="diverges")
