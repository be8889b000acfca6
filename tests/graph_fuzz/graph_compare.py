"""Whether two answers agree, within what rounding may do to this very graph.

Small differences pass at once. Else the graph is evaluated again with noise of a few units in the last
place on every operand and result of every operator (of constants, those that stand first: others many
operators want to stay constant), tiny values made zeros in half of the samples: an element may be off by what the noise does to it, and an element whose
kind changes (infinite, another index, another integer) says nothing.
"""

from __future__ import annotations

import numpy as np
import onnx
from evaluator import Refused
from onnx import TensorProto, helper, numpy_helper

from knapper.reduce.reducer import with_all_outputs

RELATIVE = {"float32": 2e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.6e-2}
OF_LARGEST = {"float32": 1e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 8e-3}
UNIT = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}
SMALLEST = {"float32": 2.0**-149, "float64": 5e-324, "float16": 2.0**-24, "bfloat16": 2.0**-133}
TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16,
         "bfloat16": TensorProto.BFLOAT16}  # fmt: skip
# A result this close to zero may be zero: softmax's exponential has no denormal ones.
TINY = {"float32": 2.0**-124, "float64": 2.0**-1020, "bfloat16": 2.0**-124}
SUMS = ("DFT", "STFT")  # some of their results are sums that cancel
WINDOWS = ("BlackmanWindow",)  # its ends are three numbers that cancel: onnx's evaluator leaves what they round to
CUBIC = helper.make_attribute("mode", "cubic")  # of Resize: onnx's evaluator has its weights, which cancel, in float32
ABSOLUTE = ("Gelu",)  # as near as numbers around 1 are to each other (docs/performance/math.md)
SAMPLES = (4, 16, 64)  # of noise, until it explains the difference


def wrong(expected: np.ndarray, actual: np.ndarray, allowed=None, unstable=None) -> str | None:
    """What differs first, or None. `allowed`: what each element may be off by besides."""
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return f"is {actual.dtype}{list(actual.shape)}, expected {expected.dtype}{list(expected.shape)}"
    kind = str(expected.dtype)
    if kind not in RELATIVE:
        bad = expected != actual
        if unstable is not None:
            bad &= ~unstable
    else:
        with np.errstate(all="ignore"):
            e, a = expected.astype(np.float64), actual.astype(np.float64)
            scale = np.max(np.abs(e[np.isfinite(e)]), initial=0)
            bound = RELATIVE[kind] * np.abs(e) + OF_LARGEST[kind] * scale + 2 * SMALLEST[kind]
            if allowed is not None:
                bound = bound + allowed
            bound = np.where(np.isfinite(e), bound, 0)  # nothing but infinity is near infinity
            bad = ~((e == a) | (np.isnan(e) & np.isnan(a)) | (np.abs(e - a) <= bound))
            if unstable is not None:
                bad &= ~unstable
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return (f"element {list(at)} of {kind}{list(expected.shape)} is {actual[at]!r}, expected "
            f"{expected[at]!r} ({int(bad.sum())} differ)")  # fmt: skip


def not_finite(expected: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Which elements are not finite in one or the other."""
    if str(expected.dtype) not in RELATIVE or expected.shape != actual.shape:
        return np.zeros(expected.shape, bool)
    with np.errstate(all="ignore"):
        return ~np.isfinite(expected.astype(np.float64)) | ~np.isfinite(actual.astype(np.float64))


def ends_apart(expected: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Which elements differ and are not finite in one or the other."""
    with np.errstate(all="ignore"):
        same = (expected == actual) | (np.isnan(expected) & np.isnan(actual)) if str(expected.dtype) in RELATIVE else True
    return not_finite(expected, actual) & ~np.broadcast_to(same, expected.shape)


def same_overflow(expected: np.ndarray, actual: np.ndarray, other: np.ndarray) -> bool:
    """Whether `actual` is right but for elements that are not finite, here or in `expected`, and are so
    in `other` too."""
    if str(expected.dtype) not in RELATIVE or wrong(other, actual):
        return not wrong(expected, actual)
    return not wrong(expected, actual, unstable=not_finite(expected, actual))


def same_or_other(expected: np.ndarray, actual: np.ndarray, other: np.ndarray) -> bool:
    """Whether `actual` is right, or what `other` is."""
    return not wrong(expected, actual) or not wrong(other, actual)


def cancels(node: onnx.NodeProto, with_onnx: bool) -> bool:
    """Whether a result of the node may be as far off as its largest one."""
    theirs = node.op_type in WINDOWS or (node.op_type == "Resize" and CUBIC in node.attribute)
    return node.op_type in SUMS or (with_onnx and theirs)


def noisy(model, types: dict[str, str], sample: int, constants=frozenset(), with_onnx=False) -> onnx.ModelProto:
    """The model with noise on every float operand and result. `types`: NumPy's name by value; `constants`:
    values that get noise only as first operands; `with_onnx`: onnx's evaluator has the other answer."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    nodes, number = [], 0

    def disturbed(name: str, to: str | None = None, operator="", summed=False) -> str:
        nonlocal number
        kind = types.get(name)
        if kind not in UNIT:
            if to:
                nodes.append(helper.make_node("Identity", [name], [to]))
            return to or name
        number += 1
        to = to or f"noise/{number}"
        unit = UNIT[kind]
        element = TensorProto.DOUBLE if kind == "float64" else TensorProto.FLOAT
        low, high = 1 - 4 * unit, 1 + 4 * unit
        nodes.append(helper.make_node(
            "RandomUniformLike", [name], [f"{to}/factor"], low=0.0, high=1.0, dtype=element,
            seed=float(1000 * sample + number)))  # fmt: skip
        # 1 + noise is made here: an attribute is a float and would round.
        width, start = f"{to}/width", f"{to}/start"
        array = np.float64 if kind == "float64" else np.float32
        graph.initializer.append(numpy_helper.from_array(np.asarray(high - low, array), width))
        graph.initializer.append(numpy_helper.from_array(np.asarray(low, array), start))
        nodes.append(helper.make_node("Mul", [f"{to}/factor", width], [f"{to}/part"]))
        nodes.append(helper.make_node("Add", [f"{to}/part", start], [f"{to}/wide"]))
        nodes.append(helper.make_node("Cast", [f"{to}/wide"], [f"{to}/near"], to=TYPES[kind]))
        if not summed and (operator not in ABSOLUTE or kind == "float64"):
            flushed = sample % 2 and kind in TINY
            moved = f"{to}/moved" if flushed else to
            nodes.append(helper.make_node("Mul", [name, f"{to}/near"], [moved]))
            if flushed:
                for constant, value in (("tiny", TINY[kind]), ("zero", 0)):
                    nodes.append(helper.make_node(
                        "Constant", [], [f"{to}/{constant}"],
                        value=helper.make_tensor("value", TYPES[kind], [], [value])))  # fmt: skip
                nodes.append(helper.make_node("Abs", [moved], [f"{to}/size"]))
                nodes.append(helper.make_node("Less", [f"{to}/size", f"{to}/tiny"], [f"{to}/is_tiny"]))
                nodes.append(helper.make_node("Where", [f"{to}/is_tiny", f"{to}/zero", moved], [to]))
            return to
        if summed:  # what cancels in a long sum is as far off as its largest result
            nodes.append(helper.make_node("Abs", [name], [f"{to}/size"]))
            nodes.append(helper.make_node("ReduceMax", [f"{to}/size"], [f"{to}/largest"], keepdims=1))
        else:
            one = helper.make_tensor("value", TYPES[kind], [], [1])
            nodes.append(helper.make_node("Constant", [], [f"{to}/largest"], value=one))
        nodes.append(helper.make_node("Mul", [f"{to}/largest", f"{to}/near"], [f"{to}/more"]))
        nodes.append(helper.make_node("Sub", [f"{to}/more", f"{to}/largest"], [f"{to}/off"]))
        nodes.append(helper.make_node("Add", [name, f"{to}/off"], [to]))
        return to

    for node in model.graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for i, name in enumerate(node.input):
            if name and (i == 0 or name not in constants):
                copy.input[i] = disturbed(name)
        for i, name in enumerate(node.output):
            if types.get(name) in UNIT:
                copy.output[i] = f"exact/{name}"
                types[f"exact/{name}"] = types[name]
        nodes.append(copy)
        for name in node.output:
            if types.get(name) in UNIT:
                disturbed(f"exact/{name}", name, node.op_type, cancels(node, with_onnx))
    del graph.node[:]
    graph.node.extend(nodes)
    return result


def inferred(model: onnx.ModelProto) -> dict[str, str]:
    """NumPy's name of the element type of each tensor, as onnx infers it."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    names = {element: name for name, element in TYPES.items()}
    return {v.name: names[v.type.tensor_type.elem_type] for v in [*graph.value_info, *graph.output]
            if v.type.tensor_type.elem_type in names}  # fmt: skip


def spread(evaluate, model, feed, expected, samples, with_onnx=False):
    """What noise does to each output: how far off it gets, and which elements change their kind."""
    everything = with_all_outputs(model)
    try:
        values = evaluate(everything, feed)
        types = {o.name: str(v.dtype) for o, v in zip(everything.graph.output, values)}
    except Exception:  # a sequence among them
        types = inferred(model)
    types |= {name: str(a.dtype) for name, a in feed.items()}
    constants = {c.name: str(numpy_helper.to_array(c).dtype) for c in model.graph.initializer}
    for name in constants:
        types.pop(name, None)
    allowed = [np.zeros(e.shape) for e in expected]
    unstable = [np.zeros(e.shape, bool) for e in expected]
    for sample in range(samples):
        try:
            answers = evaluate(noisy(model, types | constants, sample, constants, with_onnx), feed)
        except Refused:  # an operator that wants its first one constant
            answers = evaluate(noisy(model, dict(types), sample, with_onnx=with_onnx), feed)
        for i, (e, a) in enumerate(zip(expected, answers)):
            if e.shape != a.shape:
                unstable[i][...] = True
                continue
            with np.errstate(all="ignore"):
                if str(e.dtype) not in UNIT:
                    unstable[i] |= e != a
                    continue
                off = np.abs(e.astype(np.float64) - a.astype(np.float64))
            same = (e == a) | (np.isnan(e) & np.isnan(a))
            off = np.where(same, 0, off)
            unstable[i] |= ~np.isfinite(off)
            allowed[i] = np.maximum(allowed[i], np.where(np.isfinite(off), off, 0))
    return [4 * a for a in allowed], unstable
