"""Embeddings of small encoders with drawn weights against transformers in float32, pooled as the folder says."""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import subprocess

import numpy as np
import pytest
from http_test import call, client, error_of, metric, post
from null_server import BUILD, Server, wait_for

import knapper

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
TOLERANCE = 2e-4
WORDS = "the a cat dog runs sleeps under over green tree house and ##s ##ing . , ! naive 東 京".split()
TEXTS = ["The cat sleeps.", "dogs", "a green tree and a house, under the green tree", "", "naïve 東京!", "The cat sleeps."]
POOLINGS = {
    "mean": [("Pooling", {"pooling_mode_mean_tokens": True})],
    "cls normalised": [("Pooling", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}), ("Normalize", None)],
    "max": [("Pooling", {"pooling_mode_max_tokens": True})],
    "newer form": [("Pooling", {"pooling_mode": "mean", "embedding_dimension": 48}), ("Normalize", None)],
    "none": [],
}


def make_encoder(path, poolings=(), **changes):
    """A BERT of three layers with a WordPiece tokenizer."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    tokenizer = Tokenizer(models.WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    path.mkdir(parents=True)
    tokenizer.save(str(path / "tokenizer.json"))
    config = transformers.BertConfig(**dict(
        vocab_size=len(tokens) + 3, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=80, max_position_embeddings=40) | changes)  # fmt: skip
    torch.manual_seed(3)
    model = transformers.BertModel(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter) if parameter.ndim == 1 else torch.randn_like(parameter) * parameter.shape[-1] ** -0.5)
    model.save_pretrained(path)
    if poolings:
        modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
        for i, (kind, fields) in enumerate(poolings, 1):
            modules.append({"idx": i, "name": str(i), "path": f"{i}_{kind}", "type": f"sentence_transformers.models.{kind}"})
            if fields is not None:
                (path / f"{i}_{kind}").mkdir()
                width = {} if "embedding_dimension" in fields else {"word_embedding_dimension": 48}
                (path / f"{i}_{kind}" / "config.json").write_text(json.dumps(width | fields))
        (path / "modules.json").write_text(json.dumps(modules))
    return model, tokenizer


def expected(model, tokenizer, text, poolings):
    ids = tokenizer.encode(text).ids
    with torch.no_grad():
        hidden = model(torch.tensor([ids])).last_hidden_state[0]
    fields = dict(poolings).get("Pooling") or {}
    if fields.get("pooling_mode_cls_token"):
        vector = hidden[0]
    elif fields.get("pooling_mode_max_tokens"):
        vector = hidden.max(0).values
    else:
        vector = hidden.mean(0)
    return (torch.nn.functional.normalize(vector, dim=0) if "Normalize" in dict(poolings) else vector).numpy()


def near(found, wanted):
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= TOLERANCE * np.abs(wanted).max()


@pytest.mark.parametrize("name", POOLINGS)
def test_vectors_are_those_of_transformers(tmp_path, cache, name):
    model, tokenizer = make_encoder(tmp_path / "bert", POOLINGS[name], hidden_act="gelu_new" if name == "max" else "gelu")
    with knapper.LLM(tmp_path / "bert", threads=2, max_batched_tokens=16, cache_dir=cache) as llm:
        found = llm.embed(TEXTS)
        for row, text in zip(found, TEXTS, strict=True):
            near(row, expected(model, tokenizer, text, POOLINGS[name]))
        # A vector does not depend on the texts beside it, and tokens are texts.
        assert np.array_equal(found[0], found[5])
        assert np.abs(llm.embed(TEXTS[2]) - found[2]).max() <= 1e-5 * np.abs(found[2]).max()
        assert np.array_equal(llm.embed([tokenizer.encode(TEXTS[1]).ids])[0], llm.embed(TEXTS[1]))
        with pytest.raises(knapper.UserError, match="makes embeddings"):
            llm.generate("x")
        with pytest.raises(knapper.UserError, match="40"):
            llm.embed("the " * 60)
        with pytest.raises(knapper.UserError, match="at least one"):
            llm.embed([])




@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoder") / "tiny"
    model, tokenizer = make_encoder(path, POOLINGS["cls normalised"])
    (path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 20, "do_lower_case": False}))
    server = Server(path, null=False)
    yield server, model, tokenizer
    assert server.stop() == 0


def test_the_client_of_openai_embeds(encoder):
    server, model, tokenizer = encoder
    for encoding in ("float", "base64", openai_default := None):
        more = {} if encoding is openai_default else {"encoding_format": encoding}
        reply = client(server).embeddings.create(model="tiny", input=TEXTS, **more)
        assert [row.index for row in reply.data] == list(range(len(TEXTS)))
        assert reply.usage.total_tokens == sum(len(tokenizer.encode(text).ids) for text in TEXTS)
        for row, text in zip(reply.data, TEXTS, strict=True):
            numbers = np.frombuffer(base64.b64decode(row.embedding), np.float32) if isinstance(row.embedding, str) else np.array(row.embedding, np.float32)
            near(numbers, expected(model, tokenizer, text, POOLINGS["cls normalised"]))
    alone = client(server).embeddings.create(model="tiny", input=TEXTS[0], dimensions=48)
    assert len(alone.data) == 1 and abs(np.linalg.norm(alone.data[0].embedding) - 1) < 1e-5


@pytest.mark.parametrize(
    "body, param, words",
    [
        ({}, "input", "must be"),
        ({"input": []}, "input", "must be"),
        ({"input": ["a", 3]}, "input", "must be"),
        ({"input": [[1], [-1]]}, "input[1]", "tokens of 0"),
        ({"input": [[1], []]}, "input[1]", "no tokens"),
        ({"input": ["a", "the " * 30]}, "input[1]", "32 tokens and the context 20"),
        ({"input": "a", "dimensions": 8}, "dimensions", "48"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format", "base64"),
        ({"input": "a", "modle": "x"}, "modle", "'model'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(encoder, body, param, words):
    error = error_of(encoder[0], "/v1/embeddings", body)
    assert error["param"] == param and words in error["message"], error


def test_texts_are_cut_only_when_asked_and_keep_their_end(encoder):
    server, _, tokenizer = encoder
    ids = tokenizer.encode("the " * 30).ids
    cut = post(server, "/v1/embeddings", {"input": "the " * 30, "truncate_prompt_tokens": 9})[1]
    whole = post(server, "/v1/embeddings", {"input": [ids[:8] + ids[-1:]]})[1]
    assert cut["data"] == whole["data"]


def test_each_model_makes_what_it_makes(encoder, server):
    assert error_of(encoder[0], "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})["code"] == "unsupported_model"
    assert error_of(encoder[0], "/v1/completions", {"prompt": "x"})["code"] == "unsupported_model"
    assert error_of(server, "/v1/embeddings", {"input": "x"})["code"] == "unsupported_model"
    assert call(encoder[0], "GET", "/health/ready")[0] == 200


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda path: json_change(path / "config.json", position_embedding_type="relative_key"), "position_embedding_type"),
        (lambda path: json_change(path / "config.json", hidden_act="tanh"), "hidden_act"),
        (lambda path: json_change(path / "config.json", odd_field=3), "odd_field"),
        (lambda path: json_change(path / "config.json", intermediate_size=81), "80x48"),
        (lambda path: json_change(path / "1_Pooling" / "config.json", pooling_mode_lasttoken=True), "pooling_mode_lasttoken"),
        (lambda path: json_change(path / "1_Pooling" / "config.json", pooling_mode_max_tokens=True), "2 ways"),
        (lambda path: (path / "modules.json").write_text(json.dumps([{"type": "x.Transformer"}, {"type": "x.Dense"}])), "Dense"),
    ],
)  # fmt: skip
def test_folders_that_cannot_be_served_say_why(tmp_path_factory, encoder, tmp_path, change, words):
    make_encoder(tmp_path / "bert", POOLINGS["mean"])
    change(tmp_path / "bert")
    done = subprocess.run([BUILD / "bin" / "knapper", "serve", tmp_path / "bert", "--port", "0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and words in done.stderr, done.stderr
    shutil.rmtree(tmp_path / "bert")


def json_change(path, **fields):
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_texts_of_a_client_that_went_are_not_computed(tmp_path):
    """Each text is a step of its own; the client goes after some of them."""
    folder = tmp_path / "tiny"
    # All of them take many seconds: far more than the server may be late by, on a machine that is shared, to see the client go.
    make_encoder(folder, max_position_embeddings=512, num_hidden_layers=12)
    server = Server(folder, "--max-batched-tokens", "1", "--threads", "1", null=False)
    try:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
        texts = 500
        connection.request("POST", "/v1/embeddings", json.dumps({"input": ["cat " * 500] * texts}), {"Content-Type": "application/json"})
        wait_for(lambda: metric(server, "knapper_engine_steps_total") > 2)
        connection.close()
        wait_for(lambda: metric(server, "knapper_engine_cancelled_total") == 1)
        assert metric(server, "knapper_engine_steps_total") < texts and metric(server, "knapper_requests_active") == 0
        assert post(server, "/v1/embeddings", {"input": "a dog"})[0] == 200
    finally:
        assert server.stop() == 0
