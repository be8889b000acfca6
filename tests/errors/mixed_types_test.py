"""Every operator with one input of another element type than its schema allows: refused as the user's error, or
compiled where the type may differ. Never an internal error, never a crash."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import onnx
from onnx import TensorProto

PACKAGE = Path(__file__).resolve().parents[2] / "python"
OTHERS = {TensorProto.FLOAT: TensorProto.INT32}  # any other type: FLOAT
CHILD = """
import struct, sys
import knapper
stream = sys.stdin.buffer
while size := stream.read(4):
    model = stream.read(*struct.unpack("<I", size))
    try:
        knapper.compile(model, cache=False)
        said = "compiled"
    except knapper.UserError:
        said = "refused"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    print(said.replace(chr(10), " "), flush=True)
"""


def variants():
    """(name, bytes): the first node case of each operator, one input changed."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    seen = set()
    for case in cases:
        model = case.model
        if model is None or not model.graph.node or model.graph.node[0].op_type in seen:
            continue
        seen.add(model.graph.node[0].op_type)
        for i, given in enumerate(model.graph.input):
            if given.type.HasField("tensor_type"):
                changed = onnx.ModelProto()
                changed.CopyFrom(model)
                type_ = changed.graph.input[i].type.tensor_type
                type_.elem_type = OTHERS.get(type_.elem_type, TensorProto.FLOAT)
                yield f"{case.name}, input {i}", changed.SerializeToString()


def test_other_element_types():
    made = list(variants())
    assert len(made) > 300
    data = b"".join(len(m).to_bytes(4, "little") + m for _, m in made)
    path = os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", CHILD], input=data, capture_output=True, timeout=280,
                          env=os.environ | {"PYTHONPATH": path})  # fmt: skip
    said = done.stdout.decode().splitlines()
    assert len(said) == len(made), f"{made[len(said)][0]}: exit {done.returncode}"
    wrong = [f"{n}: {s}" for (n, _), s in zip(made, said) if s not in ("compiled", "refused")]
    assert not wrong, "\n".join(wrong)
    assert said.count("refused") > len(said) / 2
