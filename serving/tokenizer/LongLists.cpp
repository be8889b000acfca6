#include "serving/tokenizer/LongLists.h"

#include "serving/tokenizer/Utf8.h"

namespace knapper::serving {
namespace {

/// Reads JSON from the left; false, and stays so, where it is not as expected.
/// What it skips is checked by the JSON library, which reads it again.
class Scanner {
public:
  explicit Scanner(std::string_view text) : text(text) {}

  size_t place() const { return at; }
  bool isAt(char wanted) {
    skipSpace();
    return at < text.size() && text[at] == wanted;
  }
  bool takes(char wanted) {
    bool there = isAt(wanted);
    at += there;
    return there;
  }
  bool appendText(std::string &to);
  bool number(int32_t &value);
  bool skip();

private:
  void skipSpace() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' ||
                                text[at] == '\r' || text[at] == '\t'))
      ++at;
  }
  bool skipText();
  bool appendEscape(std::string &to);
  bool hexadecimal(char32_t &code);

  std::string_view text;
  size_t at = 0;
};

bool Scanner::appendText(std::string &to) {
  if (!takes('"'))
    return false;
  size_t begin = to.size();
  bool ascii = true;
  while (at < text.size() && text[at] != '"') {
    size_t from = at;
    for (; at < text.size() && text[at] != '"' && text[at] != '\\'; ++at) {
      auto byte = static_cast<unsigned char>(text[at]);
      if (byte < 0x20)
        return false;
      ascii &= byte < 0x80;
    }
    to.append(text.substr(from, at - from));
    if (at < text.size() && text[at] == '\\' && !appendEscape(to))
      return false;
  }
  if (at == text.size())
    return false;
  ++at;
  std::string_view whole = std::string_view(to).substr(begin);
  return ascii || validUtf8(whole) == whole.size();
}

bool Scanner::appendEscape(std::string &to) {
  constexpr std::string_view names = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
  if (at + 1 >= text.size())
    return false;
  char kind = text[at + 1];
  at += 2;
  if (size_t place = names.find(kind); place != std::string_view::npos) {
    to += meant[place];
    return true;
  }
  char32_t code = 0;
  if (kind != 'u' || !hexadecimal(code))
    return false;
  if (code >= 0xd800 && code < 0xe000) { // the first half of a pair
    char32_t low = 0;
    if (code >= 0xdc00 || text.substr(at, 2) != "\\u")
      return false;
    at += 2;
    if (!hexadecimal(low) || low < 0xdc00 || low >= 0xe000)
      return false;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  appendUtf8(to, code);
  return true;
}

bool Scanner::hexadecimal(char32_t &code) {
  constexpr size_t digits = 4;
  if (text.size() - at < digits)
    return false;
  code = 0;
  for (size_t i = 0; i < digits; ++i) {
    char digit = text[at++];
    char32_t value = 0;
    if (digit >= '0' && digit <= '9')
      value = static_cast<char32_t>(digit - '0');
    else if ((digit | 0x20) >= 'a' && (digit | 0x20) <= 'f')
      value = static_cast<char32_t>((digit | 0x20) - 'a' + 10);
    else
      return false;
    code = code * 16 + value;
  }
  return true;
}

/// Of a token: an integer of 0 or more, as JSON writes it.
bool Scanner::number(int32_t &value) {
  skipSpace();
  size_t from = at;
  value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9' &&
         value < Vocabulary::mostTokens)
    value = value * 10 + (text[at++] - '0');
  bool isLonger = at < text.size() && (std::string_view(".eE").find(text[at]) !=
                                           std::string_view::npos ||
                                       (text[at] >= '0' && text[at] <= '9'));
  return at > from && !isLonger && (text[from] != '0' || at == from + 1) &&
         value < Vocabulary::mostTokens;
}

bool Scanner::skipText() {
  if (!takes('"'))
    return false;
  for (; at < text.size(); ++at)
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      return ++at, true;
  return false;
}

/// Any value.
bool Scanner::skip() {
  size_t depth = 0;
  do {
    skipSpace();
    if (at >= text.size())
      return false;
    char first = text[at];
    if (first == '"') {
      if (!skipText())
        return false;
      continue;
    }
    if (first == '}' || first == ']') {
      if (depth == 0)
        return false;
      --depth;
    }
    depth += first == '{' || first == '[';
    ++at;
    // A number or a name to its end.
    if (depth == 0 && first != '}' && first != ']')
      while (at < text.size() &&
             std::string_view(",]} \n\r\t").find(text[at]) ==
                 std::string_view::npos)
        ++at;
  } while (depth > 0);
  return true;
}

/// `entry(name)` reads the value of each field of an object.
template <typename Entry> bool readObject(Scanner &scanner, Entry &&entry) {
  if (!scanner.takes('{'))
    return false;
  if (scanner.takes('}'))
    return true;
  std::string name;
  do {
    name.clear();
    if (!scanner.appendText(name) || !scanner.takes(':') || !entry(name))
      return false;
  } while (scanner.takes(','));
  return scanner.takes('}');
}

bool readVocabulary(Scanner &scanner, Vocabulary &vocabulary) {
  return readObject(scanner, [&](const std::string &name) {
    int32_t id = 0;
    return scanner.number(id) && !vocabulary.has(id) &&
           vocabulary.find(name) < 0 && vocabulary.add(name, id);
  });
}

/// Merges are "left right", or ["left", "right"].
bool readMerges(Scanner &scanner, LongLists &lists) {
  auto &merges = lists.merges.emplace();
  std::string &texts = lists.mergeTexts;
  if (!scanner.takes('['))
    return false;
  if (scanner.takes(']'))
    return true;
  do {
    size_t begin = texts.size(), middle = 0;
    if (scanner.takes('[')) {
      if (!scanner.appendText(texts))
        return false;
      middle = texts.size();
      if (!scanner.takes(',') || !scanner.appendText(texts) ||
          !scanner.takes(']'))
        return false;
    } else {
      if (!scanner.appendText(texts))
        return false;
      middle = texts.find(' ', begin);
      if (middle == std::string::npos)
        return false;
      texts.erase(middle, 1);
    }
    merges.emplace_back(middle, texts.size());
  } while (scanner.takes(','));
  return scanner.takes(']');
}

} // namespace

std::optional<LongLists> takeLongLists(std::string_view text) {
  LongLists lists;
  Scanner scanner(text);
  size_t kept = 0; // up to here `rest` has the text
  auto cut = [&](auto &&read) {
    // White space before it is left to the JSON library.
    size_t from = scanner.place();
    if (!read())
      return false;
    lists.rest.append(text.substr(kept, from - kept));
    lists.rest += "null";
    kept = scanner.place();
    return true;
  };
  auto ofModel = [&](const std::string &name) {
    if (name == "vocab" && scanner.isAt('{') && !lists.vocabulary)
      return cut(
          [&] { return readVocabulary(scanner, lists.vocabulary.emplace()); });
    if (name == "merges" && scanner.isAt('[') && !lists.merges)
      return cut([&] { return readMerges(scanner, lists); });
    // A second one of the name would take the first one's place.
    return name != "vocab" && name != "merges" && scanner.skip();
  };
  bool hasModel = false;
  bool read = readObject(scanner, [&](const std::string &name) {
    if (name != "model")
      return scanner.skip();
    if (hasModel || !scanner.isAt('{'))
      return false;
    hasModel = true;
    return readObject(scanner, ofModel);
  });
  if (!read || (!lists.vocabulary && !lists.merges))
    return std::nullopt;
  lists.rest.append(text.substr(kept));
  return lists;
}

} // namespace knapper::serving
