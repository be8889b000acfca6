"""Answers that follow a grammar, over the null engine: where the prompt's token is not allowed it gives the next that is."""

from __future__ import annotations

import json
import re

import openai
import pydantic
import pytest
from http_test import call, client, error_of, events, ids_of, post
from null_server import wait_for

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "kind": {"enum": ["cat", "dog"]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    },
    "required": ["name", "age", "kind", "tags"],
    "additionalProperties": False,
}
HELLO = [{"role": "user", "content": "Hello"}]


def format_of(schema, **more):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, **more}}


def check(value):
    assert set(value) == set(SCHEMA["required"])
    assert isinstance(value["name"], str) and len(value["name"]) <= 8
    assert isinstance(value["age"], int) and 0 <= value["age"] <= 150
    assert value["kind"] in ("cat", "dog")
    assert len(value["tags"]) <= 2 and all(isinstance(tag, bool) for tag in value["tags"])


@pytest.mark.parametrize("prompt", ["Hello", "{}", '{"name": "x\\"', "東京 🙂", "1 2 3"])
@pytest.mark.parametrize("strict", [False, True])
def test_a_schema_is_followed_to_its_end(server, prompt, strict):
    reply = client(server).chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": prompt}], max_tokens=400, response_format=format_of(SCHEMA, strict=strict)
    )
    assert reply.choices[0].finish_reason == "stop", reply.choices[0].message.content
    check(json.loads(reply.choices[0].message.content))


def test_the_client_parses_models(server):
    class Pet(pydantic.BaseModel):
        alive: bool
        legs: int = pydantic.Field(ge=0, le=8)

    reply = client(server).chat.completions.parse(model="tiny", messages=HELLO, max_tokens=300, response_format=Pet)
    assert isinstance(reply.choices[0].message.parsed, Pet)


def test_streams_and_choices_follow_it_too(server):
    body = {"messages": HELLO, "max_tokens": 400, "n": 2, "response_format": format_of(SCHEMA)}
    texts = ["", ""]
    for event in events(server, "/v1/chat/completions", body):
        for choice in event["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
    for text in texts:
        check(json.loads(text))


def test_json_objects(server):
    # A prompt of the texts that close an object at once.
    status, answer = post(server, "/v1/completions", {"prompt": "{}", "add_special_tokens": False, "max_tokens": 20, "response_format": {"type": "json_object"}})
    assert status == 200, answer
    assert json.loads(answer["choices"][0]["text"]) == {} and answer["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "fields, pattern",
    [
        ({"guided_choice": ["yes", 'no "way"\\', "naïve\n🙂"]}, r'yes|no "way"\\|naïve\n🙂'),
        ({"structured_outputs": {"choice": ["a", "b"]}}, "a|b"),
        ({"guided_regex": "[0-9]{3}-[a-f]{2}"}, "[0-9]{3}-[a-f]{2}"),
        ({"structured_outputs": {"regex": "(ab|cd){2}"}}, "(ab|cd){2}"),
        ({"guided_grammar": 'root ::= "<" item{2,2} ">"\nitem ::= [a-c] | "东"'}, "<[a-c东]{2}>"),
        ({"structured_outputs": {"grammar": 'root ::= "x" "y"'}}, "xy"),
        ({"guided_json": {"type": "integer", "minimum": 7, "maximum": 7}}, "7"),
        ({"guided_json": '{"const": "c"}'}, '"c"'),
        ({"structured_outputs": {"json": {"type": "null"}}}, "null"),
        ({"response_format": format_of({"type": "boolean"})}, "true|false"),
    ],
)
@pytest.mark.parametrize("ignore", [False, True])
def test_each_kind_ends_where_the_grammar_ends(server, fields, pattern, ignore):
    body = {"prompt": "Hello", "max_tokens": 100, "ignore_eos": ignore} | fields
    status, answer = post(server, "/v1/completions", body)
    assert status == 200, answer
    choice = answer["choices"][0]
    assert re.fullmatch(pattern, choice["text"]) and choice["finish_reason"] == "stop", choice


def test_the_end_token_ends_only_a_text_that_is_complete(server):
    # Token 2 ends: until three digits are there it is not allowed, and then nothing else is wanted.
    digits = ids_of(server, "7")
    body = {"prompt": [2, *digits, 2], "max_tokens": 50, "guided_regex": "[0-9]{2}x*"}
    answer = post(server, "/v1/completions", body)[1]["choices"][0]
    assert re.fullmatch("[0-9]{2}x*", answer["text"]) and answer["finish_reason"] == "stop", answer


def test_logprobs_are_of_the_tokens_that_came(server):
    answer = post(server, "/v1/completions", {"prompt": "zz", "max_tokens": 9, "guided_choice": ["abc"], "logprobs": 2})[1]
    assert "".join(answer["choices"][0]["logprobs"]["tokens"]) == "abc"


@pytest.mark.parametrize(
    "fields, param, code, words",
    [
        ({"response_format": 3}, "response_format", "invalid_value", "object"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "invalid_value", "json_schema"),
        ({"response_format": {"type": "json_object", "schema": {}}}, "response_format.schema", "unknown_field", "type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "invalid_value", "object"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format.json_schema.schema", "invalid_value", "missing"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "strickt": True}}}, "response_format.json_schema.strickt", "unknown_field", "'strict'"),
        ({"response_format": format_of({"type": "object", "properties": {"a": {"type": "strng"}}})}, "response_format.json_schema.schema.properties.a.type", "invalid_schema", "boolean"),
        ({"response_format": format_of({"type": "array", "items": {"not": {}}})}, "response_format.json_schema.schema.items.not", "unsupported_schema", "enforces"),
        ({"response_format": format_of({"type": "integer", "minimum": 3, "maximum": 2})}, "response_format.json_schema.schema", "invalid_grammar", "minimum"),
        ({"guided_regex": "(a"}, "guided_regex", "invalid_grammar", "'guided_regex' is refused"),
        ({"guided_regex": ""}, "guided_regex", "invalid_value", "1 MiB"),
        ({"guided_grammar": "root ::= other"}, "guided_grammar", "invalid_grammar", "other"),
        ({"guided_choice": []}, "guided_choice", "invalid_value", "1 to 1024"),
        ({"guided_choice": ["a", 1]}, "guided_choice", "invalid_value", "texts"),
        ({"guided_json": "{"}, "guided_json", "invalid_value", "not JSON"),
        ({"structured_outputs": {}}, "structured_outputs", "invalid_value", "one of"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs", "invalid_value", "one of"),
        ({"structured_outputs": {"regx": "a"}}, "structured_outputs.regx", "unknown_field", "'regex'"),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice", "invalid_value", "both"),
        ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, "guided_regex", "invalid_value", "'response_format' both"),
    ],
)
def test_what_is_wrong_is_named(server, fields, param, code, words):
    error = error_of(server, "/v1/chat/completions", {"messages": HELLO} | fields)
    assert (error["param"], error["code"]) == (param, code), error
    assert words in error["message"], error


EXPLODING = "root ::= " + " | ".join(f'"{7919 * i}" [a-z]{{1,{i + 2}}}' for i in range(3000))


def test_a_grammar_that_explodes_ends_alone(serve):
    server = serve("--grammar-timeout", "0.02s")
    exploding = EXPLODING
    error = error_of(server, "/v1/completions", {"prompt": "x", "guided_grammar": exploding})
    assert error["code"] == "invalid_grammar" and "takes more than 0.02 s" in error["message"], error
    assert post(server, "/v1/completions", {"prompt": "x", "max_tokens": 5, "ignore_eos": True})[0] == 200


def test_a_client_that_goes_while_its_grammar_compiles_leaves_nothing(serve):
    import http.client

    slow = serve()
    connection = http.client.HTTPConnection(slow.host, slow.port)
    connection.request("POST", "/v1/completions", json.dumps({"prompt": "x", "guided_grammar": EXPLODING}), {"Content-Type": "application/json"})
    wait_for(lambda: b"knapper_requests_active 1" in call(slow, "GET", "/metrics")[2])
    connection.close()
    wait_for(lambda: b"knapper_requests_active 0" in call(slow, "GET", "/metrics")[2], 120)


def test_the_server_leaves_no_process(serve):
    import os
    import signal
    import subprocess

    one = serve()
    post(one, "/v1/completions", {"prompt": "x", "guided_regex": "ab"})
    helpers = subprocess.run(["ps", "-o", "pid=", "--ppid", str(one.process.pid)], capture_output=True, text=True).stdout.split()
    assert len(helpers) == 1
    os.kill(one.process.pid, signal.SIGKILL)
    one.process.wait()

    def gone():
        try:
            os.kill(int(helpers[0]), 0)
        except ProcessLookupError:
            return True
        try:
            return open(f"/proc/{helpers[0]}/stat").read().split()[2] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_for(gone)


def test_errors_of_the_client_are_its_own(server):
    with pytest.raises(openai.BadRequestError) as raised:
        client(server).chat.completions.create(model="tiny", messages=HELLO, response_format=format_of({"type": "object", "if": {}}))
    assert raised.value.body["param"] == "response_format.json_schema.schema.if"


def test_a_grammar_without_a_next_token_ends_its_request_alone(tmp_path):
    from null_server import Server
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(["abc"], trainers.BpeTrainer(special_tokens=["<end>"], show_progress=False))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))
    few = Server(tmp_path)
    try:
        body = {"prompt": "abc", "max_tokens": 9}
        error = error_of(few, "/v1/completions", body | {"guided_choice": ["abz"]})
        assert "allows no token of the model here" in error["message"]
        assert post(few, "/v1/completions", body | {"guided_choice": ["abc"]})[1]["choices"][0]["text"] == "abc"
    finally:
        assert few.stop() == 0


def test_grammars_that_are_not_kept_are_compiled_again(serve):
    server = serve("--grammar-cache", "0")
    for _ in range(2):
        answer = post(server, "/v1/completions", {"prompt": "a", "max_tokens": 40, "guided_choice": ["yes"]})
        assert answer[0] == 200 and answer[1]["choices"][0]["text"] == "yes"
