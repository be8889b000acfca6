"""Small models in the engine and in transformers: what the tests of the engine run, and what they compare.

The fixtures `cache` and `models` (conftest.py) make them.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import small_models

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

BUILD = Path(os.environ.get("KNAPPER_BUILD", Path(__file__).parents[2] / "build" / "dev"))
TOLERANCE = 2e-4  # of the largest logit


class Model:
    def __init__(self, name, folder, cache, **changes):
        self.folder, self.cache = folder, cache
        self.reference = small_models.make(name, folder, **changes)

    def run(self, groups, fail_every=(), faults=(), fewest_bytes=(), sound_launches=(), **options):
        path = self.folder / "requests.json"
        options = {"threads": 2, "cache": self.cache, "kv_memory": 4 << 20} | options
        failing = {"fail_every": list(fail_every), "faults": list(faults), "fewest_bytes": list(fewest_bytes), "sound_launches": list(sound_launches)}
        path.write_text(json.dumps({"options": options, "groups": groups} | failing))
        runner = BUILD / "tests" / "serving" / "engine_requests"
        if not runner.exists():
            pytest.skip(f"{runner} is not built")
        done = subprocess.run([runner, self.folder, path], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def logprobs(self, tokens):
        with torch.no_grad():
            logits = self.reference(torch.tensor([tokens])).logits[0].double()
        return torch.log_softmax(logits, -1).numpy(), float(logits.abs().max())


def with_nan(folder, cache, *seen):
    """A llama in which one token, of none of `seen`, has no number in its row of the embedding; and that token."""
    token = min(set(range(3, small_models.VOCABULARY)).difference(*seen))
    bad = Model("llama", folder, cache)
    with torch.no_grad():
        bad.reference.model.embed_tokens.weight[token] = float("nan")
    bad.reference.save_pretrained(folder)
    return bad, token


def drawn_prompt(seed, length):
    return np.random.default_rng(seed).integers(3, small_models.VOCABULARY, length).tolist()


def requests_of(lengths, tokens=24):
    return [dict(prompt=drawn_prompt(i, n), max_tokens=tokens, top_logprobs=5) for i, n in enumerate(lengths)]


def check(model, requests, answers):
    """Tokens are the reference's best wherever the two best are apart; logprobs of all are near."""
    for request, answer in zip(requests, answers, strict=True):
        prompt, tokens = request["prompt"], answer.get("tokens", [])
        assert answer["finish"] in ("length", "stop"), answer
        logprobs, largest = model.logprobs(prompt + tokens)
        for i, token in enumerate(tokens):
            row = logprobs[len(prompt) - 1 + i]
            for other, logprob in answer["top"][i]:
                assert abs(logprob - row[other]) <= 2 * TOLERANCE * largest
            best = int(row.argmax())
            if token != best:
                assert row[best] - row[token] <= 2 * TOLERANCE * largest, (i, token, best)
        if answer["finish"] == "stop":
            row = logprobs[len(prompt) - 1 + len(tokens)]
            assert row.max() - row[2] <= 2 * TOLERANCE * largest


def same_bits(one, other):
    return all(a.get("tokens") == b.get("tokens") and a.get("top") == b.get("top") for a, b in zip(one, other, strict=True))


def same_answers(one, other, near=2e-5):
    """Tokens and ends are the same; log-probabilities are near, which other sums may round otherwise."""
    for before, after in zip(one, other, strict=True):
        assert (before["finish"], before.get("tokens")) == (after["finish"], after.get("tokens"))
        assert before.get("logprobs", []) == pytest.approx(after.get("logprobs", []), abs=near)
        for best, ours in zip(before.get("top", []), after.get("top", []), strict=True):
            assert [token for token, _ in best] == [token for token, _ in ours]
            assert [logprob for _, logprob in best] == pytest.approx([logprob for _, logprob in ours], abs=near)


def plain_and_prepared(model, groups, **options):
    """What the engine answers when each step is decided after the one before, and when it is prepared while that one runs."""
    waiting = [[request | dict(speculate=False) for request in group] for group in groups]
    plain = model.run(waiting, speculation="ngram", **options)
    prepared = model.run(groups, **options)
    assert plain["statistics"]["prepared"] == 0 < prepared["statistics"]["prepared"] < prepared["statistics"]["steps"]
    for result in (plain, prepared):
        statistics = result["statistics"]
        assert statistics["faults"] == statistics["running"] == statistics["waiting"] == 0
        assert statistics["free"] + statistics["blocks_cached"] == statistics["total"]
    return plain, prepared


def dequantised(weight, bits, group=64):
    """A matrix [out, in] as integers with a scale for `group` numbers of a row, and back (graph/quantize/QuantizeWeights.h)."""
    rows, depth = weight.shape
    padded = torch.nn.functional.pad(weight, (0, -depth % group)).reshape(rows, -1, group)
    if bits == 8:
        scale = padded.abs().amax(-1, keepdim=True) / 127
    else:
        high, low = padded.amax(-1, keepdim=True), padded.amin(-1, keepdim=True)
        scale = torch.where(high > -low, high, low) / -8
    scale = torch.where(scale == 0, 1, scale)
    integers = (padded / scale).round().clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return (integers * scale).reshape(rows, -1)[:, :depth]


def refusal(folder, cache, **options):
    path = folder / "requests.json"
    path.write_text(json.dumps({"options": {"cache": cache} | options, "groups": []}))
    runner = BUILD / "tests" / "serving" / "engine_requests"
    if not runner.exists():
        pytest.skip(f"{runner} is not built")
    done = subprocess.run([runner, folder, path], capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr


def edit(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
