"""What a model gives by rules of the product that may change which elements are finite.

Kernels widen values of 16 bits to float32 and round what they store (docs/stack/fusion.md): between the
operators of one kernel nothing overflows float16 and nothing vanishes in it. ONNX rounds each result.
A cast rounds in both.

A product with rows that are one in one place and else zero is a choice of rows (docs/stack/simplify.md):
what is not finite in the others does not come in by 0 * inf.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
NAMES = ("float16", "bfloat16")


def _wide_type(kind: onnx.TypeProto) -> None:
    which = kind.WhichOneof("value")
    if which == "tensor_type" and kind.tensor_type.elem_type in HALVES:
        kind.tensor_type.elem_type = TensorProto.FLOAT
    elif which in ("sequence_type", "optional_type"):
        _wide_type(getattr(kind, which).elem_type)


def _wide_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in HALVES:
        wide = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def _wide_nodes(nodes) -> None:
    made = []
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                _wide_tensor(attribute.t)
            elif attribute.type == AttributeProto.GRAPH:
                _wide_graph(attribute.g)
            elif attribute.name == "dtype" and attribute.i in HALVES:
                attribute.i = TensorProto.FLOAT
        made.append(node)
        to = next((a for a in node.attribute if node.op_type == "Cast" and a.name == "to"), None)
        if to is not None and to.i in HALVES:
            result, node.output[0] = node.output[0], f"rounded/{node.output[0]}"
            made.append(helper.make_node("Cast", [node.output[0]], [result], to=TensorProto.FLOAT))
    made = [onnx.NodeProto.FromString(n.SerializeToString()) for n in made]
    del nodes[:]
    nodes.extend(made)


def _wide_graph(graph: onnx.GraphProto) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        _wide_type(value.type)
    for tensor in graph.initializer:
        _wide_tensor(tensor)
    _wide_nodes(graph.node)


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float32 wherever it has 16 bits, but for the results of casts, which are rounded."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    _wide_graph(result.graph)
    for function in result.functions:
        _wide_nodes(function.node)
    return result


def wide_answer(evaluate, model: onnx.ModelProto, feed: dict, like: list[np.ndarray]) -> list[np.ndarray] | None:
    """What the reference gives with float32 between the operators, in the types of `like`; None where there
    are no 16 bits or it has no answer."""
    wide = {k: a.astype(np.float32) if str(a.dtype) in NAMES else a for k, a in feed.items()}
    made = widened(model)
    if made.SerializeToString() == model.SerializeToString():
        return None
    answers = evaluate(made, wide)
    with np.errstate(all="ignore"):
        return [a.astype(e.dtype) if str(e.dtype) in NAMES else a for e, a in zip(like, answers)]


def chosen_rows(evaluate, model: onnx.ModelProto, feed: dict, like: list[np.ndarray]) -> list[np.ndarray] | None:
    """What the reference gives where products with one-hot rows choose rows; None where there are none."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    hot = {n.output[0] for n in result.graph.node if n.op_type in ("Hardmax", "OneHot") and _axis(n) == -1}
    nodes = []
    for node in result.graph.node:
        if node.op_type == "MatMul" and node.input[0] in hot:
            row = f"row/{node.output[0]}"
            nodes.append(helper.make_node("ArgMax", [node.input[0]], [row], axis=-1, keepdims=0))
            node = helper.make_node("Gather", [node.input[1], row], [node.output[0]], axis=0)
        nodes.append(node)
    if len(nodes) == len(model.graph.node):
        return None
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    return evaluate(result, feed)


def _axis(node: onnx.NodeProto) -> int:
    return next((a.i for a in node.attribute if a.name == "axis"), -1)
