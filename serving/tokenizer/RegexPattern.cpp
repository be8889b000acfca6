#include "serving/tokenizer/RegexPattern.h"

#include "serving/tokenizer/Utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace knapper::serving {

struct RegexPattern::Compiled {
  std::string literal; ///< of a pattern without a code
  pcre2_code *code = nullptr;
  ~Compiled() { pcre2_code_free(code); }
};

RegexPattern::RegexPattern(std::unique_ptr<Compiled> compiled)
    : compiled(std::move(compiled)) {}
RegexPattern::RegexPattern(RegexPattern &&) noexcept = default;
RegexPattern &RegexPattern::operator=(RegexPattern &&) noexcept = default;
RegexPattern::~RegexPattern() = default;

/// \s of Oniguruma is White_Space; PCRE2's has U+180E too.
static std::string translated(const std::string &pattern) {
  const std::string space = "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-"
                            "\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
                            "\\x{3000}";
  std::string made;
  int classDepth = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      char next = pattern[++i];
      if (next == 's')
        made += classDepth ? space : "[" + space + "]";
      else if (next == 'S' && !classDepth)
        made += "[^" + space + "]";
      else
        (made += c) += next;
      continue;
    }
    if (c == '[' && !classDepth)
      ++classDepth;
    else if (c == ']' && classDepth)
      --classDepth;
    made += c;
  }
  return made;
}

Expected<RegexPattern> RegexPattern::compile(const std::string &pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  std::string text = translated(pattern);
  auto compiled = std::make_unique<Compiled>();
  compiled->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, nullptr);
  if (!compiled->code) {
    PCRE2_UCHAR message[128] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return userError("the pattern '" + pattern + "' cannot be read: " +
                         reinterpret_cast<char *>(message),
                     "tokenizer.json");
  }
  // Without its compiler (a machine that forbids it) matching is interpreted.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  return RegexPattern(std::move(compiled));
}

RegexPattern RegexPattern::literal(const std::string &text) {
  auto compiled = std::make_unique<Compiled>();
  compiled->literal = text;
  return RegexPattern(std::move(compiled));
}

RegexPattern::Cursor::Cursor(const RegexPattern &pattern, std::string_view text)
    : pattern(pattern), text(text) {
  if (pattern.compiled->code)
    data = pcre2_match_data_create(1, nullptr);
}

RegexPattern::Cursor::~Cursor() {
  pcre2_match_data_free(static_cast<pcre2_match_data *>(data));
}

bool RegexPattern::Cursor::next(size_t &begin, size_t &end) {
  const Compiled &compiled = *pattern.compiled;
  if (!compiled.code) {
    begin = compiled.literal.empty() ? std::string_view::npos
                                     : text.find(compiled.literal, at);
    if (begin == std::string_view::npos)
      return false;
    at = end = begin + compiled.literal.size();
    return true;
  }
  while (at <= text.size()) {
    auto *match = static_cast<pcre2_match_data *>(data);
    int found =
        match ? pcre2_match(compiled.code,
                            reinterpret_cast<PCRE2_SPTR>(text.data()),
                            text.size(), at, PCRE2_NO_UTF_CHECK, match, nullptr)
              : PCRE2_ERROR_NOMEMORY;
    if (found < 0) {
      failed = found != PCRE2_ERROR_NOMATCH;
      return false;
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(match);
    begin = range[0], end = range[1];
    if (end > begin) {
      at = end;
      return true;
    }
    // An empty match moves on by a character and splits nothing.
    at = end < text.size() ? end + utf8Length(text[end]) : end + 1;
  }
  return false;
}

} // namespace knapper::serving
