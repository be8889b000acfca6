"""Chat templates against Jinja2 as transformers sets it up, and their bounds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import jinja2
import pytest
from null_server import BUILD, ROOT
from transformers.utils.chat_template_utils import _compile_jinja_template

TEMPLATES = sorted((ROOT / ".cache" / "sources" / "templates").glob("*.jinja"))
NAMES = {"bos_token": "<s>", "eos_token": "</s>"}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather <now> & 'here'", "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "A city"}, "days": {"type": "integer"}}, "required": ["city"]}}}]  # fmt: skip
USER, ANSWER = {"role": "user", "content": "Hello <b>Größe</b> & 'x'"}, {"role": "assistant", "content": "Hi 🙂\n\nthere"}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Pa\"ris", "days": 2}}}]}  # fmt: skip
RESULT = {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": '{"t": 21.5}'}
CONVERSATIONS = {
    "user": {"messages": [USER]},
    "open": {"messages": [USER], "add_generation_prompt": False},
    "system": {"messages": [{"role": "system", "content": "Be brief.\n"}, USER]},
    "turns": {"messages": [USER, ANSWER, {"role": "user", "content": "  again  "}]},
    "long": {"messages": [{"role": "system", "content": "S"}] + [USER, ANSWER] * 5 + [USER]},
    "ends": {"messages": [USER, ANSWER], "add_generation_prompt": False},
    "tools": {"messages": [USER], "tools": TOOLS},
    "call": {"messages": [USER, CALL, RESULT], "tools": TOOLS},
    "called": {"messages": [USER, CALL, RESULT, ANSWER, USER], "tools": TOOLS},
    "thinks": {"messages": [USER, ANSWER | {"reasoning_content": "hm"}, USER], "enable_thinking": True},
    "quiet": {"messages": [USER], "enable_thinking": False},
    "empty": {"messages": [{"role": "system", "content": ""}, {"role": "user", "content": ""}]},
}


def theirs(template, variables):
    try:
        return _compile_jinja_template(template).render(**variables, **NAMES)
    except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError):
        return None


def render(rows):
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    ran = subprocess.run([BUILD / "bin" / "render"], input=lines, capture_output=True, text=True, check=True, timeout=120)
    return [json.loads(line) for line in ran.stdout.rstrip("\n").split("\n")]


def variables_of(conversation):
    return {"add_generation_prompt": True, "tools": None} | conversation


def differences():
    rows, wanted, names = [], [], []
    for path in TEMPLATES:
        source = path.read_text()
        for name, conversation in CONVERSATIONS.items():
            variables = variables_of(conversation)
            expected = theirs(source, variables)
            if expected is None or "strftime" in source:
                continue
            rows.append({"template": source, "variables": variables, "names": NAMES})
            wanted.append(expected)
            names.append((path.name, name))
    got = render(rows)
    return len(rows), [(n, g.get("error"), w, g.get("text")) for n, w, g in zip(names, wanted, got) if g.get("text") != w]


def test_real_templates():
    count, different = differences()
    for name, error, wanted, got in different:
        print(name, error or (wanted, got))
    assert count > 600 and not different


def one(template, messages=(USER,), **more):
    return render([{"template": template, "variables": variables_of({"messages": list(messages)} | more), "names": NAMES}])[0]


@pytest.mark.parametrize("text", ["\u00a0a b\u3000\n", "\u2028\u1680\x1c", "", " \x85ü\u200a", "\u200bx\ufeff "])
def test_white_space_is_that_of_unicode(text):
    """What Python's `strip` takes away, and nothing else; the template's first character stays."""
    for way in ("x.strip()", "x.lstrip()", "x.rstrip()", "x | trim"):
        template = "[{% set x = messages[0].content %}{{ " + way + " }}]"
        wanted = theirs(template, {"messages": [{"content": text}]})
        assert one(template, [{"role": "user", "content": text}])["text"] == wanted, way


@pytest.mark.parametrize("start", ["\n", "\n  ", "\n\n ", "a", " ", " \n", "a\n ", ""])
@pytest.mark.parametrize("block", ["{% if true %}x{% endif %}", "{# c #}x", "{{ 1 }}x"])
def test_what_stands_before_the_first_block(start, block):
    template = start + block
    assert one(template)["text"] == theirs(template, variables_of({"messages": [USER]}))


def test_only_the_users_bytes_are_literal():
    got = one("{{ bos_token }}<|{{ messages[0].role }}|>{{ messages[0].content | trim }}<|end|>{{ tools | tojson }}", tools=TOOLS)
    data = got["text"].encode()
    literal = [data[begin:end].decode() for begin, end in got["literal"]]
    assert literal == [USER["content"], json.dumps(TOOLS, ensure_ascii=False)]


@pytest.mark.parametrize(
    "way",
    [
        "x", "x | trim", "x | replace('q', 'r')", "'a' | replace('a', x)", "('<s>' + x + '</s>') | replace('e', 'E')", "[x] | join('')", "[x, x] | join(x)",
        "[x] | string", "[x]", "{'a': x}", "'a' ~ x", "'a' ~ [x]", "x ~ 1", "x * 2", "x | tojson", "messages | map(attribute='content') | join('')", "[x] | sort | join",
        "'{}'.format(x)", "x[1:]", "x.split('_')", "('a' | safe) + x", "(x | safe) + 'a'", "x | upper", "x | title",
    ],
)  # fmt: skip
def test_the_users_bytes_stay_literal(way):
    """Control tokens in a message are text, whatever the template makes of it."""
    text = "<|im_end|>"
    got = one("{% set x = messages[0].content %}{{ " + way + " }}", [{"role": "user", "content": text}])
    data = bytearray(got["text"].encode())
    for begin, end in got["literal"]:
        data[begin:end] = b"." * (end - begin)
    assert "|" not in data.decode() and "im_" not in data.decode().lower(), got["text"]


@pytest.mark.parametrize(
    "value",
    [None, [], [1, "a"], {"a": None, "b": [True, {}]}, ["it's", 'say "x"', "'\"", "a\nb\t\\", "\x00\u200b\u00a0é🙂\U000e0001"],
     [1e-7, 123456789.125, 1e16, 2.0, -0.1, 1e300, 12345678901234567], "x", 21.123456789, True],
)  # fmt: skip
def test_values_print_as_in_python(value):
    """Printed, joined to texts and as JSON."""
    for way in ("{{ v }}", "{{ 'a' ~ v }}", "{{ v ~ 1 }}", "{{ v | tojson }}", "{{ [v, v] | join(',') }}", "{% set t %}{{ v }}{% endset %}{{ t }}", "{% for a in [v] %}{{ a }}{% endfor %}"):
        assert one(way, v=value)["text"] == theirs(way, variables_of({"messages": [USER], "v": value})), way


FORMATS = [
    "'%s'|format('x')", "'%s and %s'|format('a', 3)", "'%d|%5d|%-5d|%05d|%+d|% d'|format(3,4,5,6,7,8)", "'%.2f %8.3f|%-9.1e|%g %G %F'|format(1.239, 2.5, -3.25, 0.0001, 12345678.0, 1)",
    "'%x %X %o %#x %c %c'|format(255, 255, 8, 17, 'q', 8364)", "'%r %s'|format('a', [1,'b'])", "'100%%'|format()", "'%(name)s is %(age)03d'|format(name='n', age=7)", "'%s' % 'x'", "'%s-%s' % ('x', 2)", "'%(a)s' % {'a': 1}",
    "'%10s|%-10s|%.3s|'|format('äb','cd', '🙂é123')", "'%s %s %s %d'|format(none, true, 1.0, true)", "'%s'|format(nothing)", "'%i'|format(3.7)", "'%*d %-*d|%.*f'|format(5, 3, 4, 2, 1, 2.55)", "'%5%|'|format()",
    "'%s'|format(messages[0].content)", "'%d'|format('x')", "'%s %s'|format('x')", "'%s'|format('x','y')", "'%q'|format(1)", "'%'|format(1)", "'%(a)s'|format(1)", "'%x'|format(1.5)", "'%c'|format('ab')",
    "\"it's a bad-day in o'neil (yes) [no] {x} <y> ab 3rd\"|title", "\"it's a bad-day in o'neil (yes) 3rd ÄPFEL\".title()", "'größe ÉTÉ ǆ straße ßa'.title()", "'größe ÉTÉ ßa'|title", "messages[0].content|title",
    "'hello WORLD'|capitalize", "'éa ÉB'.capitalize()", "'größe ÉTÉ'|upper", "'GRÖßE ÉTÉ'|lower", "'größe'.upper()", "''|title", "5|title",
]  # fmt: skip


@pytest.mark.parametrize("expression", FORMATS)
def test_formats_and_letter_cases_are_pythons(expression):
    """Where Jinja2 raises the conversation is refused."""
    template = "{{ " + expression + " }}"
    expected = theirs(template, variables_of({"messages": [USER]}))
    got = one(template)
    assert got.get("text") == expected and (expected is not None or got["error"]), got


def test_formats_keep_the_users_bytes():
    """What a value puts in is literal, what the format says is not; widths are bounded."""
    made = one("{{ '<|a|>%s<|b|>%.4s'|format(messages[0].content, messages[0].content) }}", [{"role": "user", "content": "<|im_end|>"}])
    assert made["text"] == "<|a|><|im_end|><|b|><|im"
    assert [made["text"].encode()[begin:end].decode() for begin, end in made["literal"]] == ["<|im_end|>", "<|im"]
    assert "format: a width of more than 64 columns" in one("{{ '%999999999d'|format(1) }}")["error"]
    assert "format: a width of more than 64 columns" in one("{{ '%*d'|format(65, 1) }}")["error"]
    assert "format: a precision of more than 64 columns" in one("{{ '%.65f'|format(1) }}")["error"]
    assert "an indentation of more than 64 columns" in one("{{ [1]|tojson(indent=65) }}")["error"]
    assert len(one("{{ '%64d'|format(1) }}")["text"]) == 64


def test_values_of_many_parts_are_bounded():
    doubled = "{% set ns = namespace(a=[]) %}{% for i in range(40) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a"
    nested = "{% set ns = namespace(a=[]) %}{% for i in range(1000) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a"
    for way in (" }}", " | tojson }}", " | string }}", " ~ 'a' }}"):
        assert "too much text" in one(doubled + way)["error"]
        assert "nested too deep" in one(nested + way)["error"]


@pytest.mark.parametrize(
    "template, words",
    [
        ("{{ raise_exception('no system role') }}", "refuses the conversation: no system role"),
        ("{% for a in range(100000) %}{% for b in range(100000) %}{{ b }}{% endfor %}{% endfor %}", "too m"),
        ("{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", "too much text"),
        ("{{ 'a' * 1000000000 }}", "too much text"),
        ("{{ ('a' * 100000) | replace('a', 'b' * 100000) }}", "too much text"),
        ("{{ ('a' * 100000) | replace('', 'b' * 100000) }}", "too much text"),
        ("{{ range(1000000000) }}", "too much text"),
        ("{{ messages | tojson(indent=1000000000) }}", "indentation"),
        ("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "nested too deep"),
        ("{{ " + "(" * 50000 + "1" + ")" * 50000 + " }}", "nested too deep"),
        ("{{ " + "not " * 50000 + "1 }}", "nested too deep"),
        ("{% if x %}" * 5000, "nested too deep"),
        ("{{ " + "-" * 50000 + "1 }}", "cannot be read"),
        ("{% for x in %}", "cannot be read"),
        ("{% break %}", "Break"),
        ("{{ unknown_function() }}", "not a function"),
    ],
)
def test_bounds(template, words):
    assert words in one(template)["error"]


def test_damaged_templates_end_in_errors():
    """Every answer is a text or an error: nothing crashes, nothing hangs."""
    import random

    random_ = random.Random(5)
    rows = []
    for _ in range(400):
        source = random_.choice(TEMPLATES).read_text()
        for _ in range(random_.randrange(1, 4)):
            at = random_.randrange(len(source))
            cut = random_.choice(["", "{%", "%}", "{{", "}}", "(", "[", "'", "|", " if ", "endfor", "\\", "\x00", "messages", "-"])
            source = source[:at] + cut + source[at + random_.randrange(0, 9) :]
        rows.append({"template": source, "variables": variables_of({"messages": [USER]}), "names": NAMES})
    assert all(("text" in got) != ("error" in got) for got in render(rows))
