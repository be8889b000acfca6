"""NonMaxSuppression with sizes and thresholds of the inputs."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import check, model, node
from onnx import TensorProto, numpy_helper

INT64 = TensorProto.INT64
RNG = np.random.default_rng(0)


def suppression(centred, inputs=("boxes", "scores", "most", "iou", "score")):
    kinds = {
        "boxes": ["b", "n", 4], "scores": ["b", "c", "n"], "most": (INT64, [1]),
        "iou": [1], "score": [1],
    }  # fmt: skip
    return model(
        [node("NonMaxSuppression", list(inputs), ["y"], center_point_box=centred)],
        {name: kinds[name] for name in inputs if name}, [("y", INT64)],
    )  # fmt: skip


def feed(b, c, n, most, iou, score, centred):
    first, size = RNG.uniform(0, 10, (b, n, 2)), RNG.uniform(0.5, 5, (b, n, 2))
    second = size if centred else first + size * RNG.choice([-1, 1], (b, n, 2))
    return {
        "boxes": np.concatenate([first, second], 2).astype(np.float32),
        # Equal scores too: the first box wins.
        "scores": (RNG.integers(0, 20, (b, c, n)) / 20).astype(np.float32),
        "most": np.array([most]),
        "iou": np.array([iou], np.float32),
        "score": np.array([score], np.float32),
    }


@pytest.mark.parametrize("centred", [0, 1])
def test_non_max_suppression(centred):
    sizes = [(1, 1, 6, 3, 0.5, 0), (2, 3, 40, 5, 0.3, 0.4), (1, 2, 300, 300, 0.1, 0.1),
             (2, 1, 9, 0, 0.5, 0), (1, 1, 5, 5, 0.5, 2)]  # fmt: skip
    check(suppression(centred), [feed(*s, centred) for s in sizes])


def test_without_a_score_threshold():
    made = suppression(0, ("boxes", "scores", "most", "iou"))
    feeds = [feed(*s, 0, 0) for s in ((1, 2, 7, 4, 0.2), (2, 2, 30, 30, 0.6))]
    for one in feeds:
        del one["score"]
    check(made, feeds)


def test_constant_limits():
    made = suppression(0)
    fixed = feed(1, 80, 500, 10, 0.45, 0.9, 0)
    for name in ("most", "iou", "score"):
        made.graph.initializer.append(
            numpy_helper.from_array(fixed.pop(name), name)
        )
    for value in list(made.graph.input)[2:]:
        made.graph.input.remove(value)
    check(made, [fixed])


def test_minus_infinity_is_a_score_where_there_is_no_threshold():
    made = suppression(0, ("boxes", "scores", "most", "iou"))
    one = feed(2, 2, 30, 30, 0.6, 0, 0)
    del one["score"]
    one["scores"][:, :, ::3] = -np.inf
    module = check(made, [one])
    one["scores"][:] = -np.inf
    assert (np.asarray(module(**one)["y"])[0] == 0).all()  # the first box of the first class
    fixed = feed(2, 2, 30, 30, 0.6, -np.inf, 0)
    fixed["scores"][:, :, ::3] = -np.inf  # none is above the threshold
    check(suppression(0), [fixed])
