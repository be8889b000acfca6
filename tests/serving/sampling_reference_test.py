"""Requests with sampling fields at random over HTTP, against a float64 reference that draws each token anew; streams against whole answers.

A token is a character of the answer, so that the text says which tokens there were. KNAPPER_SAMPLING_CASES and KNAPPER_SAMPLING_SEED: how many, and others.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import random

import numpy as np
import pytest
from http_test import events, post
from null_server import Server

small_models = pytest.importorskip("small_models")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

SPECIAL, FIRST, EOS = ["<pad>", "<bos>", "<eos>"], 0x4E00, 2
CONTEXT = 64
CASES, SEED = int(os.environ.get("KNAPPER_SAMPLING_CASES", 120)), int(os.environ.get("KNAPPER_SAMPLING_SEED", 3))
NEAR = 2e-4  # of a probability's border: float32 may have taken the other side


def text_of(tokens):
    return "".join(chr(FIRST + t) for t in tokens if t >= len(SPECIAL))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from tokenizers import Tokenizer, decoders, models

    folder = tmp_path_factory.mktemp("sampling") / "tiny"
    reference = small_models.make("llama", folder, max_position_embeddings=CONTEXT)
    vocabulary = {text: i for i, text in enumerate(SPECIAL)} | {chr(FIRST + i): i for i in range(len(SPECIAL), small_models.VOCABULARY)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<pad>"))
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<eos>", "bos_token": "<bos>"}))
    server = Server(folder, "--threads", "1", "--kv-memory", "0.01", null=False)
    yield server, reference
    assert server.stop() == 0


def philox_uniform(seed, position):
    """Philox 4x32-10 (Salmon et al.): key by the seed, counter by the position; 53 bits."""
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    c = [position & 0xFFFFFFFF, position >> 32, 0, 0]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return ((c[0] << 32 | c[1]) >> 11) * 2.0**-53


class TooNear(Exception):
    """Which token it is depends on rounding."""


def draw_token(logits, body, prompt, answer, seed, allowed):
    logits = logits.copy()
    for token, bias in body.get("logit_bias", {}).items():
        logits[int(token)] += bias
    repetition = body.get("repetition_penalty", 1)
    for token in set(prompt) | set(answer):
        if repetition != 1:
            logits[token] = logits[token] / repetition if logits[token] > 0 else logits[token] * repetition
    for token in set(answer):
        logits[token] -= body.get("frequency_penalty", 0) * answer.count(token) + body.get("presence_penalty", 0)
    tokens = np.array(sorted(allowed) if allowed is not None else range(len(logits)))
    kept = logits[tokens]
    temperature, top_p, top_k, min_p = body.get("temperature", 1), body.get("top_p", 1), body.get("top_k", 0), body.get("min_p", 0)
    order = np.argsort(-kept, kind="stable")
    if temperature == 0 or top_p == 0:
        if len(order) > 1 and kept[order[0]] - kept[order[1]] < 1e-3:
            raise TooNear
        return int(tokens[order[0]])
    scaled = (kept - kept.max()) / temperature
    if min_p > 0:
        if np.abs(scaled - np.log(min_p)).min() < NEAR / min(temperature, 1):
            raise TooNear
        scaled[scaled < np.log(min_p)] = -np.inf
    weights = np.exp(scaled)
    places = np.arange(len(kept))
    if top_k > 0:
        if top_k < len(order) and kept[order[top_k - 1]] - kept[order[top_k]] < 1e-3:
            raise TooNear
        places = order[:top_k]
    if top_p < 1:
        places = order[: top_k if top_k > 0 else None]
        shares = np.cumsum(weights[places]) / weights[places].sum()
        if np.abs(shares - top_p).min() < NEAR:
            raise TooNear
        places = places[: int((shares < top_p).sum()) + 1]
    # Larger ones first where some are cut by rank: which of two near ones comes first decides.
    if top_k > 0 or top_p < 1:
        near = np.diff(-kept[places]) < 1e-3
        likely = weights[places] / weights[places].sum() > 1e-3
        if (near & (likely[1:] | likely[:-1])).any():
            raise TooNear
    borders = np.cumsum(weights[places]) / weights[places].sum()
    uniform = philox_uniform(seed, len(prompt) + len(answer))
    if np.abs(borders[:-1] - uniform).min(initial=1) < NEAR:
        raise TooNear
    return int(tokens[places[int((borders <= uniform).sum())]])


def follow(reference, body, prompt, seed, allows):
    """The answer's tokens, its text, why it ended, and the model's log-probabilities of each row."""
    answer, rows, text = [], [], ""
    most = body.get("max_tokens", 16)
    stops = [body["stop"]] if isinstance(body.get("stop"), str) else body.get("stop", [])
    ends = set(body.get("stop_token_ids", [])) | (set() if body.get("ignore_eos") else {EOS})
    with torch.no_grad():
        while len(answer) < most:
            logits = reference(torch.tensor([prompt + answer])).logits[0, -1].double().numpy()
            allowed = allows(answer) if allows else None
            token = draw_token(logits, body, prompt, answer, seed, allowed)
            if token in ends:
                return answer, text, "stop", rows
            rows.append(torch.log_softmax(torch.tensor(logits), -1).numpy())
            answer.append(token)
            text = text_of(answer)
            found = min((at for at in (text.find(stop) for stop in stops) if at >= 0), default=-1)
            if found >= 0:
                stop = next(s for s in stops if text.startswith(s, found))
                return answer, text[: found + (len(stop) if body.get("include_stop_str_in_output") else 0)], "stop", rows
            if allows and not allows(answer):
                return answer, text, "stop", rows
    return answer, text, "length", rows


def drawn_body(draw):
    """A request, its prompt and what its grammar lets follow."""
    character = lambda: draw.randrange(len(SPECIAL), small_models.VOCABULARY)  # noqa: E731
    prompt = [character() for _ in range(draw.choice([1, 3, 9, 30]))]
    body = {"prompt": prompt if draw.random() < 0.5 else text_of(prompt), "seed": draw.choice([0, 1, -1, 2**63 - 1, -(2**63), draw.randrange(2**62)])}

    def maybe(share, **fields):
        for name, made in fields.items():
            if draw.random() < share:
                body[name] = made()

    maybe(0.8, temperature=lambda: draw.choice([0, 0.05, 0.3, 0.7, 1, 1.5, 2]), max_tokens=lambda: draw.choice([1, 2, 7, 12, CONTEXT - len(prompt)]))
    maybe(0.35, top_k=lambda: draw.choice([-1, 0, 1, 2, 5, 40, 64, 65, 150, 151, 2**31 - 1]), top_p=lambda: draw.choice([0, 1e-6, 0.1, 0.5, 0.9, 0.99, 1]), min_p=lambda: draw.choice([0, 1e-4, 0.02, 0.1, 0.5, 1]))
    maybe(0.3, frequency_penalty=lambda: draw.choice([-2, -0.5, 0.1, 1, 2]), presence_penalty=lambda: draw.choice([-2, -0.3, 0.7, 2]), repetition_penalty=lambda: draw.choice([0.01, 0.5, 1.1, 1.7, 10]))
    maybe(0.3, logit_bias=lambda: {str(character()): draw.choice([-100, -5, 0, 0.5, 3, 100]) for _ in range(draw.choice([1, 4, 60]))})
    maybe(0.25, stop_token_ids=lambda: [character() for _ in range(draw.choice([1, 20, 80]))], ignore_eos=lambda: draw.random() < 0.8, echo=lambda: True)
    maybe(0.3, stop=lambda: [text_of([character() for _ in range(draw.choice([1, 1, 1, 2]))]) for _ in range(draw.choice([1, 8, 16]))], include_stop_str_in_output=lambda: draw.random() < 0.7)
    maybe(0.4, logprobs=lambda: draw.choice([0, 1, 5, 20, True, False]), n=lambda: draw.randrange(1, 4), speculate=lambda: False)
    if "n" in body:
        maybe(0.3, best_of=lambda: body["n"])
    allows = None
    if draw.random() < 0.25:
        some = sorted({character() for _ in range(draw.choice([2, 10, 60]))})
        length = draw.randrange(1, 6)
        if draw.random() < 0.5:
            body["guided_regex"] = "[" + text_of(some) + "]{%d}" % length
            allows = lambda answer: some if len(answer) < length else []  # noqa: E731
        else:
            words = [[character() for _ in range(length)] for _ in range(4)]
            body["guided_choice"] = [text_of(word) for word in words]
            allows = lambda answer: [w[len(answer)] for w in words if w[: len(answer)] == answer and len(answer) < length]  # noqa: E731
    return body, prompt, allows


def streamed(server, body):
    """The choices of a stream, put together."""
    made = {}
    for piece in events(server, "/v1/completions", body):
        for choice in piece["choices"]:
            one = made.setdefault(choice["index"], {"text": "", "finish_reason": None, "logprobs": None})
            one["text"] += choice["text"]
            one["finish_reason"] = choice["finish_reason"] or one["finish_reason"]
            if choice["logprobs"]:
                one["logprobs"] = one["logprobs"] or {}
                for key, values in choice["logprobs"].items():
                    one["logprobs"][key] = (one["logprobs"].get(key) or []) + values if values is not None else None
    return [made[i] for i in sorted(made)]


def check_case(server, reference, number):
    body, prompt, allows = drawn_body(random.Random(f"{SEED} {number}"))
    status, answer = post(server, "/v1/completions", body)
    assert status == 200, (body, answer)
    choices = answer["choices"]
    assert len(choices) == body.get("n", 1)
    for whole, parts in zip(choices, streamed(server, body), strict=True):
        if body.get("logprobs", False) is not False and parts["logprobs"] is None:  # of no token
            parts["logprobs"] = dict.fromkeys(("tokens", "token_logprobs", "top_logprobs", "text_offset"), [])
        assert {name: whole[name] for name in parts} == parts, body
    near, completion = 0, 0
    for i, choice in enumerate(choices):
        try:
            tokens, text, reason, rows = follow(reference, body, prompt, body["seed"] + i, allows)
        except TooNear:
            near += 1
            continue
        completion += len(tokens)
        start = text_of(prompt) if body.get("echo") else ""
        assert (choice["text"], choice["finish_reason"]) == (start + text, reason), body
        logprobs = body.get("logprobs", False)  # True: the token alone
        if logprobs is False:
            assert choice["logprobs"] is None
            continue
        given, count = choice["logprobs"], 0 if logprobs is True else logprobs
        if body.get("echo"):  # all of the prompt but its first token have a probability
            assert given["token_logprobs"][0] is None and given["top_logprobs"][0] is None
            with torch.no_grad():
                before = torch.log_softmax(reference(torch.tensor([prompt])).logits[0, :-1].double(), -1).numpy()
            rows, shown = [None, *before, *rows], prompt + tokens
        else:
            shown = tokens
        assert given["tokens"] == [SPECIAL[t] if t < len(SPECIAL) else text_of([t]) for t in shown], body
        assert given["text_offset"] == [len(text_of(shown[:i])) for i in range(len(shown))], body
        for row, token, logprob, top in zip(rows, shown, given["token_logprobs"], given["top_logprobs"], strict=True):
            if row is None:
                continue
            of = {SPECIAL.index(text) if text in SPECIAL else ord(text) - FIRST: logprob for text, logprob in top.items()}
            assert np.allclose([row[token], *(row[t] for t in of)], [logprob, *of.values()], atol=2e-3), body
            assert token in of and len(of) in (count, count + 1), body
            assert np.allclose(sorted(of.values(), reverse=True)[:count], np.sort(row)[::-1][:count], atol=2e-3), body
    if not near:
        assert answer["usage"]["completion_tokens"] == completion, body
    assert answer["usage"]["prompt_tokens"] == len(prompt)
    return len(choices), near


def test_drawn_tokens_are_the_references(model):
    server, reference = model
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        counts = list(pool.map(lambda number: check_case(server, reference, number), range(CASES)))
    answers, near = np.sum(counts, axis=0)
    assert near < 0.35 * answers, (near, answers)


@pytest.mark.parametrize("most, text, reason", [(1, "丝", "length"), (2, "丝乌", "stop"), (3, "丝乌", "stop")])
def test_a_text_that_is_complete_at_the_limit_has_stopped(model, most, text, reason):
    """Also where its last tokens are the only ones that may follow, and nobody draws them."""
    body = {"prompt": "乕也与", "max_tokens": most, "guided_choice": ["丝乌"] if most > 1 else ["丝乌", "丝乏"]}
    choice = post(model[0], "/v1/completions", body)[1]["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == (text, reason)


def test_keys_share_no_prefix(model):
    """Neither `cached_tokens` nor time tells one key's user what another's has asked."""
    folder = model[0].process.args[2]
    server = Server(folder, "--threads", "1", "--kv-memory", "0.01", "--api-key", "first", "--api-key", "second", null=False)
    try:
        seen = []
        for key in ["first", "first", "second", "second", "first"]:
            status, answer = post(server, "/v1/completions", {"prompt": list(range(3, 53)), "max_tokens": 1}, headers={"Authorization": f"Bearer {key}"})
            assert status == 200
            seen.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
        assert [bool(n) for n in seen] == [False, True, False, True, True]
    finally:
        assert server.stop() == 0
