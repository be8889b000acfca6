"""The bits of a request do not depend on what else there is: alone, among 64, in chunks, from the prefix cache, with proposed tokens."""

from __future__ import annotations

import numpy as np
import pytest
import small_models
from engine_models import drawn_prompt

pytest.importorskip("torch")


def bits(answer):
    return [answer.get("tokens"), answer.get("logprobs"), answer.get("top"), answer.get("prompt")]


@pytest.fixture(scope="module")
def requests():
    lengths = np.random.default_rng(1).integers(1, 150, 64)
    made = [dict(prompt=drawn_prompt(100 + i, int(n)), max_tokens=10, top_logprobs=20, ignore_eos=True) for i, n in enumerate(lengths)]
    for i in (3, 17):
        made[i]["prompt_logprobs"] = True
    for i in (5, 40):
        made[i] |= dict(temperature=0.9, seed=i)
    made[7]["prompt"] = [11, 12, 13, 14] * 12
    return made


CASES = [(name, "f32") for name in ("llama", "gemma2", "qwen3 rope yarn", "phi3", "gpt2")]
CASES += [(name, dtype) for name in ("llama", "gemma2") for dtype in ("bf16", "i8", "i4")]


@pytest.mark.parametrize("name, dtype", CASES)
def test_bits_are_the_same(models, requests, name, dtype):
    model = models(name)
    more = dict(dtype=dtype, queue_limit=200)
    alone = [bits(group[0]) for group in model.run([[request] for request in requests], prefix_cache=False, **more)["groups"]]
    for options in [
        dict(),
        dict(max_batched_tokens=1),
        dict(max_batched_tokens=13),
        dict(max_sequences=5, threads=1),
        dict(speculation="ngram", speculation_measured=False),
        dict(speculation="ngram", speculation_measured=False, max_batched_tokens=29),
    ]:
        first, hits = model.run([requests, requests[::-1]], **more | options)["groups"]
        assert sum(answer["cached"] for answer in hits) > 1000
        for i, request in enumerate(requests):
            assert bits(first[i]) == alone[i], (options, i)
            assert bits(hits[-1 - i]) == alone[i], (options, i, "hit")


def test_a_difference_would_be_seen(models, requests):
    """Another prompt's bits are others."""
    model = models("llama")
    one = dict(requests[0], prompt=requests[0]["prompt"] + [3])
    first, second = model.run([[requests[0]], [one]])["groups"]
    assert bits(first[0]) != bits(second[0]) and small_models.VOCABULARY > 20
