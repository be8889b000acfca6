"""What the official node cases feed, as a compiler meets it."""

from __future__ import annotations

import onnx
from onnx import numpy_helper


def fixed_parameters(model: onnx.ModelProto, arrays: list) -> tuple:
    """Small inputs (axes, shapes, pads, scales...) as initializers.

    The cases feed as run-time inputs what models know when they are compiled.
    Returns the model and the inputs that are left.
    """
    fixed, left = onnx.ModelProto(), []
    fixed.CopyFrom(model)
    defaults = {t.name for t in model.graph.initializer}
    values = [i for i in model.graph.input if i.name not in defaults]
    for value, array in zip(values, arrays):
        kind = array.dtype.kind
        if array.ndim <= 1 and (
            (kind in "bi" and array.size <= 64) or (kind == "f" and array.size <= 8)
        ):
            fixed.graph.initializer.append(numpy_helper.from_array(array, value.name))
        else:
            left.append(array)
    names = {t.name for t in fixed.graph.initializer}
    inputs = [i for i in fixed.graph.input if i.name not in names]
    del fixed.graph.input[:]
    fixed.graph.input.extend(inputs)
    return fixed, left
