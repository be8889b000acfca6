"""TypeHelper: what a session's types are in NumPy, torch and ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from knapper import dtypes
from knapper.ort import types

if TYPE_CHECKING:
    from knapper.ort.session import InferenceSession


class TypeHelper:
    """Types by names of inputs and outputs, and by ONNX Runtime's text
    ('tensor(float)'). Each function raises ValueError for what there is not."""

    @staticmethod
    def get_input_type(ort_session: InferenceSession, name: str) -> str:
        """An input's type."""
        return _type_of(ort_session.get_inputs(), name, "input")

    @staticmethod
    def get_output_type(ort_session: InferenceSession, name: str) -> str:
        """An output's type."""
        return _type_of(ort_session.get_outputs(), name, "output")

    @staticmethod
    def ort_type_to_numpy_type(ort_type: str) -> Any:
        """np.float32 for 'tensor(float)'; bool for 'tensor(bool)'."""
        name = types.name_of(ort_type)
        dtype = dtypes.numpy_of(dtypes.NAMES.index(name))
        if dtype is None:
            raise ValueError(f"NumPy has no {ort_type}: install ml_dtypes")
        return bool if dtype == np.bool_ else dtype.type

    @staticmethod
    def ort_type_to_torch_type(ort_type: str) -> Any:
        """torch.float32 for 'tensor(float)'."""
        import torch

        word = ort_type.removeprefix("tensor(").removesuffix(")")
        spelled = {"float": "float32", "double": "float64"}.get(word, word)
        spelled = spelled.replace("float8e4m3", "float8_e4m3").replace(
            "float8e5m2", "float8_e5m2"
        )
        found = getattr(torch, spelled, None)
        types.name_of(ort_type)
        if not isinstance(found, torch.dtype):
            raise ValueError(f"torch has no {ort_type}")
        return found

    @staticmethod
    def ort_type_to_onnx_type(ort_type: str) -> int:
        """1, TensorProto.FLOAT, for 'tensor(float)'."""
        return types.number_of(types.name_of(ort_type))

    @staticmethod
    def get_io_onnx_type_map(ort_session: InferenceSession) -> dict[str, int]:
        """Numbers of TensorProto by the names of inputs and outputs."""
        return {
            value.name: TypeHelper.ort_type_to_onnx_type(value.type)
            for value in (*ort_session.get_inputs(), *ort_session.get_outputs())
        }

    @staticmethod
    def get_io_numpy_type_map(ort_session: InferenceSession) -> dict[str, Any]:
        """NumPy's types by the names of inputs and outputs."""
        return {
            value.name: TypeHelper.ort_type_to_numpy_type(value.type)
            for value in (*ort_session.get_inputs(), *ort_session.get_outputs())
        }


def _type_of(values: Any, name: str, kind: str) -> str:
    for value in values:
        if value.name == name:
            return value.type
    raise ValueError(f"{kind} name {name} not found")
