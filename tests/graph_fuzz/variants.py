"""What a model gives by rules of the product that may change which elements are finite.

Kernels widen values of 16 bits to float32 and round what they store (docs/stack/fusion.md): between the
operators of one kernel nothing overflows float16 and nothing vanishes in it. ONNX rounds each result.
A cast rounds in both.

A matmul with rows that are one in one place and else zero is a choice of rows (docs/stack/simplify.md):
what is not finite in the others does not come in by 0 * inf.

Operators that the standard defines by others round, overflow and vanish between these: what noise does to
their operands and results does not tell that.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnx.inliner
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
    """What the reference gives where matmuls with one-hot rows choose rows; None where there are none."""
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


GATES = [("", "SwiGLU"), ("", "Swish")]  # a sigmoid that may vanish, times what may be infinite


def spelled_out(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with gates and normalisations as the operators that define them; None where there are none
    or it has 16 bits, which these do not compute in: squares overflow float32, and a mean far larger than
    what the numbers differ by is off by a unit of its own."""
    if widened(model).SerializeToString() != model.SerializeToString():
        return None
    result = onnx.inliner.inline_selected_functions(model, GATES, inline_schema_functions=True)
    nodes = []
    for node in result.graph.node:
        spell = {"RMSNormalization": _rms_nodes, "InstanceNormalization": _instance_nodes}.get(node.op_type)
        nodes += spell(node) if spell else [node]
    if len(nodes) == len(model.graph.node):
        return None
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    return result


def _over_root(node: onnx.NodeProto, x: str, squares: str, name) -> list[onnx.NodeProto]:
    """`x` over the root of the mean of `squares` in its last dim, in the shape of the node's operand: name("n")."""
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    return [
        helper.make_node("Constant", [], [name("epsilon")], value_float=epsilon),
        helper.make_node("CastLike", [name("epsilon"), node.input[0]], [name("e")]),
        helper.make_node("Constant", [], [name("last")], value_ints=[-1]),
        helper.make_node("ReduceMean", [squares, name("last")], [name("mean_square")]),
        helper.make_node("Add", [name("mean_square"), name("e")], [name("variance")]),
        helper.make_node("Sqrt", [name("variance")], [name("root")]),
        helper.make_node("Div", [x, name("root")], [name("over")]),
        helper.make_node("Shape", [node.input[0]], [name("shape")]),
        helper.make_node("Reshape", [name("over"), name("shape")], [name("n")]),
    ]


def _rms_nodes(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    name = lambda part: f"spelled/{node.output[0]}/{part}"  # noqa: E731
    return [
        helper.make_node("Flatten", [node.input[0]], [name("x")], axis=_axis(node)),
        helper.make_node("Mul", [name("x"), name("x")], [name("squares")]),
        *_over_root(node, name("x"), name("squares"), name),
        helper.make_node("Mul", [name("n"), node.input[1]], [node.output[0]]),
    ]


def _instance_nodes(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    name = lambda part: f"spelled/{node.output[0]}/{part}"  # noqa: E731
    made = [
        helper.make_node("Constant", [], [name("rows")], value_ints=[0, 0, -1]),
        helper.make_node("Constant", [], [name("dim")], value_ints=[-1]),
        helper.make_node("Reshape", [node.input[0], name("rows")], [name("x")]),
        helper.make_node("ReduceMean", [name("x"), name("dim")], [name("mean")]),
        helper.make_node("Sub", [name("x"), name("mean")], [name("d")]),
        helper.make_node("Mul", [name("d"), name("d")], [name("squares")]),
    ]
    # Scale and bias are of the second dim.
    for at, part in ((1, "scale"), (2, "bias")):
        made.append(helper.make_node("Unsqueeze", [node.input[at], name("dim")], [name(part)]))
    over = _over_root(node, name("d"), name("squares"), name)
    over[-2:] = [
        helper.make_node("Mul", [name("over"), name("scale")], [name("scaled")]),
        helper.make_node("Add", [name("scaled"), name("bias")], [name("y")]),
        helper.make_node("Shape", [node.input[0]], [name("shape")]),
        helper.make_node("Reshape", [name("y"), name("shape")], [node.output[0]]),
    ]
    return made + over


def labelled(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model for onnx's evaluator, whose LinearClassifier looks for the largest score among the
    transformed ones, where a logistic function makes several of them 1: labels are of the scores as they are.
    Where all leaves of a TreeEnsembleClassifier are of one class, it takes that for one of two, however many
    labels there are, and writes over the first two scores: a leaf gets a score of 0 for another class."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    nodes = []
    for node in model.graph.node:
        nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
        attributes = {a.name: a for a in nodes[-1].attribute}
        transform = attributes.get("post_transform")
        if node.op_type == "LinearClassifier" and transform and transform.s == b"LOGISTIC":
            nodes.append(onnx.NodeProto.FromString(nodes[-1].SerializeToString()))
            transform.s = b"NONE"
            nodes[-2].output[1] = f"plain/{node.output[1]}"
            nodes[-1].output[0] = f"transformed/{node.output[0]}"
        labels = attributes.get("classlabels_int64s")
        if node.op_type == "TreeEnsembleClassifier" and labels and len(labels.ints) > 2:
            classes = attributes["class_ids"].ints
            if len(set(classes)) == 1:
                classes.append(1 if classes[0] == 0 else 0)
                for leaves in ("class_treeids", "class_nodeids"):
                    attributes[leaves].ints.append(attributes[leaves].ints[0])
                attributes["class_weights"].floats.append(0)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    return result


def _axis(node: onnx.NodeProto) -> int:
    return next((a.i for a in node.attribute if a.name == "axis"), -1)
