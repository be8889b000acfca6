"""One graph: compiled, run at each binding, compared with the reference and with onnx's evaluator."""

from __future__ import annotations

from dataclasses import dataclass

import graph_compare
import numpy as np
from evaluator import Died, Evaluator, Refused, onnx_answer, runtime_answer
from graph_builder import Case
from onnx import TensorProto, helper
from variants import chosen_rows, labelled, spelled_out, wide_answer

import knapper


@dataclass
class Outcome:
    """What became of a case. `kind`: "same", "refused", or what is wrong: "differs", "onnx" (the
    reference differs from onnx's evaluator, and ONNX Runtime does not side with it), "internal",
    "run" (one refuses what the other runs)."""

    kind: str
    text: str = ""
    elements: int = 0
    noise: int = 0  # comparisons that needed noise
    onnx: int = 0  # bindings that onnx's evaluator answered

    @property
    def bad(self) -> bool:
        return self.kind not in ("same", "refused")


# Where onnx's evaluator itself is not exact or not right: by operator, of all types or only some.
UNTRUSTED = {
    "LRN": "any",  # the window, the power in float64
    "Attention": "float64",  # the root of its scale is of float32
    "LayerNormalization": "float64",  # computes in float32
    "BatchNormalization": "float64",  # their epsilon is not the attribute's float
    "GroupNormalization": "any",  # its variance is the difference of two large sums
    "InstanceNormalization": "float64",
    "Resize": "float64",
    "DFT": "float64",
    "RMSNormalization": "float64",
    "HardSwish": "float64",
    "Erf": "float64",
    "Gelu": "float64",
    "MeanVarianceNormalization": "any",  # the difference of two large sums
    "LpNormalization": "any",  # without absolute values
    "GlobalMaxPool": "any",  # a dim too many
    "MaxPool": "any",  # pads that differ at the sides
    "ReduceSumSquare": "any",  # of int32 it is int64
    "ConvTranspose": "any",  # groups
    "Normalizer": "any",  # MAX without a sign; ONNX Runtime keeps it
    "Loop": "any",  # stacks what each iteration gives along its first dim; a nested If sees the first iteration
    "Optional": "any",  # what it gets from one has a dim too many
    "CausalConvWithState": "float64",  # its silu computes in float32
    "DynamicQuantizeLinear": "any",  # of zeros its scale is not (0 - 0) / 255
    "SequenceInsert": "any",  # at the end, by position, goes to the front
}
# Of Resize: its coordinates are of float32, and where they should be whole it takes the element below.
AT_CORNERS = (helper.make_attribute("mode", "nearest"),
              helper.make_attribute("coordinate_transformation_mode", "tf_crop_and_resize"))  # fmt: skip
PASSED_OVER = ("clip", "activations", "input_forget")  # by its recurrent operators; lengths too


def trusted(model) -> bool:
    types = {t.data_type for t in model.graph.initializer}
    types |= {i.type.tensor_type.elem_type for i in model.graph.input}
    types |= {a.i for n in model.graph.node for a in n.attribute if n.op_type == "Cast" and a.name == "to"}
    if types & {TensorProto.FLOAT16, TensorProto.BFLOAT16}:
        return False  # it adds up in them
    if any(n.op_type in ("RNN", "GRU", "LSTM") and (len(n.input) > 4 or any(a.name in PASSED_OVER for a in n.attribute))
           for n in model.graph.node):  # fmt: skip
        return False
    if any(n.op_type == "Resize" and all(a in n.attribute for a in AT_CORNERS) for n in model.graph.node):
        return False
    double = TensorProto.DOUBLE in types
    return not any(
        UNTRUSTED.get(n.op_type) == "any" or (double and n.op_type in UNTRUSTED)
        for n in model.graph.node
    )


def confirmed(evaluate, model, feed, expected) -> bool:
    """Whether ONNX Runtime gives what the reference gives."""
    answer = runtime_answer(model, feed)
    return answer is not None and not differences(evaluate, model, feed, expected, answer)[0]


def overflows(evaluate, model, feed, expected, actual) -> bool:
    """Whether the answers differ only where one is not finite, and evaluators that compute in the
    tensors' own types (the reference computes float32 in float64) give what the product gives there,
    or the reference, of the model as a rewrite that may change them makes it (variants.py). Or in whole
    outputs, which are what such a rewrite gives; with recurrent operators, what these evaluators give.
    The order of a product of many numbers decides whether it is infinite on the way."""
    ops = {n.op_type for n in model.graph.node}
    if ops & {"ReduceProd", "CumProd"} and not any(
            graph_compare.wrong(e, a, unstable=graph_compare.not_finite(e, a)) for e, a in zip(expected, actual)):
        return True
    # Recurrent operators round within: where z is near 1, little of 1 - z is left.
    agrees = graph_compare.same_or_other if ops & {"RNN", "GRU", "LSTM"} else graph_compare.same_overflow
    for answer in (runtime_answer(model, feed), onnx_answer(model, feed)):
        if answer is not None and all(map(agrees, expected, actual, answer)):
            return True
    for variant in (wide_answer, chosen_rows, wide_onnx_answer):
        try:
            answer = variant(evaluate, model, feed, expected)
        except Refused:
            continue
        if answer is None or any(a.shape != e.shape for e, a in zip(expected, answer)):
            continue
        ends = [np.where(graph_compare.ends_apart(e, a), w, e) for e, a, w in zip(expected, actual, answer)]
        if all(map(graph_compare.same_or_other, ends, actual, answer)):
            return True
    return False


def wide_onnx_answer(evaluate, model, feed, like):
    """What onnx's evaluator gives with float32 between operators of 16 bits: it overflows inside of them too."""
    return wide_answer(lambda made, wide: onnx_answer(made, wide), model, feed, like)


def differences(evaluate, model, feed, expected, actual, with_onnx=False):
    """The first output that differs, or None; and whether it took noise to say so."""
    names = [o.name for o in model.graph.output]
    first = [graph_compare.wrong(e, a) for e, a in zip(expected, actual)]
    if not any(first):
        return None, False
    for made, counts in ((model, graph_compare.SAMPLES), (spelled_out(model), graph_compare.SAMPLES[-1:])):
        for samples in counts if made is not None else ():
            try:
                allowed, unstable = graph_compare.spread(evaluate, made, feed, expected, samples, with_onnx)
            except Refused as error:
                return f"{next(f for f in first if f)}; no noise: {error}", True
            texts = [
                f"output {name}: {text}"
                for name, e, a, w, u in zip(names, expected, actual, allowed, unstable)
                if (text := graph_compare.wrong(e, a, w, u))
            ]
            if not texts:
                return None, True
    return texts[0], True


def check(evaluate: Evaluator, case: Case, options: dict, with_onnx=True) -> Outcome:
    done = Outcome("same")
    threads = options.get("threads", 1)
    given = {k: v for k, v in options.items() if k != "threads" and v}
    try:
        module = knapper.compile(case.model, threads=threads, cache=False, **given)
    except knapper.InternalError as error:
        return Outcome("internal", str(error))
    except knapper.Error as error:
        if "the artefact is damaged" in str(error):  # its own
            return Outcome("internal", str(error))
        try:  # refusing is right where the importer refuses too, or names what is missing
            evaluate(case.model, case.feeds[0])
        except Refused as refusal:
            if str(refusal).startswith("import"):
                return Outcome("refused", str(error))
        except Died as death:
            return Outcome("internal", str(death))
        return Outcome("refused", str(error))
    for at, feed in enumerate(case.feeds):
        actual, expected, said, refused = None, None, "", ""
        try:
            actual = [np.asarray(y) for y in module.run(dict(feed))]
        except knapper.InternalError as error:
            return Outcome("internal", f"binding {at}: {error}")
        except knapper.Error as error:
            said = str(error)
        try:
            expected = evaluate(case.model, feed)
        except Refused as error:
            refused = str(error)
        except Died as error:
            return Outcome("internal", f"binding {at}: {error}")
        if actual is None or expected is None:
            if actual is None and expected is None:
                return Outcome("refused", said)
            return Outcome("run", f"binding {at}: compiled: {said or 'runs'}; reference: {refused or 'runs'}")
        text, noise = differences(evaluate, case.model, feed, expected, actual)
        done.noise += noise
        done.elements += sum(a.size for a in actual)
        if text and not overflows(evaluate, case.model, feed, expected, actual):
            return Outcome("differs", f"binding {at}: {text}")
        if with_onnx and not case.special and trusted(case.model):
            answer = onnx_answer(labelled(case.model), feed)
            if answer is not None:
                done.onnx += 1
                text, _ = differences(evaluate, case.model, feed, expected, answer, with_onnx=True)
                if text and not confirmed(evaluate, case.model, feed, expected):
                    return Outcome("onnx", f"binding {at}: {text}")
    return done
