"""Requests, folders and devices that fail: each is told why, and no other request changes."""

from __future__ import annotations

import pytest
import small_models
from engine_models import drawn_prompt, edit, refusal, requests_of, same_bits, with_nan


@pytest.mark.parametrize("request_, message", [
    (dict(prompt=[]), "prompt: has no tokens"),
    (dict(prompt=[small_models.VOCABULARY]), "prompt: has the token 151, and there are 151"),
    (dict(prompt=[3] * 256), "prompt: has 256 tokens; the context is 256 with the answer"),
    (dict(prompt=[3], temperature=-1.0), "temperature: is outside"),
    (dict(prompt=[3], top_logprobs=21), "topLogprobs: is 21"),
])
def test_refused_requests(models, request_, message):
    answer = models("llama").run([[request_]])["groups"][0][0]
    assert message in answer["refused"]


def test_a_full_queue_refuses(models):
    requests = [dict(prompt=[3, 4], max_tokens=200, ignore_eos=True)] * 6
    answers = models("llama").run([requests], queue_limit=1, max_sequences=1, together=True)["groups"][0]
    refused = [a["refused"] for a in answers if "refused" in a]
    assert refused and all("queue: has 1 requests that wait" in text for text in refused)


@pytest.mark.parametrize("change, message", [
    (lambda f: (f / "config.json").write_text('{"architectures": ["NoSuchModel"]}'), "'NoSuchModel' is not known"),
    (lambda f: (f / "model.safetensors").unlink(), "has no model.safetensors"),
    (lambda f: edit(f, num_hidden_layers=4), "the tensor 'model.layers.3.input_layernorm.weight' is missing"),
    (lambda f: edit(f, num_hidden_layers=2), "is read by nothing in a LlamaForCausalLM"),
    (lambda f: edit(f, intermediate_size=81), "and 81x48 is what config.json says"),
    (lambda f: edit(f, num_key_value_heads=3), "sizes that do not fit together"),
])
def test_refused_folders(models, tmp_path, cache, change, message):
    models("llama").reference.save_pretrained(tmp_path)
    change(tmp_path)
    assert message in refusal(tmp_path, cache)


@pytest.mark.parametrize("name, fields, message", [
    ("llama", dict(residual_multiplier=0.5), "field 'residual_multiplier'"),
    ("llama", dict(rope_parameters=dict(rope_type="dynamic", factor=2.0)), "is 'dynamic'"),
    ("llama", dict(rope_parameters=dict(rope_type="yarn", factor=2.0, scale="x")), "field 'scale'"),
    ("gemma3", dict(attn_logit_softcapping=50.0), "field 'attn_logit_softcapping'"),
    ("gemma3", dict(use_bidirectional_attention=True), "and only false is known"),
    ("gpt2", dict(scale_attn_by_inverse_layer_idx=True), "and only false is known"),
    ("gpt2", dict(n_inner=7), "and 48x7 is what config.json says"),
    ("phi3 rope long", dict(rope_parameters=small_models.LONGROPE | dict(short_factor=[1.0])), "has 1 short and 6 long factors"),
    ("qwen2 windows", dict(layer_types=["sliding_attention"]), "has 1 entries for 3 layers"),
    ("starcoder2", dict(hidden_act="quick_gelu"), "is 'quick_gelu'"),
    ("mixtral", dict(num_experts_per_tok=7), "has experts that do not fit together"),
    ("qwen3 moe", dict(decoder_sparse_step=0), "is not positive"),
])
def test_refused_fields(models, tmp_path, cache, name, fields, message):
    models(name).reference.save_pretrained(tmp_path)
    edit(tmp_path, **fields)
    assert message in refusal(tmp_path, cache)


def test_logits_that_are_no_numbers_end_their_request_only(models, tmp_path, cache):
    """A NaN in the row of one token: who reads it fails, before and after, and nobody else."""
    good = models("llama")
    fine = [dict(prompt=drawn_prompt(i, 30), max_tokens=20, top_logprobs=3) for i in range(3)]
    expected = good.run([[request] for request in fine])["groups"]
    bad, token = with_nan(tmp_path, cache, *(request["prompt"] for request in fine), *(answer["tokens"] for (answer,) in expected))
    poisoned = dict(prompt=fine[0]["prompt"][:20] + [token] * 3, max_tokens=20)
    # The others are given the blocks that the first one had.
    result = bad.run([[poisoned], [fine[0], poisoned, fine[1]], [fine[2], poisoned]], kv_memory=18 * 9216)
    del result["groups"][0]
    answers = [result["groups"][0][0], result["groups"][0][2], result["groups"][1][0]]
    for answer, (other,) in zip(answers, expected, strict=True):
        assert answer["finish"] in ("length", "stop")
        assert answer["tokens"] == other["tokens"]
    for failed in (result["groups"][0][1], result["groups"][1][1]):
        assert failed["finish"] == "error" and "logits that are not finite" in failed["error"]
        assert failed["cached"] <= 16  # what the other one has computed


@pytest.mark.parametrize("speculation, remote", [("off", False), ("ngram", False), ("off", True)])
def test_allocations_that_fail_end_their_request_only(models, speculation, remote):
    """Of the engine's thread, one in so many, in a pool that is tight: answers are right or say so, and no block is lost."""
    model = models("llama")
    requests = [dict(prompt=drawn_prompt(i % 3, 20 + 3 * i), max_tokens=30, top_logprobs=2) for i in range(12)]
    expected = [group[0] for group in model.run([[request] for request in requests], remote=remote)["groups"]]
    every = [0, 5003, 1009, 307, 101, 61, 37, 23, 17, 11, 7, 0]
    block = 3 * 2 * 2 * 16 * 12 * 4
    result = model.run([requests] * len(every), fail_every=every, kv_memory=24 * block, speculation=speculation,
                       speculation_measured=False, remote=remote)
    assert result["failures"] > 50
    ended = {"length": 0, "stop": 0, "error": 0}
    for group in result["groups"]:
        for answer, right in zip(group, expected, strict=True):
            ended[answer["finish"]] += 1
            if answer["finish"] == "error":
                assert "out of memory" in answer["error"]
                assert answer.get("tokens", []) == right["tokens"][: len(answer.get("tokens", []))]
            else:
                assert answer["tokens"] == right["tokens"] and (remote or same_bits([answer], [right]))
    assert ended["error"] > 20 and ended["length"] > 30
    # What the device has no memory to draw is drawn by the host, whose logprobs are rounded otherwise.
    assert remote or same_bits(result["groups"][-1], expected)
    assert (result["statistics"]["prepared"] > 0) == remote
    statistics = result["statistics"]
    assert statistics["faults"] == 0 and statistics["free"] + statistics["blocks_cached"] == statistics["total"] == 24


def test_a_model_that_computes_otherwise_is_not_ready(models, tmp_path):
    """The first load keeps logits, later ones compare; what is damaged is written again."""
    model = models("llama")
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    options = dict(cache=str(folder), self_check=True)
    requests = requests_of([20], tokens=4)
    first = model.run([requests], **options)
    assert first["statistics"]["steps"] <= 5, "the check counts nowhere"
    (kept,) = (folder / "checks").iterdir()
    text = kept.read_text()
    lines = text.splitlines()
    assert len(lines) == 1 + int(lines[0]) == 21
    assert same_bits(model.run([requests], **options)["groups"][0], first["groups"][0])
    assert kept.read_text() == text
    for damage in ("", "21", "x", text[:40]):
        kept.write_text(damage)
        model.run([], **options)
        assert kept.read_text() == text
    token, logprob = lines[7].split()
    for line in (f"{token} {float(logprob) - 0.01}", f"{int(token) + 1} {logprob}"):
        kept.write_text("\n".join([*lines[:7], line, *lines[8:]]))
        assert "the model gives other logits than when it was first loaded" in refusal(model.folder, str(folder), self_check=True)


@pytest.mark.parametrize("how", ["lost", "hung"])
def test_a_lost_device_fails_its_requests_and_the_engine_is_built_again(models, how):
    """On the null driver, which computes nothing and is told to fail."""
    requests = [dict(prompt=drawn_prompt(i, 20 + i), max_tokens=12, ignore_eos=True) for i in range(6)]
    result = models("llama").run([requests] * 4, faults=["", how, "", how], max_sequences=4)
    before, during, after, again = result["groups"]
    assert all(answer["finish"] == "length" for answer in before + after)
    # What comes when the loss is known is refused, with the same words.
    refused = [answer["refused"] for answer in during + again if "refused" in answer]
    failed = [answer for answer in during + again if "refused" not in answer]
    assert all("lost" in text for text in refused)
    assert failed and all(answer["finish"] == "error" and "lost" in answer["error"] and answer["told_lost"] for answer in failed)
    statistics = result["statistics"]
    assert statistics["rebuilds"] >= 1 and statistics["failed"] == len(failed) and statistics["finished"] == 12
    assert statistics["running"] == statistics["waiting"] == statistics["faults"] == 0
    assert statistics["free"] + statistics["blocks_cached"] == statistics["total"]


def test_who_has_ended_before_a_step_hangs_hears_of_it(models):
    """The last token but one is sent while the last one's step runs; the step behind that hangs, with another request in it."""
    requests = [dict(prompt=drawn_prompt(i, 20), max_tokens=tokens, ignore_eos=True) for i, tokens in enumerate((80, 12))]
    # The first event waits until both are submitted: the other one may not end before this one has begun.
    result = models("llama").run([[requests[0], requests[1] | dict(hang_at=11)]], faults=[""], together=True)
    hung, ended = result["groups"][0]
    assert ended["finish"] == "length" and len(ended["tokens"]) == 12
    assert hung["finish"] == "error" and 0 < len(hung["tokens"]) < 80
    statistics = result["statistics"]
    assert statistics["finished"] == 1 and statistics["failed"] == 1


def test_a_deadline_gives_its_blocks_back(models):
    requests = [dict(prompt=drawn_prompt(i, 30), max_tokens=90, ignore_eos=True, timeout=0 if i % 2 else 100000) for i in range(6)]
    result = models("llama").run([requests], prefix_cache=False)
    for i, answer in enumerate(result["groups"][0]):
        assert (answer["finish"] == "error" and "deadline" in answer["error"]) if i % 2 else answer["finish"] == "length"
    statistics = result["statistics"]
    assert statistics["late"] == 3 and statistics["faults"] == 0
    assert statistics["free"] == statistics["total"]
