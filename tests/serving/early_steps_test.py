"""Steps that a device has before the step before them has ended: the same tokens, ends and blocks as without them."""

from __future__ import annotations

import random

import pytest
import small_models
from engine_models import Model, drawn_prompt, same_answers, torch, with_nan

BLOCK = 3 * 2 * 2 * 16 * 12 * 4  # bytes of the small llama


def greedy(count, tokens=40, **more):
    """Requests of which a step asks for nothing but the best token."""
    return [dict(prompt=drawn_prompt(i, 12 + 7 * (i % 9)), max_tokens=tokens, ignore_eos=True) | more for i in range(count)]


def whole(statistics):
    """Nothing is left over, and no block was lost or had two owners."""
    assert statistics["faults"] == statistics["running"] == statistics["waiting"] == 0
    assert statistics["free"] + statistics["blocks_cached"] == statistics["total"]
    return statistics


def with_and_without(model, groups, **options):
    """On a device that runs the CPU's code apart from the host: early, and with the engine deciding and drawing between steps."""
    waiting = [[request | dict(speculate=False) for request in group] for group in groups]
    options = dict(remote=True, together=True) | options
    plain = model.run(waiting, speculation="ngram", draw_in_stream=False, **options)
    early = model.run(groups, **options)
    assert whole(plain["statistics"])["early"] == 0 < whole(early["statistics"])["early"]
    for one, other in zip(plain["groups"], early["groups"], strict=True):
        same_answers(one, other)
    return early


@pytest.mark.parametrize("options", [{}, dict(max_batched_tokens=9), dict(prefix_cache=False), dict(max_sequences=3), dict(kv_memory=14 * BLOCK)], ids=str)
def test_early_steps_change_nothing(models, options):
    """Whole prompts and chunks, hits, one waiting for another's place, preemption."""
    model = models("llama")
    requests = greedy(10) + greedy(4, tokens=90, top_logprobs=0)
    for i, request in enumerate(requests):
        request["max_tokens"] += 5 * (i % 4)
    result = with_and_without(model, [requests[:1], requests, requests[::-1]], **options)
    statistics = result["statistics"]
    assert statistics["prepared"] >= statistics["early"] >= statistics["steps"] / 4
    assert (statistics["preemptions"] > 0) == ("kv_memory" in options)
    assert (statistics["cached"] > 0) == options.get("prefix_cache", True)
    cpu = model.run([requests], **options)["groups"][0]
    assert [a["tokens"] for a in cpu] == [a["tokens"] for a in result["groups"][1]]


def test_what_needs_the_host_has_no_early_step(models):
    """Grammars, penalties, logprobs of prompts and more ranks than the device says end it for as long as they run, and change no bit."""
    model = models("llama")
    others = [dict(prompt_logprobs=True), dict(frequency_penalty=0.8), dict(bias=[[9, 4.0]]), dict(every_token=7, vocabulary=small_models.VOCABULARY),
              dict(temperature=1.0, repetition_penalty=1.1), dict(temperature=1.0, top_k=65)]
    groups = [greedy(3, tokens=30) + [greedy(1, tokens=8, seed=5)[0] | other] for other in others]
    result = with_and_without(model, groups)
    for other, group in zip(others, groups, strict=True):
        alone = model.run([[group[-1]]], remote=True)["statistics"]
        assert alone["early"] == 0, other
    assert result["statistics"]["early"] >= len(others) * 15


WAYS = [dict(temperature=1.0), dict(temperature=0.7, top_k=9), dict(temperature=1.3, top_p=0.6), dict(temperature=1.0, min_p=0.05),
        dict(temperature=0.9, top_k=20, top_p=0.8), dict(temperature=1.1, top_k=40, min_p=0.02), dict(temperature=0.8, top_p=0.9, min_p=0.01),
        dict(temperature=0.01), dict(top_logprobs=5), dict(temperature=1.0, top_logprobs=20), dict(temperature=1.0, top_k=7, top_logprobs=0), {}]


def sampled(count, seed=0, **more):
    """Requests of all ways to draw, and greedy ones."""
    return [request | WAYS[i % len(WAYS)] | dict(seed=seed + i) | more for i, request in enumerate(greedy(count))]


@pytest.mark.parametrize("options", [{}, dict(max_batched_tokens=9), dict(prefix_cache=False), dict(max_sequences=3), dict(kv_memory=14 * BLOCK)], ids=str)
def test_early_steps_of_drawn_tokens_change_nothing(models, options):
    """What the device draws feeds the next step: the tokens are those that the host draws from whole rows, bit for bit."""
    model = models("llama")
    requests = sampled(len(WAYS) + 5)
    for i, request in enumerate(requests):
        request["max_tokens"] += 5 * (i % 4)
    result = with_and_without(model, [requests[:1], requests, requests[::-1]], **options)
    statistics = result["statistics"]
    assert statistics["early"] >= statistics["steps"] / 4
    assert (statistics["preemptions"] > 0) == ("kv_memory" in options)
    assert statistics["device_draws"] > sum(r["max_tokens"] for r in requests)
    # On the CPU each token is drawn from its whole row.
    cpu = model.run([requests], **options)["groups"][0]
    assert [a["tokens"] for a in cpu] == [a["tokens"] for a in result["groups"][1]]


def test_random_mixes(models):
    """Cancelled and late ones, stop tokens, penalties and grammars that come and go, prompts of all lengths, few blocks: with an engine on the host's side of the same draws."""
    model, draw = models("llama"), random.Random(5)

    def request(i):
        way = draw.choice([*WAYS, *WAYS, dict(temperature=1.0, presence_penalty=0.4), dict(every_token=7, vocabulary=small_models.VOCABULARY)])
        made = dict(prompt=drawn_prompt(draw.randrange(40), draw.randint(3, 60)), max_tokens=draw.randint(1, 50), seed=i, ignore_eos=draw.random() < 0.7)
        if draw.random() < 0.5:
            made["stop_tokens"] = draw.sample(range(3, small_models.VOCABULARY), 6)
        return made | way

    groups = [[request(100 * g + i) for i in range(draw.choice([1, 5, 30]))] for g in range(12)]
    for options in ({}, dict(kv_memory=20 * BLOCK, max_batched_tokens=24)):
        with_and_without(model, groups, **options)
    right = [[answer.get("tokens", []) for answer in group] for group in model.run(groups)["groups"]]
    ending = [[r | (dict(cancel=True) if draw.random() < 0.2 else dict(timeout=draw.randint(1, 60)) if draw.random() < 0.2 else {}) for r in group] for group in groups]
    for options in ({}, dict(kv_memory=20 * BLOCK)):
        result = model.run(ending, remote=True, **options)
        for group, answers, texts in zip(ending, result["groups"], right, strict=True):
            for r, answer, text in zip(group, answers, texts, strict=True):
                got = answer.get("tokens", [])
                assert got == text[: len(got)]
                if not r.keys() & {"cancel", "timeout"}:
                    assert answer["finish"] in ("stop", "length") and got == text
        statistics = whole(result["statistics"])
        assert statistics["cancelled"] + statistics["late"] > 0 < statistics["early"]


def test_guesses_of_the_device_are_compared(models, tmp_path, cache):  # noqa: F811
    """Of flat rows `top_p` reaches past what the device says: its token is another one, the next step is left, and soon no step is early."""
    flat = Model("llama", tmp_path, cache, vocab_size=2000)
    with torch.no_grad():
        flat.reference.lm_head.weight.mul_(0.01)
    flat.reference.save_pretrained(tmp_path)
    far = [dict(prompt=drawn_prompt(i, 9), max_tokens=60, temperature=1.0, top_p=0.9, seed=i, ignore_eos=True) for i in range(4)]
    near = greedy(4, tokens=60)
    result = with_and_without(flat, [far + near])
    assert [a["tokens"] for a in flat.run([far + near])["groups"][0]] == [a["tokens"] for a in result["groups"][0]]
    assert result["statistics"]["discarded"] <= 4 * (2 + 60 // 16)
    # One at a time: beside others a step is early only where all of them are guessed, and that depends on when each arrived.
    alone = with_and_without(flat, [[request] for request in far])["statistics"]
    assert 4 <= alone["discarded"] <= 4 * (2 + 60 // 16)
    # `min_p` that most logits are above reaches past it too: the token is right, and the host needs the row to know it.
    deep = [r | dict(top_p=1.0, min_p=0.01) for r in far]
    statistics = with_and_without(flat, [deep])["statistics"]
    assert statistics["discarded"] <= 2 and 0 < statistics["early"] <= 4 * (2 + 60 // 16)
    # Rows of which the sum tells the token, near a border or not, stay early.
    whole_rows = [r | dict(top_p=1.0) for r in far]
    statistics = with_and_without(flat, [whole_rows])["statistics"]
    assert statistics["early"] >= 40 and statistics["discarded"] <= 2


def test_the_end_of_a_text_is_found_behind_the_extra_token(models):
    """Stop tokens and the model's own: the token behind is computed, discarded and published nowhere."""
    model = models("llama")
    requests = greedy(8, tokens=60)
    texts = [answer["tokens"] for answer in model.run([requests])["groups"][0]]
    places = [5 + 3 * i for i in range(8)]
    ending = [request | dict(stop_tokens=[text[place]]) for request, text, place in zip(requests, texts, places, strict=True)]
    result = with_and_without(model, [ending, ending, requests])
    for group in result["groups"][:2]:
        for answer, text, place in zip(group, texts, places, strict=True):
            assert answer["finish"] == "stop" and answer["tokens"] == text[: text.index(text[place])]
    # What the prefix cache has of them is right.
    assert [answer["tokens"] for answer in result["groups"][2]] == texts
    assert 8 <= result["statistics"]["discarded"] <= 16
    # A length that is known before takes no extra token.
    assert model.run([requests], remote=True)["statistics"]["discarded"] == 0


def test_who_ends_leaves_the_early_step(models):
    """Cancelled and late ones: the others' bits stay, and all blocks come back."""
    model = models("llama")
    requests = greedy(12, tokens=80)
    right = model.run([requests], remote=True)["groups"][0]
    ending = [request | (dict(cancel=True) if i % 3 == 1 else dict(timeout=10 + 3 * i) if i % 3 == 2 else {}) for i, request in enumerate(requests)]
    result = model.run([ending] * 8, remote=True)
    for group in result["groups"]:
        for i, (answer, text) in enumerate(zip(group, right, strict=True)):
            assert answer.get("tokens", []) == text["tokens"][: len(answer.get("tokens", []))]
            assert answer["finish"] == "length" if i % 3 == 0 else answer["finish"] in ("cancelled", "error", "length")
    statistics = whole(result["statistics"])
    assert statistics["early"] > 0 and statistics["cancelled"] + statistics["late"] > 0


def test_logits_that_are_no_numbers_are_found_behind_the_extra_token(models, tmp_path, cache):
    """The row is gone by then: its request ends all the same, the next step's row of it counts for nothing."""
    good = models("llama")
    fine = greedy(5, tokens=30)
    expected = [answer["tokens"] for answer in good.run([fine], remote=True)["groups"][0]]
    bad, token = with_nan(tmp_path, cache, *(request["prompt"] for request in fine), *expected)
    poisoned = dict(prompt=fine[0]["prompt"][:10] + [token] * 3, max_tokens=20)
    result = bad.run([[*fine, poisoned], [poisoned, *fine]], remote=True)
    for group in ([*result["groups"][0]], [*result["groups"][1][1:], result["groups"][1][0]]):
        assert [answer["tokens"] for answer in group[:-1]] == expected
        assert group[-1]["finish"] == "error" and "logits that are not finite" in group[-1]["error"]
        assert group[-1].get("tokens", []) == []
    statistics = whole(result["statistics"])
    assert statistics["early"] > 0 and statistics["discarded"] >= 2


@pytest.mark.parametrize("sequences, before", [(1, 2), (16, 4), (256, 8)])
def test_the_device_has_its_next_step(models, sequences, before):
    """On the null driver, where nobody comes or goes: each step but those that admit is there before the last one ends."""
    requests = [dict(prompt=drawn_prompt(i, 8), max_tokens=60, ignore_eos=True) for i in range(sequences)]

    def is_ahead() -> bool:
        result = models("llama").run([requests] * 2, faults=["", ""], threads=1, kv_memory=32 << 20, max_sequences=256, step_us=20000)
        statistics = whole(result["statistics"])
        assert statistics["steps"] >= 120 and result["after"][1]["idle_us"] > 0
        assert all(len(answer["tokens"]) == 60 for group in result["groups"] for answer in group)
        # The first group plans each size. By the device's clock, none waits but those few that were not there in time: each
        # for a thread to be woken.
        steps, early, idle = (result["after"][1][key] - result["after"][0][key] for key in ("steps", "early", "idle_us"))
        between = statistics["between_us"] / statistics["steps"]
        print(f"{statistics['early']} of {statistics['steps']} early, idle {idle} us for {steps - early} late ones, {between:.0f} us a step")
        return statistics["early"] >= statistics["steps"] - 2 * before and idle <= 12000 * (steps - early) and between <= 400

    # A thread that gets no core in time is late: the best of three runs.
    assert any(is_ahead() for _ in range(3))


def test_the_clock_sees_a_device_that_waits(models):
    """On the null driver, with a request whose draws need the host: no step is there early, and the device's time between them is counted."""
    requests = [dict(prompt=drawn_prompt(i, 8), max_tokens=40, ignore_eos=True, frequency_penalty=0.5) for i in range(16)]
    statistics = whole(models("llama").run([requests], faults=[""], threads=1, kv_memory=32 << 20, step_us=2000)["statistics"])
    assert statistics["early"] == 0 and statistics["steps"] >= 40
    # What the engine's thread needs between two steps is a part of it.
    assert statistics["idle_us"] >= statistics["between_us"] / 2 > 0


@pytest.mark.parametrize("how", ["lost", "hung"])
def test_a_device_that_fails_with_two_steps(models, how):
    """Told to in the middle of an answer, with the next step submitted: each request ends once, the engine is built again."""
    requests = greedy(4, tokens=80)
    requests[1]["hang_at" if how == "hung" else "lose_at"] = 20
    result = models("llama").run([requests], faults=[""], max_sequences=4, step_us=500)
    for answer in result["groups"][0]:
        assert answer["finish"] == "error" and 0 < len(answer["tokens"]) < 80
    statistics = result["statistics"]
    assert statistics["failed"] == 4 and statistics["running"] == statistics["faults"] == 0


def test_allocations_that_fail_with_two_steps(models):
    """Of the engine's thread, one in so many: an answer is right or says so, and no block is lost."""
    model = models("llama")
    requests = greedy(4, tokens=30) + [request | dict(max_tokens=30) for request in sampled(5)]
    expected = [answer["tokens"] for answer in model.run([requests], remote=True)["groups"][0]]
    every = [0, 2003, 601, 307, 151, 97, 61, 37, 23, 0]
    result = model.run([requests] * len(every), fail_every=every, remote=True, kv_memory=40 * BLOCK)
    assert result["failures"] > 20
    for group in result["groups"]:
        for answer, right in zip(group, expected, strict=True):
            if answer["finish"] == "error":
                assert "out of memory" in answer["error"] and answer.get("tokens", []) == right[: len(answer.get("tokens", []))]
            else:
                assert answer["tokens"] == right
    assert [answer["tokens"] for answer in result["groups"][-1]] == expected
    assert whole(result["statistics"])["early"] > 0


@pytest.mark.parametrize("begun, fewest", [(False, 1), (False, 60_000), (True, 1), (True, 30_000)], ids=["buffers", "scratch", "buffers, behind draws", "scratch, behind draws"])
def test_a_device_without_memory_for_draws(models, begun, fewest):
    """From some moment it has none for the sampler: requests go on with the right tokens, drawn between steps, and the log says so once."""
    model = models("llama")
    many = sampled(100, max_tokens=30)
    if begun:  # the prompt of the last one ends when the others draw already
        many = many[:5]
        many[4]["prompt"] = drawn_prompt(4, 200)
    right = [answer["tokens"] for answer in model.run([many])["groups"][0]]
    # Before, greedy requests reserve what the steps themselves take, and a few drawn ones a part of what many do.
    plain = [request | dict(temperature=0, top_logprobs=-1) for request in many]
    groups, failing = [plain, *([many[:4]] if begun else [])], [many, many, plain]
    # Together: what steps take follows from who is in them.
    options = dict(remote=True, together=True, max_sequences=128, kv_memory=1200 * BLOCK, prefix_cache=False, max_batched_tokens=64)
    result = model.run(groups + failing, fewest_bytes=[0] * len(groups) + [fewest] * len(failing), **options)
    for group in result["groups"][-3:-1]:
        assert [answer["tokens"] for answer in group] == right
    assert result["groups"][-1] and all(a["tokens"] == b["tokens"] for a, b in zip(result["groups"][0], result["groups"][-1], strict=True))
    whole(result["statistics"])
    # One refusal behind a step, one between two, and neither is asked for again.
    behind, between = result["warnings"]
    assert "draws no tokens behind its steps" in behind and "does not draw tokens" in between and result["refused"] == 2
    early = [after["early"] for after in result["after"][-4:]]
    # Steps of which no row is drawn from may be early still, where the last requests are such.
    assert begun <= early[1] - early[0] and early[2] - early[1] < 15 and early[2] < early[3]


def test_the_pool_leaves_room_for_rows_that_are_drawn_from(models):
    """Two slots of rows for all sequences, rounded up to a power of two, where the pool's size follows from what is free."""
    free, options = 64 * BLOCK * 4, dict(remote=True, kv_memory=0, free=64 * BLOCK * 4, max_sequences=33)
    rows = 2 * 64 * small_models.VOCABULARY * 4
    total = [models("llama").run([greedy(1)], draw_in_stream=draws, **options)["statistics"]["total"] for draws in (False, True)]
    # One block more is nobody's.
    assert total == [free // 4 // BLOCK, (free - rows) // 4 // BLOCK]


@pytest.mark.parametrize(
    "runs, changes",
    [("late", {}), ("behind", {}), ("at_once", {}), ("behind", dict(prefix_cache=True)), ("behind", dict(max_batched_tokens=9)), ("behind", dict(kv_memory=14 * BLOCK)),
     ("behind", dict(mixed=True))],
    ids=str,
)
def test_a_kernel_of_the_sampler_that_fails_ends_no_request(models, runs, changes):
    """Each seventh launch once: one of the model's program ends its step's requests and no others, one of the sampler's nobody; tokens are right.
    Found behind the step, in the submission of the next one, and with the next one submitted."""
    model = models("llama")
    many = sampled(6, max_tokens=12)
    if changes.get("mixed"):  # until they end each step waits for the host
        others = [dict(every_token=7, vocabulary=small_models.VOCABULARY), dict(temperature=1.0, frequency_penalty=0.8)]
        many = many[:4] + [request | dict(max_tokens=5) | other for request, other in zip(greedy(2), others, strict=True)]
    options = dict(remote=True, kv_memory=400 * BLOCK, prefix_cache=False, together=True, runs=runs) | {key: changes[key] for key in changes if key != "mixed"}
    calm = model.run([many, many], **options)
    right = [answer["tokens"] for answer in calm["groups"][0]]
    begin, end = (after["launches"] for after in calm["after"])
    harmless = []

    def ended(launch, failing=1):
        result = model.run([many] * 3, sound_launches=[-1, launch, -1], failing_launches=failing, **options)
        before, during, after = result["groups"]
        assert [answer["tokens"] for answer in before] == [answer["tokens"] for answer in after] == right
        for answer, tokens in zip(during, right, strict=True):
            assert answer.get("tokens", []) == tokens[: len(answer.get("tokens", []))]
            assert answer["finish"] == "length" and answer["tokens"] == tokens or "an index is out of range" in answer["error"]
        whole(result["statistics"])
        if all(answer["finish"] == "length" for answer in during):
            # A small pool says so at load.
            warning = "; ".join(text for text in result["warnings"] if "the context is" not in text)
            assert "out of range" in warning
            # Others are those of rows that are drawn from between two steps.
            if "the device draws no tokens behind its steps" in warning:
                harmless.append(launch)
            else:
                assert "the device does not draw tokens" in warning
            return False
        return True

    # Which launch is which depends on when the requests arrive: other places where these had but one kind.
    kinds = set()
    for shift in (0, 3, 9, 6, 12):
        places = range((end - begin) // 2 + shift, (end - begin) // 2 + shift + 98, 14 if changes else 7)
        kinds |= {ended(launch) for launch in places}
        if harmless and True in kinds:
            break
    assert harmless and True in kinds
    if changes:  # some of them are over a border
        for launch in places:
            ended(launch, failing=2)
        return

    def ends_over_the_border():
        """The last launch of the sampler, and the first of the next step: its tokens may have been none, and are computed again."""
        last = next(launch for launch in range(max(harmless), max(harmless) + 60) if ended(launch + 1))
        return ended(last, failing=2)

    # Known before that one is submitted, it begins with the host's tokens: its launch is one of the model's own that fails.
    assert any(ends_over_the_border() == (runs == "at_once") for _ in range(5))
