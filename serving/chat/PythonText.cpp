#include "serving/chat/PythonText.h"

#include "serving/tokenizer/Utf8.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace knapper::serving {

std::string pythonRepr(std::string_view text) {
  bool doubled = text.find('\'') != std::string_view::npos &&
                 text.find('"') == std::string_view::npos;
  char quote = doubled ? '"' : '\'';
  std::string made(1, quote);
  for (size_t at = 0; at < text.size();) {
    size_t from = at;
    char32_t code = nextCodePoint(text, at);
    if (code == static_cast<char32_t>(quote) || code == '\\') {
      made += '\\';
      made += static_cast<char>(code);
    } else if (code == '\n') {
      made += "\\n";
    } else if (code == '\r') {
      made += "\\r";
    } else if (code == '\t') {
      made += "\\t";
    } else if (isPrintable(code)) {
      made += text.substr(from, at - from);
    } else {
      const char *form = code < 0x100     ? "\\x%02x"
                         : code < 0x10000 ? "\\u%04x"
                                          : "\\U%08x";
      char escaped[16];
      snprintf(escaped, sizeof(escaped), form, static_cast<unsigned>(code));
      made += escaped;
    }
  }
  return made + quote;
}

std::string pythonRepr(double number) {
  if (std::isnan(number))
    return "nan";
  if (std::isinf(number))
    return number < 0 ? "-inf" : "inf";
  char digits[40];
  auto end = std::to_chars(digits, digits + sizeof(digits), number,
                           std::chars_format::scientific)
                 .ptr;
  std::string text(digits, end);
  int exponent = atoi(text.c_str() + text.find('e') + 1);
  // Python's bounds of what is written without an exponent.
  if (exponent < -4 || exponent >= 16)
    return text;
  end = std::to_chars(digits, digits + sizeof(digits), number,
                      std::chars_format::fixed)
            .ptr;
  text.assign(digits, end);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

} // namespace knapper::serving
