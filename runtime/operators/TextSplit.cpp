#include "runtime/operators/TextSplit.h"
#include "runtime/operators/TextWriter.h"

#include <algorithm>
#include <locale.h>
#include <unordered_set>
#include <wctype.h>

namespace knapper {
namespace {

constexpr char kSpaces[] = " \t\n\v\f\r";

/// As Python's str.split: runs of white space, or every occurrence of the
/// delimiter; at most `most` cuts, -1 for all.
std::vector<std::string_view> parts(std::string_view text,
                                    std::string_view delimiter, int64_t most) {
  std::vector<std::string_view> found;
  if (!delimiter.empty()) {
    for (; most != 0; --most) {
      size_t at = text.find(delimiter);
      if (at == text.npos)
        break;
      found.push_back(text.substr(0, at));
      text.remove_prefix(at + delimiter.size());
    }
    found.push_back(text);
    return found;
  }
  for (;; --most) {
    size_t begin = text.find_first_not_of(kSpaces);
    if (begin == text.npos)
      return found;
    text.remove_prefix(begin);
    size_t end = most == 0 ? text.npos : text.find_first_of(kSpaces);
    found.push_back(text.substr(0, end));
    if (end == text.npos)
      return found;
    text.remove_prefix(end);
  }
}

/// The parts of every string of a StringSplit.
std::vector<std::vector<std::string_view>> allParts(const knapper_call *call) {
  std::span<const knapper_string> delimiter = textAttributes(call, "delimiter");
  std::vector<std::vector<std::string_view>> all;
  for (const knapper_string &text : textsOf(call->inputs[0]))
    all.push_back(parts(
        view(text), delimiter.empty() ? std::string_view() : view(delimiter[0]),
        integerAttribute(call, "maxsplit", -1)));
  return all;
}

/// One character of UTF-8 from the front of the text; bytes that are none come
/// out alone, as numbers that are no characters.
struct Character {
  std::string_view bytes;
  wint_t code; // WEOF: no character
};
Character nextCharacter(std::string_view &text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t size = byte(0) < 0x80             ? 1
                : (byte(0) & 0xe0) == 0xc0 ? 2
                : (byte(0) & 0xf0) == 0xe0 ? 3
                : (byte(0) & 0xf8) == 0xf0 ? 4
                                           : 0;
  bool good = size > 0 && size <= text.size();
  for (size_t i = 1; good && i < size; ++i)
    good = (byte(i) & 0xc0) == 0x80;
  Character c{text.substr(0, good ? size : 1), WEOF};
  if (good) {
    c.code = size == 1 ? byte(0) : byte(0) & (0x7f >> size);
    for (size_t i = 1; i < size; ++i)
      c.code = c.code << 6 | (byte(i) & 0x3f);
  }
  text.remove_prefix(c.bytes.size());
  return c;
}

void append(std::string &to, wint_t code) {
  auto put = [&](unsigned bits) { to += static_cast<char>(bits); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

/// The C library's case of every character, one for one. Without its locale of
/// UTF-8 only ASCII has two.
std::string withCase(std::string_view text, bool upper) {
  static locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  static locale_t ascii = newlocale(LC_CTYPE_MASK, "C", nullptr);
  locale_t locale = utf8 ? utf8 : ascii;
  std::string made;
  while (!text.empty()) {
    Character c = nextCharacter(text);
    if (c.code == WEOF)
      made.append(c.bytes);
    else
      append(made,
             upper ? towupper_l(c.code, locale) : towlower_l(c.code, locale));
  }
  return made;
}

/// The words that a StringNormalizer leaves; an empty one where none is left.
std::vector<std::string> normalized(const knapper_call *call) {
  bool sensitive = integerAttribute(call, "is_case_sensitive", 0) != 0;
  std::span<const knapper_string> action =
      textAttributes(call, "case_change_action");
  std::string_view change = action.empty() ? "NONE" : view(action[0]);
  auto compared = [&](std::string_view word) {
    return sensitive ? std::string(word) : withCase(word, false);
  };
  std::unordered_set<std::string> stopped;
  for (const knapper_string &word : textAttributes(call, "stopwords"))
    stopped.insert(compared(view(word)));
  std::vector<std::string> kept;
  for (const knapper_string &word : textsOf(call->inputs[0]))
    if (stopped.empty() || !stopped.count(compared(view(word))))
      kept.push_back(change == "NONE"
                         ? std::string(view(word))
                         : withCase(view(word), change == "UPPER"));
  if (kept.empty())
    kept.emplace_back();
  return kept;
}

} // namespace

int splitShape(void *, const knapper_call *call,
               knapper_result_shape *results) {
  const knapper_tensor &x = call->inputs[0];
  size_t most = 0;
  for (const auto &list : allParts(call))
    most = std::max(most, list.size());
  results[0] = {KNAPPER_STRING, x.rank + 1, {}};
  results[1] = {KNAPPER_I64, x.rank, {}};
  if (x.rank + 1 > KNAPPER_MAX_RANK)
    return failCall(call, "the parts would have too many dims");
  for (int32_t d = 0; d < x.rank; ++d)
    results[0].shape[d] = results[1].shape[d] = x.shape[d];
  results[0].shape[x.rank] = static_cast<int64_t>(most);
  return 0;
}

int split(void *, const knapper_call *call) {
  auto width = call->outputs[0].shape[call->inputs[0].rank];
  auto *to = static_cast<knapper_string *>(call->outputs[0].data);
  auto *counts = static_cast<int64_t *>(call->outputs[1].data);
  // Parts lie in the input's bytes; what is left is empty already.
  for (const auto &list : allParts(call)) {
    for (size_t i = 0; i < list.size(); ++i)
      to[i] = {list[i].data(), list[i].size()};
    to += width;
    *counts++ = static_cast<int64_t>(list.size());
  }
  return 0;
}

int normalizedShape(void *, const knapper_call *call,
                    knapper_result_shape *results) {
  const knapper_tensor &x = call->inputs[0];
  if (x.rank < 1 || x.rank > 2 || (x.rank == 2 && x.shape[0] != 1))
    return failCall(call, "the input must be [n] or [1, n]");
  results[0] = {KNAPPER_STRING, x.rank, {1}};
  results[0].shape[x.rank - 1] = static_cast<int64_t>(normalized(call).size());
  return 0;
}

int normalize(void *, const knapper_call *call) {
  TextWriter writer;
  for (const std::string &word : normalized(call))
    writer.add(word);
  return writer.finish(call, 0);
}

} // namespace knapper
