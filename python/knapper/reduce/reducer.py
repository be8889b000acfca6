"""Shrinks a failing graph: the fewest nodes, then the smallest inputs, that still fail the same way.

A node goes when its results can be inputs (with the values that `evaluate(model, feed)`, a reference, gives
them) or outputs need it no longer. `fails(case)` names the failure or gives None; it must survive a crash
(`isolated`). A case is any dataclass with `model` and `feeds`.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import helper


@dataclass
class Case:
    """A model and its inputs by name, once or more."""

    model: onnx.ModelProto
    feeds: list[dict[str, np.ndarray]]


def with_all_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every value of its graph as an output."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    known = {o.name for o in result.graph.output}
    for node in result.graph.node:
        for name in node.output:
            if name and name not in known:
                known.add(name)
                result.graph.output.add().name = name  # without a type
    return result


def isolated(check, seconds=60):
    """The check in a process of its own: a crash is the kind "crash", a wait "hang"."""
    context = multiprocessing.get_context("fork")

    def run(case: Case):
        ours, theirs = context.Pipe()

        def child():
            theirs.send(check(case))

        process = context.Process(target=child)
        process.start()
        theirs.close()
        try:
            if not ours.poll(seconds):
                process.kill()
                return "hang"
            return ours.recv()
        except EOFError:
            return "crash"
        finally:
            process.kill()
            process.join()
            ours.close()

    return run


def pruned(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without what no output needs."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    needed = {o.name for o in result.graph.output}
    kept = []
    for node in reversed(result.graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed |= {i for i in node.input if i} | captured(node)
    del result.graph.node[:]
    result.graph.node.extend(reversed(kept))
    for name in ("input", "initializer"):
        items = [i for i in getattr(result.graph, name) if i.name in needed]
        del getattr(result.graph, name)[:]
        getattr(result.graph, name).extend(items)
    return result


def captured(node: onnx.NodeProto) -> set[str]:
    """What subgraphs may read from outside."""
    names = set()
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            for inner in graph.node:
                names |= {i for i in inner.input if i} | captured(inner)
            names |= {o.name for o in graph.output}
    return names


def fitting(case: Case, model: onnx.ModelProto) -> Case:
    names = {i.name for i in model.graph.input}
    return replace(case, model=model,
                   feeds=[{k: v for k, v in f.items() if k in names} for f in case.feeds])  # fmt: skip


class Reducer:
    """`report(text)` is told of each step; ValueError for a case that does not fail."""

    def __init__(self, case: Case, fails, evaluate, report=lambda text: None):
        self.case, self.fails, self.evaluate, self.report = case, fails, evaluate, report
        self.kind = fails(case)
        if self.kind is None:
            raise ValueError("the case does not fail")

    def accept(self, case: Case) -> bool:
        if self.fails(case) != self.kind:
            return False
        self.case = case
        self.report(f"{len(case.model.graph.node)} nodes, {len(case.model.graph.input)} inputs: {self.kind}")
        return True

    def run(self) -> Case:
        self.shortest_prefix()
        while any([self.one_binding(), self.one_output(), self.nodes_to_inputs(), self.nodes_around()]):
            pass
        self.simple_inputs()
        return self.case

    def shortest_prefix(self) -> None:
        """Cuts the end off by bisection: a long model needs few checks."""
        case = self.case
        nodes = list(case.model.graph.node)
        passes, fails = 0, len(nodes)
        while fails - passes > 1:
            middle = (passes + fails) // 2
            model = onnx.ModelProto()
            model.CopyFrom(case.model)
            del model.graph.node[middle:]
            made = {o for n in nodes[:middle] for o in n.output if o}
            read = {i for n in nodes[:middle] for i in [*n.input, *captured(n)]}
            wanted = [o.name for o in case.model.graph.output if o.name in made]
            del model.graph.output[:]
            for name in wanted + sorted(made - read - set(wanted)):
                model.graph.output.add().name = name
            if self.accept(fitting(case, pruned(model))):
                fails = middle
            else:
                passes = middle

    def one_binding(self) -> bool:
        if len(self.case.feeds) == 1:
            return False
        return any(self.accept(replace(self.case, feeds=[f])) for f in self.case.feeds)

    def one_output(self) -> bool:
        """Keeps one output if the case still fails. Whether the case changed."""
        outputs = list(self.case.model.graph.output)
        if len(outputs) == 1:
            return False
        for output in outputs:
            model = onnx.ModelProto()
            model.CopyFrom(self.case.model)
            del model.graph.output[:]
            model.graph.output.append(output)
            if self.accept(fitting(self.case, pruned(model))):
                return True
        return False

    def values(self) -> list[dict]:
        """Every value at each binding, by the reference."""
        everything = with_all_outputs(self.case.model)
        return [
            dict(zip([o.name for o in everything.graph.output], self.evaluate(everything, feed)))
            for feed in self.case.feeds
        ]

    def nodes_to_inputs(self) -> bool:
        """Replaces a node's results by inputs; from the front, so that much goes at once."""
        changed = False
        try:
            values = self.values()
        except Exception:  # no reference: nodes go around only
            return False
        for name in [o for n in reversed(self.case.model.graph.node) for o in n.output if o]:
            nodes = self.case.model.graph.node
            if not any(name in n.output for n in nodes) or name not in values[0]:
                continue
            if name in {o.name for o in self.case.model.graph.output}:
                continue
            model = onnx.ModelProto()
            model.CopyFrom(self.case.model)
            for node in model.graph.node:
                for i, output in enumerate(node.output):
                    if output == name:
                        node.output[i] = f"unused/{name}"
            array = values[0][name]
            model.graph.input.append(helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype),
                list(array.shape) if len(self.case.feeds) == 1 else
                [f"{name}/{i}" for i in range(array.ndim)]))  # fmt: skip
            feeds = [f | {name: v[name]} for f, v in zip(self.case.feeds, values)]
            candidate = fitting(replace(self.case, feeds=feeds), pruned(model))
            changed |= self.accept(candidate)
        return changed

    def nodes_around(self) -> bool:
        """Makes an earlier value an output instead of the last."""
        for node in list(self.case.model.graph.node)[:-1]:
            for name in node.output:
                if not name:
                    continue
                model = onnx.ModelProto()
                model.CopyFrom(self.case.model)
                del model.graph.output[:]
                model.graph.output.add().name = name
                if self.accept(fitting(self.case, pruned(model))):
                    return True
        return False

    def simple_inputs(self) -> None:
        """Inputs of ones, or zeros, where the failure stays."""
        for feed in range(len(self.case.feeds)):
            for name in list(self.case.feeds[feed]):
                array = self.case.feeds[feed][name]
                for simple in (np.ones_like(array), np.zeros_like(array)):
                    if np.array_equal(array, simple):
                        break
                    feeds = [dict(f) for f in self.case.feeds]
                    feeds[feed][name] = simple
                    if self.accept(replace(self.case, feeds=feeds)):
                        break

