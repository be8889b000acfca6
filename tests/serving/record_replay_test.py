"""`--record` and `knapper replay`: the scheduler decides the same again."""

from __future__ import annotations

import subprocess

import pytest
from engine_models import drawn_prompt, same_bits
from null_server import BUILD

pytest.importorskip("torch")


def replay(path):
    return subprocess.run([BUILD / "bin" / "knapper", "replay", str(path)], capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def recorded(models, tmp_path_factory):
    """Chunks, hits, preemptions, cancellations and proposals."""
    path = tmp_path_factory.mktemp("record") / "steps"
    requests = [dict(prompt=drawn_prompt(i, 50), max_tokens=70, priority=i % 2, cancel=i == 5, ignore_eos=True) for i in range(12)]
    block = 3 * 2 * 2 * 16 * 12 * 4
    options = dict(kv_memory=17 * block, max_batched_tokens=24, speculation="ngram", speculation_measured=False, record=str(path), together=True)
    loop = [dict(prompt=[7, 8] * 10, max_tokens=30, ignore_eos=True)]
    result = models("llama").run([loop, requests, requests], **options)
    assert result["statistics"]["preemptions"] > 0 and result["statistics"]["verified"] > 0
    return path, result


def test_every_decision_is_equal(recorded):
    path, result = recorded
    done = replay(path)
    assert done.returncode == 0, done
    steps = int(done.stdout.split()[0])
    assert steps == len(path.read_text().splitlines()) - 1 >= result["statistics"]["steps"]
    assert done.stdout == f"{steps} steps, all decisions equal\n"


def test_decisions_of_prepared_steps_are_equal(models, tmp_path):
    """Their states are what was expected while the step before ran; each step has one line, prepared or not."""
    path = tmp_path / "steps"
    requests = [dict(prompt=drawn_prompt(i, 50), max_tokens=30 + i, priority=i % 2, cancel=i == 5) for i in range(12)]
    block = 3 * 2 * 2 * 16 * 12 * 4
    result = models("llama").run([requests], kv_memory=30 * block, max_batched_tokens=24, remote=True, record=str(path))
    assert result["statistics"]["prepared"] > 20
    done = replay(path)
    assert done.returncode == 0 and "all decisions equal" in done.stdout, done
    assert len(path.read_text().splitlines()) - 1 >= result["statistics"]["steps"]


def test_another_decision_is_found(recorded, tmp_path):
    lines = recorded[0].read_text().splitlines()
    # The budget of a step in the middle.
    at = len(lines) // 2
    lines[at] = "0 " + lines[at].split(" ", 1)[1]
    (tmp_path / "steps").write_text("\n".join(lines) + "\n")
    done = replay(tmp_path / "steps")
    assert done.returncode == 1 and f"step {at} decided otherwise" in done.stderr and "then: parts" in done.stderr


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "does not begin with 'knapper-steps 1'"),
        ("knapper-steps 2\n", "does not begin with"),
        ("knapper-steps 1\n1 16 2\n", ":2: 1 16 2: is no record of a step"),
        ("knapper-steps 1\n1 16 2 x 0 0 0 0 0\n", "is no record of a step"),
        ("knapper-steps 1\n1 16 2 3 99999999999 0 0 0 0\n", "is no record of a step"),
        ("knapper-steps 1\n1 0 2 3 0 0 0 0 0\n", "has blocks of no tokens"),
        ("knapper-steps 1\n1 16 2 3 0 0 0 0 0 7\n", "is no record of a step"),
    ],
)
def test_what_is_damaged_is_named(tmp_path, text, words):
    (tmp_path / "steps").write_text(text)
    done = replay(tmp_path / "steps")
    assert done.returncode == 1 and words in done.stderr, done


def test_a_last_line_that_was_cut_is_left_out(recorded, tmp_path):
    text = recorded[0].read_text()
    (tmp_path / "steps").write_text(text[:-3])
    assert replay(tmp_path / "steps").stdout.split()[0] == str(len(text.splitlines()) - 2)
    assert replay(tmp_path / "none").returncode == 1


def test_a_full_disk_ends_the_record_only(models):
    requests = [dict(prompt=drawn_prompt(i, 20), max_tokens=100, top_logprobs=1, ignore_eos=True) for i in range(8)]
    plain = models("llama").run([requests])
    full = models("llama").run([requests], record="/dev/full")
    assert same_bits(full["groups"][0], plain["groups"][0])
