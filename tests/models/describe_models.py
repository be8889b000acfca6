#!/usr/bin/env python3
"""Prints what exported models are made of, and checks them with ONNX Runtime.

    tests/models/describe_models.py [--check] FILE.onnx...
"""

from __future__ import annotations

import argparse
import collections
from pathlib import Path

import numpy as np
import onnx


def signature(values) -> str:
    def dim(d):
        return d.dim_param or str(d.dim_value)

    return ", ".join(
        f"{v.name}: "
        f"{onnx.TensorProto.DataType.Name(v.type.tensor_type.elem_type)}"
        f"[{', '.join(dim(d) for d in v.type.tensor_type.shape.dim)}]"
        for v in values
    )


def describe(path: Path) -> None:
    graph = (model := onnx.load(path)).graph
    opsets = ", ".join(f"{o.domain or 'ai.onnx'} {o.version}" for o in model.opset_import)
    counts = collections.Counter(node.op_type for node in graph.node)
    print(f"## {path.stem}\n")
    print(f"opset {opsets}; {len(graph.node)} nodes; {len(model.functions)} functions; {path.stat().st_size / 1e6:.0f} MB\n")
    print(f"- in: {signature(graph.input)}")
    print(f"- out: {signature(graph.output)}")
    print("- ops: " + ", ".join(f"{n} {c}" for n, c in counts.most_common()) + "\n")


def check(path: Path) -> bool:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(path, options)
    good = True
    for file in sorted(path.parent.glob(f"{path.stem}.[0-9].npz")):
        arrays = np.load(file)
        feed = {k[3:]: arrays[k] for k in arrays if k.startswith("in.")}
        feed = {i.name: feed[i.name] for i in session.get_inputs()}
        names = [o.name for o in session.get_outputs()]
        for name, value in zip(names, session.run(names, feed)):
            wanted = arrays[f"out.{name}"]
            error = np.abs(value - wanted).max() / np.abs(wanted).max()
            good &= bool(error <= 2e-4) and value.shape == wanted.shape
            print(f"{file.name} {name} {value.shape} error {error:.1e} std {wanted.std():.2f}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    good = True
    for path in arguments.files:
        if arguments.check:
            good &= check(path)
        else:
            describe(path)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
