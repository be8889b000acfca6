// The grammar library (xgrammar) behind types of our own; its exceptions end
// here.
#pragma once

#include "serving/grammar/GrammarSpec.h"
#include "serving/grammar/TokenGrammar.h"

namespace knapper::serving {

/// The vocabulary, sorted for the library. Thread-safe once made.
class GrammarLibrary {
public:
  /// Takes about 0.1 s for 50,000 tokens.
  static Expected<std::unique_ptr<GrammarLibrary>>
  create(const GrammarVocabulary &vocabulary);
  ~GrammarLibrary();

  /// The compiled grammar as text. UserError with what is wrong, also for what
  /// the library would ignore. May take any time and memory.
  Expected<std::string> compile(const GrammarSpec &spec) const;
  /// From such a text.
  Expected<std::shared_ptr<const TokenGrammar>>
  load(const std::string &compiled, double secondsPerToken) const;

private:
  struct Tokens;
  explicit GrammarLibrary(std::unique_ptr<Tokens> tokens);
  std::unique_ptr<Tokens> tokens;
};

} // namespace knapper::serving
