"""The engine on an NVIDIA GPU against transformers: tokens and logits in float32 and bf16, also in chunks and batches.

Needs the build's engine_requests (KNAPPER_BUILD), torch and transformers.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import subprocess
from pathlib import Path

import engine_models
import numpy as np
import pytest
import small_models

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

BUILD = Path(os.environ.get("KNAPPER_BUILD", Path(__file__).parents[2] / "build" / "dev"))


def gpus():
    tool = BUILD / "bin" / "knapper"
    if tool.exists():
        devices = json.loads(subprocess.run([tool, "devices", "--json"], capture_output=True, text=True).stdout or "[]")
        return any(device["device"] == "cuda" for device in devices)
    return torch.cuda.is_available()


needs_gpu = pytest.mark.skipif(not gpus(), reason="no NVIDIA GPU is here")

# Heads that tensor cores take, in groups; windows and caps too.
WIDE = dict(hidden_size=256, intermediate_size=512, num_attention_heads=8, num_key_value_heads=2, num_hidden_layers=2, vocab_size=1000)
FAMILIES = {
    "llama": {}, "gpt2": {}, "phi3": {}, "olmo2": {}, "mistral": WIDE | dict(head_dim=128),
    "gemma2": WIDE | dict(head_dim=64), "qwen3 rope yarn": WIDE | dict(head_dim=64), "gemma3": WIDE | dict(head_dim=256),
}


class WideModel(engine_models.Model):
    def __init__(self, name, folder, cache):
        self.folder, self.cache = folder, cache
        self.reference = small_models.make(name, folder, **FAMILIES[name])


@pytest.fixture(scope="session")
def wide_models(tmp_path_factory, cache):
    return functools.cache(lambda name: WideModel(name, tmp_path_factory.mktemp("model"), cache))


def requests(count, length, out=16, **more):
    return [dict(prompt=engine_models.drawn_prompt(seed, length), max_tokens=out, temperature=0, top_logprobs=20, ignore_eos=True) | more
            for seed in range(count)]


@needs_gpu
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("chunk", [512, 7])
def test_float32_equals_transformers(wide_models, name, chunk):
    model = wide_models(name)
    group = requests(1, 40) + requests(5, 23)
    result = model.run([group], target="cuda", max_batched_tokens=chunk)
    engine_models.check(model, group, result["groups"][0])
    assert result["statistics"]["faults"] == 0


def errors(model, reference, group, answers):
    """Of the logprobs that the engine gave, and of transformers in bf16: both against float64."""
    ours, theirs = [], []
    for request, answer in zip(group, answers, strict=True):
        assert answer["finish"] == "length", answer
        tokens = torch.tensor([request["prompt"] + answer["tokens"]])
        with torch.no_grad():
            exact = torch.log_softmax(reference(tokens).logits[0].double(), -1).numpy()
            rounded = torch.log_softmax(model.half(tokens.to(model.half.device)).logits[0].double().cpu(), -1).numpy()
        for i, top in enumerate(answer["top"]):
            row = len(request["prompt"]) - 1 + i
            for token, logprob in top:
                ours.append(logprob - exact[row][token])
                theirs.append(rounded[row][token] - exact[row][token])
    return (float(np.sqrt(np.mean(np.square(x)))) for x in (ours, theirs))


@needs_gpu
@pytest.mark.parametrize("name", FAMILIES)
def test_bf16_is_no_less_exact_than_transformers(wide_models, name):
    import transformers

    model = wide_models(name)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.half = transformers.AutoModelForCausalLM.from_pretrained(model.folder, dtype=torch.bfloat16, attn_implementation="eager").eval().to(device)
    # What both read: the weights in bf16.
    reference = transformers.AutoModelForCausalLM.from_pretrained(model.folder, dtype=torch.bfloat16, attn_implementation="eager").eval().double()
    group = requests(1, 100) + requests(6, 30)
    answers = model.run([group], target="cuda", dtype="bf16")["groups"][0]
    ours, theirs = errors(model, reference, group, answers)
    print(f"{name}: error of logprobs {ours:.2e}, transformers {theirs:.2e}")
    assert ours <= 1.05 * theirs


@needs_gpu
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "gpt2"])
@pytest.mark.parametrize("bits", [8, 4])
def test_integers_are_as_exact_as_their_weights(wide_models, name, bits):
    """Against float64 with the integers' values: as near as transformers in bf16 with the same, expanded."""
    import transformers

    model = wide_models(name)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    reference = transformers.AutoModelForCausalLM.from_pretrained(model.folder, dtype=torch.float32, attn_implementation="eager").eval()
    tables = ("embed_tokens", "norm", "wte", "wpe")
    with torch.no_grad():
        head = torch.nn.Parameter(reference.get_output_embeddings().weight.clone())
        reference.get_output_embeddings().weight = head
        for key, parameter in reference.named_parameters():
            if parameter.ndim != 2 or any(part in key for part in tables):
                parameter.copy_(parameter.bfloat16())
                continue
            rows = parameter.T if name == "gpt2" and "lm_head" not in key else parameter
            new = engine_models.dequantised(rows, bits, rows.shape[1] if bits == 8 else 128)
            parameter.copy_(new.T if rows is not parameter else new)
    model.half = copy.deepcopy(reference).bfloat16().to(device)
    group = requests(1, 100) + requests(6, 30)
    answers = model.run([group], target="cuda", dtype=f"i{bits}")["groups"][0]
    ours, theirs = errors(model, reference.double(), group, answers)
    print(f"{name}, {bits} bits: error of logprobs {ours:.2e}, of the expanded weights {theirs:.2e}")
    assert ours <= 1.02 * theirs


@needs_gpu
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_best_tokens_are_those_of_the_logits(wide_models, dtype):
    """Drawn on the device without asking for logprobs, and on the host with them.

    Requests come while the engine runs, so that how many share a step varies; in bf16 that decides between near tokens, and
    each request runs alone.
    """
    model = wide_models("mistral")

    def tokens(**more):
        group = requests(9, 31, **more)
        groups = [group] if dtype == "f32" else [[request] for request in group]
        return [answer["tokens"] for answers in model.run(groups, target="cuda", dtype=dtype)["groups"] for answer in answers]

    assert tokens(top_logprobs=-1) == tokens()


@needs_gpu
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_chunks_prefixes_and_preemption(wide_models, dtype):
    """The same tokens as alone, but where rounding decides between two."""
    model = wide_models("qwen3 rope yarn")
    group = requests(8, 50)
    alone = [model.run([[request]], target="cuda", dtype=dtype)["groups"][0][0] for request in group[:2]]
    for options in (dict(max_batched_tokens=7), dict(kv_memory=400_000 if dtype == "f32" else 200_000), {}):
        together = model.run([group, group], target="cuda", dtype=dtype, **options)
        assert together["statistics"]["faults"] == 0
        for answers in together["groups"]:
            for one, other in zip(alone, answers):
                logprobs = [abs(a - b) for a, b in zip(one["logprobs"][:1], other["logprobs"][:1])]
                assert max(logprobs) < (1e-3 if dtype == "f32" else 0.15)


@needs_gpu
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_prepared_steps_change_nothing(wide_models, dtype):
    """Steps that are prepared while the one before runs, beside steps that are not: sums depend on the rows of a step, its tokens nearly never."""
    model = wide_models("llama")
    group = requests(24, 40, out=40, top_logprobs=2) + [dict(prompt=engine_models.drawn_prompt(50 + i, 20 + i), max_tokens=10 + i, temperature=1, seed=i) for i in range(8)]
    plain, prepared = engine_models.plain_and_prepared(model, [[group[0]], [group[-1]]], target="cuda", dtype=dtype)
    assert engine_models.same_bits(plain["groups"][0], prepared["groups"][0]) and engine_models.same_bits(plain["groups"][1], prepared["groups"][1])
    plain, prepared = engine_models.plain_and_prepared(model, [group], target="cuda", dtype=dtype)
    equal = sum(a["tokens"] == b["tokens"] for a, b in zip(plain["groups"][0], prepared["groups"][0], strict=True))
    assert equal >= 0.9 * len(group)
    if dtype == "f32":
        engine_models.check(model, group[:24], prepared["groups"][0][:24])


def test_without_a_gpu_the_error_says_so(models):
    if gpus():
        pytest.skip("a GPU is here")
    model = models("llama")
    with pytest.raises(AssertionError, match="no NVIDIA GPU is here"):
        model.run([requests(1, 3)], target="cuda")


def test_unknown_targets_are_refused(models):
    with pytest.raises(AssertionError, match="cpu, cuda, or cuda with its variant"):
        models("llama").run([requests(1, 3)], target="tpu")
    with pytest.raises(AssertionError, match="order of a sum follows the number of rows"):
        models("llama").run([requests(1, 5)], target="cuda", batch_invariant=True)


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_a_device_that_the_host_cannot_look_into(models, name):
    """The CPU's code behind a GPU's contract: rounded sizes, pools and logits that stay there."""
    model = models(name)
    group = requests(5, 23, top_logprobs=5) + requests(3, 9, out=5, top_logprobs=-1) + requests(1, 9, prompt_logprobs=True)
    for options in (dict(max_batched_tokens=7), dict(kv_memory=60_000), {}):
        ours = model.run([group], remote=True, **options)
        assert ours["statistics"]["faults"] == 0
        engine_models.check(model, [r for r in group if r["top_logprobs"] > 0],
                          [a for a, r in zip(ours["groups"][0], group) if r["top_logprobs"] > 0])
        plain = model.run([group], **options)
        for a, b in zip(ours["groups"][0], plain["groups"][0]):
            assert a["tokens"] == b["tokens"] and a["finish"] == b["finish"]


@needs_gpu
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_steps_that_are_submitted_early_change_nothing(wide_models, dtype, tmp_path):
    """Recorded graphs behind one another, whose tokens stay on the card; texts that end in them, and hits."""
    model, group = wide_models("mistral"), requests(8, 40, out=64, top_logprobs=-1)
    options = dict(target="cuda", dtype=dtype, kv_memory=64 << 20)
    plain = model.run([[r | dict(speculate=False) for r in group]] * 2, speculation="ngram", **options)
    early = model.run([group] * 2, **options)
    assert plain["statistics"]["early"] == 0 and early["statistics"]["early"] >= 2 * 55
    if dtype == "bf16":
        # The number of rows decides between near tokens, and when a request arrives decides what rows a step has: of runs
        # with the same steps, all tokens are the same.
        tokens_of = {}
        for run in range(8):
            record = tmp_path / str(run)
            again = model.run([group] * 2, record=str(record), **options)
            tokens_of.setdefault(record.read_text(), []).append([a["tokens"] for g in again["groups"] for a in g])
        if len(tokens_of) == 8:
            pytest.skip("no two of eight runs had the same steps: this machine is too busy")
        assert all(tokens == runs[0] for runs in tokens_of.values() for tokens in runs)
        return
    for one, other in zip(plain["groups"], early["groups"], strict=True):
        assert [a["tokens"] for a in one] == [a["tokens"] for a in other]
    ending = [r | dict(stop_tokens=[a["tokens"][20 + i]]) for i, (r, a) in enumerate(zip(group, plain["groups"][1], strict=True))]
    result = model.run([group, ending], **options)
    for i, (answer, whole) in enumerate(zip(result["groups"][1], plain["groups"][1], strict=True)):
        assert answer["finish"] == "stop" and answer["tokens"] == whole["tokens"][: whole["tokens"].index(whole["tokens"][20 + i])]
    statistics = result["statistics"]
    assert statistics["discarded"] >= 8 and statistics["faults"] == 0
    assert statistics["free"] + statistics["blocks_cached"] == statistics["total"]


# What a summary of 64 logits tells; and draws of flat logits, of which it does not, so that early steps end.
TOLD = [dict(temperature=0.8, top_k=9), dict(temperature=1, top_k=40, top_p=0.95), dict(temperature=0.9, top_k=40, top_p=0.9, top_logprobs=5), {}]
FLAT = [dict(temperature=1), dict(temperature=1.2, top_p=0.7), dict(temperature=1, min_p=0.05), {}]


@needs_gpu
@pytest.mark.parametrize("ways, least", [(TOLD, 50), (FLAT, 1)], ids=["told", "flat"])
def test_early_steps_of_drawn_tokens_on_the_card(wide_models, ways, least):
    """What the sampler draws behind a step feeds the next one: the tokens of engines without early steps, in float32."""
    group = [r | way | dict(seed=i) for i, (r, way) in enumerate(zip(requests(16, 40, out=64, top_logprobs=-1), 4 * ways, strict=True))]
    model, options = wide_models("mistral"), dict(target="cuda", kv_memory=64 << 20)
    plain = model.run([[r | dict(speculate=False) for r in group]] * 2, speculation="ngram", draw_in_stream=False, **options)
    early = model.run([group] * 2, **options)
    assert plain["statistics"]["early"] == 0 and early["statistics"]["early"] >= 2 * least
    print(f"{early['statistics']['discarded']} of {early['statistics']['generated']} tokens guessed wrong or behind an end")
    for one, other in zip(plain["groups"], early["groups"], strict=True):
        engine_models.same_answers(one, other)
    statistics = early["statistics"]
    assert statistics["faults"] == 0 and statistics["free"] + statistics["blocks_cached"] == statistics["total"]


# Rows that are drawn from add a sampler's program to a step.
DRAWS = {"greedy": {}, "drawn": dict(temperature=1.0, top_k=40, top_p=0.95)}


@needs_gpu
@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("batch", [1, 32, 256])
def test_the_card_waits_for_no_host(tmp_path, cache, batch, draws):
    """Between the steps of a model that takes a millisecond and more, 2 % of the time by the card's clock at most."""
    shape = dict(hidden_size=2048, intermediate_size=8192, num_attention_heads=16, num_key_value_heads=4, num_hidden_layers=16, vocab_size=32000)
    model = engine_models.Model("llama", tmp_path, cache, **shape)
    group = [request | DRAWS[draws] | dict(seed=i) for i, request in enumerate(requests(batch, 32, out=200, top_logprobs=-1))]
    options = dict(target="cuda", dtype="bf16", kv_memory=4 << 30, max_sequences=256, max_batched_tokens=8192)
    # The first group plans and records each size.
    result = model.run([group, group], **options)
    seconds = max(max(answer["times"]) for answer in result["groups"][1])
    idle, early, steps = (result["after"][1][key] - result["after"][0][key] for key in ("idle_us", "early", "steps"))
    print(f"batch {batch}, {draws}: {batch * 200 / seconds:.0f} tok/s, {seconds:.3f} s, idle {idle / 1e6:.4f} s, {early} of {steps} steps early")
    # Without early steps nothing would be shown, nor without a clock: between two steps some time always passes.
    assert early >= steps - 8 and steps >= 199
    assert 0 < idle * 1e-6 <= 0.02 * seconds


def repeated(length=6, times=6):
    """Texts that repeat themselves, greedy: proposals are verified, and many are right."""
    return [dict(request, prompt=request["prompt"] * times) for request in requests(6, length, out=48, top_logprobs=-1)]


def speculating(draft=None):
    """Whatever is proposed is verified."""
    kind = dict(speculation="draft", draft=str(draft)) if draft else dict(speculation="ngram")
    return kind | dict(speculation_measured=False)


@needs_gpu
@pytest.mark.parametrize("kind", ["ngram", "draft"])
def test_speculation_on_the_gpu(wide_models, kind):
    """In float32, where the number of rows decides no token."""
    model, group = wide_models("mistral"), repeated()
    plain = model.run([group], target="cuda")["groups"][0]
    options = speculating(model.folder if kind == "draft" else None)
    result = model.run([group, group], target="cuda", **options)
    assert result["statistics"]["faults"] == 0 and result["statistics"]["accepted"] > 0
    for answers in result["groups"]:
        assert [a["tokens"] for a in answers] == [a["tokens"] for a in plain]


@pytest.mark.parametrize("kind", ["ngram", "draft"])
@pytest.mark.parametrize("options", [{}, dict(max_batched_tokens=7), dict(kv_memory=120_000)], ids=str)
def test_speculation_where_the_host_cannot_look(models, kind, options):
    model, group = models("llama"), repeated(times=2)
    plain = model.run([group])["groups"][0]
    more = speculating(model.folder if kind == "draft" else None)
    result = model.run([group, group], remote=True, **more, **options)
    assert result["statistics"]["faults"] == 0 and result["statistics"]["verified"] > 0
    for answers in result["groups"]:
        assert [a["tokens"] for a in answers] == [a["tokens"] for a in plain]


@needs_gpu
@pytest.mark.parametrize("vocabulary", [1500, 128256])
def test_the_device_draws_what_the_host_would(tmp_path, cache, vocabulary):
    """A bound of `min_p` that all logits are above reaches past what the device says: the host draws from the same row."""
    model = engine_models.Model("llama", tmp_path, cache, vocab_size=vocabulary)
    ways = [dict(temperature=1), dict(temperature=0.8, top_logprobs=3), dict(temperature=1, frequency_penalty=0.7, top_logprobs=2),
            dict(temperature=0.6, repetition_penalty=1.2, bias=[[5, 3.0]]), dict(temperature=1, every_token=7, vocabulary=vocabulary)]
    requests = [dict(prompt=engine_models.drawn_prompt(i, 6 + i), max_tokens=12, ignore_eos=True, seed=i, **way) for i, way in enumerate(3 * ways)]
    options = dict(target="cuda", kv_memory=64 << 20)
    device = model.run([requests], **options)
    host = model.run([[request | dict(min_p=1e-30) for request in requests]], **options)
    # Of flat rows of 128,256 tokens 24 % of the places lie too near a border.
    assert device["statistics"]["device_draws"] > 12 * 3 * 3 and host["statistics"]["device_draws"] == 0
    for here, there in zip(device["groups"][0], host["groups"][0], strict=True):
        assert len(here["tokens"]) == 12 and here["tokens"] == there["tokens"]


TOOL = BUILD / "tests" / "serving" / "compile_decoder"


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "i4"])
@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_the_program_needs_no_host(models, tmp_path, name, dtype):
    """Launches alone, and copies of pools that are not done in place: one recorded graph a size."""
    if not TOOL.exists():
        pytest.skip(f"{TOOL} is not built")
    dump = tmp_path / "dump"
    dump.mkdir()
    done = subprocess.run([TOOL, models(name).folder, "cuda:sm_90a", dtype, tmp_path / "out.knap", tmp_path / "out.mlir", dump],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    program = json.loads((dump / "07_plan.json").read_text())
    kinds = [box["instruction_type"] for region in program["regions"] for box in region["instructions"]]
    assert set(kinds) <= {"Launch", "Copy"}
    assert kinds.count("Copy") == len(program["in_place"]) == 6
    schedules = (dump / "04_schedule.mlir").read_text()
    assert 'gpu_paged_attention' in schedules
    assert ('gpu_packed_matmul' in schedules) == (dtype in ("i8", "i4"))
