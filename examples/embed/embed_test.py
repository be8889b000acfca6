"""The demo runs, and says so when the embeddings are wrong."""

from __future__ import annotations

import sys

import onnx
import pytest

import embed
import minilm


def run(monkeypatch, folder) -> int:
    arguments = ["embed.py", "--out", str(folder), "--seconds", "0.1"]
    monkeypatch.setattr(sys, "argv", arguments)
    return embed.main()


def test_demo(monkeypatch, tmp_path, capsys):
    assert run(monkeypatch, tmp_path) == 0
    text = capsys.readouterr().out
    assert "ONNX Runtime" in text and "ratio" in text
    assert "1.000" in text and "0.623" in text
    assert (tmp_path / "report.html").stat().st_size > 1000
    assert (tmp_path / "all-MiniLM-L6-v2.knap").exists()


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_wrong_embeddings_end_with_one(monkeypatch, tmp_path, capsys, value):
    known = [list(row) for row in embed.KNOWN]
    known[0][0] = value
    monkeypatch.setattr(embed, "KNOWN", known)
    assert run(monkeypatch, tmp_path) == 1
    assert "WRONG" in capsys.readouterr().err


def test_written_model(tmp_path):
    model = onnx.load(minilm.write(tmp_path / "model.onnx"))
    onnx.checker.check_model(model, full_check=True)
    shapes = [
        [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in (*model.graph.input, *model.graph.output)
    ]
    assert shapes == [["batch", "sequence"], ["batch", "sequence"], ["batch", 384]]
    assert not list(tmp_path.glob("*.tmp"))
