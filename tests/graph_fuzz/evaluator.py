"""The reference evaluator, kept running; onnx's own; and ONNX Runtime where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
from node_cases_test import PROGRAM, read_tensors, write_tensors
from onnx.reference import ReferenceEvaluator

FOLDERS = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Refused(Exception):
    """The evaluator has no answer, in words."""


class Died(Exception):
    """The evaluator ended."""


class Evaluator:
    """Runs `onnx-evaluate` for one model after another."""

    def __init__(self):
        self.process = None
        self.folder = Path(tempfile.mkdtemp(dir=FOLDERS))

    def close(self) -> None:
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __call__(self, model: onnx.ModelProto, feed: dict) -> list[np.ndarray]:
        """The model's outputs."""
        if self.process is None:
            self.process = subprocess.Popen(
                [PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True)  # fmt: skip
        (self.folder / "model.onnx").write_bytes(model.SerializeToString())
        write_tensors(self.folder / "inputs", [feed[i.name] for i in model.graph.input])
        self.process.stdin.write(f"{self.folder}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().strip()
        if not line:
            self.process = None
            raise Died("the reference evaluator ended")
        if line != "ok":
            if " internal " in line:
                raise Died(line)
            raise Refused(line)
        return read_tensors(self.folder / "outputs")


def onnx_answer(model: onnx.ModelProto, feed: dict) -> list[np.ndarray] | None:
    """What onnx's evaluator gives; None where it cannot."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, dict(feed))]
        except Exception:  # it has operators that it lacks, types that it mixes, sizes that it refuses
            return None


def runtime_answer(model: onnx.ModelProto, feed: dict) -> list[np.ndarray] | None:
    """What ONNX Runtime gives; None where it is not installed or refuses the model."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    older = onnx.ModelProto()
    older.CopyFrom(model)
    for opset in older.opset_import:
        if not opset.domain:  # it knows no newer one
            opset.version = min(opset.version, 26)
    try:
        session = onnxruntime.InferenceSession(older.SerializeToString(), options, ["CPUExecutionProvider"])
        return [np.asarray(a) for a in session.run(None, feed)]
    except Exception:  # an operator or a type that it lacks
        return None
