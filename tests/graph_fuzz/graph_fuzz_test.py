"""Random graphs agree with the reference; the fuzzer's own parts do what they say."""

from __future__ import annotations

import os
import re
from pathlib import Path

import graph_check
import graph_compare
import fuzz
import graph_cases
import numpy as np
import pytest
from evaluator import PROGRAM, Evaluator
from graph_builder import Case
from node_models import model, node
from onnx import TensorProto

from knapper.reduce.reducer import Reducer

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
CASES = int(os.environ.get("KNAPPER_GRAPH_CASES", "500"))
SECONDS = float(os.environ.get("KNAPPER_GRAPH_SECONDS", "60"))
LEAST = 30  # that agree, however busy the machine is
HERE = Path(__file__).resolve().parent


def test_graphs_agree_with_the_reference():
    """As many cases as a minute allows; `fuzz.py --state FILE` runs further ones."""
    _, kinds, _, bad, _ = fuzz.fuzz(0, CASES, seconds=SECONDS, least=2 * LEAST, jobs=os.cpu_count() or 1)
    assert not bad, "\n".join(f"case {b['case']}: {b['kind']}: {b['text']}" for b in bad)
    assert kinds["same"] > 4 * kinds["refused"], kinds
    assert kinds["same"] >= min(CASES, LEAST), f"too few to show anything: {kinds}"


def test_a_case_is_always_the_same_graph():
    for number in (3, 77):
        a, b = graph_cases.make(number), graph_cases.make(number)
        assert a.model.SerializeToString() == b.model.SerializeToString()
        for x, y in zip(a.feeds, b.feeds):
            assert {k: v.tobytes() for k, v in x.items()} == {k: v.tobytes() for k, v in y.items()}


def chain():
    made = model([node("Exp", ["x"], ["a"]), node("Neg", ["a"], ["b"]), node("Floor", ["b"], ["c"]),
                  node("Mul", ["c", "w"], ["y"])], {"x": ["n", 3], "w": ["n", 3]})  # fmt: skip
    feed = {"x": np.full((2, 3), 0.3, np.float32), "w": np.full((2, 3), 2, np.float32)}
    return made, feed


def test_noise_explains_rounding_and_nothing_else():
    made, feed = chain()
    evaluate = Evaluator()
    try:
        x = feed | {"x": np.full((2, 3), np.log(2), np.float32)}  # exp(x) is nearly 2: floor may say -2 or -3
        expected = evaluate(made, x)
        allowed, unstable = graph_compare.spread(evaluate, made, x, expected, 16)
        assert graph_compare.wrong(expected[0], expected[0] - 2, allowed[0], unstable[0]) is None
        expected = evaluate(made, feed)
        allowed, unstable = graph_compare.spread(evaluate, made, feed, expected, 16)
        assert graph_compare.wrong(expected[0], expected[0] - 2, allowed[0], unstable[0])
        assert graph_compare.wrong(expected[0], expected[0] * np.float32(1 + 1e-7), allowed[0], unstable[0]) is None
    finally:
        evaluate.close()


def test_only_infinity_is_near_infinity():
    expected = np.array([np.inf, 1], np.float32)
    assert graph_compare.wrong(expected, np.array([np.inf, 1], np.float32)) is None
    for other in (3e38, -np.inf, np.nan):
        assert graph_compare.wrong(expected, np.array([other, 1], np.float32))


def test_an_overflow_of_float32_is_no_difference():
    made = model([node("ReduceSumSquare", ["x"], ["s"], keepdims=0), node("Reciprocal", ["s"], ["r"]),
                  node("Mul", ["r", "w"], ["y"])], {"x": ["n"], "w": ["n"]})  # fmt: skip
    feed = {"x": np.full(3, 1e30, np.float32), "w": np.array([1, np.inf, 0], np.float32)}
    expected = [np.array([0, np.inf, 0], np.float32)]  # the reference does not round between operators
    assert graph_check.overflows(None, made, feed, expected, [np.array([0, np.nan, 0], np.float32)])
    assert not graph_check.overflows(None, made, feed, expected, [np.array([0, 1, 0], np.float32)])
    assert not graph_check.overflows(None, made, feed, expected, [np.array([1, np.nan, 0], np.float32)])


def silu_of_halves(cast=False):
    made = [node("Sigmoid", ["x"], ["s"]), node("Mul", ["x", "s"], ["p"]), node("Mul", ["p", "w"], ["y"])]
    if cast:
        made[1:1] = [node("Cast", ["s"], ["t"], to=TensorProto.FLOAT16)]
        made[2].input[1] = "t"
    feed = {"x": np.array([-48, 1], np.float16), "w": np.array([-np.inf, 2], np.float16)}
    half = TensorProto.FLOAT16
    return model(made, {"x": (half, ["n"]), "w": (half, ["n"])}, [("y", half)]), feed


def test_what_vanishes_in_float16_alone_is_no_difference():
    evaluate = Evaluator()
    try:
        made, feed = silu_of_halves()
        expected = evaluate(made, feed)  # sigmoid(-48) is 0 in float16, and 0 * inf NaN
        assert np.isnan(expected[0][0])
        for first, second, same in ((np.inf, 1, True), (-np.inf, 1, False), (1, 1, False), (np.inf, 2, False)):
            actual = [np.array([first, expected[0][1] * second], np.float16)]
            assert graph_check.overflows(evaluate, made, feed, expected, actual) == same, (first, second)
        made, feed = silu_of_halves(cast=True)
        assert not graph_check.overflows(evaluate, made, feed, evaluate(made, feed), [np.array([np.inf, expected[0][1]], np.float16)])
    finally:
        evaluate.close()


def test_what_both_answers_have_needs_no_explanation():
    """Where both are NaN, another form of the model may have infinity."""
    evaluate = Evaluator()
    try:
        made, feed = silu_of_halves()
        expected = evaluate(made, feed)
        assert graph_check.overflows(evaluate, made, feed, expected, expected)
    finally:
        evaluate.close()


def test_a_cast_may_see_what_float16_rounds():
    made = [node("Mul", ["x", "x"], ["p"]), node("Cast", ["p"], ["y"], to=TensorProto.DOUBLE)]
    half = TensorProto.FLOAT16
    made = model(made, {"x": (half, ["n"])}, [("y", TensorProto.DOUBLE)])
    feed = {"x": np.array([0.0019, 3], np.float16)}
    exact = feed["x"].astype(np.float64) ** 2
    evaluate = Evaluator()
    try:
        expected = evaluate(made, feed)
        assert expected[0][0] != exact[0]
        assert graph_check.overflows(evaluate, made, feed, expected, [exact])
        assert not graph_check.overflows(evaluate, made, feed, expected, [exact * (1 + 1e-6)])
    finally:
        evaluate.close()


def test_noise_inside_of_operators_that_others_define():
    evaluate = Evaluator()

    def explained(made, feed, value):
        expected = evaluate(made, feed)
        actual = [expected[0].copy()]
        actual[0].flat[0] = value
        return not graph_check.differences(evaluate, made, feed, expected, actual)[0]

    try:
        gate = model([node("SwiGLU", ["x", "w"], ["y"], alpha=1.0)], {"x": ["n"], "w": ["n"]}, opset=28)
        feed = {"x": np.array([-95, 1], np.float32), "w": np.array([np.inf, 2], np.float32)}
        assert explained(gate, feed, np.nan)  # of a sigmoid that vanishes
        feed["x"][0] = -3
        assert not explained(gate, feed, np.nan)
        norm = model([node("RMSNormalization", ["x", "w"], ["y"])], {"x": [1, 2], "w": [2]}, opset=23)
        feed = {"x": np.array([[1e24, 1]], np.float32), "w": np.ones(2, np.float32)}
        assert explained(norm, feed, 0)  # over the root of infinity
        feed["x"][0, 0] = 1e4
        assert not explained(norm, feed, 0)
        norm = model([node("InstanceNormalization", ["x", "w", "b"], ["y"])], {"x": [1, 1, 8], "w": [1], "b": [1]})
        feed = {"x": np.full((1, 1, 8), 1e8, np.float32), "w": np.ones(1, np.float32), "b": np.zeros(1, np.float32)}
        feed["x"][0, 0, 0] -= 40000
        right = evaluate(norm, feed)[0].flat[0]
        assert explained(norm, feed, right + 2e-4) and not explained(norm, feed, right + 0.5)
        feed["x"] -= np.float32(1e8)
        assert not explained(norm, feed, right + 2e-4)
    finally:
        evaluate.close()


def test_states_of_float32_are_what_other_evaluators_have():
    """Of 1 - z, with z near 1."""
    gru = node("GRU", ["x", "w", "r", "b"], ["", "y"], hidden_size=1)
    made = model([gru], {"x": [1, 1, 1], "w": [1, 3, 1], "r": [1, 3, 1], "b": [1, 6]})
    feed = {"x": np.float32([[[1]]]), "w": np.float32([[[9.18], [1], [-1.6]]]), "r": np.zeros((1, 3, 1), np.float32),
            "b": np.zeros((1, 6), np.float32)}  # fmt: skip
    evaluate = Evaluator()
    try:
        expected, theirs = evaluate(made, feed), graph_check.onnx_answer(made, feed)
        assert graph_check.graph_compare.wrong(expected[0], theirs[0])
        assert graph_check.overflows(evaluate, made, feed, expected, theirs)
        assert not graph_check.overflows(evaluate, made, feed, expected, [theirs[0] * np.float32(1.001)])
    finally:
        evaluate.close()


def test_labels_of_scores_that_a_logistic_function_makes_one():
    classify = node("LinearClassifier", ["x"], ["label", "y"], domain="ai.onnx.ml", classlabels_ints=[0, 1],
                    coefficients=[60.0, 70.0], intercepts=[0.0, 0.0], post_transform="LOGISTIC")  # fmt: skip
    made = model([classify], {"x": ["n", 1]}, [("label", TensorProto.INT64), ("y", TensorProto.FLOAT)])
    made.opset_import.add(domain="ai.onnx.ml", version=3)
    feed = {"x": np.ones((1, 1), np.float32)}
    assert graph_check.onnx_answer(made, feed)[0] == 0
    answer = graph_check.onnx_answer(graph_check.labelled(made), feed)
    assert answer[0] == 1 and (answer[1] == 1).all()


def test_onnx_writes_over_scores_where_all_leaves_are_of_one_class():
    one = node("TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", classlabels_int64s=[7, 1, 5],
               nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[0] * 3, nodes_values=[0.0] * 3,
               nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
               class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[1, 1], class_weights=[-0.5, 0.25])  # fmt: skip
    made = model([one], {"x": ["n", 1]}, [("label", TensorProto.INT64), ("scores", TensorProto.FLOAT)])
    made.opset_import.add(domain="ai.onnx.ml", version=3)
    feed = {"x": np.array([[1], [-1]], np.float32)}
    right = [[0, 0.25, 0], [0, -0.5, 0]]
    assert graph_check.onnx_answer(made, feed)[1].tolist() != right
    labels, scores = graph_check.onnx_answer(graph_check.labelled(made), feed)
    assert labels.tolist() == [1, 7] and scores.tolist() == right
    assert graph_check.runtime_answer(made, feed)[1].tolist() == right
    evaluate = Evaluator()
    try:
        assert [a.tolist() for a in evaluate(made, feed)] == [[1, 7], right]
    finally:
        evaluate.close()


def test_rows_that_are_chosen_keep_what_the_others_have():
    made = model([node("Hardmax", ["x"], ["h"], axis=-1), node("MatMul", ["h", "w"], ["y"])], {"x": [2, 3], "w": [3, 2]})
    feed = {"x": np.eye(2, 3, dtype=np.float32), "w": np.array([[1, 2], [3, np.inf], [5, 6]], np.float32)}
    evaluate = Evaluator()
    try:
        expected = evaluate(made, feed)
        assert np.isnan(expected[0][0, 1]) and expected[0][1, 1] == np.inf
        for value, same in ((2, True), (6, False), (np.inf, False)):
            actual = [np.array([[1, value], [3, np.inf]], np.float32)]
            assert graph_check.overflows(evaluate, made, feed, expected, actual) == same, value
    finally:
        evaluate.close()


def test_cubic_weights_of_float32_are_onnx_own():
    resize = node("Resize", ["x", "", "scales"], ["y"], mode="cubic", coordinate_transformation_mode="align_corners")
    made = model([resize], {"x": ["n"]}, initializers={"scales": np.float32([3])})
    feed = {"x": np.array([0.38941404, 0.398396, -0.2903951, 0.5760488, -2.1900826], np.float32)}
    evaluate = Evaluator()
    try:
        expected = evaluate(made, feed)
        assert abs(expected[0][8] + 0.016122582659) < 2e-8  # by weights of float64
        theirs = [expected[0] + np.float32(4e-6)]
        assert graph_check.differences(evaluate, made, feed, expected, theirs)[0]
        assert not graph_check.differences(evaluate, made, feed, expected, theirs, with_onnx=True)[0]
        assert graph_check.differences(evaluate, made, feed, expected, [expected[0] + np.float32(2e-5)], with_onnx=True)[0]
    finally:
        evaluate.close()


def test_a_failure_is_reduced_to_its_node():
    made, feed = chain()
    evaluate = Evaluator()
    try:
        def fails(case):
            return "floor" if any(n.op_type == "Floor" for n in case.model.graph.node) else None

        case = Reducer(Case(made, [feed, feed]), fails, evaluate).run()
    finally:
        evaluate.close()
    assert [n.op_type for n in case.model.graph.node] == ["Floor"]
    assert len(case.feeds) == 1 and list(case.feeds[0]) == [case.model.graph.input[0].name]


# Operators that no rule makes, and where they are tested.
ELSEWHERE = {
    "tests/onnx_nodes and tests/onnx_backend": """DynamicQuantizeLSTM FlexAttention Scatter SimplifiedLayerNormalization
        TreeEnsemble Upsample""",
    "random_test.py: no two evaluators draw the same": """Bernoulli Dropout Multinomial RandomNormal
        RandomNormalLike RandomUniform RandomUniformLike""",
    "tests/onnx_nodes/strings_test.py, tests/onnx_backend": """CategoryMapper RegexFullMatch StringConcat
        StringNormalizer StringSplit""",
    "gradient_test.py, node cases": "Adagrad Adam Gradient Momentum",
}


def test_every_operator_has_a_rule_or_a_place():
    rows = {name for path in (HERE.parents[1] / "frontends" / "onnx").glob("*.cpp")  # com.microsoft: contrib_test.py
            for name in re.findall(r'^\s+\{"(?!com\.microsoft)[^"]*", "(\w+)", \d', path.read_text(), re.M)}  # fmt: skip
    rules = "".join(path.read_text() for path in HERE.glob("rules_*.py"))
    made = set(re.findall(r'"(\w+)"', rules))
    elsewhere = {name for names in ELSEWHERE.values() for name in names.split()}
    assert rows - made - elsewhere == set()
    assert elsewhere & made == set(), "have a rule by now"
