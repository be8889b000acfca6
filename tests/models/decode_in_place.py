"""The decoder of `decode_step.py` as the standard's newer operators say it: keys and
values in a cache of fixed room, which TensorScatter writes and Attention reads.

It is built from the exported model's weights, so both give the same numbers.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
MATMULS = ("q", "k", "v", "o", "gate", "up", "down")
EPSILON, BASE, POSITIONS = 1e-6, 10000.0, 2048


def cache_names(prefix: str, layers: int) -> list[str]:
    return [f"{prefix}.{layer}.{kind}" for layer in range(layers) for kind in ("key", "value")]


class Weights:
    """Those of an exported decoder: matmuls in the order of their nodes."""

    def __init__(self, exported: onnx.ModelProto) -> None:
        arrays = {t.name: t for t in exported.graph.initializer}
        self.matmuls = [
            numpy_helper.to_array(arrays[node.input[1]])
            for node in exported.graph.node
            if node.op_type == "MatMul" and node.input[1] in arrays and len(arrays[node.input[1]].dims) == 2
        ]
        self.layers = (len(self.matmuls) - 1) // len(MATMULS)
        assert len(self.matmuls) == self.layers * len(MATMULS) + 1
        self.arrays = arrays

    def named(self, name: str) -> np.ndarray:
        return numpy_helper.to_array(self.arrays[f"inner.model.{name}.weight"])


def build(exported: onnx.ModelProto, width: int = 64) -> onnx.ModelProto:
    """Logits of a token each and the caches with it, in place of those before.

    Inputs: `input_ids` [batch, 1], `held` [batch]: how many tokens each cache
    has, `past.I.key`, `past.I.value` [batch, heads, room, width]."""
    weights = Weights(exported)
    nodes, constants = [], []

    def constant(name: str, array: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(op: str, inputs: list[str], name: str, **attributes) -> str:
        nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def norm(x: str, name: str, weight: str) -> str:
        return node("RMSNormalization", [x, constant(f"{name}.scale", weights.named(weight))], name, epsilon=EPSILON)

    angles = np.outer(np.arange(POSITIONS), BASE ** (-np.arange(0, width, 2) / width)).astype(np.float32)
    cos, sin = constant("cos", np.cos(angles)), constant("sin", np.sin(angles))
    split, merge = constant("split", np.array([0, 0, -1, width])), constant("merge", np.array([0, 0, -1]))
    at = node("Unsqueeze", ["held", constant("last", np.array([1]))], "position")
    valid = node("Add", ["held", constant("one", np.array([1]))], "valid")
    x = node("Gather", [constant("embedding", weights.named("embed_tokens")), "input_ids"], "x")
    heads = 0
    for layer in range(weights.layers):
        own = dict(zip(MATMULS, weights.matmuls[layer * len(MATMULS) :]))
        heads = own["k"].shape[1] // width

        def matmul(x: str, which: str, own=own, layer=layer) -> str:
            name = f"{layer}.{which}"
            return node("MatMul", [x, constant(f"{name}.weight", own[which])], name)

        def split_heads(x: str) -> str:
            return node("Transpose", [node("Reshape", [x, split], f"{x}.split")], f"{x}.heads", perm=[0, 2, 1, 3])

        def rotate(x: str) -> str:
            return node("RotaryEmbedding", [x, cos, sin, at], f"{x}.rotated")

        def hold(kind: str, fresh: str, layer=layer) -> str:
            return node("TensorScatter", [f"past.{layer}.{kind}", fresh, "held"], f"present.{layer}.{kind}", axis=2)

        h = norm(x, f"{layer}.before", f"layers.{layer}.input_layernorm")
        query = rotate(split_heads(matmul(h, "q")))
        key = hold("key", rotate(split_heads(matmul(h, "k"))))
        value = hold("value", split_heads(matmul(h, "v")))
        y = node("Attention", [query, key, value, "", "", "", valid], f"{layer}.attention")
        y = node("Transpose", [y], f"{layer}.merged", perm=[0, 2, 1, 3])
        y = node("Reshape", [y, merge], f"{layer}.rows")
        x = node("Add", [x, matmul(y, "o")], f"{layer}.attended")
        h = norm(x, f"{layer}.middle", f"layers.{layer}.post_attention_layernorm")
        gate = matmul(h, "gate")
        gate = node("Mul", [gate, node("Sigmoid", [gate], f"{layer}.sigmoid")], f"{layer}.silu")
        h = node("Mul", [gate, matmul(h, "up")], f"{layer}.hidden")
        x = node("Add", [x, matmul(h, "down")], f"{layer}.out")
    head = constant("head", weights.matmuls[-1])
    node("MatMul", [norm(x, "end", "norm"), head], "logits")

    def info(name: str, kind: int, dims: list) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, dims)

    room = ["batch", heads, "room", width]
    inputs = [info("input_ids", INT64, ["batch", 1]), info("held", INT64, ["batch"])]
    inputs += [info(name, FLOAT, room) for name in cache_names("past", weights.layers)]
    outputs = [info("logits", FLOAT, ["batch", 1, "words"])]
    outputs += [info(name, FLOAT, room) for name in cache_names("present", weights.layers)]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
