"""The engine against transformers in float32: logits, greedy tokens, in any batch."""

from __future__ import annotations

import random

import numpy as np
import pytest
import small_models
from engine_models import TOLERANCE, Model, check, dequantised, drawn_prompt, plain_and_prepared, requests_of, same_bits, torch


@pytest.mark.parametrize("name", [name for name in small_models.MODELS if name != "phi3 rope long"])
def test_family_equals_transformers(models, name):
    """Whole prompts; then in chunks of 7, and again with what the cache holds of them."""
    model = models(name)
    requests = requests_of([1, 3, 17, 40, 64, 33, 100, 5])
    requests[3]["prompt_logprobs"] = True
    result = model.run([requests], max_batched_tokens=48)
    check(model, requests, result["groups"][0])
    prompt = requests[3]["prompt"]
    logprobs, largest = model.logprobs(prompt)
    given = result["groups"][0][3]["prompt"]
    assert [token for token, _ in given] == prompt[1:]
    for i, (token, logprob) in enumerate(given):
        assert abs(logprob - logprobs[i][token]) <= 2 * TOLERANCE * largest
    for row, top in zip(logprobs, result["groups"][0][3]["prompt_top"]):
        assert np.allclose([logprob for _, logprob in top], np.sort(row)[: -6 : -1], atol=2 * TOLERANCE * largest)
        assert all(abs(row[token] - logprob) <= 2 * TOLERANCE * largest for token, logprob in top)
    assert result["statistics"]["faults"] == 0
    requests = requests_of([64, 33, 100], tokens=8)
    chunks, hits = model.run([requests, requests], max_batched_tokens=7)["groups"]
    check(model, requests, chunks)
    check(model, requests, hits)
    assert [answer["cached"] for answer in hits] == [48, 32, 96]
    assert [answer["tokens"] for answer in hits] == [answer["tokens"] for answer in chunks]


def test_longrope_takes_the_form_of_the_context(models):
    """Of a context beyond the original length that of long sequences, else that of short ones."""
    model = models("phi3 rope long")
    requests = requests_of([70, 100, 90], tokens=16)
    check(model, requests, model.run([requests], max_batched_tokens=48)["groups"][0])
    requests = requests_of([1, 30, 47], tokens=16)
    check(model, requests, model.run([requests], max_context=64)["groups"][0])


def logprobs_of(reference, requests):
    """Of each token behind the first of each prompt, all of one length, in float64: [prompt, token]."""
    tokens = torch.tensor([request["prompt"] for request in requests])
    with torch.no_grad():
        logits = reference(tokens).logits[:, :-1].double()
    return torch.log_softmax(logits, -1).gather(-1, tokens[:, 1:, None])[..., 0]


@pytest.mark.parametrize("name", ["llama", "gemma2", "mixtral"])
def test_bf16_weights_are_no_worse_than_those_of_transformers(tmp_path, cache, name):
    """Of a model in bf16, against the same weights in float64."""
    model = Model(name, tmp_path, cache)
    half = model.reference.to(torch.bfloat16)
    half.save_pretrained(tmp_path)
    # torch's grouped matmul takes no float64.
    eager = dict(attn_implementation="eager") | (dict(experts_implementation="eager") if name == "mixtral" else {})
    exact = type(half).from_pretrained(tmp_path, dtype=torch.float64, **eager)
    requests = [dict(prompt=drawn_prompt(i, 120), max_tokens=0, prompt_logprobs=True, top_logprobs=0) for i in range(16)]
    answers = model.run([requests], dtype="bf16")["groups"][0]
    right, other = (logprobs_of(reference, requests) for reference in (exact, half))
    given = torch.tensor([[logprob for _, logprob in answer["prompt"]] for answer in answers]).double()
    ours, theirs = given - right, other - right
    error, allowed = (float(values.square().mean().sqrt()) for values in (ours, theirs))
    assert 0 < error <= 1.05 * allowed, (error, allowed)


@pytest.mark.parametrize("name, remote", [("llama", False), ("gemma2", False), ("olmo2", False), ("llama", True), ("gemma2", True),
                                          ("phi3", True), ("gpt2", True)])
@pytest.mark.parametrize("bits", [8, 4])
def test_integers_are_no_worse_than_their_weights(tmp_path, cache, name, remote, bits):
    """Logprobs of i8 and i4 in float64 terms: no further from the model's than those of transformers with the same weights, expanded.
    `remote`: integers are made while they are uploaded, in other groups."""
    shape = dict(n_embd=96, n_inner=160, n_head=4) if name == "gpt2" else dict(hidden_size=96, intermediate_size=160, head_dim=24)
    model = Model(name, tmp_path, cache, **shape)
    kind = type(model.reference)
    exact = kind.from_pretrained(tmp_path, dtype=torch.float64, attn_implementation="eager")
    expanded = kind.from_pretrained(tmp_path, dtype=torch.float32)
    changed = 0
    with torch.no_grad():
        head = torch.nn.Parameter(expanded.get_output_embeddings().weight.clone())
        expanded.get_output_embeddings().weight = head  # a tied table is rows for the first gather, and integers for the last matmul
        for key, parameter in expanded.named_parameters():
            if parameter.ndim == 2 and not any(part in key for part in ("embed_tokens", "norm", "wte", "wpe")):
                assert parameter.numel() >= 4096
                rows = parameter.T if name == "gpt2" and "lm_head" not in key else parameter
                group = 64 if not remote else rows.shape[1] if bits == 8 else 128
                new = dequantised(rows, bits, group)
                new = new.T if rows is not parameter else new
                changed += not torch.equal(new, parameter)
                parameter.copy_(new)
    assert changed >= (2 * 4 if name in ("phi3", "gpt2") else 3 * 4) + 1
    requests = [dict(prompt=drawn_prompt(i, 120), max_tokens=0, prompt_logprobs=True, top_logprobs=0) for i in range(16)]
    answers = model.run([requests], dtype=f"i{bits}", remote=remote)["groups"][0]
    right, other = (logprobs_of(reference, requests) for reference in (exact, expanded))
    given = torch.tensor([[logprob for _, logprob in answer["prompt"]] for answer in answers]).double()
    ours, theirs, between = given - right, other - right, given - other
    error, allowed, distance = (float(values.square().mean().sqrt()) for values in (ours, theirs, between))
    assert 0 < error <= 1.02 * allowed, (error, allowed)
    assert distance <= 0.02 * allowed, (distance, allowed)


def test_names_may_lack_their_base(models, tmp_path, cache):
    """As GPT-2's own weights have it."""
    from safetensors.torch import load_file, save_file

    model = models("gpt2")
    bare = Model("gpt2", tmp_path, cache)
    weights = load_file(tmp_path / "model.safetensors")
    save_file({name.removeprefix("transformer."): w for name, w in weights.items()}, tmp_path / "model.safetensors")
    requests = requests_of([20], tokens=8)
    assert same_bits(bare.run([requests])["groups"][0], model.run([requests])["groups"][0])


def test_chunks_hits_and_preemption_change_nothing(models):
    model = models("llama")
    requests = requests_of([50, 70, 90, 31, 64, 65], tokens=40)
    plain = model.run([[request] for request in requests], prefix_cache=False)
    alone = [group[0] for group in plain["groups"]]
    check(model, requests, alone)
    for options in [dict(max_batched_tokens=7), dict(max_batched_tokens=7, prefix_cache=False)]:
        together = model.run([requests], **options)
        check(model, requests, together["groups"][0])
        assert [a["tokens"] for a in together["groups"][0]] == [a["tokens"] for a in alone]
    # The second round finds all blocks but those with the last token.
    again = model.run([requests, requests])
    assert [answer["cached"] for answer in again["groups"][1]] == [48, 64, 80, 16, 48, 64]
    check(model, requests, again["groups"][1])
    # A pool for little more than one sequence.
    block = 3 * 2 * 2 * 16 * 12 * 4
    tight = model.run([requests], kv_memory=17 * block, prefix_cache=False, together=True)
    assert tight["statistics"]["preemptions"] > 0
    check(model, requests, tight["groups"][0])
    assert tight["statistics"]["free"] == tight["statistics"]["total"] == 17


def test_a_drawn_token_depends_on_seed_and_position_alone(models):
    model = models("llama")
    requests = [dict(prompt=drawn_prompt(9, 20), max_tokens=12, temperature=1.0, seed=s) for s in (1, 1, 2)]
    answers = model.run([requests])["groups"][0]
    assert answers[0]["tokens"] == answers[1]["tokens"] != answers[2]["tokens"]


def test_ends(models):
    model = models("llama")
    prompt = drawn_prompt(1, 10)
    tokens = model.run([[dict(prompt=prompt, max_tokens=8, ignore_eos=True)]])["groups"][0][0]["tokens"]
    stop = tokens[4]
    long = dict(prompt=prompt, max_tokens=100000, ignore_eos=True)
    result = model.run([[
        dict(prompt=prompt, max_tokens=8, ignore_eos=True, stop_tokens=[stop]), dict(prompt=prompt, max_tokens=0),
        long, long | dict(cancel=True)]])
    stopped, none, whole, cancelled = result["groups"][0]
    assert stopped["finish"] == "stop" and stopped["tokens"] == tokens[:tokens.index(stop)]
    assert none["finish"] == "length" and none.get("tokens", []) == []
    assert whole["finish"] == "length" and len(whole["tokens"]) == 256 - 10
    assert cancelled["finish"] == "cancelled"
    statistics = result["statistics"]
    assert statistics["free"] + statistics["blocks_cached"] == statistics["total"]
    assert statistics["running"] == statistics["waiting"] == 0


@pytest.mark.parametrize("options", [{}, dict(max_batched_tokens=24), dict(prefix_cache=False), dict(kv_memory=10 * 9216), dict(max_sequences=3)], ids=str)
def test_prepared_steps_change_nothing(models, options):
    """Of every kind of request, on a device that computes beside the engine: tokens, logprobs and ends to the bit."""
    model = models("llama")
    ways = [
        dict(), dict(temperature=1.0), dict(top_logprobs=3), dict(prompt_logprobs=True), dict(temperature=0.7, frequency_penalty=0.8),
        dict(repetition_penalty=1.4), dict(every_token=7, vocabulary=small_models.VOCABULARY), dict(temperature=0.8, top_k=9, ignore_eos=False), dict(max_tokens=1),
        dict(max_tokens=0), dict(priority=-1), dict(bias=[[2, 6.0]], ignore_eos=False), dict(stop_tokens=list(range(3, 40)), temperature=1.5),
    ]
    # Two of each have the same prompt: what one has computed becomes the other's.
    mixed = [dict(prompt=drawn_prompt(i // 2, 17 + 5 * (i // 2 % 8)), max_tokens=20 + i, ignore_eos=True, seed=i) | ways[i // 2 % len(ways)] for i in range(26)]
    # Where memory runs out depends on the moment at which each request arrives.
    for _ in range(5):
        plain, prepared = plain_and_prepared(model, [mixed[:1], mixed, mixed[::-1]], remote=True, together=True, **options)
        if "kv_memory" not in options or prepared["statistics"]["preemptions"] > 0:
            break
    else:
        pytest.fail("no request was ever preempted")
    ends = set()
    for before, after in zip(plain["groups"], prepared["groups"], strict=True):
        assert same_bits(before, after)
        for one, other in zip(before, after, strict=True):
            assert (one["finish"], one.get("prompt"), one.get("logprobs")) == (other["finish"], other.get("prompt"), other.get("logprobs"))
            ends.add(one["finish"])
    assert ends == {"length", "stop"}


def test_who_ends_while_a_step_is_prepared(models):
    """Cancelled and late ones leave the prepared step; the others' bits stay, and all blocks come back."""
    model = models("llama")
    requests = [dict(prompt=drawn_prompt(i, 30 + i), max_tokens=60, ignore_eos=True, temperature=i % 2, seed=i) for i in range(12)]
    whole = model.run([requests], remote=True)["groups"][0]
    ending = [request | (dict(cancel=True) if i % 3 == 1 else dict(timeout=10 + i) if i % 3 == 2 else {}) for i, request in enumerate(requests)]
    result = model.run([ending] * 8, remote=True)
    for group in result["groups"]:
        for i, (answer, right) in enumerate(zip(group, whole, strict=True)):
            assert answer.get("tokens", []) == right["tokens"][: len(answer.get("tokens", []))]
            assert answer["finish"] == "length" if i % 3 == 0 else answer["finish"] in ("cancelled", "error", "length")
    statistics = result["statistics"]
    assert statistics["prepared"] > 0 and statistics["cancelled"] + statistics["late"] > 0
    assert statistics["faults"] == 0 and statistics["free"] + statistics["blocks_cached"] == statistics["total"]


@pytest.mark.parametrize("sequences, before", [(16, 4), (256, 8)])
def test_steps_are_prepared_while_the_device_computes(models, sequences, before):
    """On the null driver, where nobody comes or goes and the host draws: each step but those that admit, and the device waits for 2 % of its time at most.
    Which steps are prepared is the same in each run; a thread that gets no core in time lets the device wait, so of that the best of five counts."""
    requests = [dict(prompt=drawn_prompt(i, 8), max_tokens=60, ignore_eos=True, temperature=1.0, seed=i) for i in range(sequences)]
    for _ in range(5):
        statistics = models("llama").run([requests], faults=[""], threads=1, kv_memory=32 << 20, max_sequences=256, step_us=20000)["statistics"]
        assert statistics["steps"] >= 60 and statistics["between_us"] > 0
        assert statistics["prepared"] >= statistics["steps"] - before
        waits = statistics["between_us"] / statistics["steps"]
        if waits <= 0.02 * 20000:
            break
    assert waits <= 0.02 * 20000


@pytest.mark.parametrize("sequences, bar", [(1, 10), (256, 100)])
def test_a_step_is_prepared_in_time(models, sequences, bar):
    """Decision and batch of a step on the null driver: microseconds of the engine's thread. The best of five runs
    counts: other work on the machine takes caches and clock away."""
    draw = random.Random(sequences)
    requests = [dict(prompt=[draw.randrange(3, small_models.VOCABULARY) for _ in range(32)], max_tokens=100, ignore_eos=True) for _ in range(sequences)]
    for _ in range(5):
        result = models("llama").run([requests], faults=[""], threads=1, kv_memory=32 << 20, max_sequences=256)
        statistics = result["statistics"]
        assert statistics["finished"] == sequences and statistics["preemptions"] == 0 and statistics["steps"] >= 100
        step = statistics["prepare_us"] / statistics["steps"]
        if step <= bar:
            break
    assert 0 < step <= bar


def test_events_are_sent_while_the_next_step_runs(models):
    """32 events of a step take 64 ms to send and more, a step takes 160 ms: the device does not wait for them. The best of three runs counts."""
    requests = [dict(prompt=drawn_prompt(i, 8), max_tokens=10 + i % 8, ignore_eos=True, temperature=1.0) for i in range(32)]
    for _ in range(3):
        result = models("llama").run([requests], faults=[""], threads=1, kv_memory=16 << 20, step_us=160000, sink_us=2000)
        statistics = result["statistics"]
        assert [len(answer["tokens"]) for answer in result["groups"][0]] == [10 + i % 8 for i in range(32)]
        assert all(answer["finish"] == "length" and answer["times"] == sorted(answer["times"]) for answer in result["groups"][0])
        assert statistics["free"] + statistics["blocks_cached"] == statistics["total"]
        waits = statistics["between_us"] / statistics["steps"]
        if waits < 32000:
            break
    assert 0 < waits < 32000


@pytest.mark.parametrize("remote", [False, True])
def test_rows_that_are_drawn_by_several_threads_are_drawn_alike(tmp_path, cache, remote):
    """Enough logits for the threads together, and too few of each sequence alone."""
    model = Model("llama", tmp_path, cache, vocab_size=12000)
    requests = [
        dict(prompt=drawn_prompt(i, 5 + 3 * i), max_tokens=8, ignore_eos=True, temperature=i % 3 / 2, seed=i, top_logprobs=i % 4 - 1, prompt_logprobs=i % 5 == 0)
        for i in range(16)
    ]
    options = dict(remote=remote, kv_memory=8 << 20)
    alone = [group[0] for group in model.run([[request] for request in requests], **options)["groups"]]
    together = model.run([requests], **options)["groups"][0]
    assert all(answer["finish"] == "length" for answer in alone)
    assert same_bits(together, alone)


def test_many_rows_are_drawn_in_groups(tmp_path, cache):
    """Of 70 rows, some with changes: no program takes more than 64 at once."""
    model = Model("llama", tmp_path, cache, vocab_size=300)
    requests = [dict(prompt=drawn_prompt(i, 4), max_tokens=4, ignore_eos=True, seed=i, temperature=1, frequency_penalty=0.4 if i % 3 == 0 else 0) for i in range(100)]
    options = dict(kv_memory=8 << 20, max_sequences=128)
    host = model.run([requests], **options)["groups"][0]
    device = model.run([requests], remote=True, **options)
    assert device["statistics"]["device_draws"] == 400
    assert [answer["tokens"] for answer in device["groups"][0]] == [answer["tokens"] for answer in host]


def test_a_dead_end_at_the_token_limit_is_its_length(models):
    """A grammar that leads nowhere behind two tokens: who asked for two has them."""
    tokens = [7, 9]
    asked = [dict(prompt=drawn_prompt(1, 9), max_tokens=most, dead_end=tokens, vocabulary=small_models.VOCABULARY) for most in (1, 2, 3)]
    for options in ({}, dict(remote=True)):
        short, exact, more = models("llama").run([asked], **options)["groups"][0]
        assert short["finish"] == "length" and short["tokens"] == tokens[:1]
        assert exact["finish"] == "length" and exact["tokens"] == tokens, exact
        assert more["finish"] == "error" and "allows no token of the model here" in more["error"]


@pytest.mark.parametrize("vocabulary", [50, 1500])
def test_the_device_draws_what_the_host_would(tmp_path, cache, vocabulary):
    """Every way of sampling, of rows whose logits stay on the device; those that it cannot draw alone are fetched."""
    model = Model("llama", tmp_path, cache, vocab_size=vocabulary)
    ways = [
        dict(temperature=1),
        dict(temperature=0.6, top_logprobs=3),
        dict(temperature=0.8, top_k=20, top_logprobs=0),
        dict(temperature=0.3, top_p=0.8),
        dict(temperature=0.7, top_k=40, top_p=0.9),
        dict(temperature=0.2, min_p=0.2),
        dict(temperature=0, top_logprobs=5),
        dict(temperature=1, frequency_penalty=0.5, top_logprobs=2),
        dict(temperature=0, presence_penalty=1.5, top_logprobs=4),
        dict(temperature=0.5, repetition_penalty=1.3, bias=[[7, 4.0], [9, -100.0]], top_k=30, top_logprobs=0),
        dict(temperature=1, every_token=7, vocabulary=vocabulary, top_logprobs=1),
        dict(temperature=0, every_token=20, vocabulary=vocabulary, top_logprobs=0),
        dict(temperature=1, top_p=0.7, every_token=11, vocabulary=vocabulary, presence_penalty=0.3),
        dict(temperature=1, top_k=400),
        dict(temperature=2, top_p=0.99, top_logprobs=0),
        dict(temperature=0),
    ]
    requests = [
        dict(prompt=[3 + (7 * i + k * k) % (vocabulary - 3) for k in range(4 + i)], max_tokens=12, ignore_eos=True, seed=100 + i, **way)
        for i, way in enumerate(ways)
    ]
    options = dict(kv_memory=8 << 20)
    host = model.run([requests], **options)
    device = model.run([requests, requests], remote=True, **options)
    assert [a["tokens"] for a in device["groups"][0]] == [a["tokens"] for a in device["groups"][1]]
    # What gpu_test.py has the host draw by.
    bound = model.run([[request | dict(min_p=1e-30) for request in requests[:1]]], remote=True, **options)
    assert bound["statistics"]["device_draws"] == (12 if vocabulary < 64 else 0) and bound["groups"][0][0]["tokens"] == host["groups"][0][0]["tokens"]
    assert host["statistics"]["device_draws"] == 0
    # The last way takes the best token; of two the device's 64 logits are too few.
    assert device["statistics"]["device_draws"] >= 2 * 12 * (len(ways) - 3)
    for way, here, there in zip(ways, host["groups"][0], device["groups"][0]):
        assert here["tokens"] == there["tokens"], way
        np.testing.assert_allclose(here["logprobs"], there["logprobs"], atol=1e-4)
        for ours, theirs in zip(here["top"], there["top"], strict=True):
            assert [token for token, _ in ours] == [token for token, _ in theirs]
