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
PRINT = """struct print_statement : public statement {
    statement_ptr operand;
    explicit print_statement(statement_ptr && operand) : operand(std::move(operand)) {}
    std::string type() const override { return "PrintStatement"; }
    value execute_impl(context & ctx) const override {
        value made = operand->execute(ctx);
        if (made->is_none() || is_val<value_array>(made) || is_val<value_object>(made))
            return mk_val<value_string>(made->as_string());
        return made;
    }
};

"""
FILTER_NAME = """inline std::string filter_name(const std::string & name, const value & input) {
    return is_val<value_string>(input) && (name == "title" || name == "format") ? "|" + name : name;
}

"""
FILTERS = """        {"|title", [](const func_args & args) -> value {
            args.ensure_vals<value_string>();
            return mk_val<value_string>(knapper::serving::inCase(args.get_pos(0)->as_string(), knapper::serving::LetterCase::titleFilter));
        }},
        {"|format", [](const func_args & args) -> value {
            std::vector<value> values;
            std::vector<std::pair<std::string, value>> names;
            for (size_t i = 1; i < args.count(); ++i) {
                if (is_val<value_kwarg>(args.get_args()[i])) {
                    const auto * named = cast_val<value_kwarg>(args.get_args()[i]);
                    names.emplace_back(named->key, named->val);
                } else {
                    values.push_back(args.get_args()[i]);
                }
            }
            if (!names.empty() && !values.empty())
                throw raised_exception("format: takes values or names, not both");
            return mk_val<value_string>(knapper::serving::formatted(args.get_pos(0)->as_string(), values, names));
        }},
"""
EDITS = {
    "json.cpp": [('#include "ggml.h"', "#include <stdexcept>"), ("#define JSON_ASSERT GGML_ASSERT", '#define JSON_ASSERT(x) ((x) ? void() : throw std::runtime_error("damaged JSON"))')],
    "jinja/runtime.cpp": [
        ("        return execute_impl(ctx);", f"        {BUDGET}::Step step;\n        value made = execute_impl(ctx);\n        if (is_val<value_string>(made))\n            {BUDGET}::charge(made->val_str.length() + 64 * made->val_str.parts.size());\n        return made;"),
        # A process without memory is no fault of the template.
        ("    } catch (const not_implemented_exception & /* ex */) {\n", "    } catch (const std::bad_alloc &) {\n        throw;\n    } catch (const not_implemented_exception & /* ex */) {\n"),
        # The tables are copied for each name otherwise.
        ("    auto builtins = global_builtins();", "    const auto & builtins = global_builtins();"),
        ("    auto builtins = input->get_builtins();", "    const auto & builtins = input->get_builtins();"),
        ("            res->val_str.append(str);", f"            {BUDGET}::charge(str.length() + 64);\n            res->val_str.append(str);"),
        # `~` takes any values; None is a word, and what is not there is nothing.
        ("    // Handle undefined and null values\n", "    if (op.value == \"~\") {\n        auto made = mk_val<value_string>();\n        for (const value & side : {left_val, right_val})\n            if (!side->is_undefined())\n                made->val_str.append(side->as_string());\n        return made;\n    }\n\n    // Handle undefined and null values\n"),
        ("        auto output = left_val->as_string().append(right_val->as_string());", "        auto output = knapper::serving::concatenated(left_val->as_string(), right_val->as_string());"),
        ('#include "value.h"\n', '#include "value.h"\n#include "serving/chat/FormatText.h"\n#include "serving/chat/TemplateText.h"\n'),
        # Filters and methods share their names; these two differ.
        ("        return try_builtin_func(ctx, filter_id, input)->invoke(func_args(ctx));", "        return try_builtin_func(ctx, filter_name(filter_id, input), input)->invoke(func_args(ctx));"),
        ("        return try_builtin_func(ctx, filter_id, input)->invoke(args);", "        return try_builtin_func(ctx, filter_name(filter_id, input), input)->invoke(args);"),
        ("    // Handle undefined and null values\n    if (is_val<value_undefined>(left_val)", "    if (op.value == \"%\" && is_val<value_string>(left_val))\n        return mk_val<value_string>(knapper::serving::formatted(left_val->as_string(), right_val));\n\n    // Handle undefined and null values\n    if (is_val<value_undefined>(left_val)"),
    ],
    "jinja/runtime.h": [
        ("    assert(dynamic_cast<T *>(ptr.get()) != nullptr);", f"    {BUDGET}::require(dynamic_cast<T *>(ptr.get()) != nullptr);"),
        ("    assert(dynamic_cast<T *>(ptr.get()) != nullptr || ", f"    {BUDGET}::require(dynamic_cast<T *>(ptr.get()) != nullptr || "),
        ('#include "value.h"\n', '#include "value.h"\n' + INCLUDE),
        # What stands in {{ }}: None and lists are texts there, as Python writes them.
        ("struct if_statement : public statement {", FILTER_NAME + PRINT + "struct if_statement : public statement {"),
    ],
    "jinja/string.h": [
        ("struct string {\n", "struct string {\n    bool safe = false; // marked so: what joins it is escaped\n"),
    ],
    "jinja/value.h": [
        # Items may be the user's.
        ('        ss << (immutable ? ")" : "]");\n        return ss.str();', '        ss << (immutable ? ")" : "]");\n        return asInput(ss.str());'),
        ('        ss << "}";\n        return ss.str();', '        ss << "}";\n        return asInput(ss.str());'),
        ("    virtual string as_string() const override {\n        const bool immutable", f"    virtual string as_string() const override {{\n        {BUDGET}::Step step;\n        const bool immutable"),
        ('    virtual string as_string() const override {\n        std::ostringstream ss;\n        ss << "{";', f'    virtual string as_string() const override {{\n        {BUDGET}::Step step;\n        std::ostringstream ss;\n        ss << "{{";'),
        ("        std::string out = std::to_string(val_flt);\n        out.erase(out.find_last_not_of('0') + 1, std::string::npos); // remove trailing zeros\n        if (out.back() == '.') out.push_back('0'); // leave one zero if no decimals\n        return out;", "        return knapper::serving::pythonRepr(val_flt);"),
        ("std::string value_to_string_repr(const value & val);\n", f"std::string value_to_string_repr(const value & val);\n\ninline string asInput(const std::string & text) {{\n    {BUDGET}::charge(text.length() + 256);\n    return string(text, true);\n}}\n"),
        ('#include "utils.h"\n', '#include "utils.h"\n#include "serving/chat/PythonText.h"\n'),
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
        ("            if (old_str != new_str) {", "            if (!old_str.empty())\n                return mk_val<value_string>(knapper::serving::replaced(args.get_pos(0)->as_string(), old_str, args.get_pos(2)->as_string()));\n            if (old_str != new_str) {"),
        ("                    std::string new_res;\n                    new_res.reserve(", f"                    std::string new_res;\n                    {BUDGET}::charge(new_str.length() * (str.length() + 1));\n                    new_res.reserve("),
        # What is no number, not what found no memory.
        *((f"{made}\n{space}}} catch (...) {{", f"{made}\n{space}}} catch (const std::logic_error &) {{")
          for made, space in (("mk_val<value_int>(std::stoll(s));", 20 * " "), ("mk_val<value_int>(std::stoi(str, nullptr, base));", 12 * " "), ("mk_val<value_float>(std::stod(str));", 12 * " "))),
        # The user's texts stay the user's, whatever they are joined with; any value is a text.
        ('            const std::string delim = val_delim->is_undefined() ? "" : val_delim->as_string().str();\n            std::string result;', "            const jinja::string delim = val_delim->is_undefined() ? jinja::string() : val_delim->as_string();\n            jinja::string result;"),
        ("                if (!is_val<value_string>(val_arr) && !is_val<value_int>(val_arr) && !is_val<value_float>(val_arr)) {\n                    throw raised_exception(\"join() can only join arrays of strings or numerics\");\n                }\n                result += val_arr->as_string().str();", f"                {BUDGET}::charge(delim.length() + 64);\n                if (!val_arr->is_undefined())\n                    result.append(val_arr->as_string());"),
        ("                    result += delim;", "                    result.append(delim);"),
        ("            // no-op for now\n            args.ensure_vals<value_string>();\n            return args.get_pos(0);", "            args.ensure_vals<value_string>();\n            jinja::string safe = args.get_pos(0)->as_string();\n            safe.safe = true;\n            return mk_val<value_string>(safe);"),
        ('#include "unicode.h"\n', '#include "unicode.h"\n#include "serving/chat/FormatText.h"\n#include "serving/chat/TemplateText.h"\n'),
        *((f"args.get_pos(0)->as_string().{theirs}();", f"knapper::serving::inCase(args.get_pos(0)->as_string(), knapper::serving::LetterCase::{ours});")
          for theirs, ours in (("uppercase", "upper"), ("lowercase", "lower"), ("capitalize", "capital"), ("titlecase", "title"))),
        ('        {"format", [](const func_args & args) -> value {\n', FILTERS + '        {"format", [](const func_args & args) -> value {\n'),
        ("            return \"'\" + val_str + \"'\";", "            return knapper::serving::pythonRepr(val_str);"),
        ("            return value_to_json(val);\n        } else {", "            return knapper::serving::pythonRepr(val_str);\n        } else {"),
        ("        oss << val->as_float();", "        oss << knapper::serving::pythonRepr(val->as_float());"),
        ("    auto indent_str = [indent, curr_lvl]() -> std::string {", f"    {BUDGET}::Step step;\n    {BUDGET}::charge(256);\n    auto indent_str = [indent, curr_lvl]() -> std::string {{"),
        # JSON never spells control tokens: what is in it is the user's.
        ("    return mk_val<value_string>(json_str);\n}\n\nstatic value & get_attribute", f"    {BUDGET}::charge(json_str.length());\n    auto made = mk_val<value_string>(json_str);\n    made->mark_input();\n    return made;\n}}\n\nstatic value & get_attribute"),
    ],
    "jinja/parser.cpp": [
        ("        assert(start_pos < tokens.size());", f"        {BUDGET}::require(start_pos < tokens.size());"),
        ('        auto result = parse_expression();\n        expect(token::close_expression, "Expected }}");\n        return result;', '        size_t start_pos = current - 1;\n        auto result = parse_expression();\n        expect(token::close_expression, "Expected }}");\n        return mk_stmt<print_statement>(start_pos, std::move(result));'),
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
