"""The engine against transformers in float32: logits, greedy tokens, in any batch."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
import small_models

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

BUILD = Path(os.environ.get("KNAPPER_BUILD", Path(__file__).parents[2] / "build" / "dev"))
TOLERANCE = 2e-4  # of the largest logit


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    folder.chmod(0o700)
    return str(folder)


class Model:
    def __init__(self, name, folder, cache, **changes):
        self.folder, self.cache = folder, cache
        self.reference = small_models.make(name, folder, **changes)

    def run(self, groups, fail_every=(), faults=(), **options):
        path = self.folder / "requests.json"
        options = {"threads": 2, "cache": self.cache, "kv_memory": 4 << 20} | options
        path.write_text(json.dumps({"options": options, "groups": groups, "fail_every": list(fail_every), "faults": list(faults)}))
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


@pytest.fixture(scope="session")
def models(tmp_path_factory, cache):
    made = {}

    def get(name):
        if name not in made:
            made[name] = Model(name, tmp_path_factory.mktemp("model"), cache)
        return made[name]

    return get


def drawn_prompt(seed, length):
    return np.random.default_rng(seed).integers(3, small_models.VOCABULARY, length).tolist()


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


def requests_of(lengths, tokens=24):
    return [dict(prompt=drawn_prompt(i, n), max_tokens=tokens, top_logprobs=5) for i, n in enumerate(lengths)]


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
    ours, theirs = [], []
    for request, answer in zip(requests, answers, strict=True):
        tokens = torch.tensor(request["prompt"])
        with torch.no_grad():
            at = (torch.arange(len(tokens) - 1), tokens[1:])
            right = torch.log_softmax(exact(tokens[None]).logits[0].double(), -1)[at]
            other = torch.log_softmax(half(tokens[None]).logits[0].double(), -1)[at]
        given = torch.tensor([logprob for _, logprob in answer["prompt"]]).double()
        ours += (given - right).tolist()
        theirs += (other - right).tolist()
    error, allowed = (float(np.sqrt(np.mean(np.square(values)))) for values in (ours, theirs))
    assert 0 < error <= 1.05 * allowed, (error, allowed)


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
    ours, theirs, between = [], [], []
    for request, answer in zip(requests, answers, strict=True):
        tokens = torch.tensor(request["prompt"])
        at = (torch.arange(len(tokens) - 1), tokens[1:])
        with torch.no_grad():
            right, other = (torch.log_softmax(m(tokens[None]).logits[0].double(), -1)[at] for m in (exact, expanded))
        given = torch.tensor([logprob for _, logprob in answer["prompt"]]).double()
        ours += (given - right).tolist()
        theirs += (other - right).tolist()
        between += (given - other).tolist()
    error, allowed, distance = (float(np.sqrt(np.mean(np.square(values)))) for values in (ours, theirs, between))
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


def same_bits(one, other):
    return all(a.get("tokens") == b.get("tokens") and a.get("top") == b.get("top") for a, b in zip(one, other, strict=True))


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
    tight = model.run([requests], kv_memory=17 * block, prefix_cache=False)
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
    answers = models("llama").run([requests], queue_limit=1, max_sequences=1)["groups"][0]
    refused = [a["refused"] for a in answers if "refused" in a]
    assert refused and all("queue: has 1 requests that wait" in text for text in refused)


def test_logits_that_are_no_numbers_end_their_request_only(models, tmp_path, cache):
    """A NaN in the row of one token: who reads it fails, before and after, and nobody else."""
    good = models("llama")
    fine = [dict(prompt=drawn_prompt(i, 30), max_tokens=20, top_logprobs=3) for i in range(3)]
    expected = good.run([[request] for request in fine])["groups"]
    seen = {token for request in fine for token in request["prompt"]}
    seen |= {token for (answer,) in expected for token in answer["tokens"]}
    token = min(set(range(3, small_models.VOCABULARY)) - seen)
    bad = Model("llama", tmp_path, cache)
    with torch.no_grad():
        bad.reference.model.embed_tokens.weight[token] = float("nan")
    bad.reference.save_pretrained(tmp_path)
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


@pytest.mark.parametrize("options", [{}, dict(max_batched_tokens=24), dict(prefix_cache=False), dict(kv_memory=12 * 9216), dict(max_sequences=3)], ids=str)
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
    # Memory runs out only where requests arrive faster than they end.
    for _ in range(5):
        plain, prepared = plain_and_prepared(model, [mixed[:1], mixed, mixed[::-1]], remote=True, **options)
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
    """On the null driver, where nobody comes or goes and the host draws: each step but those that admit, and the device waits for 2 % of its time at most."""
    requests = [dict(prompt=drawn_prompt(i, 8), max_tokens=60, ignore_eos=True, temperature=1.0, seed=i) for i in range(sequences)]
    statistics = models("llama").run([requests], faults=[""], threads=1, kv_memory=32 << 20, max_sequences=256, step_us=20000)["statistics"]
    assert statistics["steps"] >= 60 and statistics["prepared"] >= statistics["steps"] - before
    assert 0 < statistics["between_us"] / statistics["steps"] <= 0.02 * 20000


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
    result = models("llama").run([[requests[0], requests[1] | dict(hang_at=11)]], faults=[""])
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
    """32 events of a step take 64 ms to send and more, a step takes 160 ms: the device does not wait for them."""
    requests = [dict(prompt=drawn_prompt(i, 8), max_tokens=10 + i % 8, ignore_eos=True, temperature=1.0) for i in range(32)]
    result = models("llama").run([requests], faults=[""], threads=1, kv_memory=16 << 20, step_us=160000, sink_us=2000)
    statistics = result["statistics"]
    assert [len(answer["tokens"]) for answer in result["groups"][0]] == [10 + i % 8 for i in range(32)]
    assert all(answer["finish"] == "length" and answer["times"] == sorted(answer["times"]) for answer in result["groups"][0])
    assert 0 < statistics["between_us"] / statistics["steps"] < 32000
    assert statistics["free"] + statistics["blocks_cached"] == statistics["total"]


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
