"""What operators refuse: the message names the node and the reason."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import model, node
from onnx import TensorProto, helper

import knapper

I64, BOOL, I32 = TensorProto.INT64, TensorProto.BOOL, TensorProto.INT32
X = {"x": ["n", 3, 4, 5]}
V = {"x": ["n", 5]}


def one(op, inputs, opset=22, outputs=("y",), domain="", initializers=(), names=None, inputs_of=None, **attributes):
    """One node that reads the inputs and initializers, or `names` of the inputs `inputs_of`."""
    names = names or [*inputs, *dict(initializers)]
    inputs = inputs_of or inputs
    results = [o if isinstance(o, str) else o[0] for o in outputs]
    outputs = [o for o in outputs if o]
    return model(
        [node(op, names, results, name="it", domain=domain, **attributes)],
        inputs, outputs, initializers, opset, [(domain, 5)] if domain else [],
    )  # fmt: skip


def ml(op, inputs=V, **attributes):
    return one(op, inputs, domain="ai.onnx.ml", **attributes)



def dft(shape, at, **more):
    made = one("DFT", {"x": shape}, initializers={"length": more.get("length", np.int64(4)),
                                                  "axis": np.int64(at)})  # fmt: skip
    return made


def flex(graph):
    return one("FlexAttention", {k: [1, 2, 3, 4] for k in "qkv"}, domain="ai.onnx.preview",
               score_mod=graph)  # fmt: skip


def modifier(outputs):
    return helper.make_graph(
        [node("ReduceSum", ["s"], ["r"], keepdims=0)], "m",
        [helper.make_tensor_value_info("s", 1, [1, 2, 3, 3])],
        [helper.make_tensor_value_info("r", 1, [])] * outputs,
    )  # fmt: skip


LINEAR = {"q": [1, 4, 8], "k": [1, 4, 8], "v": [1, 4, 8]}
TREE = dict(
    nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0],
    nodes_values=[0.5, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
    nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
    target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 2.0],
)  # fmt: skip
GRAMS = dict(max_gram_length=1, min_gram_length=1, max_skip_count=0, mode="TF",
             ngram_counts=[0], ngram_indexes=[0, 1], pool_int64s=[4, 5])  # fmt: skip
ROI = {"x": [1, 1, 8, 8], "rois": ["r", 4], "batch": (I64, ["r"])}

CASES = {
    "grid_shapes": (one("GridSample", {"x": ["n", 1, 4, 4], "g": ["n", 3, 3, 3]}), "do not fit"),
    "grid_mode": (one("GridSample", X | {"g": ["n", 2, 2, 2]}, mode="best"), "mode is 'best'"),
    "grid_padding": (
        one("GridSample", X | {"g": ["n", 2, 2, 2]}, padding_mode="ones"), "padding_mode is 'ones'"),
    "grid_many_dims": (
        one("GridSample", {"x": [1, 1, 2, 2, 2, 2], "g": [1, 1, 1, 1, 1, 4]}, mode="cubic"),
        "cubic sampling of 4 spatial dims"),
    "roi_shapes": (one("RoiAlign", ROI | {"rois": ["r", 5]}), "give .N, C, H, W., .rois, 4."),
    "roi_mode": (one("RoiAlign", ROI, mode="min"), "mode is 'min'"),
    "roi_transform": (
        one("RoiAlign", ROI, coordinate_transformation_mode="half"), "half_pixel or output"),
    "roi_size": (one("RoiAlign", ROI, output_height=0), "output_height"),
    "deform_ranks": (
        one("DeformConv", X | {"w": [2, 3, 1], "o": ["n", 2, 4, 5]}), "give equal ranks"),
    "deform_groups": (
        one("DeformConv", X | {"w": [2, 3, 1, 1], "o": ["n", 2, 4, 5]}, group=2), "do not divide"),
    "deform_symbolic": (
        one("DeformConv", X | {"w": [2, 3, "k", 1], "o": ["n", 2, 4, 5]}), "symbolic"),
    "dft_rank": (dft([4], 0), "rank 2 or more"),
    "dft_last_axis": (dft(["n", 4, 2], 2), "last dim"),
    "dft_parts": (dft(["n", 4, 3], 1), "last dim of the input is 3"),
    "dft_nothing": (dft(["n", 4, 2], 1, length=np.int64(0)), "transforms 0 elements"),
    "stft_step": (
        one("STFT", {"x": [1, 9, 1]}, initializers={"step": np.int64(0)}), "positive"),
    "stft_short": (
        one("STFT", {"x": [1, 9, 1]}, initializers={"step": np.int64(1), "w": np.ones(10, "f")}),
        "no frame of 10"),
    "mel_scalars": (
        one("MelWeightMatrix", {"a": ["n"]}, initializers={
            "b": np.int64(8), "c": np.int64(8), "d": np.float32(0), "e": np.float32(9)}),
        "depends on data"),
    "random_shape": (one("RandomUniform", {}, shape=[2, -1]), "shape holds -1"),
    "random_type": (one("RandomNormal", {}, shape=[2], dtype=I64), "element type INT64"),
    "multinomial": (one("Multinomial", {"x": ["n"]}), "sample_size"),
    "multinomial_type": (one("Multinomial", V, dtype=1), "dtype is FLOAT"),
    "dropout_mode": (
        one("Dropout", {"x": ["n"], "r": [], "t": (BOOL, [2])}), "must be one boolean"),
    "compress": (one("Compress", {"x": ["n"], "c": (BOOL, ["n", 2])}), "vector of booleans"),
    "unique_of_nothing": (one("Unique", {"x": ["n", 0]}, axis=0), "without elements"),
    "old_ranks": (one("Add", {"x": ["n", 3], "b": [3]}, opset=6), "broadcast to 1"),
    "old_axis": (
        one("Add", {"x": ["n", 3], "b": [3, 4]}, opset=6, broadcast=1, axis=1), "from dim 1 on"),
    "old_cast": (one("Cast", V, opset=5, to="SHORT"), "conversion to 'SHORT'"),
    "old_dropout": (one("Dropout", V, opset=6), "training mode"),
    "old_reshape": (one("Reshape", V, opset=4, shape=[-1, -1]), "the shape holds -1 at 1"),
    "old_topk": (one("TopK", V, opset=9, outputs=["y", ("i", I64)], k=-2), "k is -2"),
    "batch_norm_of_positions": (
        one("BatchNormalization", X | {k: [3] for k in "sbmv"}, opset=7, spatial=0), "spatial 0"),
    "tensor_scatter_mode": (
        one("TensorScatter", {"p": [1, 4, 2], "u": [1, 1, 2]}, opset=24, mode="ring"),
        "mode is 'ring'"),
    "tensor_scatter_axis": (
        one("TensorScatter", {"p": [1, 4, 2], "u": [1, 1, 2]}, opset=24, axis=0), "not the batch"),
    "unpool_ranks": (
        one("MaxUnpool", {"x": [1, 1, 2, 2], "i": (I64, [4])}, kernel_shape=[2, 2]), "differ in rank"),
    "unpool_shape": (
        one("MaxUnpool", {"x": [1, 1, 2, 2], "i": (I64, [1, 1, 2, 2])}, kernel_shape=[2, 2],
            strides=[2, 2], initializers={"s": np.int64([1, 1, 3, 4])}), "output_shape holds 3"),
    "det_not_square": (one("Det", {"x": [2, 3]}), "square"),
    "det_symbolic": (one("Det", {"x": ["m", "m"]}), "symbolic size"),
    "det_large": (one("Det", {"x": [33, 33]}), "more than 32 rows"),
    "linear_attention_rule": (
        one("LinearAttention", LINEAR, 27, update_rule="fast", q_num_heads=2, kv_num_heads=2),
        "update_rule is 'fast'"),
    "linear_attention_inputs": (
        one("LinearAttention", LINEAR, 27, q_num_heads=2, kv_num_heads=2), "needs decay and needs"),
    "linear_attention_heads": (
        one("LinearAttention", LINEAR, 27, update_rule="linear", q_num_heads=3, kv_num_heads=2),
        "do not share"),
    "linear_attention_sizes": (
        one("LinearAttention", LINEAR, 27, update_rule="linear", q_num_heads=3, kv_num_heads=3),
        "does not divide into 3 heads"),
    "suppression_shapes": (
        one("NonMaxSuppression", {"b": [1, "n", 4], "s": ["n"]}), "classes, boxes"),
    "suppression_scalars": (
        one("NonMaxSuppression", {"b": [1, "n", 4], "s": [1, 1, "n"], "m": (I64, [2])}),
        "input 2 must be one number"),
    "flex_ranks": (
        one("FlexAttention", {k: [2, 3, 4] for k in "qkv"}, domain="ai.onnx.preview"), "length, size"),
    "flex_result": (flex(modifier(1)), "keep shape"),
    "flex_results": (flex(modifier(2)), "1 inputs and 2 outputs"),
    "tfidf_strings": (
        one("TfIdfVectorizer", {"x": (I32, ["n"])}, **(GRAMS | {"pool_strings": ["a"]})), "the pool holds strings"),
    "tfidf_mode": (one("TfIdfVectorizer", {"x": (I32, ["n"])}, **(GRAMS | {"mode": "IT"})), "'IT'"),
    "tfidf_input": (one("TfIdfVectorizer", {"x": ["n"]}, **GRAMS), "integers"),
    "tfidf_lengths": (
        one("TfIdfVectorizer", {"x": (I32, ["n"])}, **(GRAMS | {"min_gram_length": 0})), "sensible"),
    "tfidf_pool": (
        one("TfIdfVectorizer", {"x": (I32, ["n"])}, **(GRAMS | {"ngram_counts": [3]})), "divide"),
    "tfidf_indexes": (
        one("TfIdfVectorizer", {"x": (I32, ["n"])}, **(GRAMS | {"ngram_indexes": [0]})), "2 grams, 1"),
    "momentum_mode": (
        one("Momentum", {k: (I64 if k == "t" else 1, []) for k in "rtxgv"}, mode="other",
            domain="ai.onnx.preview.training", outputs=["a", "b"], alpha=1.0, beta=1.0,
            norm_coefficient=0.0), "mode is 'other'"),
    "adam_lists": (
        one("Adam", {k: (I64 if k == "t" else 1, []) for k in "rtxgvhw"},
            domain="ai.onnx.preview.training", outputs=["a", "b", "c"]), "lists of equal length"),
    "scaler": (ml("Scaler", offset=[1.0, 2.0]), "2 numbers"),
    "imputer": (ml("Imputer", imputed_value_floats=[1.0, 2.0]), "2 values"),
    "normalizer": (ml("Normalizer", norm="L3"), "norm is 'L3'"),
    "vectorizer": (ml("FeatureVectorizer", inputdimensions=[1, 2]), "2 sizes for 1 inputs"),
    "one_hot": (ml("OneHotEncoder", cats_int64s=[1], zeros=0), "zeros 0"),
    "one_hot_strings": (ml("OneHotEncoder", cats_strings=["a"]), "strings"),
    "label_lists": (ml("LabelEncoder", keys_floats=[1.0], values_floats=[1.0, 2.0]), "1 keys for 2"),
    "label_types": (ml("LabelEncoder", keys_int64s=[1], values_floats=[1.0]), "another element type"),
    "label_strings": (ml("LabelEncoder", keys_strings=["a"], values_floats=[1.0]), "another element type"),
    "linear_sizes": (ml("LinearRegressor", coefficients=[1.0] * 7, targets=2), "7 coefficients"),
    "linear_labels": (
        ml("LinearClassifier", coefficients=[1.0] * 15, classlabels_ints=[1, 2],
           outputs=[("y", I64), "s"]), "2 labels for 3"),
    "linear_transform": (
        ml("LinearRegressor", coefficients=[1.0] * 5, post_transform="RELU"), "'RELU'"),
    "tree_counts": (
        ml("TreeEnsembleRegressor", **(TREE | {"nodes_values": [0.5]})), "1 entries for 3"),
    "tree_branch": (
        ml("TreeEnsembleRegressor", **(TREE | {"nodes_truenodeids": [9, 0, 0]})), "not there"),
    "tree_mode": (
        ml("TreeEnsembleRegressor", **(TREE | {"nodes_modes": ["IF", "LEAF", "LEAF"]})), "'IF'"),
    "tree_circle": (
        ml("TreeEnsembleRegressor", **(TREE | {"nodes_truenodeids": [0, 0, 0]})), "round in a circle"),
    "tree_twice": (
        ml("TreeEnsembleRegressor", **(TREE | {"nodes_nodeids": [0, 1, 1]})), "twice"),
    "tree_features": (
        ml("TreeEnsembleRegressor", **(TREE | {"nodes_featureids": [7, 0, 0]})), "8 features of 5"),
    "tree_targets": (
        ml("TreeEnsembleRegressor", **(TREE | {"target_ids": [0, 3]})), "target 3 of 1"),
    "tree_table": (
        ml("TreeEnsemble", n_targets=2**62, nodes_splits=helper.make_tensor("s", 1, [1], [0.5]),
           nodes_modes=helper.make_tensor("m", TensorProto.UINT8, [1], [0]), nodes_featureids=[0], tree_roots=[0],
           nodes_truenodeids=[0], nodes_falsenodeids=[1], nodes_trueleafs=[1], nodes_falseleafs=[1],
           leaf_targetids=[0, 0], leaf_weights=helper.make_tensor("w", 1, [2], [1.0, 2.0])),
        "a table of leaves of this size"),
    "tree_function": (
        ml("TreeEnsembleRegressor", aggregate_function="MEDIAN", **TREE), "'MEDIAN'"),
}  # fmt: skip
QKV = {"q": [1, 2, 4, 8], "k": [1, 2, 6, 8], "v": [1, 2, 6, 8]}
ROPE = {"x": [1, 2, 4, 8], "c": [1, 4, 4], "s": [1, 4, 4]}
SCORES = ["y", "", "", "s"]
CASES |= {
    "attention_types": (
        one("Attention", QKV | {"k": (TensorProto.DOUBLE, [1, 2, 6, 8]), "m": [4, 6]}, 23, SCORES), "different element types"),
    "attention_types_softcap": (
        one("Attention", QKV | {"k": (TensorProto.DOUBLE, [1, 2, 6, 8])}, 23, SCORES, softcap=2.0), "different element types"),
    **{f"attention_output_{mode}": (one("Attention", QKV, 23, SCORES, qk_matmul_output_mode=mode), f"output_mode is {mode}")
       for mode in (4, 7, -1, 2**32)},
    **{f"rotary_{dim}": (one("RotaryEmbedding", ROPE, 23, rotary_embedding_dim=dim), f"dim is {dim} for heads of 8")
       for dim in (3, 100, -4, 2**62)},
    "rotary_caches": (
        one("RotaryEmbedding", ROPE | {"c": [1, 4, 2], "s": [1, 4, 2]}, 23, rotary_embedding_dim=8), "a cache has 2 columns"),
    **{f"absent_{op}": (one(op, {}, names=["x", "", "x"], inputs_of=V, **more), "an input is absent") for op, more in {
        "Min": {}, "Max": {}, "Sum": {}, "Mean": {}, "Concat": {"axis": 0}, "SequenceConstruct": {}, "Einsum": {"equation": "ab,a,ab"}}.items()},
    "absent_QLinearConcat": (
        one("QLinearConcat", {}, domain="com.microsoft", axis=0, names=["s", "z", "x", "s", "z", "x", "", "z"],
            inputs_of={"s": [], "z": (TensorProto.UINT8, []), "x": (TensorProto.UINT8, ["n", 2])}), "an input is absent"),
    **{f"boolean_{op}_{name}": (one(op, inputs, **{name: number}, **more), f"{name} is {number}") for op, name, number, inputs, more in [
        ("ReduceMax", "keepdims", 5, V, {}), ("ArgMax", "keepdims", -1, V, {}), ("Gemm", "transA", -1, {"x": [3, 4], "w": [4, 5]}, {}),
        ("MaxPool", "ceil_mode", 7, X, {"kernel_shape": [2, 2]}), ("AveragePool", "count_include_pad", 2, X, {"kernel_shape": [2, 2]}),
        ("CumSum", "reverse", 3, V, {"initializers": {"a": np.int64(0)}}), ("Reshape", "allowzero", 9, V, {"initializers": {"a": np.int64([-1])}}),
        ("Attention", "is_causal", 2, QKV, {"opset": 23}), ("RotaryEmbedding", "interleaved", 2, ROPE, {"opset": 23})]},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refused(name):
    made, words = CASES[name]
    with pytest.raises(knapper.UserError, match=words) as caught:
        knapper.compile(made)
    assert "it" in str(caught.value)
