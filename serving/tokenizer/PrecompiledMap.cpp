#include "serving/tokenizer/PrecompiledMap.h"

#include "serving/tokenizer/Utf8.h"

#include <cstring>
#include <utf8proc.h>

namespace knapper::serving {

static bool decodeBase64(const std::string &text, std::string &bytes) {
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                : c >= 'a' && c <= 'z' ? c - 'a' + 26
                : c >= '0' && c <= '9' ? c - '0' + 52
                : c == '+'             ? 62
                : c == '/'             ? 63
                                       : -1;
    if (c == '=')
      break;
    if (value < 0)
      return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((count += 6) >= 8)
      bytes += static_cast<char>(bits >> (count -= 8) & 0xff);
  }
  return true;
}

Expected<PrecompiledMap> PrecompiledMap::read(const std::string &base64) {
  std::string bytes;
  uint32_t size = 0;
  if (decodeBase64(base64, bytes) && bytes.size() >= 4)
    memcpy(&size, bytes.data(), 4);
  if (size == 0 || size % 4 != 0 || size > bytes.size() - 4)
    return userError("the normalizer's precompiled_charsmap is damaged",
                     "tokenizer.json");
  PrecompiledMap map;
  map.units.resize(size / 4);
  memcpy(map.units.data(), bytes.data() + 4, size);
  map.replacements = bytes.substr(4 + size);
  map.replacements += '\0';
  return map;
}

// Units of darts-clone: bits 0 to 7 the label (and bit 31 for a value), bit 8
// whether the node has a value, bit 9 whether the offset is scaled by 256, bits
// 10 to 30 the offset.
const char *PrecompiledMap::longestPrefix(std::string_view text,
                                          size_t &length) const {
  auto offsetOf = [](uint32_t unit) {
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
  };
  // The first that ends is taken, not the longest: so does `tokenizers`.
  size_t node = offsetOf(units[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    auto label = static_cast<unsigned char>(text[i]);
    node ^= label;
    if (label == 0 || node >= units.size() ||
        (units[node] & (1u << 31 | 0xff)) != label)
      return nullptr;
    bool hasValue = units[node] >> 8 & 1;
    node ^= offsetOf(units[node]);
    if (hasValue) {
      if (node >= units.size())
        return nullptr;
      size_t at = units[node] & ~(1u << 31);
      if (at >= replacements.size())
        return nullptr;
      length = i + 1;
      return replacements.data() + at;
    }
  }
  return nullptr;
}

size_t PrecompiledMap::apply(std::string &whole, size_t longest) const {
  std::string made;
  std::string_view text = whole;
  utf8proc_int32_t state = 0;
  size_t at = 0;
  // By grapheme: one that is short is looked up whole, else its characters.
  while (at < text.size()) {
    size_t end = at;
    char32_t last = nextCodePoint(text, end);
    while (end < text.size()) {
      size_t next = end;
      char32_t code = nextCodePoint(text, next);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last),
                                           static_cast<utf8proc_int32_t>(code),
                                           &state))
        break;
      last = code;
      end = next;
    }
    state = 0;
    std::string_view grapheme = text.substr(at, end - at);
    size_t length = 0;
    const char *whole =
        grapheme.size() < 6 ? longestPrefix(grapheme, length) : nullptr;
    if (whole) {
      made += whole;
    } else {
      for (size_t i = 0; i < grapheme.size();) {
        size_t begin = i;
        nextCodePoint(grapheme, i);
        std::string_view character = grapheme.substr(begin, i - begin);
        if (const char *one = longestPrefix(character, length))
          made += one;
        else
          made += character;
        if (made.size() > longest)
          return made.size();
      }
    }
    if (made.size() > longest)
      return made.size();
    at = end;
  }
  whole = std::move(made);
  return whole.size();
}

} // namespace knapper::serving
