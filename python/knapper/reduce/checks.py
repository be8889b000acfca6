"""What a failure is: of Knapper itself, or of a command of the user's."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import knapper
from knapper.reduce.reducer import Case, isolated


def of_knapper(seconds: float):
    """fails(case): "crash", "hang", "internal" (an InternalError) or "diverges" (a kernel that the float64
    reference contradicts). What Knapper refuses is no failure."""

    def fails(case: Case) -> str | None:
        for feed in case.feeds:
            try:
                report = knapper.verify(case.model, feed, cache=False)
            except knapper.InternalError:
                return "internal"
            except knapper.Error:
                return None
            if report["first_divergent"] is not None:
                return "diverges"
        return None

    return isolated(fails, seconds)


def of_command(command: str, folder: Path, seconds: float):
    """fails(case): "status N" when the command ends with N, not 0, and "hang". "{model}" and "{inputs}" in
    it are replaced by files in `folder`; without "{model}" the file comes last."""
    model, inputs = folder / "candidate.onnx", folder / "candidate.npz"
    if "{model}" not in command:
        command += " {model}"
    line = command.replace("{model}", shlex.quote(str(model))).replace(
        "{inputs}", shlex.quote(str(inputs)))  # fmt: skip

    def fails(case: Case) -> str | None:
        save(case, model, inputs)
        try:
            done = subprocess.run(line, shell=True, timeout=seconds, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        except subprocess.TimeoutExpired:
            return "hang"
        return f"status {done.returncode}" if done.returncode else None

    return fails


def save(case: Case, model: Path, inputs: Path) -> None:
    """The model, and its first inputs; bfloat16 as the two-byte void that the command line reads."""
    onnx.save(case.model, model)
    np.savez(inputs, **{k: a.view("V2") if str(a.dtype) == "bfloat16" else a
                        for k, a in case.feeds[0].items()})  # fmt: skip


def random_inputs(model: onnx.ModelProto, dims: dict[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Numbers in [-1, 1), integers 0 or 1. ValueError for a size that `dims` does not have."""
    rng, feed = np.random.default_rng(seed), {}
    weights = {w.name for w in model.graph.initializer}
    for value in model.graph.input:
        if value.name in weights:
            continue
        kind = value.type.tensor_type
        shape = []
        for dim in kind.shape.dim:
            if not dim.HasField("dim_value") and dim.dim_param not in dims:
                raise ValueError(f"input '{value.name}': size '{dim.dim_param}' has no value: give --dim "
                                 f"{dim.dim_param or 'NAME'}=N, or the inputs with --inputs")  # fmt: skip
            shape.append(dim.dim_value if dim.HasField("dim_value") else dims[dim.dim_param])
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if kind.elem_type == TensorProto.BOOL or np.issubdtype(dtype, np.integer):
            feed[value.name] = rng.integers(0, 2, shape).astype(dtype)
        else:
            feed[value.name] = rng.uniform(-1, 1, shape).astype(dtype)
    return feed
