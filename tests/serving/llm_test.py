"""knapper.LLM and the C API under it, over a small Llama with drawn weights."""

from __future__ import annotations

import concurrent.futures
import ctypes
import json
import re
import threading
import time

import pytest
import small_models
from null_server import make_folder, wait_for

import knapper
from knapper import llm as api

torch = pytest.importorskip("torch")
MESSAGES = [{"role": "user", "content": "Hello there"}]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = make_folder(tmp_path_factory.mktemp("llm") / "small")
    return folder, small_models.make("llama", folder, vocab_size=1500)


@pytest.fixture(scope="module")
def llm(reference, tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    cache.chmod(0o700)
    with knapper.LLM(reference[0], threads=2, kv_memory=4 << 20, cache_dir=cache) as made:
        yield made


def greedy(model, tokens, count):
    """The token with the largest logit, an end of the sequence too, as `ignore_eos` takes it."""
    made = list(tokens)
    for _ in range(count):
        with torch.no_grad():
            made.append(int(model(torch.tensor([made])).logits[0, -1].argmax()))
    return made[len(tokens):]


def get(llm, path):
    request = api._Request(llm._lib, llm._open(), path, None)
    ((status, text),) = request.parts()
    assert status == 200
    return text.decode()


def test_equals_transformers(reference, llm):
    prompt = llm.tokenize("The compiler reads", add_special_tokens=False)
    answer = llm.generate(prompt, max_tokens=24, temperature=0, ignore_eos=True)
    # Special tokens, the first three of the vocabulary, are no text of an answer.
    assert answer.text == llm.detokenize([token for token in greedy(reference[1], prompt, 24) if token > 2])
    assert (answer.finish_reason, answer.prompt_tokens, answer.completion_tokens) == ("length", len(prompt), 24)


def test_streams_are_the_answers(llm):
    fields = dict(max_tokens=20, temperature=0, ignore_eos=True)
    pieces = list(llm.stream("A model", **fields))
    assert pieces and "".join(pieces) == llm.generate("A model", **fields).text
    chat = llm.chat(MESSAGES, **fields)
    assert "".join(llm.stream(MESSAGES, **fields)) == chat.text and chat.choice["message"]["role"] == "assistant"


def test_seeds_stops_and_logprobs(llm):
    fields = dict(max_tokens=20, ignore_eos=True, temperature=1.0)
    one, two, three = (llm.generate("A model", seed=seed, **fields).text for seed in (1, 1, 2))
    assert one == two != three
    stop = one[5:8]
    assert llm.generate("A model", seed=1, stop=stop, **fields).text == one[: one.index(stop)]
    assert len(llm.generate("A model", logprobs=2, **fields).choice["logprobs"]["tokens"]) == 20


def test_many_threads_share_the_engine(llm):
    prompts = [f"Prompt number {i} of many" for i in range(12)]
    fields = dict(max_tokens=16, temperature=0, ignore_eos=True)
    alone = [llm.generate(prompt, **fields).text for prompt in prompts]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda prompt: llm.generate(prompt, **fields).text, prompts)) == alone
    assert [answer.text for answer in llm.generate_all(prompts, **fields)] == alone


def test_a_dropped_stream_ends_its_request(llm):
    def cancelled():
        return float(re.search(r"^knapper_engine_cancelled_total (\S+)$", get(llm, "/metrics"), re.M)[1])

    before = cancelled()
    for _ in range(50):  # one may have ended before it is dropped
        stream = llm.stream("Go on", max_tokens=220, ignore_eos=True)
        next(stream)
        stream.close()
        wait_for(lambda: json.loads(get(llm, "/health/progress"))["running"] == 0)
        if cancelled() > before:
            return
    raise AssertionError("no request was cancelled")


def test_cancel_wakes_who_polls(llm):
    body = json.dumps({"prompt": "Go on", "max_tokens": 220, "ignore_eos": True, "n": 128}).encode()
    handle = ctypes.c_void_p()
    api.check(llm._lib.knapper_llm_submit(llm._open(), b"/v1/completions", body, ctypes.byref(handle)))
    part = api._Part(size=ctypes.sizeof(api._Part))
    api.check(llm._lib.knapper_llm_poll(handle, 0, ctypes.byref(part)))
    assert part.state == 0  # waiting
    timer = threading.Timer(0.02, llm._lib.knapper_llm_cancel, [handle])
    timer.start()
    api.check(llm._lib.knapper_llm_poll(handle, -1, ctypes.byref(part)))
    assert part.state == 3  # cancelled
    timer.join()
    llm._lib.knapper_llm_cancel(handle)  # again: nothing
    llm._lib.knapper_llm_request_release(handle)
    wait_for(lambda: json.loads(get(llm, "/health/progress"))["running"] == 0)


@pytest.mark.parametrize("call, where, message", [
    (lambda m: m.generate("x", temperature=9), "temperature", "must be"),
    (lambda m: m.generate("x", temprature=1), "temprature", "temperature"),
    (lambda m: m.generate([3] * 300), "prompt", "256"),
    (lambda m: m.generate([]), "prompt", ""),
    (lambda m: m.generate("x", stream=True), "stream", "LLM.stream"),
    (lambda m: m.generate("x", seed=float("nan")), "fields", "JSON"),
    (lambda m: m.chat([{"role": "wizard", "content": "x"}]), "messages[0].role", ""),
    (lambda m: list(m.stream("x", top_p=2)), "top_p", "must be"),
])
def test_wrong_requests(llm, call, where, message):
    with pytest.raises(knapper.UserError) as caught:
        call(llm)
    assert isinstance(caught.value, ValueError)
    assert caught.value.where == where and message in str(caught.value)


@pytest.mark.parametrize("arguments, message", [
    (dict(folder="/nowhere"), "/nowhere/tokenizer.json"),
    (dict(dtype="f8"), "f32, bf16, i8 or i4"),
    (dict(dtype="f16"), "f32, bf16, i8 or i4"),
    (dict(threads=-1), "0 to"),
    (dict(hung_after=1e9), "at most 86400"),
    (dict(hung_after=float("nan")), "hung_after"),
    (dict(kv_memory=1), "kvMemoryBytes"),
])
def test_wrong_models(reference, arguments, message):
    with pytest.raises(knapper.UserError, match=message):
        knapper.LLM(**dict(folder=reference[0]) | arguments)


def test_targets(reference):
    with pytest.raises(knapper.errors.WrongType, match="target is 3"):
        knapper.LLM(reference[0], target=3)
    with pytest.raises(knapper.UserError, match="cuda with its variant"):
        knapper.LLM(reference[0], target="tpu")
    if not any(device["device"] == "cuda" for device in knapper.devices()):
        with pytest.raises(knapper.DeviceError, match="no NVIDIA GPU is here"):
            knapper.LLM(reference[0], target="cuda")


def test_release_in_any_order(reference, tmp_path):
    tmp_path.chmod(0o700)
    model = knapper.LLM(reference[0], threads=1, kv_memory=4 << 20, cache_dir=tmp_path)
    stream = model.stream("Go on", max_tokens=40, ignore_eos=True)
    first = next(stream)
    model.close()
    with pytest.raises(knapper.UserError, match="closed"):
        model.generate("x")
    assert first + "".join(stream)


def test_weights_are_compared_with_their_kept_hash(tmp_path, monkeypatch):
    """On demand: as where the medium lost a bit of a file since it was hashed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = make_folder(tmp_path / "large")
    small_models.make("llama", folder, vocab_size=1500, hidden_size=384, intermediate_size=1024, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2)
    assert (folder / "model.safetensors").stat().st_size > 16 << 20
    time.sleep(2.2)  # such a file may be changed again without that its times tell
    options = dict(threads=1, kv_memory=4 << 20, verify_files=True)
    knapper.LLM(folder, **options).close()
    (kept,) = (tmp_path / "knapper" / "hashes").iterdir()
    kept.write_text("0" * 32 + "\n")
    with pytest.raises(knapper.UserError, match="model.safetensors: reads otherwise than when it was hashed first"):
        knapper.LLM(folder, **options)


def test_a_step_that_hangs_is_survived(tmp_path):
    """All that run end with an error, and the same model answers again."""
    folder = make_folder(tmp_path / "slow")
    shape = dict(hidden_size=384, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=6, num_key_value_heads=2)
    small_models.make("llama", folder, vocab_size=1500, max_position_embeddings=4096, **shape)
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    fields = dict(max_tokens=4, temperature=0, ignore_eos=True)
    # One step takes the whole prompt: seconds.
    with knapper.LLM(folder, threads=1, kv_memory=96 << 20, max_batched_tokens=4096, cache_dir=cache, hung_after=0.5) as slow:
        before = slow.generate("A model", **fields).text
        with pytest.raises(knapper.DeviceError, match="lost or hung"):
            slow.generate([5] * 4000, **fields)

        def answers():
            try:
                return slow.generate("A model", **fields).text == before
            except knapper.DeviceError:  # it is loaded again
                return False

        wait_for(answers, 120)
        assert re.search(r"^knapper_engine_rebuilds_total 1$", get(slow, "/metrics"), re.M)


def test_null_pointers_are_user_errors(llm):
    lib = llm._lib
    for call in (
        lambda: lib.knapper_llm_load(None, None, ctypes.byref(ctypes.c_void_p())),
        lambda: lib.knapper_llm_submit(None, b"/", None, ctypes.byref(ctypes.c_void_p())),
        lambda: lib.knapper_llm_poll(None, 0, ctypes.byref(api._Part())),
    ):
        with pytest.raises(knapper.UserError, match="is NULL"):
            api.check(call())
    lib.knapper_llm_release(None)
    lib.knapper_llm_request_release(None)
    lib.knapper_llm_cancel(None)


def test_answers_follow_a_grammar_also_when_sequences_wait_again(reference, tmp_path):
    schema = {
        "type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": ["x", "y"]}, "c": {"type": "string", "minLength": 30, "maxLength": 60}},
        "required": ["a", "b", "c"], "additionalProperties": False,
    }  # fmt: skip
    # Room to begin all eight, and to end about three.
    with knapper.LLM(reference[0], threads=2, kv_memory=160 << 10, cache_dir=None, max_context=256) as small:
        prompts = [f"number {i}" for i in range(8)]
        # Some of the drawn answers go on with white space, which the grammar allows, as long as they may.
        answers = [answer for seed in (3, 4, 5) for answer in small.generate_all(prompts, guided_json=schema, max_tokens=150, seed=seed)]
        assert float(re.search(r"^knapper_engine_preemptions_total (\S+)", get(small, "/metrics"), re.M)[1]) > 0
        whole = 0
        for answer in answers:
            if answer.finish_reason == "stop":
                value = json.loads(answer.text)
                assert set(value) == {"a", "b", "c"} and 0 <= value["a"] <= 99 and value["b"] in "xy" and 30 <= len(value["c"]) <= 60
                whole += 1
        assert whole > 0
        texts = [small.generate("Hello", guided_choice=["one", "two"], seed=seed, max_tokens=20).text for seed in range(6)]
        assert set(texts) <= {"one", "two"}
        with pytest.raises(knapper.UserError, match="guided_regex"):
            small.generate("Hello", guided_regex="(")


def test_proposed_tokens_change_no_answer(reference, llm, tmp_path):
    folder = reference[0]
    prompt = llm.tokenize("The compiler reads a file. The compiler reads a", add_special_tokens=False)
    fields = dict(max_tokens=40, temperature=0, ignore_eos=True)
    expected = llm.generate(prompt, **fields).text
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    for how in (dict(speculate="ngram", speculate_tokens=4), dict(speculate="draft", draft_model=folder)):
        with knapper.LLM(folder, threads=2, kv_memory=4 << 20, cache_dir=cache, **how) as other:
            assert other.generate(prompt, **fields).text == expected
            assert other.generate(prompt, speculate=False, **fields).text == expected
            metrics = get(other, "/metrics")
            verified = float(re.search(r"^knapper_engine_verified_tokens_total (\S+)$", metrics, re.M)[1])
            accepted = float(re.search(r"^knapper_engine_accepted_tokens_total (\S+)$", metrics, re.M)[1])
            assert accepted <= verified
            if "draft_model" in how:  # the model itself
                assert verified == accepted > 0


@pytest.mark.parametrize("how, words", [
    (dict(speculate="magic"), "speculate: is 'magic'"),
    (dict(speculate=1), "speculate is 1"),
    (dict(speculate="draft"), "draftFolder: is missing"),
    (dict(speculate="ngram", speculate_tokens=65), "speculation.tokens: is 65"),
    (dict(speculate="draft", draft_model="OTHER"), "as token 300, and the model that is served"),
])
def test_what_cannot_propose_is_refused(reference, tmp_path, how, words):
    if how.get("draft_model") == "OTHER":
        other = make_folder(tmp_path / "other")
        tokens = json.loads((other / "tokenizer.json").read_text())
        vocabulary = tokens["model"]["vocab"]
        first, second = (next(text for text, id in vocabulary.items() if id == which) for which in (300, 301))
        vocabulary[first], vocabulary[second] = 301, 300
        (other / "tokenizer.json").write_text(json.dumps(tokens))
        how = how | dict(draft_model=other)
    with pytest.raises((knapper.UserError, TypeError)) as raised:
        knapper.LLM(reference[0], **how)
    assert words in str(raised.value)
