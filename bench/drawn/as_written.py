"""What an exported file says by itself. Torch's older exporter writes some operators in forms that overflow (a binary cross
entropy of logits as log(1 - sigmoid(x))): infinities there are no error of what runs the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

NUMPY = (torch.float32, torch.float16, torch.float64)


def is_not_finite(path: Path, inputs: list[torch.Tensor], got: torch.Tensor) -> bool:
    """Whether ONNX's reference gives the file's result as not finite, in the same elements as `got`."""
    from onnx.reference import ReferenceEvaluator

    if any(i.is_floating_point() and i.dtype not in NUMPY for i in inputs):
        return False
    try:
        evaluator = ReferenceEvaluator(str(path))
        with np.errstate(all="ignore"):
            result = evaluator.run(None, dict(zip(evaluator.input_names, (i.numpy() for i in inputs))))[0]
    except Exception:  # an operator that the reference does not have: nothing is excused
        return False
    finite = np.isfinite(result)
    return not finite.all() and np.array_equal(finite, torch.isfinite(got).numpy())
