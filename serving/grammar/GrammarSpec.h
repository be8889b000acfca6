// What an answer must look like, as it comes from a request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace knapper::serving {

enum class GrammarKind : uint8_t {
  schema,    ///< a JSON schema
  regex,     ///< a regular expression for the whole text
  ebnf,      ///< rules `name ::= ...`, the first is `root`
  structure, ///< xgrammar's structural tag, as JSON: texts with parts in them
};

struct GrammarSpec {
  GrammarKind kind = GrammarKind::schema;
  std::string text;
  /// Of a schema: objects and arrays hold only what it names.
  bool closed = false;
  std::string place = {}; ///< the field that asks for it, for errors

  bool operator==(const GrammarSpec &other) const {
    return kind == other.kind && closed == other.closed && text == other.text;
  }
};

/// A grammar for one of these texts.
std::string choiceGrammar(const std::vector<std::string> &choices);

struct GrammarLimits {
  double seconds = 10;             ///< of a processor, of one compile
  uint64_t memoryBytes = 1 << 30;  ///< of one compile
  uint64_t resultBytes = 16 << 20; ///< of what it makes, which is read here
  uint64_t cacheBytes = 256 << 20; ///< of compiled grammars that are kept
  size_t specBytes = 1 << 20;      ///< of the grammar's text
  double secondsPerToken = 0.25;   ///< of a processor, of one mask
};

/// The tokens of a model: what each adds to a text.
struct GrammarVocabulary {
  std::vector<std::string> texts; ///< by token; empty: never allowed
  std::vector<int32_t> ends;
};

} // namespace knapper::serving
