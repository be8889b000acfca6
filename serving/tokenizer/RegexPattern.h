// Patterns of tokenizer.json files, compiled once by PCRE2.
#pragma once

#include "runtime/base/Error.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace knapper::serving {

/// A pattern in the syntax that `tokenizers` reads (Oniguruma's), of Unicode
/// texts. Thread-safe: matching state belongs to the calling thread's call.
class RegexPattern {
public:
  /// UserError for a pattern that PCRE2 cannot read.
  static Expected<RegexPattern> compile(const std::string &pattern);
  /// One that matches this text and nothing else.
  static RegexPattern literal(const std::string &text);
  RegexPattern(RegexPattern &&) noexcept;
  RegexPattern &operator=(RegexPattern &&) noexcept;
  ~RegexPattern();

  /// Calls `found(begin, end)` of each match, from left to right, none
  /// overlapping. The text must be valid UTF-8. False where a match was given
  /// up: too many steps.
  template <typename Found>
  bool forEach(std::string_view text, Found &&found) const {
    Cursor cursor(*this, text);
    size_t begin, end;
    while (cursor.next(begin, end))
      found(begin, end);
    return !cursor.failed;
  }

private:
  struct Compiled;
  struct Cursor {
    Cursor(const RegexPattern &pattern, std::string_view text);
    ~Cursor();
    bool next(size_t &begin, size_t &end);
    const RegexPattern &pattern;
    std::string_view text;
    void *data = nullptr;
    size_t at = 0;
    bool failed = false;
  };
  explicit RegexPattern(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled;
};

} // namespace knapper::serving
