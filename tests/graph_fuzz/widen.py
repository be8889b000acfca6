"""A model of float16 or bfloat16 with float32 between its operators, as compiled code has it in a kernel.

Kernels widen values of 16 bits to float32 and round what they store (docs/stack/fusion.md): between the
operators of one kernel nothing overflows float16 and nothing vanishes in it. ONNX rounds each result.
A cast rounds in both.
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
