"""The models of `ort_scripts`: small, seeded, of the kinds that people export."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node, value = helper.make_node, helper.make_tensor_value_info


def _weights(seed: int, **shapes: tuple[int, ...]) -> list[onnx.TensorProto]:
    random = np.random.default_rng(seed)
    return [
        onnx.numpy_helper.from_array(
            (random.standard_normal(shape) / max(1, np.sqrt(np.prod(shape[1:])))).astype("f"),
            name,
        )
        for name, shape in shapes.items()
    ]


def _constant(name: str, data: object, dtype: type = np.int64) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(data, dtype), name)


def _model(nodes, inputs, outputs, weights, opset: int = 17, **properties: str):
    graph = helper.make_graph(nodes, "main_graph", inputs, outputs, weights)
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)],
        ir_version=8, producer_name="pytorch", producer_version="2.4",
    )  # fmt: skip
    helper.set_model_props(made, properties)
    onnx.checker.check_model(made)
    return made


def classifier() -> onnx.ModelProto:
    """Rows of 16 features to logits and probabilities of 4 classes."""
    return _model(
        [
            node("Gemm", ["input", "w1", "b1"], ["h"], name="/fc1/Gemm"),
            node("Relu", ["h"], ["r"], name="/act/Relu"),
            node("Gemm", ["r", "w2", "b2"], ["logits"], name="/fc2/Gemm"),
            node("Softmax", ["logits"], ["probabilities"], name="/Softmax", axis=-1),
        ],
        [value("input", FLOAT, ("batch", 16))],
        [value("logits", FLOAT, ("batch", 4)), value("probabilities", FLOAT, ("batch", 4))],
        _weights(1, w1=(16, 64), b1=(64,), w2=(64, 4), b2=(4,)),
        labels=json.dumps(["cat", "dog", "fish", "owl"]), stride="32",
    )  # fmt: skip


def vision() -> onnx.ModelProto:
    """Images of 3 x 32 x 32 to 5 scores."""
    return _model(
        [
            node("Conv", ["image", "k1"], ["c1"], pads=[1] * 4, strides=[2, 2]),
            node("BatchNormalization", ["c1", "g", "bb", "m", "v"], ["n1"]),
            node("Relu", ["n1"], ["r1"]),
            node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Conv", ["p1", "k2"], ["c2"], pads=[1] * 4),
            node("HardSwish", ["c2"], ["r2"]),
            node("GlobalAveragePool", ["r2"], ["a"]),
            node("Flatten", ["a"], ["f"]),
            node("Gemm", ["f", "w", "b"], ["scores"], transB=1),
        ],
        [value("image", FLOAT, ("N", 3, 32, 32))],
        [value("scores", FLOAT, ("N", 5))],
        [
            *_weights(2, k1=(8, 3, 3, 3), k2=(16, 8, 3, 3), w=(5, 16), b=(5,), bb=(8,), m=(8,)),
            _constant("g", [1] * 8, np.float32), _constant("v", [1] * 8, np.float32),
        ],
    )  # fmt: skip


def text(width: int = 32, words: int = 64) -> onnx.ModelProto:
    """Token ids and their mask to hidden states and the logits of two classes."""
    return _model(
        [
            node("Gather", ["table", "input_ids"], ["e"]),
            node("MatMul", ["e", "wq"], ["q"]),
            node("MatMul", ["e", "wk"], ["k"]),
            node("MatMul", ["e", "wv"], ["v"]),
            node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
            node("MatMul", ["q", "kt"], ["s"]),
            node("Cast", ["attention_mask"], ["mf"], to=FLOAT),
            node("Sub", ["one", "mf"], ["away"]),
            node("Mul", ["away", "low"], ["bias"]),
            node("Unsqueeze", ["bias", "axis1"], ["bias3"]),
            node("Add", ["s", "bias3"], ["sm"]),
            node("Softmax", ["sm"], ["p"], axis=-1),
            node("MatMul", ["p", "v"], ["o"]),
            node("Add", ["o", "e"], ["sum"]),
            node("LayerNormalization", ["sum", "ln", "lb"], ["last_hidden_state"], axis=-1),
            node("Unsqueeze", ["mf", "axis2"], ["m3"]),
            node("Mul", ["last_hidden_state", "m3"], ["kept"]),
            node("ReduceSum", ["kept", "axis1"], ["total"], keepdims=0),
            node("ReduceSum", ["m3", "axis1"], ["count"], keepdims=0),
            node("Div", ["total", "count"], ["pooled"]),
            node("Gemm", ["pooled", "wc", "bc"], ["logits"]),
        ],
        [value(n, INT64, ("batch_size", "sequence_length")) for n in ("input_ids", "attention_mask")],
        [
            value("last_hidden_state", FLOAT, ("batch_size", "sequence_length", width)),
            value("logits", FLOAT, ("batch_size", 2)),
        ],
        [
            *_weights(3, table=(words, width), wq=(width, width), wk=(width, width),
                      wv=(width, width), wc=(width, 2), bc=(2,), lb=(width,)),
            _constant("ln", [1] * width, np.float32), _constant("one", 1, np.float32),
            _constant("low", -1e9, np.float32), _constant("axis1", [1]), _constant("axis2", [2]),
        ],
    )  # fmt: skip


def quantised() -> onnx.ModelProto:
    """The classifier's first layer in int8, with QuantizeLinear and DequantizeLinear
    around weights and activations."""
    weights = np.random.default_rng(4).integers(-127, 128, (16, 8)).astype(np.int8)
    return _model(
        [
            node("QuantizeLinear", ["input", "xs", "xz"], ["xq"]),
            node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
            node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=1),
            node("MatMul", ["xd", "wd"], ["y"]),
            node("Add", ["y", "bias"], ["yb"]),
            node("Relu", ["yb"], ["yr"]),
            node("QuantizeLinear", ["yr", "ys", "yz"], ["yq"]),
            node("DequantizeLinear", ["yq", "ys", "yz"], ["output"]),
        ],
        [value("input", FLOAT, ("batch", 16))],
        [value("output", FLOAT, ("batch", 8))],
        [
            onnx.numpy_helper.from_array(weights, "wq"),
            _constant("ws", np.linspace(0.005, 0.02, 8), np.float32), _constant("wz", [0] * 8, np.int8),
            _constant("xs", 0.03, np.float32), _constant("xz", 128, np.uint8),
            _constant("ys", 0.05, np.float32), _constant("yz", 0, np.uint8),
            *_weights(5, bias=(8,)),
        ],
    )  # fmt: skip


def recurrent() -> onnx.ModelProto:
    """An LSTM of which only the last state is an output; its first output and
    several inputs are left out."""
    return _model(
        [
            node("LSTM", ["x", "w", "r", "", "", "h0", "c0"], ["", "hn", "cn"], hidden_size=8),
            node("Squeeze", ["hn", "axis0"], ["state"]),
        ],
        [value("x", FLOAT, ("time", "batch", 4)), value("h0", FLOAT, (1, "batch", 8)),
         value("c0", FLOAT, (1, "batch", 8))],
        [value("state", FLOAT, ("batch", 8)), value("hn", FLOAT, (1, "batch", 8)),
         value("cn", FLOAT, (1, "batch", 8))],
        [*_weights(6, w=(1, 32, 4), r=(1, 32, 8)), _constant("axis0", [0])],
    )  # fmt: skip


def pieces() -> onnx.ModelProto:
    """A sequence as an output."""
    return _model(
        [node("SplitToSequence", ["x"], ["pieces"], axis=0)],
        [value("x", FLOAT, (4, 3))],
        [helper.make_tensor_sequence_value_info("pieces", FLOAT, None)],
        [],
    )


def trees() -> onnx.ModelProto:
    """What scikit-learn's converters write, with ZipMap off: scaled features, an
    ensemble of decision stumps and deeper trees, labels and probabilities."""
    random = np.random.default_rng(7)
    tree_ids, node_ids, features, values, modes, true, false = [], [], [], [], [], [], []
    class_trees, class_nodes, class_ids, class_weights = [], [], [], []
    for tree in range(5):
        for at in range(7):
            leaf = at >= 3
            tree_ids.append(tree)
            node_ids.append(at)
            features.append(0 if leaf else int(random.integers(0, 4)))
            values.append(0.0 if leaf else float(random.standard_normal() * 0.5))
            modes.append("LEAF" if leaf else "BRANCH_LEQ")
            true.append(0 if leaf else 2 * at + 1)
            false.append(0 if leaf else 2 * at + 2)
            if leaf:
                share = random.dirichlet(np.ones(3)) / 5
                for label in range(3):
                    class_trees.append(tree)
                    class_nodes.append(at)
                    class_ids.append(label)
                    class_weights.append(float(share[label]))
    return _model(
        [
            node("Scaler", ["float_input"], ["scaled"], domain="ai.onnx.ml",
                 offset=[5.8, 3.0, 3.7, 1.2], scale=[1.2, 2.3, 0.57, 1.3]),
            node("TreeEnsembleClassifier", ["scaled"], ["label", "probabilities"],
                 domain="ai.onnx.ml", nodes_treeids=tree_ids, nodes_nodeids=node_ids,
                 nodes_featureids=features, nodes_values=values, nodes_modes=modes,
                 nodes_truenodeids=true, nodes_falsenodeids=false,
                 nodes_hitrates=[1.0] * len(values), nodes_missing_value_tracks_true=[0] * len(values),
                 class_treeids=class_trees, class_nodeids=class_nodes, class_ids=class_ids,
                 class_weights=class_weights, classlabels_int64s=[0, 1, 2], post_transform="NONE"),
        ],
        [value("float_input", FLOAT, (None, 4))],
        [value("label", INT64, (None,)), value("probabilities", FLOAT, (None, 3))],
        [],
    )  # fmt: skip


def tunable() -> onnx.ModelProto:
    """Boxes above a score; threshold and scale are inputs with defaults."""
    return _model(
        [
            node("Mul", ["scores", "scale"], ["scaled"]),
            node("Greater", ["scaled", "threshold"], ["keep"]),
            node("Where", ["keep", "scaled", "zero"], ["kept"]),
        ],
        [value("scores", FLOAT, ("n",)), value("threshold", FLOAT, (1,)), value("scale", FLOAT, (1,))],
        [value("kept", FLOAT, ("n",))],
        [_constant("threshold", [0.5], np.float32), _constant("scale", [1.0], np.float32),
         _constant("zero", 0, np.float32)],
    )  # fmt: skip


def write(folder: Path) -> None:
    """All of them into the folder, and the big one with its weights in a file."""
    made = (classifier, vision, text, quantised, recurrent, pieces, trees, tunable)
    for make in made:
        onnx.save(make(), folder / f"{make.__name__}.onnx")
    (folder / "big").mkdir()
    onnx.save(
        text(width=64, words=512), folder / "big" / "model.onnx", save_as_external_data=True,
        all_tensors_to_one_file=True, location="model.onnx_data", size_threshold=1024,
    )  # fmt: skip
