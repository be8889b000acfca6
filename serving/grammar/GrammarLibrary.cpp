#include "serving/grammar/GrammarLibrary.h"

#include "serving/grammar/CompiledForm.h"
#include "serving/grammar/MaskWords.h"
#include "serving/grammar/ThreadTime.h"

#include <algorithm>
#include <xgrammar/xgrammar.h>

// The library is built with XGRAMMAR_LOG_CUSTOMIZE, which declares these two.
namespace xgrammar {
[[noreturn]] void LogFatalImpl(const std::string &, int,
                               const std::string &message);
void LogMessageImpl(const std::string &, int, int level,
                    const std::string &message);
} // namespace xgrammar

namespace knapper::serving {

struct GrammarLibrary::Tokens {
  xgrammar::TokenizerInfo info;
  /// It keeps the masks of rules, for later grammars with such rules.
  xgrammar::GrammarCompiler compiler{info, /*max_threads=*/1,
                                     /*cache_enabled=*/true,
                                     /*max_memory_bytes=*/64 << 20};
  std::shared_ptr<MaskPool> masks = std::make_shared<MaskPool>();
};

GrammarLibrary::GrammarLibrary(std::unique_ptr<Tokens> tokens)
    : tokens(std::move(tokens)) {}
GrammarLibrary::~GrammarLibrary() = default;

namespace {

std::string shortened(std::string message) {
  if (size_t line = message.find('\n'); line != std::string::npos)
    message.resize(line);
  constexpr size_t longest = 400;
  if (message.size() > longest)
    message = message.substr(0, longest) + " ...";
  return message;
}

/// What the library warns of on this thread while it lives; it has no place to
/// hand it through.
class CaughtWarnings {
public:
  CaughtWarnings() : outer(current) { current = this; }
  CaughtWarnings(const CaughtWarnings &) = delete;
  CaughtWarnings &operator=(const CaughtWarnings &) = delete;
  ~CaughtWarnings() { current = outer; }
  static void add(const std::string &message) {
    if (current && current->first.empty())
      current->first = message.empty() ? "a warning" : message;
  }

  std::string first;

private:
  static inline thread_local CaughtWarnings *current = nullptr;
  CaughtWarnings *outer;
};

/// Runs what throws.
template <typename Made, typename Make>
Expected<Made> guarded(const std::string &where, Make &&make) {
  try {
    return make();
  } catch (const std::bad_alloc &) {
    return userError("needs too much memory", where, "a smaller grammar");
  } catch (const std::exception &error) {
    return userError("is refused: " + shortened(error.what()), where);
  } catch (...) {
    return userError("is refused", where);
  }
}

class MatcherCursor final : public GrammarCursor {
public:
  MatcherCursor(const xgrammar::CompiledGrammar &grammar,
                const std::vector<int32_t> &ends, double patience)
      : matcher(grammar), ends(ends), patience(patience),
        mask(static_cast<size_t>(xgrammar::GetBitmaskSize(
            grammar.GetTokenizerInfo().GetVocabSize()))) {}

  Expected<Next> next(bool allowEnds) override {
    return timed<Next>([&]() -> Next {
      std::fill(mask.begin(), mask.end(), ~0u);
      auto shape = static_cast<int64_t>(mask.size());
      DLTensor tensor{mask.data(), {kDLCPU, 0}, 1, {kDLInt, 32, 1},
                      &shape,      nullptr,     0};
      matcher.FillNextTokenBitmask(&tensor);
      for (int32_t end : ends)
        mask[static_cast<size_t>(end) / 32] &= ~(1u << (end % 32));
      Next made;
      made.canGoOn = nextWord(mask, 0) < mask.size();
      made.canEnd = matcher.IsCompleted();
      if (made.canEnd && allowEnds)
        for (int32_t end : ends)
          mask[static_cast<size_t>(end) / 32] |= 1u << (end % 32);
      made.allowed = mask;
      return made;
    });
  }

  Status accept(int32_t token) override {
    Expected<bool> taken =
        timed<bool>([&] { return matcher.AcceptToken(token); });
    if (!taken)
      return taken.takeError();
    if (!*taken)
      return userError("does not allow token " + std::to_string(token),
                       "grammar");
    return success();
  }

  bool canEnd() const override { return matcher.IsCompleted(); }

private:
  /// One grammar must not hold up the steps of all. What counts is the
  /// thread's processor time: on a busy machine it also waits for a core.
  template <typename Made, typename Make> Expected<Made> timed(Make &&make) {
    uint64_t start = threadNanoseconds();
    Expected<Made> made = guarded<Made>("grammar", std::forward<Make>(make));
    if (made &&
        static_cast<double>(threadNanoseconds() - start) > patience * 1e9)
      return userError("takes too long for a token", "grammar",
                       "a grammar with less that is ambiguous");
    return made;
  }

  xgrammar::GrammarMatcher matcher;
  const std::vector<int32_t> &ends; ///< the library's
  double patience;
  std::vector<uint32_t> mask;
};

class CompiledTokenGrammar final : public TokenGrammar {
public:
  CompiledTokenGrammar(xgrammar::CompiledGrammar grammar, double patience)
      : grammar(std::move(grammar)), tokens(this->grammar.GetTokenizerInfo()),
        patience(patience) {}
  std::unique_ptr<GrammarCursor> begin() const override {
    return std::make_unique<MatcherCursor>(grammar, tokens.GetStopTokenIds(),
                                           patience);
  }
  size_t bytes() const override { return ownBytes(grammar); }

private:
  xgrammar::CompiledGrammar grammar;
  xgrammar::TokenizerInfo tokens;
  double patience;
};

xgrammar::CompiledGrammar compileWith(xgrammar::GrammarCompiler &compiler,
                                      const GrammarSpec &spec) {
  switch (spec.kind) {
  case GrammarKind::schema:
    return compiler.CompileJSONSchema(spec.text, /*any_whitespace=*/true,
                                      std::nullopt, std::nullopt,
                                      /*strict_mode=*/spec.closed);
  case GrammarKind::regex:
    return compiler.CompileRegex(spec.text);
  case GrammarKind::ebnf:
    return compiler.CompileGrammar(spec.text);
  case GrammarKind::structure:
    break;
  }
  return compiler.CompileStructuralTag(spec.text);
}

} // namespace

Expected<std::unique_ptr<GrammarLibrary>>
GrammarLibrary::create(const GrammarVocabulary &vocabulary) {
  using Made = std::unique_ptr<GrammarLibrary>;
  return guarded<Made>("tokenizer.json", [&]() -> Made {
    xgrammar::TokenizerInfo info(vocabulary.texts, xgrammar::VocabType::RAW,
                                 static_cast<int>(vocabulary.texts.size()),
                                 vocabulary.ends);
    return Made(
        new GrammarLibrary(std::make_unique<Tokens>(Tokens{std::move(info)})));
  });
}

Expected<std::string> GrammarLibrary::compile(const GrammarSpec &spec) const {
  CaughtWarnings warnings;
  auto made = guarded<std::string>("grammar", [&]() -> std::string {
    return writeCompiled(compileWith(tokens->compiler, spec));
  });
  // Warnings are of what would not be enforced.
  if (made && !warnings.first.empty())
    return userError("is refused: " + shortened(warnings.first), "grammar");
  return made;
}

Expected<std::shared_ptr<const TokenGrammar>>
GrammarLibrary::load(const std::string &compiled,
                     double secondsPerToken) const {
  using Made = std::shared_ptr<const TokenGrammar>;
  return guarded<Made>("grammar", [&]() -> Made {
    return std::make_shared<CompiledTokenGrammar>(
        readCompiled(compiled, tokens->info, *tokens->masks), secondsPerToken);
  });
}

size_t GrammarLibrary::maskBytes() const { return tokens->masks->bytes(); }

void GrammarLibrary::warm() const {
  // What schemas usually have. Errors would be a request's, not these texts'.
  for (const char *schema :
       {R"({"type": "object", "properties": {"a": {"type": "string"},
            "b": {"type": "integer"}, "c": {"type": "number"},
            "d": {"type": "boolean"}, "e": {"type": "null"},
            "f": {"type": "array", "items": {"type": "string"}}}})",
        R"({"type": "object", "properties": {
            "a": {"type": "string", "maxLength": 24},
            "b": {"type": "string", "minLength": 1, "maxLength": 20},
            "c": {"type": "integer", "minimum": 1, "maximum": 40},
            "d": {"enum": ["a", "b"]}},
            "required": ["a"], "additionalProperties": false})"})
    (void)compile({GrammarKind::schema, schema, false, {}});
}

std::string choiceGrammar(const std::vector<std::string> &choices) {
  std::string text = "root ::= ";
  for (size_t i = 0; i < choices.size(); ++i) {
    text += i ? " | \"" : "\"";
    for (char c : choices[i]) {
      char escaped[8];
      auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 || byte == 0x7f) {
        snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
        text += escaped;
      } else {
        if (c == '"' || c == '\\')
          text += '\\';
        text += c;
      }
    }
    text += '"';
  }
  return text;
}

} // namespace knapper::serving

void xgrammar::LogFatalImpl(const std::string &, int,
                            const std::string &message) {
  throw std::runtime_error(message);
}

void xgrammar::LogMessageImpl(const std::string &, int, int level,
                              const std::string &message) {
  constexpr int warning = 2;
  if (level >= warning)
    knapper::serving::CaughtWarnings::add(message);
}
