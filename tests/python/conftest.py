"""Small models as fixtures."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper
from affine_models import affine_model, build

import knapper


@pytest.fixture(scope="session")
def affine() -> knapper.Module:
    return knapper.compile(affine_model(), threads=2)


@pytest.fixture(scope="session")
def subtract() -> knapper.Module:
    """a - b: an order that matters."""
    shape = ("rows", "columns")
    model = build(
        [helper.make_node("Sub", ["a", "b"], ["c"], name="subtract")],
        [("a", TensorProto.FLOAT, shape), ("b", TensorProto.FLOAT, shape)],
        [("c", TensorProto.FLOAT, shape)],
    )
    return knapper.compile(model, threads=1)


@pytest.fixture(scope="session")
def affine_artefact(affine, tmp_path_factory):
    path = tmp_path_factory.mktemp("artefacts") / "affine.knap"
    affine.save(path)
    return path
