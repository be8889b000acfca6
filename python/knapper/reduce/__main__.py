"""Shrinks an ONNX model to the smallest that still fails in the same way.

    python -m knapper.reduce model.onnx --dim batch=1
    python -m knapper.reduce model.onnx --check 'knapper run {model} -i {inputs}' -o small.onnx

Without --check a failure is a crash, a hang, an InternalError, or a kernel that float64 contradicts. The
command of --check fails when its exit status is not 0; "{model}" and "{inputs}" (an .npz file) are replaced.
Exit codes: 0 the smallest model is written, 1 the model does not fail, or an argument is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx.reference import ReferenceEvaluator

from knapper.reduce import checks
from knapper.reduce.reducer import Case, Reducer


def evaluate(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    return ReferenceEvaluator(model).run(None, feed)


def size(text: str) -> tuple[str, int]:
    name, _, value = text.rpartition("=")
    if not name or not value.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not name=value")
    return name, int(value)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m knapper.reduce", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("model", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="the smallest model [MODEL.small.onnx]; its inputs "
                        "go beside it, .npz")  # fmt: skip
    parser.add_argument("--check", metavar="COMMAND", help="what fails")
    parser.add_argument("--inputs", type=Path, help="an .npz file with an array for each input [random]")
    parser.add_argument("--dim", type=size, action="append", default=[], metavar="NAME=N",
                        help="a size of the random inputs")  # fmt: skip
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="of one check")
    given = parser.parse_args(arguments)
    try:
        model = onnx.load(given.model)
        feed = dict(np.load(given.inputs)) if given.inputs else checks.random_inputs(model, dict(given.dim))
        with tempfile.TemporaryDirectory() as folder:
            fails = (checks.of_command(given.check, Path(folder), given.timeout) if given.check
                     else checks.of_knapper(given.timeout))  # fmt: skip
            reducer = Reducer(Case(model, [feed]), fails, evaluate,
                              lambda text: print(text, file=sys.stderr))  # fmt: skip
            case = reducer.run()
    except (OSError, ValueError, DecodeError) as error:
        print(f"{given.model}: {error}", file=sys.stderr)
        return 1
    output = given.output or given.model.with_suffix(".small.onnx")
    checks.save(case, output, output.with_suffix(".npz"))
    print(f"{output}: {reducer.kind}")
    print(onnx.printer.to_text(case.model))
    return 0


if __name__ == "__main__":
    sys.exit(main())
