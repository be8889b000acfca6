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

  /// The compiled grammar as bytes for a copy of this process. UserError with
  /// what is wrong, also for what the library would ignore. May take any time
  /// and memory.
  Expected<std::string> compile(const GrammarSpec &spec) const;
  /// From such bytes.
  Expected<std::shared_ptr<const TokenGrammar>>
  load(const std::string &compiled, double secondsPerToken) const;
  /// Of masks that grammars of `load` share, while there are any.
  size_t maskBytes() const;
  /// Compiles what most schemas have in common, so that later ones take less
  /// time. Takes as long as a few of them.
  void warm() const;

private:
  struct Tokens;
  explicit GrammarLibrary(std::unique_ptr<Tokens> tokens);
  std::unique_ptr<Tokens> tokens;
};

} // namespace knapper::serving
