"""Copies the grammar library's sources (setup/sources) without the front ends that nothing here calls, with some edits.

    prune_xgrammar.py SOURCES TARGET

The Lark front end and the call formats of single models cost a sixth of the library's compile. Every edit must
find its place, as often as it says.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LEFT_OUT = ("lark_converter.cc", "lark_converter.h", "cohere.cc", "glm.cc", "minimax.cc", "minimax_m3.cc")
# File: (pattern, replacement, how often).
EDITS = {
    "grammar.cc": [
        (r'#include "lark_converter.h"\n', "", 1),
        (r"  return LarkToGrammar\(lark_string, tokenizer_info, named_grammars\);", '  XGRAMMAR_LOG(FATAL) << "Lark grammars are not supported";\n  XGRAMMAR_UNREACHABLE();', 1),
    ],
    # Grammars share equal masks, which travel apart from the rest (CompiledForm.h).
    "compiled_grammar_impl.h": [
        (r"#include <cstdint>\n", "#include <cstdint>\n#include <memory>\n", 1),
        (r"std::unordered_map<ParserState, AdaptiveTokenMask, ", "std::unordered_map<ParserState, std::shared_ptr<const AdaptiveTokenMask>, ", 1),
    ],
    "compiled_grammar.cc": [
        (r'  result\["adaptive_token_mask_cache"\] = .*\n', "", 1),
        (r'  if \(object.find\("adaptive_token_mask_cache"\) == object.end\(\)\) \{\n.*?\n  return std::nullopt;\n', "  return std::nullopt;\n", 1),
        (r"MemorySize\(impl.grammar\) \+ MemorySize\(impl.adaptive_token_mask_cache\)", "MemorySize(impl.grammar)", 1),
    ],
    "grammar_compiler.cc": [(r"= cur_adaptive_token_mask_cache;", "= std::make_shared<const AdaptiveTokenMask>(std::move(cur_adaptive_token_mask_cache));", 2)],
    "grammar_matcher.cc": [(r"= adaptive_token_mask_it->second;", "= *adaptive_token_mask_it->second;", 2)],
    # UTF-8 has neither surrogates nor longer forms than it needs.
    "grammar_functor.cc": [
        (r"      AddCharacterRange\(from, to, CodepointToPackedUTF8\(low\), CodepointToPackedUTF8\(end\)\);",
         "      if (low < 0xd800)\n"
         "        AddCharacterRange(from, to, CodepointToPackedUTF8(low), CodepointToPackedUTF8(std::min<uint32_t>(end, 0xd7ff)));\n"
         "      if (end > 0xdfff)\n"
         "        AddCharacterRange(from, to, CodepointToPackedUTF8(std::max<uint32_t>(low, 0xe000)), CodepointToPackedUTF8(end));", 1),
    ],
    "fsm_builder.cc": [
        (r"      uint32_t multi_byte_low = std::max<uint32_t>\(low, kMax1ByteUnicode \+ 1\);\n      AddPackedUTF8RangeEdges\(\n"
         r"          \*fsm, from, to, CodepointToPackedUTF8\(multi_byte_low\), CodepointToPackedUTF8\(high\)\n      \);",
         "      constexpr uint32_t parts[][2] = {{0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, 0x10ffff}};\n"
         "      for (const auto& part : parts) {\n"
         "        uint32_t first = std::max(low, part[0]), last = std::min(high, part[1]);\n"
         "        if (first <= last)\n"
         "          AddPackedUTF8RangeEdges(*fsm, from, to, CodepointToPackedUTF8(first), CodepointToPackedUTF8(last));\n"
         "      }", 1),
    ],
    "json_schema_converter.cc": [
        (r"        \{JSONFormat::k(MiniMax|Glm|Cohere)XML, converter_ext::.*\n", "", 3),
        (r'      \{"(minimax|minimax_m3|glm|cohere)_xml", JSONFormat::.*\n', "", 4),
        # Texts of a bounded length may hold control characters otherwise, which JSON has only escaped.
        (r"AddCharacterClass\(\{\{'\"', '\"'\}, (.*)\}, true\);", r"AddCharacterClass({{0, 0x1f}, {'\"', '\"'}, \1}, true);", 1),
        (r"    case JSONFormat::k(MiniMaxM3|Cohere)XML: \{\n.*?\n    \}\n", "", 4),
    ],
}  # fmt: skip


def main() -> int:
    sources, target = Path(sys.argv[1]), Path(sys.argv[2])
    for path in sorted(sources.rglob("*")):
        if path.suffix not in (".h", ".cc") or path.name in LEFT_OUT:
            continue
        text = path.read_text(encoding="utf-8")
        for pattern, replacement, times in EDITS.get(path.name, ()):
            text, found = re.subn(pattern, replacement, text, flags=re.DOTALL if ".*?" in pattern else 0)
            if found != times:
                print(f"{path.name} has {found} times: {pattern}", file=sys.stderr)
                return 1
        copy = target / path.relative_to(sources)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists() or copy.read_text(encoding="utf-8") != text:
            copy.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
