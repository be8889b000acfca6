#!/usr/bin/env python3
"""Writes the seed models of the ONNX fuzz test into tests/onnx_fuzz/seeds.

Small graphs that together reach most of the importer: shape arithmetic,
windows, functions with attribute references, subgraphs, weights in the file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEEDS = Path(__file__).resolve().parent / "seeds"
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node
RANDOM = np.random.default_rng(7)


def constant(name, value, dtype=np.int64):
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def weight(name, *shape):
    return numpy_helper.from_array(
        RANDOM.standard_normal(shape).astype(np.float32), name
    )


def save(name, nodes, inputs, outputs, initializers=(), opset=21, **more):
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(o, t, None) for o, t in outputs],
        list(initializers),
    )
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(d, {"ai.onnx.ml": 3}.get(d, 1)) for d in more.pop("domains", ())]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10, **more)
    (SEEDS / f"{name}.onnx").write_bytes(model.SerializeToString())


def main() -> None:
    SEEDS.mkdir(exist_ok=True)
    save(
        "pointwise",
        [
            node("Add", ["x", "y"], ["a"]), node("Mul", ["a", "c"], ["b"]),
            node("Relu", ["b"], ["r"]), node("Clip", ["r", "lo", "hi"], ["k"]),
            node("Pow", ["k", "c"], ["p"]), node("Where", ["m", "p", "a"], ["w"]),
            node("Cast", ["w"], ["h"], to=TensorProto.FLOAT16),
            node("Gelu", ["h"], ["z"], approximate="tanh"),
        ],
        [("x", FLOAT, ["batch", 3]), ("y", FLOAT, [1, 3]), ("m", BOOL, ["batch", 1])],
        [("z", TensorProto.FLOAT16)],
        [constant("c", 2, np.float32), constant("lo", 0, np.float32),
         constant("hi", 6, np.float32)],
    )  # fmt: skip
    save(
        "shapes",
        [
            node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["b"], axis=0),
            node("Gather", ["s", "one"], ["t"], axis=0),
            node("Mul", ["t", "two"], ["t2"]), node("Unsqueeze", ["b", "ax"], ["bu"]),
            node("Unsqueeze", ["t"  , "ax"], ["tu"]),
            node("Concat", ["bu", "tu", "heads"], ["target"], axis=0),
            node("Reshape", ["x", "target"], ["r"]),
            node("Transpose", ["r"], ["tr"], perm=[0, 2, 1, 3]),
            node("Slice", ["tr", "start", "end", "axes", "steps"], ["sl"]),
            node("Range", ["zero", "t", "one"], ["range"]),
            node("Expand", ["range", "target2"], ["e"]),
            node("Tile", ["e", "reps"], ["tile"]),
            node("Pad", ["sl", "pads"], ["pad"], mode="reflect"),
            node("Split", ["pad"], ["p0", "p1"], axis=1, num_outputs=2),
            node("ConstantOfShape", ["s"], ["zeros"]),
        ],
        [("x", FLOAT, ["batch", "seq", 8])],
        [("p0", FLOAT), ("p1", FLOAT), ("tile", INT64), ("zeros", FLOAT), ("t2", INT64)],
        [constant("zero", 0), constant("one", 1), constant("two", 2),
         constant("ax", [0]), constant("heads", [2, -1]), constant("start", [0]),
         constant("end", [2**63 - 1]), constant("axes", [3]), constant("steps", [2]),
         constant("target2", [3, 1]), constant("reps", [2, 1]),
         constant("pads", [0, 0, 1, 1, 0, 0, 1, 0])],
    )  # fmt: skip
    save(
        "convolutions",
        [
            node("Conv", ["x", "w", "bias"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
            node("BatchNormalization", ["c", "g", "bias", "bias", "g"], ["n"]),
            node("MaxPool", ["n"], ["m"], kernel_shape=[3, 3], strides=[2, 2],
                 ceil_mode=1),
            node("AveragePool", ["m"], ["v"], kernel_shape=[2, 2], pads=[1, 1, 1, 1],
                 count_include_pad=1),
            node("ConvTranspose", ["v", "wt"], ["u"], strides=[2, 2], group=2,
                 output_padding=[1, 1]),
            node("Conv", ["u", "wd"], ["d"], group=4, auto_pad="SAME_LOWER"),
            node("GlobalAveragePool", ["d"], ["q"]), node("Flatten", ["q"], ["f"]),
            node("Gemm", ["f", "gw", "gb"], ["y"], transB=1, alpha=0.5),
        ],
        [("x", FLOAT, ["batch", 3, 16, 16])], [("y", FLOAT)],
        [weight("w", 4, 3, 3, 3), weight("bias", 4), weight("g", 4),
         weight("wt", 4, 2, 3, 3), weight("wd", 4, 1, 3, 3), weight("gw", 5, 4),
         weight("gb", 5)],
    )  # fmt: skip
    save(
        "transformer",
        [
            node("Gather", ["table", "ids"], ["e"]),
            node("LayerNormalization", ["e", "g", "g"], ["n"], axis=-1),
            node("MatMul", ["n", "w"], ["q"]), node("MatMul", ["n", "w"], ["k"]),
            node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
            node("MatMul", ["q", "kt"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1),
            node("IsNaN", ["p"], ["nan"]), node("Where", ["nan", "zero", "p"], ["pz"]),
            node("MatMul", ["pz", "n"], ["o"]), node("Add", ["o", "e"], ["res"]),
            node("ReduceMean", ["res", "axes"], ["pooled"], keepdims=0),
            node("ReduceL2", ["pooled", "axes"], ["l2"]),
            node("Div", ["pooled", "l2"], ["y"]),
        ],
        [("ids", INT64, ["batch", "seq"])], [("y", FLOAT)],
        [weight("table", 1200, 16), weight("g", 16), weight("w", 16, 16),
         constant("zero", 0, np.float32), constant("axes", [1])],
    )  # fmt: skip
    save(
        "attention",
        [
            node("RotaryEmbedding", ["q", "cos", "sin", "pos"], ["qr"], num_heads=4),
            node("Attention", ["qr", "k", "v", "mask", "pk", "pv"],
                 ["y", "nk", "nv"], q_num_heads=4, kv_num_heads=2, is_causal=1,
                 softcap=5.0),
            node("RMSNormalization", ["y", "g"], ["z"]),
            node("Swish", ["z"], ["sw"]),
        ],
        [("q", FLOAT, ["b", "s", 32]), ("k", FLOAT, ["b", "s", 16]),
         ("v", FLOAT, ["b", "s", 16]), ("mask", FLOAT, ["s", "past + s"]),
         ("pk", FLOAT, ["b", 2, "past", 8]), ("pv", FLOAT, ["b", 2, "past", 8]),
         ("pos", INT64, ["b", "s"])],
        [("sw", FLOAT), ("nk", FLOAT), ("nv", FLOAT)],
        [weight("cos", 64, 4), weight("sin", 64, 4), weight("g", 32)], opset=24,
    )  # fmt: skip
    save(
        "indexing",
        [
            node("GatherElements", ["x", "i"], ["ge"], axis=1),
            node("ScatterElements", ["x", "i", "ge"], ["se"], axis=1, reduction="add"),
            node("GatherND", ["x", "nd"], ["gn"], batch_dims=0),
            node("ScatterND", ["x", "nd", "gn"], ["sn"]),
            node("OneHot", ["i", "depth", "values"], ["oh"], axis=0),
            node("TopK", ["x", "kk"], ["tv", "ti"], axis=-1),
            node("CumSum", ["x", "kk0"], ["cs"], reverse=1),
            node("ArgMax", ["x"], ["am"], axis=1, keepdims=0),
            node("Trilu", ["x", "kk0"], ["tr"]),
            node("Einsum", ["x", "sn"], ["es"], equation="ij,kj->ik"),
        ],
        [("x", FLOAT, ["n", 6]), ("i", INT64, ["n", 6]), ("nd", INT64, [5, 2])],
        [("se", FLOAT), ("oh", FLOAT), ("tv", FLOAT), ("ti", INT64), ("cs", FLOAT),
         ("am", INT64), ("tr", FLOAT), ("es", FLOAT)],
        [constant("depth", 4), constant("values", [0, 1], np.float32),
         constant("kk", [2]), constant("kk0", 1)],
    )  # fmt: skip
    function = helper.make_function(
        "local", "Scaled", ["a", "b"], ["c"],
        [
            helper.make_node("Constant", [], ["k"]),
            node("Mul", ["a", "k"], ["m"]), node("Add", ["m", "b"], ["c"]),
        ],
        [helper.make_opsetid("", 21)], ["value"],
    )  # fmt: skip
    reference = function.node[0].attribute.add()
    reference.name, reference.ref_attr_name = "value_float", "value"
    reference.type = onnx.AttributeProto.FLOAT
    save(
        "functions",
        [
            node("Scaled", ["x", "y"], ["s"], domain="local", value=2.0),
            node("Scaled", ["s", "x"], ["t"], domain="local", value=-1.0, name="again"),
            node("InstanceNormalization", ["t", "g", "g"], ["i"]),
            node("GroupNormalization", ["i", "g", "g"], ["z"], num_groups=2),
            node("DepthToSpace", ["z"], ["d"], blocksize=2),
        ],
        [("x", FLOAT, ["n", 4, 5, 5]), ("y", FLOAT, [4, 1, 1])], [("d", FLOAT)],
        [weight("g", 4)], functions=[function], domains=["local"],
    )  # fmt: skip
    control()
    quantised()
    tables()


def graph(nodes, inputs, outputs, initializers=()):
    return helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(o, t, None) for o, t in outputs], list(initializers),
    )  # fmt: skip


def control() -> None:
    turn = [("i", INT64, []), ("go", BOOL, [])]
    same = node("Identity", ["go"], ["on"])
    grow = graph(
        [same, node("Concat", ["v", "x"], ["w"], axis=0),
         node("ReduceSum", ["w"], ["s"], keepdims=0)],
        [*turn, ("v", FLOAT, ["k", 3])], [("on", BOOL), ("w", FLOAT), ("s", FLOAT)],
    )  # fmt: skip
    until = graph(
        [node("Add", ["h", "h"], ["h2"]), node("ReduceMax", ["h2"], ["t"], keepdims=0),
         node("Less", ["t", "limit"], ["on"])],
        [*turn, ("h", FLOAT, ["n", 3])], [("on", BOOL), ("h2", FLOAT), ("t", FLOAT)],
    )  # fmt: skip
    yes = graph([node("Slice", ["x", "one", "two"], ["a"])], [], [("a", FLOAT)])
    no = graph([node("Mul", ["x", "w0"], ["b"])], [], [("b", FLOAT)], [weight("w0", 3)])
    squeeze = graph([node("Squeeze", ["x", "zero"], ["c"])], [], [("c", FLOAT)])
    keep = graph([node("Identity", ["x"], ["d"])], [], [("d", FLOAT)])
    step = graph(
        [node("Add", ["st", "e"], ["st2"]), node("Tanh", ["st2"], ["o"])],
        [("st", FLOAT, [3]), ("e", FLOAT, [3])], [("st2", FLOAT), ("o", FLOAT)],
    )  # fmt: skip
    save(
        "control",
        [
            node("ReduceSum", ["x"], ["sum"], keepdims=0),
            node("Greater", ["sum", "limit"], ["c0"]),
            node("If", ["c0"], ["y0"], then_branch=yes, else_branch=no),
            node("Loop", ["m", "", "x"], ["y1", "s1"], body=grow),
            node("Loop", ["", "c0", "x"], ["y2", "s2"], body=until),
            node("Scan", ["st0", "x"], ["y3", "s3"], body=step, num_scan_inputs=1,
                 scan_output_directions=[1]),
            node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "zero"], ["size"]),
            node("Equal", ["size", "one"], ["is1"]),
            node("If", ["is1"], ["y4"], then_branch=squeeze, else_branch=keep),
        ],
        [("x", FLOAT, ["n", 3]), ("m", INT64, []), ("limit", FLOAT, [])],
        [(f"y{i}", FLOAT) for i in range(5)] + [(f"s{i}", FLOAT) for i in (1, 2, 3)],
        [constant("one", [1]), constant("two", [2]), constant("zero", [0]), weight("st0", 3)],
    )  # fmt: skip
    collect = graph(
        [same, node("SequenceInsert", ["l", "x"], ["l2"])], [*turn], [("on", BOOL)],
    )  # fmt: skip
    collect.input.append(helper.make_tensor_sequence_value_info("l", FLOAT, None))
    collect.output.append(helper.make_tensor_sequence_value_info("l2", FLOAT, None))
    save(
        "recurrent",
        [
            node("LSTM", ["x", "w", "r", "b", "len", "h0", "h0", "p"], ["y", "h", "c"],
                 hidden_size=4, direction="bidirectional", clip=2.0),
            node("GRU", ["x", "wg", "rg", "bg"], ["z"], hidden_size=4, linear_before_reset=1,
                 direction="reverse", activations=["HardSigmoid", "Tanh"]),
            node("RNN", ["x", "wr", "rr"], ["", "k"], hidden_size=4, layout=0,
                 activations=["Affine"], activation_alpha=[0.5]),
            node("SplitToSequence", ["h", "one"], ["parts"]),
            node("Loop", ["three", "", "parts"], ["more"], body=collect),
            node("SequenceAt", ["more", "one"], ["first"]),
            node("ConcatFromSequence", ["parts"], ["joined"], axis=0),
            node("SequenceLength", ["more"], ["length"]),
            node("OptionalHasElement", [], ["has"]),
        ],
        [("x", FLOAT, ["t", 2, 3]), ("len", TensorProto.INT32, [2])],
        [("y", FLOAT), ("z", FLOAT), ("k", FLOAT), ("first", FLOAT), ("joined", FLOAT),
         ("length", INT64), ("has", BOOL)],
        [weight("w", 2, 16, 3), weight("r", 2, 16, 4), weight("b", 2, 32), weight("h0", 2, 2, 4),
         weight("p", 2, 12), weight("wg", 1, 12, 3), weight("rg", 1, 12, 4), weight("bg", 1, 24),
         weight("wr", 1, 4, 3), weight("rr", 1, 4, 4), constant("one", 1), constant("three", 3)],
        opset=22,
    )  # fmt: skip


def typed(name, value, element):
    return helper.make_tensor(name, element, np.shape(value), np.asarray(value).ravel().tolist())


def quantised() -> None:
    """Bytes, blocks of four bits, floats of eight, and what is found while running."""
    u8 = TensorProto.UINT8
    save(
        "quantised",
        [
            node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
            node("MatMulInteger", ["q", "w", "qz", "wz"], ["m"]),
            node("Cast", ["m"], ["mf"], to=FLOAT), node("Mul", ["mf", "qs"], ["y0"]),
            node("DequantizeLinear", ["w4", "s4", "z4"], ["d4"], axis=0, block_size=4),
            node("MatMul", ["x", "d4"], ["y1"]),
            node("QuantizeLinear", ["y1", "s", "z8"], ["q1"]), node("DequantizeLinear", ["q1", "s", "z8"], ["y2"]),
            node("QLinearMatMul", ["q", "s", "zu", "w", "s", "wz", "s", "zu"], ["y3"]),
            node("Cast", ["y1"], ["e"], to=TensorProto.FLOAT8E4M3FN, saturate=1), node("Cast", ["e"], ["y4"], to=FLOAT),
            node("QLinearConv", ["i", "s", "zu", "f", "fs", "fz", "s", "zu", "fb"], ["y5"], pads=[1, 1, 1, 1]),
            node("ConvInteger", ["i", "f", "zu"], ["y6"], strides=[2, 1]),
        ],
        [("x", FLOAT, ["n", 8]), ("i", u8, ["n", 2, 5, "w"])],
        [("y0", FLOAT), ("y2", FLOAT), ("y3", u8), ("y4", FLOAT), ("y5", u8), ("y6", TensorProto.INT32)],
        [constant("w", RANDOM.integers(-9, 9, (8, 3)), np.int8), constant("wz", 1, np.int8), constant("zu", 3, np.uint8),
         constant("s", 0.25, np.float32), constant("z8", 2, np.int8), typed("w4", [[i % 7] * 3 for i in range(8)], TensorProto.INT4),
         weight("s4", 2, 3), typed("z4", [[1] * 3] * 2, TensorProto.INT4),
         constant("f", RANDOM.integers(-9, 9, (4, 2, 3, 3)), np.int8), constant("fs", [0.1, 0.2, 0.3, 0.4], np.float32),
         constant("fz", [0, 0, 0, 0], np.int8), constant("fb", [1, 2, 3, 4], np.int32)],
    )  # fmt: skip


def tables() -> None:
    """Trees, tables, boxes, sizes that data decides, resampling, spectra, states."""
    tree = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
    }  # fmt: skip
    save(
        "tables",
        [
            node("TreeEnsembleRegressor", ["x"], ["t"], domain="ai.onnx.ml", n_targets=1, target_treeids=[0, 0],
                 target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, -1.0], **tree),
            node("LabelEncoder", ["l"], ["e"], domain="ai.onnx.ml", keys_int64s=[1, 2], values_floats=[0.5, 2.0],
                 default_float=-1.0),
            node("Scaler", ["x"], ["sc"], domain="ai.onnx.ml", offset=[0.5], scale=[2.0]),
            node("NonMaxSuppression", ["boxes", "scores", "most", "iou"], ["nms"]),
            node("Unique", ["l"], ["u", "ui", "ux", "uc"], sorted=1), node("NonZero", ["l"], ["nz"]),
            node("Resize", ["im", "", "", "to"], ["r"], mode="cubic"),
            node("GridSample", ["im", "grid"], ["gs"], padding_mode="reflection"),
            node("RoiAlign", ["im", "rois", "which"], ["ra"], output_height=2, output_width=2),
            node("STFT", ["signal", "step", "", "frame"], ["st"]), node("DFT", ["signal"], ["df"], axis=1),
            node("TfIdfVectorizer", ["l"], ["tf"], mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0,
                 ngram_counts=[0], ngram_indexes=[0, 1], pool_int64s=[1, 2]),
        ],
        [("x", FLOAT, ["n", 3]), ("l", INT64, ["k"]), ("boxes", FLOAT, [1, "b", 4]), ("scores", FLOAT, [1, 2, "b"]),
         ("im", FLOAT, [1, 2, 4, 5]), ("grid", FLOAT, [1, 3, 2, 2]), ("signal", FLOAT, [1, 16, 1])],
        [("t", FLOAT), ("e", FLOAT), ("sc", FLOAT), ("nms", INT64), ("u", INT64), ("uc", INT64), ("nz", INT64),
         ("r", FLOAT), ("gs", FLOAT), ("ra", FLOAT), ("st", FLOAT), ("df", FLOAT), ("tf", FLOAT)],
        [constant("most", [3]), constant("iou", [0.5], np.float32), constant("to", [1, 2, 7, 3]),
         constant("rois", [[0, 0, 3, 3]], np.float32), constant("which", [0]), constant("step", 4), constant("frame", 8)],
        opset=19, domains=["ai.onnx.ml"],
    )  # fmt: skip


if __name__ == "__main__":
    main()
