"""ai.onnx.ml with numbers of rows, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import check, model, node
from onnx import TensorProto

runtime = pytest.importorskip("onnxruntime")
INT64 = TensorProto.INT64
RNG = np.random.default_rng(0)


def against_runtime(made, feeds, tolerance=1e-5):
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    check(made, feeds, tolerance, lambda feed: session.run(None, feed))


def ml(op, outputs=("y",), inputs=None, version=3, **attributes):
    inputs = inputs or {"x": ["n", 5]}
    names = [o if isinstance(o, str) else o[0] for o in outputs]
    return model(
        [node(op, list(inputs), names, domain="ai.onnx.ml", **attributes)],
        inputs, outputs, domains=[("ai.onnx.ml", version)], ir=9,
    )  # fmt: skip


def rows(*counts):
    return [{"x": RNG.standard_normal((n, 5)).astype(np.float32)} for n in counts]


def forest(trees, depth, outputs, modes=("BRANCH_LEQ",), missing=False):
    """Full trees of different depths with random splits, as attributes."""
    nodes = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes",
                             "truenodeids", "falsenodeids", "missing_value_tracks_true")}  # fmt: skip
    leaves = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        inner = 2 ** (1 + tree % depth) - 1
        for i in range(2 * inner + 1):
            leaf = i >= inner
            entry = (tree, i, 0 if leaf else int(RNG.integers(5)),
                     0.0 if leaf else float(np.float32(RNG.standard_normal())),
                     "LEAF" if leaf else str(RNG.choice(modes)),
                     0 if leaf else 2 * i + 1, 0 if leaf else 2 * i + 2,
                     int(missing and RNG.integers(2)))  # fmt: skip
            for key, value in zip(nodes, entry):
                nodes[key].append(value)
            if leaf:
                for key, value in zip(leaves, (tree, i, tree % outputs, float(RNG.random()) - 0.3)):
                    leaves[key].append(value)
    return {f"nodes_{k}": v for k, v in nodes.items()}, leaves


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_tree_regressor(how):
    nodes, leaves = forest(12, 5, 3, ["BRANCH_LEQ", "BRANCH_GT", "BRANCH_LT"])
    made = ml(
        "TreeEnsembleRegressor", n_targets=3, aggregate_function=how, **nodes,
        target_treeids=leaves["treeids"], target_nodeids=leaves["nodeids"],
        target_ids=leaves["ids"], target_weights=leaves["weights"], base_values=[0.5, 0.0, -1.0],
    )  # fmt: skip
    against_runtime(made, rows(1, 33, 300))


def test_tree_regressor_of_missing_values():
    nodes, leaves = forest(6, 4, 1, missing=True)
    made = ml(
        "TreeEnsembleRegressor", n_targets=1, **nodes,
        target_treeids=leaves["treeids"], target_nodeids=leaves["nodeids"],
        target_ids=leaves["ids"], target_weights=leaves["weights"],
    )  # fmt: skip
    feed = rows(64)[0]
    feed["x"][RNG.random((64, 5)) < 0.3] = np.nan
    against_runtime(made, [feed])


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_tree_classifier(classes, transform):
    nodes, leaves = forest(9, 4, 1 if classes == 2 else classes)
    made = ml(
        "TreeEnsembleClassifier", [("label", INT64), "scores"], **nodes,
        class_treeids=leaves["treeids"], class_nodeids=leaves["nodeids"],
        class_ids=leaves["ids"], class_weights=leaves["weights"],
        classlabels_int64s=list(range(7, 7 + classes)), post_transform=transform,
    )  # fmt: skip
    if (classes, transform) == (2, "SOFTMAX"):  # which ONNX Runtime leaves out
        check(made, rows(1, 50), 1e-5)
    else:
        against_runtime(made, rows(1, 50))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear(transform):
    weights = [float(x) for x in RNG.standard_normal(15)]
    made = ml(
        "LinearClassifier", [("label", INT64), "scores"], coefficients=weights,
        intercepts=[0.1, -0.2, 0.3], classlabels_ints=[5, 1, 9], post_transform=transform,
    )  # fmt: skip
    against_runtime(made, rows(1, 40))
    if transform != "NONE":  # several scores become 1
        against_runtime(made, [{"x": 40 * feed["x"]} for feed in rows(1, 40)])
    made = ml("LinearRegressor", coefficients=weights, intercepts=[0.1, -0.2, 0.3], targets=3)
    against_runtime(made, rows(1, 40))


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm):
    against_runtime(ml("Normalizer", norm=norm), rows(1, 20))


def test_scaler_imputer_binarizer():
    made = model(
        [
            node("Imputer", ["x"], ["a"], domain="ai.onnx.ml",
                 imputed_value_floats=[1.0, 2.0, 3.0, 4.0, 5.0], replaced_value_float=float("nan")),
            node("Scaler", ["a"], ["b"], domain="ai.onnx.ml", offset=[0.5], scale=[2.0]),
            node("Binarizer", ["b"], ["c"], domain="ai.onnx.ml", threshold=0.25),
            node("FeatureVectorizer", ["b", "c"], ["y"], domain="ai.onnx.ml",
                 inputdimensions=[5, 5]),
        ],
        {"x": ["n", 5]}, ["y"], domains=[("ai.onnx.ml", 3)], ir=9,
    )  # fmt: skip
    feeds = rows(3, 17)
    feeds[1]["x"][::2, 1:3] = np.nan
    against_runtime(made, feeds)


def test_encoders():
    feeds = [{"x": RNG.integers(0, 8, n)} for n in (1, 30)]
    made = ml("OneHotEncoder", inputs={"x": (INT64, ["n"])}, cats_int64s=[3, 1, 7])
    against_runtime(made, feeds)
    made = ml("LabelEncoder", [("y", INT64)], {"x": (INT64, ["n"])}, version=2,
              keys_int64s=[1, 2, 5], values_int64s=[10, 20, 50], default_int64=-7)  # fmt: skip
    against_runtime(made, feeds)
    made = ml("LabelEncoder", inputs={"x": (INT64, ["n"])}, version=2,
              keys_int64s=[1, 2, 5], values_floats=[0.5, 1.5, 2.5], default_float=9.0)  # fmt: skip
    against_runtime(made, feeds)
