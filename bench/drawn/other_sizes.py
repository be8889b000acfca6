"""A module exported with named sizes, run at sizes that it was not traced at."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from drawn import check
from drawn.sweep_case import DTYPES, Built, Case, values


def other(case: Case, built: Built) -> Built | None:
    """`built` with other sizes in the dims that the export names; None where it names none."""
    if not case.symbolic or case.family != "blocks":
        return None
    first, *rest = built.inputs
    shape = list(first.shape)
    # The exporter of torch.export takes a size of one for a number.
    if case.exporter != "dynamo" or shape[0] > 1:
        shape[0] += 1
    if len(shape) in (2, 3) and shape[1] > 2:
        shape[1] = shape[1] // 2 + 1
    return dataclasses.replace(built, inputs=[dataclasses.replace(first, shape=tuple(shape)), *rest])


def judged(case: Case, built: Built, path: Path, module: Any, net: Any) -> check.Verdict | None:
    """The verdict at other sizes. A wrong or refused one counts where ONNX Runtime, on the same
    file, is right: tracing may have fixed what the sizes were."""
    changed = other(case, built)
    if changed is None:
        return None
    dtype = DTYPES[case.dtype]

    def once(draw: int) -> check.Verdict:
        inputs = values(changed, dtype, "cpu", 50 + draw)
        wanted, eager = check.exact(changed, inputs), net(*inputs)
        try:
            got = torch.from_dlpack(module(*inputs).tensor(0))
        except ValueError as error:
            return check.Verdict(False, why=str(error)[:200])
        return check.judge(got, eager, wanted, changed, inputs)

    verdict = check.decide(once(0), once)
    if verdict.right or not _traced_for_all_sizes(path, changed, dtype, net):
        return None
    return dataclasses.replace(verdict, why=f"at {'x'.join(map(str, changed.inputs[0].shape))}: {verdict.why}")


def _traced_for_all_sizes(path: Path, changed: Built, dtype: torch.dtype, net: Any) -> bool:
    import onnxruntime

    inputs = values(changed, dtype, "cpu", 50)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        given = zip(session.get_inputs(), inputs)
        result = session.run(None, {i.name: v.numpy() for i, v in given})[0]
    except Exception:  # bf16, which NumPy lacks, or a file that is for one size
        return False
    return check.judge(torch.from_numpy(result), net(*inputs), check.exact(changed, inputs), changed, inputs).right
