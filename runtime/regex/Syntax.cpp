#include "runtime/regex/Syntax.h"

#include <algorithm>

namespace knapper {
namespace {

class Translation {
public:
  explicit Translation(std::string_view pattern) : rest(pattern) {}

  std::string run(std::string &problem) {
    while (!rest.empty() && why.empty())
      item();
    problem = why;
    return out;
  }

private:
  void take(size_t count) {
    out.append(rest.substr(0, count));
    rest.remove_prefix(std::min(count, rest.size()));
  }
  void item() {
    if (rest[0] == '\\')
      escape(/*inClass=*/false);
    else if (rest[0] == '[')
      characters();
    else if (rest[0] == '(')
      group();
    else if (size_t size = repetition(rest))
      repeat(size);
    else
      take(1);
  }

  /// Letters that both have, with one meaning; punctuation stands for itself.
  void escape(bool inClass) {
    if (rest.size() < 2)
      return take(1); // PCRE2 says what is wrong
    char c = rest[1];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  (c >= '1' && c <= '9');
    std::string_view both = inClass ? "aftnrxdDsSwWpP" : "aftnrxAbBzdDsSwWpP";
    if (c == 'v') { // of PCRE2 a class
      out += "\\x0b";
      rest.remove_prefix(2);
    } else if (c == 'Q') {
      size_t end = rest.find("\\E");
      take(end == rest.npos ? rest.size() : end + 2);
    } else if (letter && both.find(c) == both.npos) {
      why = std::string("no escape \\") + c;
    } else {
      take(2);
    }
  }

  /// [...], in which a bracket that comes first and [:name:] end nothing.
  void characters() {
    take(rest.substr(1, 1) == "^" ? 2 : 1);
    if (!rest.empty() && rest[0] == ']')
      take(1);
    while (!rest.empty() && rest[0] != ']' && why.empty()) {
      size_t name = rest.starts_with("[:") ? rest.find(":]") : rest.npos;
      if (name != rest.npos)
        take(name + 2);
      else if (rest[0] == '\\')
        escape(/*inClass=*/true);
      else
        take(1);
    }
    take(1);
  }

  /// (, (?:, (?P<name>, and flags.
  void group() {
    if (rest.starts_with("(*")) {
      why = "a repetition of nothing: (*";
      return;
    }
    if (!rest.starts_with("(?"))
      return take(1);
    if (rest.starts_with("(?P<"))
      return take(4);
    size_t end = rest.find_first_not_of("imsU-", 2);
    if (end == rest.npos || (rest[end] != ':' && rest[end] != ')')) {
      why = "no group " + std::string(rest.substr(0, 4));
      return;
    }
    take(end + 1);
  }

  /// Characters of *, +, ? or {n,m} at the front; 0 for anything else.
  static size_t repetition(std::string_view text) {
    if (text.empty())
      return 0;
    if (text[0] == '*' || text[0] == '+' || text[0] == '?')
      return 1;
    size_t end = text.find('}');
    if (text[0] != '{' || end == text.npos || end < 2 || text[1] == ',' ||
        text.substr(1, end - 1).find_first_not_of("0123456789,") != text.npos)
      return 0;
    return end + 1;
  }
  void repeat(size_t size) {
    take(size);
    if (!rest.empty() && rest[0] == '?')
      take(1);
    if (repetition(rest))
      why = "a repetition of a repetition";
  }

  std::string_view rest;
  std::string out, why;
};

} // namespace

std::string translatePattern(std::string_view pattern, std::string &problem) {
  return Translation(pattern).run(problem);
}

} // namespace knapper
