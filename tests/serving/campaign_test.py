"""Long comparisons and campaigns, in short, and their state: a round counts once, whenever its process ends."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import campaign
import pytest
import template_test
from null_server import ROOT


def test_half_a_turn_is_forgotten(tmp_path):
    first = campaign.Campaign(tmp_path)
    assert first.round_of("a") == 0
    first.done("a", 10, [{"text": "x"}])
    whole = first.differences.read_text()
    # The next round wrote these, and ended before it was done.
    with open(first.differences, "a") as file:
        file.write(json.dumps({"name": "a", "round": 1, "text": "y"}) + "\n" + json.dumps({"name": "new", "round": 0}) + "\n" + '{"name": "a", "tu')
    again = campaign.Campaign(tmp_path)
    assert again.differences.read_text() == whole and again.round_of("a") == 1
    again.done("a", 10, [{"text": "y"}])
    assert [json.loads(line)["round"] for line in again.differences.read_text().splitlines()] == [0, 1]
    assert campaign.Campaign(tmp_path).state["a"] == {"rounds": 2, "cases": 20, "differences": 2}


def test_no_templates_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(template_test, "TEMPLATES", [])
    with pytest.raises(SystemExit, match="no templates: run setup/sources"):
        campaign.templates(campaign.Campaign(tmp_path), time.time() + 60)


def test_wrong_requests_beside_witnesses(folder, tmp_path):
    """fuzz_requests.py, in short; it goes on where it was."""
    state = tmp_path / "state"
    for requests in (200, 400):
        command = [sys.executable, ROOT / "tests" / "serving" / "fuzz_requests.py", folder, "--requests", str(requests), "--state", state, "--seed", "3"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert ran.stdout.startswith("200 requests") and state.read_text() == str(requests)
