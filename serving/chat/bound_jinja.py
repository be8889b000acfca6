"""Copies the template engine's sources (setup/sources) with bounds put in.

    bound_jinja.py SOURCES TARGET

All statements and expressions run through one function, where steps and depth are counted; the few places where
one step can make any amount of text, and the recursion of the parser, get a bound of their own. The functions that
are called stand in serving/chat/TemplateBudget.h. Where its text differs from Jinja2's an edit mends it. Every edit must find its place, once.
"""

from __future__ import annotations

import sys
from pathlib import Path

FILES = (
    "json.h", "json.cpp", "unicode.h", "unicode.cpp",
    *(f"jinja/{name}" for name in ("lexer.h", "lexer.cpp", "parser.h", "parser.cpp", "runtime.h", "runtime.cpp",
                                   "string.h", "string.cpp", "utils.h", "value.h", "value.cpp")),
)  # fmt: skip
INCLUDE = '#include "serving/chat/TemplateBudget.h"\n'
BUDGET = "knapper::serving::TemplateBudget"
EDITS = {
    "json.cpp": [('#include "ggml.h"', "#include <stdexcept>"), ("#define JSON_ASSERT GGML_ASSERT", '#define JSON_ASSERT(x) ((x) ? void() : throw std::runtime_error("damaged JSON"))')],
    "jinja/runtime.cpp": [
        ("        return execute_impl(ctx);", f"        {BUDGET}::Step step;\n        value made = execute_impl(ctx);\n        if (is_val<value_string>(made))\n            {BUDGET}::charge(made->val_str.length() + 64 * made->val_str.parts.size());\n        return made;"),
        # The tables are copied for each name otherwise.
        ("    auto builtins = global_builtins();", "    const auto & builtins = global_builtins();"),
        ("    auto builtins = input->get_builtins();", "    const auto & builtins = input->get_builtins();"),
        ("            res->val_str.append(str);", f"            {BUDGET}::charge(str.length() + 64);\n            res->val_str.append(str);"),
    ],
    "jinja/runtime.h": [
        ("    assert(dynamic_cast<T *>(ptr.get()) != nullptr);", f"    {BUDGET}::require(dynamic_cast<T *>(ptr.get()) != nullptr);"),
        ("    assert(dynamic_cast<T *>(ptr.get()) != nullptr || ", f"    {BUDGET}::require(dynamic_cast<T *>(ptr.get()) != nullptr || "),
        ('#include "value.h"\n', '#include "value.h"\n' + INCLUDE),
    ],
    "jinja/utils.h": [
        ("#include <string>\n", "#include <string>\n" + INCLUDE),
        ("        builder.append(replace);", f"        {BUDGET}::charge(replace.length() + 1);\n        builder.append(replace);"),
    ],
    "jinja/lexer.cpp": [
        # A template that begins with a character or a newline before a block keeps it.
        ("                    if (current == 1) {", "                    if (current == 1 && c != '\\n' && std::isspace(static_cast<unsigned char>(c))) {"),
    ],
    "jinja/string.cpp": [
        # Python's white space is Unicode's.
        ("        auto match_char = [&chars]", "        if (!chars)\n            return std::string(knapper::serving::stripSpace(s, left, right));\n        auto match_char = [&chars]"),
        ('#include "jinja/value.h"\n', '#include "jinja/value.h"\n#include "serving/tokenizer/Utf8.h"\n'),
    ],
    "jinja/value.cpp": [
        ("                for (int64_t i = start; i < stop; i += step) {", f"                for (int64_t i = start; i < stop; i += step) {{\n                    {BUDGET}::charge(256);"),
        ("                for (int64_t i = start; i > stop; i += step) {", f"                for (int64_t i = start; i > stop; i += step) {{\n                    {BUDGET}::charge(256);"),
        ("        indent = static_cast<int>(val_indent->as_int());", f"        indent = {BUDGET}::width(val_indent->as_int());"),
        ("                indent.assign(val_width->as_int(), ' ');", f"                indent.assign({BUDGET}::width(val_width->as_int()), ' ');"),
        ("            if (old_str != new_str) {", "            if (!old_str.empty()) {\n                string_replace_all(str, old_str, new_str);\n            } else if (old_str != new_str) {"),
        ("                    std::string new_res;\n                    new_res.reserve(", f"                    std::string new_res;\n                    {BUDGET}::charge(new_str.length() * (str.length() + 1));\n                    new_res.reserve("),
        # JSON never spells control tokens: what is in it is the user's.
        ("    return mk_val<value_string>(json_str);\n}\n\nstatic value & get_attribute", f"    {BUDGET}::charge(json_str.length());\n    auto made = mk_val<value_string>(json_str);\n    made->mark_input();\n    return made;\n}}\n\nstatic value & get_attribute"),
    ],
    "jinja/parser.cpp": [
        ("        assert(start_pos < tokens.size());", f"        {BUDGET}::require(start_pos < tokens.size());"),
        ("    statement_ptr parse_any() {", f"    statement_ptr parse_any() {{\n        {BUDGET}::Step step;"),
        ("    statement_ptr parse_expression() {", f"    statement_ptr parse_expression() {{\n        {BUDGET}::Step step;"),
        ("    statement_ptr parse_logical_negation_expression() {", f"    statement_ptr parse_logical_negation_expression() {{\n        {BUDGET}::Step step;"),
        ("    statement_ptr parse_unary_expression() {", f"    statement_ptr parse_unary_expression() {{\n        {BUDGET}::Step step;"),
    ],
}  # fmt: skip


def main() -> int:
    sources, target = Path(sys.argv[1]), Path(sys.argv[2])
    for file in FILES:
        text = (sources / "common" / file).read_text(encoding="utf-8")
        for old, new in EDITS.get(file, ()):
            if text.count(old) != 1:
                print(f"{file} has {text.count(old)} times: {old}", file=sys.stderr)
                return 1
            text = text.replace(old, new)
        path = target / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
