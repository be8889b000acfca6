"""Proposed tokens: whatever is proposed, the tokens and their logprobs are those of a run without."""

from __future__ import annotations

import numpy as np
import pytest
import small_models
from engine_models import drawn_prompt, refusal, same_bits

torch = pytest.importorskip("torch")


def repeating(seed, length=12, times=3):
    """A prompt that says the same several times, and begins again."""
    part = drawn_prompt(seed, length)
    return part * times + part[:4]


REQUESTS = [
    *(dict(prompt=repeating(i, 6 + i), max_tokens=40, top_logprobs=3, ignore_eos=True) for i in range(4)),
    dict(prompt=[5, 5, 5], max_tokens=30, top_logprobs=3),
    dict(prompt=repeating(9), max_tokens=40, top_logprobs=3, temperature=0.7, seed=5, ignore_eos=True),
    dict(prompt=repeating(10), max_tokens=1, top_logprobs=3),
    dict(prompt=drawn_prompt(3, 60), max_tokens=25, top_logprobs=3, temperature=1.0, seed=6),
    dict(prompt=repeating(2), max_tokens=400, top_logprobs=0, ignore_eos=True),
]


@pytest.fixture(scope="module")
def plain(models):
    return [group[0] for group in models("llama").run([[request] for request in REQUESTS], prefix_cache=False)["groups"]]


@pytest.fixture(scope="module")
def drafts(tmp_path_factory, models):
    """A draft model that is often right: the model itself, a little changed; and one that knows nothing."""
    near, far = tmp_path_factory.mktemp("near"), tmp_path_factory.mktemp("far")
    reference = models("llama").reference
    state = {name: value.clone() for name, value in reference.state_dict().items()}
    with torch.no_grad():
        torch.manual_seed(1)
        for parameter in reference.parameters():
            parameter.add_(0.02 * parameter.std() * torch.randn_like(parameter))
    reference.save_pretrained(near)
    reference.load_state_dict(state)
    small_models.make("gpt2", far, n_positions=64)
    return {"near": near, "far": far}


def options_of(kind, drafts):
    """All that is proposed is verified: what is worth it depends on the machine."""
    options = dict(speculation="ngram") if kind == "ngram" else dict(speculation="draft", draft=str(drafts[kind]))
    return options | dict(speculation_measured=False)


@pytest.mark.parametrize("kind", ["ngram", "near", "far"])
@pytest.mark.parametrize(
    "more",
    [{}, dict(max_batched_tokens=7), dict(prefix_cache=False, max_sequences=2), dict(speculation_tokens=1), dict(speculation_tokens=64)],
    ids=str,
)
def test_tokens_and_logprobs_are_the_same(models, plain, drafts, kind, more):
    result = models("llama").run([REQUESTS, REQUESTS], **options_of(kind, drafts) | more)
    for group in result["groups"]:
        for request, answer, expected in zip(REQUESTS, group, plain, strict=True):
            assert answer["finish"] == expected["finish"]
            assert same_bits([answer], [expected]), request
    statistics = result["statistics"]
    assert statistics["faults"] == 0
    if kind == "ngram" or more.get("max_batched_tokens") != 7:
        assert statistics["verified"] > 0
    if kind in ("ngram", "near") and more.get("max_batched_tokens") != 7:
        assert statistics["accepted"] > 0
    assert statistics["free"] + statistics["blocks_cached"] == statistics["total"]


def test_accepted_tokens_save_steps(models, drafts):
    loop = [dict(prompt=repeating(2), max_tokens=200, ignore_eos=True)]
    model = models("llama")
    alone = model.run([loop])
    for kind in ("ngram", "near"):
        result = model.run([loop], **options_of(kind, drafts))
        assert result["groups"][0][0]["tokens"] == alone["groups"][0][0]["tokens"]
        statistics = result["statistics"]
        assert statistics["accepted"] > (0 if kind == "ngram" else 50)
        # The last step may not be counted when the last event is there.
        assert 200 - statistics["steps"] - statistics["accepted"] in (0, 1, 2)


def test_little_memory(models, plain):
    """Proposed tokens take no block that another sequence needs, and give way to it."""
    block = 3 * 2 * 2 * 16 * 12 * 4
    result = models("llama").run([REQUESTS[:-1]], kv_memory=17 * block, prefix_cache=False, speculation="ngram", speculation_measured=False)
    assert same_bits(result["groups"][0], plain[:-1])
    assert result["statistics"]["free"] == 17 and result["statistics"]["verified"] > 0


def test_a_request_may_refuse(models):
    requests = [dict(request, speculate=False) for request in REQUESTS]
    assert models("llama").run([requests], speculation="ngram")["statistics"]["verified"] == 0


def test_stop_tokens_among_those_that_are_accepted(models, plain):
    tokens = plain[0]["tokens"]
    for stop in sorted(set(tokens[5:])):
        request = dict(REQUESTS[0], stop_tokens=[stop])
        answer = models("llama").run([[request]], speculation="ngram")["groups"][0][0]
        assert answer["finish"] == "stop" and answer.get("tokens", []) == tokens[: tokens.index(stop)]
        break


@pytest.mark.parametrize("kind", ["ngram", "near"])
def test_the_distribution_is_that_of_the_model(models, drafts, kind):
    """Chi-square over the second and third token of 4,000 drawn answers, against sums over the reference."""
    from scipy import stats

    model = models("llama")
    # Whatever comes behind the last token was there before, and was followed by that token.
    prompt = [token for t in range(3, 113) for token in (7, t)] + [7]
    count = 4000
    groups = [[dict(prompt=prompt, max_tokens=3, temperature=1.0, seed=1000 * g + i, ignore_eos=True) for i in range(250)] for g in range(count // 250)]
    result = model.run(groups, **options_of(kind, drafts), queue_limit=300)
    drawn = np.array([answer["tokens"] for group in result["groups"] for answer in group])
    assert result["statistics"]["verified"] > 100
    first = np.exp(model.logprobs(prompt)[0][-1])
    vocabulary = small_models.VOCABULARY
    with torch.no_grad():
        batch = torch.tensor([[*prompt, token] for token in range(vocabulary)])
        second = torch.softmax(model.reference(batch).logits[:, -1].double(), -1).numpy()
    for place, expected in ((0, first), (1, first @ second)):
        seen = np.bincount(drawn[:, place], minlength=vocabulary)
        often = expected * count >= 5
        ours = np.append(seen[often], seen[~often].sum())
        theirs = np.append(expected[often], expected[~often].sum()) * count
        kept = theirs > 0
        assert stats.chisquare(ours[kept], theirs[kept] * ours[kept].sum() / theirs[kept].sum()).pvalue > 1e-4, place


@pytest.mark.parametrize("kind", ["ngram", "near", "far"])
def test_measured_speculation_changes_nothing_either(models, plain, drafts, kind):
    result = models("llama").run([REQUESTS], **options_of(kind, drafts) | dict(speculation_measured=True))
    assert same_bits(result["groups"][0], plain)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(speculation="draft"), "draftFolder: is missing"),
        (dict(draft="/nowhere"), "draftFolder: is there, and nothing asks for it"),
        (dict(speculation="ngram", speculation_tokens=65), "speculation.tokens: is 65"),
        (dict(speculation="draft", draft="OTHER"), "has 97 tokens, and the model that is served has 151"),
    ],
)
def test_what_is_refused(models, tmp_path, cache, options, message):
    models("llama").reference.save_pretrained(tmp_path)
    if options.get("draft") == "OTHER":
        other = tmp_path / "other"
        small_models.make("llama", other, vocab_size=97)
        options = options | dict(draft=str(other))
    assert message in refusal(tmp_path, cache, **options)
