"""Calls of tools and reasoning in answers. The template gives the last message alone, and the null engine repeats it: a message is a script."""

from __future__ import annotations

import json
import re

import openai
import pytest
from http_test import client, error_of, events, post
from null_server import Server, make_folder

FORMATS = {
    "hermes": "<tool_call>",
    "llama3": '{"name": function name, "parameters": x}',
    "mistral": "[TOOL_CALLS]",
    "qwen3-coder": "<tool_call> <function=x> <parameter=y>",
    "none": "",
    "hermes reasoning": "<tool_call> <think> </think>",
    "special": "[TOOL_CALLS] [THINK] [/THINK]",
}
SPECIAL = ["[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"]
# '@n' is the n-th control token: users cannot write them.
SCRIPT = (
    "{% for part in messages[-1]['content'].split('@') %}{% if loop.first %}{{ part }}{% else %}"
    "{{ {'0': '[TOOL' ~ '_CALLS]', '1': '[ARGS]', '2': '[THI' ~ 'NK]', '3': '[/THI' ~ 'NK]'}[part[0]] }}{{ part[1:] }}{% endif %}"
    "{% endfor %}<|im_end|>"
)
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather", "description": "The weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "raw": {"type": "boolean"}, "more": {"anyOf": [{"type": "object"}, {"type": "null"}]}}, "required": ["city"]},
    },
}  # fmt: skip
NOW = {"type": "function", "function": {"name": "now"}}
PARIS = [("get_weather", {"city": "Paris"})]


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    root = tmp_path_factory.mktemp("tools")
    servers = {}

    def get(name, *flags):
        key = (name, *flags)
        if key not in servers:
            folder = make_folder(root / f"model{len(servers)}")
            source = "{# " + FORMATS[name] + " #}" + SCRIPT
            config = json.loads((folder / "tokenizer_config.json").read_text())
            (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": source}))
            if name == "special":
                tokenizer = json.loads((folder / "tokenizer.json").read_text())
                first = max(tokenizer["model"]["vocab"].values()) + 1
                for i, mark in enumerate(SPECIAL):
                    tokenizer["added_tokens"].append(
                        {"id": first + i, "content": mark, "special": True, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
                    )
                    tokenizer["model"]["vocab"][mark] = first + i
                (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
            servers[key] = Server(folder, "--served-model-name", "tiny", *flags)
        return servers[key]

    yield get
    for server in servers.values():
        assert server.stop() == 0


def ask(server, script, **fields):
    body = {"messages": [{"role": "user", "content": script}], "tools": [WEATHER, NOW]} | fields
    status, answer = post(server, "/v1/chat/completions", body)
    assert status == 200, answer
    return answer["choices"][0]


def streamed(server, script, **fields):
    """The same choice, put together from a stream's deltas."""
    body = {"messages": [{"role": "user", "content": script}], "tools": [WEATHER, NOW]} | fields
    content, reasoning, calls, finish = "", "", [], None
    for event in events(server, "/v1/chat/completions", body):
        choice = event["choices"][0]
        delta = choice["delta"]
        content += delta.get("content") or ""
        reasoning += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls", []):
            if call["index"] == len(calls):
                assert call["id"] and call["type"] == "function"
                calls.append({"id": call["id"], "name": call["function"]["name"], "arguments": "", "parts": 0})
            else:
                assert call["index"] == len(calls) - 1 and "id" not in call
            calls[-1]["arguments"] += call["function"]["arguments"]
            calls[-1]["parts"] += 1
        finish = choice["finish_reason"] or finish
    return content, reasoning, calls, finish


CASES = [
    ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>', None, PARIS),
    ("hermes", 'Let me see.\n<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>', "Let me see.", PARIS),
    ("hermes", '<tool_call>\n{"arguments": {"city": "Paris"}, "name": "get_weather"}\n</tool_call>', None, PARIS),
    ("hermes", '<tool_call>\n{"name": "now"}\n</tool_call>\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "P\\"}{\\u00e9", "more": {"a": [1, "]"]}}}\n</tool_call>', None,
     [("now", {}), ("get_weather", {"city": 'P"}{é', "more": {"a": [1, "]"]}})]),
    ("hermes", '<tool_call>\n{"name": "now", "arguments": {}}', None, [("now", {})]),
    # What is no call is a text, as it was written.
    ("hermes", '<tool_call>\n{"name": "unknown", "arguments": {}}\n</tool_call>', '<tool_call>\n{"name": "unknown", "arguments": {}}\n</tool_call>', []),
    ("hermes", '<tool_call>\n{"name": "now", "arguments": [1]}\n</tool_call>', '<tool_call>\n{"name": "now", "arguments": [1]}\n</tool_call>', []),
    ("hermes", '<tool_call>not JSON</tool_call> so', "<tool_call>not JSON</tool_call> so", []),
    ("hermes", "a <tool_c and b < c", "a <tool_c and b < c", []),
    ("hermes", "<tool_call>", "<tool_call>", []),
    ("hermes", "plain text\n", "plain text\n", []),
    ("llama3", '{"name": "get_weather", "parameters": {"city": "Paris"}}', None, PARIS),
    ("llama3", '{"name": "now", "parameters": {}}; {"name": "get_weather", "parameters": {"city": "Paris"}}', None, [("now", {}), *PARIS]),
    ("llama3", '{"a": 1}', '{"a": 1}', []),
    ("llama3", 'Say {"name": "now", "parameters": {}}', 'Say {"name": "now", "parameters": {}}', []),
    ("mistral", '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "now", "arguments": {}}]', None, [*PARIS, ("now", {})]),
    ("mistral", '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]now[ARGS]{}', None, [*PARIS, ("now", {})]),
    ("mistral", "[TOOL_CALLS] none", "[TOOL_CALLS] none", []),
    ("special", '@0get_weather@1{"city": "Paris"}', None, PARIS),
    ("special", '@0[{"name": "get_weather", "arguments": {"city": "Paris"}}]', None, PARIS),
    ("qwen3-coder", "I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nNew\nYork\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=raw>\ntrue\n</parameter>\n"
     "<parameter=more>\n{\"a\": null}\n</parameter>\n</function>\n</tool_call>", "I look.", [("get_weather", {"city": "New\nYork", "days": 3, "raw": True, "more": {"a": None}})]),
    ("qwen3-coder", "<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=get_weather>\n<parameter=city>\n12\n</parameter>\n</function>\n</tool_call>", None, [("now", {}), ("get_weather", {"city": "12"})]),
    ("qwen3-coder", "<tool_call>\n<function=other>\n</function>", "<tool_call>\n<function=other>\n</function>", []),
]  # fmt: skip


@pytest.mark.parametrize("name, script, content, calls", CASES, ids=range(len(CASES)))
def test_calls_are_found_whole_and_streamed(scripted, name, script, content, calls):
    server = scripted(name)
    choice = ask(server, script)
    message = choice["message"]
    assert message["content"] == content
    found = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls", [])]
    assert found == calls
    assert choice["finish_reason"] == ("tool_calls" if calls else "stop")
    pattern = "[0-9A-Za-z]{9}" if name in ("mistral", "special") else "call_[0-9A-Za-z]{24}"
    ids = [call["id"] for call in message.get("tool_calls", [])]
    assert all(re.fullmatch(pattern, one) for one in ids) and len(set(ids)) == len(ids)
    text, _, parts, finish = streamed(server, script)
    assert (text or None) == content and finish == choice["finish_reason"]
    assert [(part["name"], json.loads(part["arguments"])) for part in parts] == calls


def test_arguments_come_as_they_are_made(scripted):
    server = scripted("hermes", "--null-step", "3000")
    script = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "a rather long name of a city that takes many tokens"}}\n</tool_call>'
    _, _, calls, _ = streamed(server, script)
    assert calls[0]["parts"] > 5


def test_the_client_of_openai_reads_them(scripted):
    stream = client(scripted("hermes")).chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": CASES[0][1]}], tools=[WEATHER], stream=True
    )
    deltas = [chunk.choices[0].delta for chunk in stream if chunk.choices and chunk.choices[0].delta.tool_calls]
    assert deltas[0].tool_calls[0].function.name == "get_weather"
    assert json.loads("".join(d.tool_calls[0].function.arguments for d in deltas)) == {"city": "Paris"}
    reply = client(scripted("hermes")).chat.completions.create(model="tiny", messages=[{"role": "user", "content": CASES[0][1]}], tools=[WEATHER])
    call = reply.choices[0].message.tool_calls[0]
    # The next turn has the call and its result.
    again = client(scripted("hermes")).chat.completions.create(
        model="tiny", tools=[WEATHER],
        messages=[{"role": "user", "content": "x"}, reply.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}],
    )  # fmt: skip
    assert again.choices[0].message.content == "sunny"


def test_a_call_that_is_cut_says_so(scripted):
    script = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris and so on"}}\n</tool_call>'
    for most in range(1, 60):
        choice = ask(scripted("hermes"), script, max_tokens=most)
        text, _, calls, finish = streamed(scripted("hermes"), script, max_tokens=most)
        message = choice["message"]
        assert choice["finish_reason"] == finish and text == (message["content"] or "")
        assert [c["arguments"] for c in calls] == [c["function"]["arguments"] for c in message.get("tool_calls", [])]
        if finish == "stop" or finish == "tool_calls":
            break
        # What is there is a begin of what was written.
        assert all('{"city": "Paris and so on"}'.startswith(c["arguments"]) for c in calls)
    assert finish == "tool_calls"


def test_one_call_alone(scripted):
    choice = ask(scripted("hermes"), CASES[3][1] + " and more", parallel_tool_calls=False)
    assert [c["function"]["name"] for c in choice["message"]["tool_calls"]] == ["now"]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None


def test_no_tools_no_calls(scripted):
    assert ask(scripted("hermes"), CASES[0][1], tool_choice="none")["message"] == {"role": "assistant", "content": CASES[0][1], "refusal": None}
    assert "tool_calls" not in ask(scripted("hermes"), CASES[0][1], tools=[])["message"]


@pytest.mark.parametrize("name", ["hermes", "llama3", "mistral", "special", "qwen3-coder"])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_call_can_be_forced(scripted, name, choice):
    # What closes texts, objects and parameters, so that the null engine comes to an end.
    plain = json.loads(json.dumps(WEATHER))
    plain["function"]["parameters"]["properties"] = {"city": {"type": "string"}}
    script = 'x"}\n</parameter>\n</function>\n</tool_call>' if name == "qwen3-coder" else 'x{": "}'
    got = ask(scripted(name), script, tools=[plain, NOW], tool_choice=choice, max_tokens=400, parallel_tool_calls=False)
    assert got["finish_reason"] == "tool_calls" and not got["message"]["content"], got
    calls = got["message"]["tool_calls"]
    assert calls and all(call["function"]["name"] in ("get_weather", "now") for call in calls)
    for call in calls:
        arguments = json.loads(call["function"]["arguments"])
        if call["function"]["name"] == "get_weather":
            assert isinstance(arguments["city"], str) and set(arguments) == {"city"}
    assert len(calls) == 1
    if choice != "required":
        assert [call["function"]["name"] for call in calls] == ["get_weather"]


def test_strict_tools_bind_the_arguments_alone(scripted):
    strict = {"type": "function", "function": {"name": "pick", "strict": True, "parameters": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 5}}, "required": ["n"], "additionalProperties": False}}}
    free = ask(scripted("hermes"), "Some text first.", tools=[strict])
    assert free["message"]["content"] == "Some text first." and free["finish_reason"] == "stop"
    bound = ask(scripted("hermes"), 'x <tool_call>\n{"name": "pick", "arguments": {"n": 77777}}', tools=[strict], max_tokens=300)
    assert json.loads(bound["message"]["tool_calls"][0]["function"]["arguments"])["n"] in (3, 4, 5)


@pytest.mark.parametrize(
    "script, reasoning, content",
    [
        ("<think>\nHm, so.\n</think>\n\nYes.", "Hm, so.", "Yes."),
        ("<think>\n\n</think>\n\nYes.", "", "Yes."),
        ("Yes <think>no</think>", "", "Yes <think>no</think>"),
        ("<think>never ends", "never ends", ""),
        ("<thin", "", "<thin"),
        ("  two spaces", "", "  two spaces"),
    ],
)
def test_reasoning_stands_apart(scripted, script, reasoning, content):
    server = scripted("hermes reasoning")
    message = ask(server, script)["message"]
    assert message.get("reasoning_content", "") == reasoning and message["content"] == content
    assert streamed(server, script)[:2] == (content, reasoning)
    assert ask(server, script, separate_reasoning=False)["message"]["content"] == script


def test_reasoning_then_a_call(scripted):
    script = "<think>I need it.</think>\n\n" + CASES[0][1]
    message = ask(scripted("hermes reasoning"), script)["message"]
    assert message["reasoning_content"] == "I need it." and message["tool_calls"][0]["function"]["name"] == "get_weather"
    special = ask(scripted("special"), '@2I need it.@3@0now@1{}')["message"]
    assert special["reasoning_content"] == "I need it." and special["tool_calls"][0]["function"]["name"] == "now"


def test_reasoning_before_what_is_constrained(scripted):
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "integer", "minimum": 7, "maximum": 7}}}
    message = ask(scripted("hermes reasoning"), "<think>So.</think>\n\nno number", tools=[], response_format=schema)["message"]
    assert message["reasoning_content"] == "So." and message["content"] == "7"


@pytest.mark.parametrize("template", ["hermes", "hermes reasoning"])
def test_a_schema_that_is_not_strict_is_open(scripted, template):
    """With and without reasoning before it: objects and lists hold more than is named, unless `strict`."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "in": {"type": "object", "properties": {"x": {"type": "null"}}, "required": ["x"]}}, "required": ["a", "in"]}
    answer = {"a": 1, "in": {"x": None, "y": [2]}, "b": "c"}
    script = ("<think>So.</think>\n\n" if "reasoning" in template else "") + json.dumps(answer)

    def content(strict):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": strict}}
        return json.loads(ask(scripted(template), script, tools=[], response_format=form, max_tokens=300)["message"]["content"])

    assert content(False) == answer
    closed = content(True)
    assert set(closed) == {"a", "in"} and set(closed["in"]) == {"x"}


@pytest.mark.parametrize(
    "fields, param, words",
    [
        ({"tools": {}}, "tools", "list"),
        ({"tools": [{"type": "web"}]}, "tools[0].type", "function"),
        ({"tools": [{"type": "function"}]}, "tools[0].function", "object"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name", "letters"),
        ({"tools": [NOW, NOW]}, "tools[1].function.name", "another"),
        ({"tools": [{"type": "function", "function": {"name": "a", "parameter": {}}}]}, "tools[0].function.parameter", "'parameters'"),
        ({"tools": [{"type": "function", "function": {"name": "a", "strict": True, "parameters": {"type": "object", "properties": {"x": {"not": {}}}}}}]}, "tools[0].function.parameters.properties.x.not", "enforces"),
        ({"tool_choice": "always"}, "tool_choice", "required"),
        ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice.function.name", "none of"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice", "needs 'tools'"),
        ({"tool_choice": "required", "response_format": {"type": "json_object"}}, "response_format", "both"),
        ({"functions": []}, "functions", "older form"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(scripted, fields, param, words):
    body = {"messages": [{"role": "user", "content": "x"}], "tools": [WEATHER]} | fields
    error = error_of(scripted("hermes"), "/v1/chat/completions", body)
    assert error["param"] == param and words in error["message"], error


def test_a_template_without_calls_says_so(scripted):
    with pytest.raises(openai.BadRequestError) as raised:
        client(scripted("none")).chat.completions.create(model="tiny", messages=[{"role": "user", "content": "x"}], tools=[NOW])
    assert raised.value.body["param"] == "tools" and "hermes" in raised.value.body["message"]
