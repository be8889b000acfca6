"""knapper.quantize: static int8 with calibration data, and weights alone."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from affine_models import build
from onnx import TensorProto, helper

import knapper

RANDOM = np.random.default_rng(11)
W = (RANDOM.standard_normal((96, 64)) / 10).astype(np.float32)
V = (RANDOM.standard_normal((96, 64)) / 10).astype(np.float32)
FLOAT = TensorProto.FLOAT


def two_inputs():
    return build(
        [
            helper.make_node("MatMul", ["a", "w"], ["p"], name="left"),
            helper.make_node("MatMul", ["b", "v"], ["q"], name="right"),
            helper.make_node("Add", ["p", "q"], ["y"], name="sum"),
        ],
        [("a", FLOAT, ("m", 96)), ("b", FLOAT, ("m", 96))],
        [("y", FLOAT, ("m", 64))],
        [onnx.numpy_helper.from_array(W, "w"), onnx.numpy_helper.from_array(V, "v")],
    )


def feed(rows=8):
    return {
        name: RANDOM.standard_normal((rows, 96)).astype(np.float32) for name in "ab"
    }


def error(module, inputs):
    wanted = inputs["a"].astype(float) @ W + inputs["b"].astype(float) @ V
    return np.linalg.norm(module(**inputs)["y"] - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize("kind", ["mappings", "sequences", "generator"])
def test_static(kind):
    feeds = [feed(4 + i) for i in range(3)]
    data = {
        "mappings": feeds,
        "sequences": [(f["a"], f["b"]) for f in feeds],
        "generator": (f for f in feeds),
    }[kind]
    seen = []
    made = knapper.quantize(
        two_inputs(),
        calibration=data,
        threads=2,
        progress=lambda *step: seen.append(step[0]),
    )
    assert 1e-4 < error(made.module, feeds[0]) < 0.02
    assert [layer["name"] for layer in made.report["layers"]] == ["left", "right"]
    (output,) = made.report["outputs"]
    assert output["name"] == "y" and 1e-4 < output["relative_rms"] < 0.02
    assert "calibrate" in seen


def test_files(tmp_path):
    feeds = [feed()]
    made = knapper.quantize(two_inputs(), tmp_path / "q.onnx", calibration=feeds)
    assert made.module is None
    compiled = knapper.compile(tmp_path / "q.onnx", threads=1, cache=False)
    made = knapper.quantize(two_inputs(), tmp_path / "q.knap", calibration=feeds)
    np.testing.assert_array_equal(
        made.module(**feeds[0])["y"], compiled(**feeds[0])["y"]
    )
    again = knapper.load(tmp_path / "q.knap")
    np.testing.assert_array_equal(made.module(**feeds[0])["y"], again(**feeds[0])["y"])


@pytest.mark.parametrize("kind, bound", [("int8", 0.01), ("int4", 0.2)])
def test_weights_only(kind, bound):
    feeds = [feed()]
    made = knapper.quantize(
        two_inputs(), weights_only=kind, group=32, calibration=feeds
    )
    assert 1e-4 < error(made.module, feeds[0]) < bound
    assert made.report["outputs"][0]["relative_rms"] < bound
    made = knapper.quantize(two_inputs(), weights_only=kind)
    assert made.report["outputs"] == []


def test_keep():
    made = knapper.quantize(two_inputs(), calibration=[feed()], keep=["left"])
    assert [layer["name"] for layer in made.report["layers"]] == ["right"]


BAD = {
    "none": ({}, ["calibration", "no calibration data"]),
    "empty": ({"calibration": []}, ["calibration", "no calibration data"]),
    "a mapping": ({"calibration": {"a": 1}}, ["calibration", "iterable"]),
    "missing input": ({"calibration": [{"a": feed()["a"]}]}, ["'b' is missing"]),
    "too few": ({"calibration": [(feed()["a"],)]}, ["takes 2 inputs"]),
    "wrong shape": (
        {"calibration": [feed(), {"a": W, "b": W}]},
        ["sample 1", "64"],
    ),
    "wrong dtype": (
        {"calibration": [{k: v.astype(int) for k, v in feed().items()}]},
        ["sample 0", "i64"],
    ),
    "NaN": (
        {"calibration": [{k: v * np.nan for k, v in feed().items()}]},
        ["sample 0", "NaN"],
    ),
    "range": ({"calibration": [feed()], "range": "some"}, ["option range", "minmax"]),
    "keep": ({"calibration": [feed()], "keep": ["x"]}, ["option keep", "'x'"]),
    "weights": ({"weights_only": "int2"}, ["weights-only", "int4"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data(case):
    arguments, parts = BAD[case]
    with pytest.raises(knapper.UserError) as raised:
        knapper.quantize(two_inputs(), **arguments)
    for part in parts:
        assert part in str(raised.value), str(raised.value)


def test_the_caller_s_exception():
    class Stop(Exception):
        pass

    class Feed(dict):
        def __getitem__(self, key):
            raise Stop

    with pytest.raises(Stop):
        knapper.quantize(two_inputs(), calibration=[Feed(a=1, b=2)])


@pytest.mark.parametrize("raised", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("phase", ["import", "calibrate", "compare"])
def test_progress_that_raises(phase, raised, tmp_path):
    seen = []

    def progress(name, done, total):
        seen.append(name)
        if name == phase:
            raise raised(name)

    with pytest.raises(raised, match=phase):
        knapper.quantize(two_inputs(), calibration=[feed()], progress=progress)
    assert seen[-1] == phase and seen.count(phase) == 1
    cancel = knapper.Cancellation()
    with pytest.raises(knapper.UserError, match="quantize: the quantisation was cancelled"):
        knapper.quantize(
            two_inputs(),
            calibration=[feed()],
            cancel=cancel,
            progress=lambda name, *_: cancel.cancel() if name == phase else None,
        )
    kept = knapper.Cancellation()
    made = knapper.quantize(two_inputs(), calibration=[feed()], cancel=kept)
    assert made.module is not None and not kept.cancelled
    with pytest.raises(knapper.UserError, match="was cancelled"):
        knapper.quantize(
            two_inputs(), tmp_path / "q.knap", weights_only="int8", cancel=cancel
        )
    assert not list(tmp_path.iterdir())


def test_data_that_raises_cancels_nothing_else():
    cancel = knapper.Cancellation()
    with pytest.raises(TypeError):
        knapper.quantize(two_inputs(), calibration=[feed(), 7], cancel=cancel)
    assert not cancel.cancelled
