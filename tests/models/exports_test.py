"""Two of the forty files of exports.py; the command makes and checks them all."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from exports import check  # noqa: E402


@pytest.mark.parametrize("name, exporter", [("distilbert", "torchscript"), ("wav2vec2", "dynamo")])
def test_export(name, exporter, tmp_path):
    state, text = check(name, exporter, tmp_path)
    assert state == "right", text
