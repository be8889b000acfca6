// Text of models and files, made safe to show.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace knapper {

/// A character that a terminal or a page would obey, not show.
struct Hidden {
  size_t bytes = 0; ///< 0: the text begins with another one
  uint32_t code = 0;
};

/// Controls (C0, DEL, C1) and what is invisible or turns the order of the text
/// around, at the start of UTF-8 text.
inline Hidden hiddenAt(std::string_view text) {
  auto byte = [&](size_t i) -> uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  uint32_t a = byte(0), b = byte(1), c = byte(2);
  if (a < 0x20 || a == 0x7f)
    return {1, a};
  if (a == 0xc2 && b >= 0x80 && b < 0xa0)
    return {2, b};
  if ((a & 0xf0) != 0xe0 || (b & 0xc0) != 0x80 || (c & 0xc0) != 0x80)
    return {};
  uint32_t code = (a & 0xf) << 12 | (b & 0x3f) << 6 | (c & 0x3f);
  bool hidden = (code >= 0x200b && code <= 0x200f) ||
                (code >= 0x2028 && code <= 0x202e) ||
                (code >= 0x2060 && code <= 0x206f) || code == 0xfeff;
  return hidden ? Hidden{3, code} : Hidden{};
}

/// Hidden characters as "\x1b" and "\u202e"; with `lines`, line ends and tabs
/// stay.
inline std::string printable(std::string_view text, bool lines = false) {
  std::string shown;
  for (size_t i = 0; i < text.size();) {
    Hidden hidden = hiddenAt(text.substr(i));
    if (!hidden.bytes || (lines && (text[i] == '\n' || text[i] == '\t'))) {
      shown += text[i++];
      continue;
    }
    char escaped[8];
    snprintf(escaped, sizeof escaped, hidden.bytes == 1 ? "\\x%02x" : "\\u%04x",
             hidden.code & 0xffff);
    shown += escaped;
    i += hidden.bytes;
  }
  return shown;
}

} // namespace knapper
