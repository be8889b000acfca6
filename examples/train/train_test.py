"""The demo of training runs, and says so when the losses differ."""

from __future__ import annotations

import sys

import pytest
import torch

import train


def run(monkeypatch, folder) -> int:
    torch._dynamo.reset()
    monkeypatch.setattr(sys, "argv", ["train.py", "--steps", "4", "--batch", "2", "--no-inductor", "--out", str(folder)])
    return train.main()


def test_demo(monkeypatch, tmp_path, capsys):
    assert run(monkeypatch, tmp_path) == 0
    text = capsys.readouterr().out
    assert "knapper" in text and "eager" in text
    assert any(page.stat().st_size > 1000 for page in tmp_path.glob("*.html"))


@pytest.mark.parametrize("limit", [0.0, float("nan")])
def test_other_losses_end_with_one(monkeypatch, tmp_path, capsys, limit):
    monkeypatch.setattr(train, "LIMIT", limit)
    assert run(monkeypatch, tmp_path) == 1
    assert "WRONG" in capsys.readouterr().err
