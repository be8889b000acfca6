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
    imports += [helper.make_opsetid(d, 1) for d in more.pop("domains", ())]
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


if __name__ == "__main__":
    main()
