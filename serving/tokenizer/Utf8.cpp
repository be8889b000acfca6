#include "serving/tokenizer/Utf8.h"

#include <algorithm>
#include <cstdlib>
#include <utf8proc.h>

namespace knapper::serving {

char32_t nextCodePoint(std::string_view text, size_t &at) {
  auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  unsigned first = byte(at);
  size_t length = utf8Length(text[at]);
  char32_t code = length == 1   ? first
                  : length == 2 ? first & 0x1f
                  : length == 3 ? first & 0x0f
                                : first & 0x07;
  for (size_t i = 1; i < length; ++i)
    code = code << 6 | (byte(at + i) & 0x3f);
  at += length;
  return code;
}

void appendUtf8(std::string &text, char32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | code >> 12);
    text += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | code >> 18);
    text += static_cast<char>(0x80 | (code >> 12 & 0x3f));
    text += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  }
}

namespace {

struct Scan {
  size_t good = 0; ///< bytes that are of the character
  bool whole = false;
};

/// The character at the start: how many of its bytes are there and fit.
Scan scanCharacter(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned first = byte(0);
  if (first < 0x80)
    return {1, true};
  if (first < 0xc2 || first > 0xf4)
    return {0, false};
  size_t length = utf8Length(text[0]);
  // The second byte's range excludes overlong forms, surrogates and what is
  // beyond U+10FFFF (table 3-7 of the Unicode standard).
  unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  for (size_t i = 1; i < length; ++i) {
    if (i >= text.size() || byte(i) < low || byte(i) > high)
      return {i, false};
    low = 0x80, high = 0xbf;
  }
  return {length, true};
}

} // namespace

size_t characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(),
                    [](char byte) { return (byte & 0xc0) != 0x80; }));
}

size_t validUtf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    Scan scan = scanCharacter(text.substr(at));
    if (!scan.whole)
      break;
    at += scan.good;
  }
  return at;
}

size_t unfinishedUtf8(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    std::string_view end = text.substr(text.size() - back);
    if ((static_cast<unsigned char>(end[0]) & 0xc0) == 0x80)
      continue;
    Scan scan = scanCharacter(end);
    return !scan.whole && scan.good == back ? back : 0;
  }
  return 0;
}

std::string replaceInvalidUtf8(std::string_view text) {
  size_t good = validUtf8(text);
  std::string made(text.substr(0, good));
  while (good < text.size()) {
    Scan scan = scanCharacter(text.substr(good));
    if (scan.whole)
      made += text.substr(good, scan.good);
    else
      made += "\xef\xbf\xbd";
    good += scan.good ? scan.good : 1;
  }
  return made;
}

static utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool isSpace(char32_t code) {
  if (code < 0x80)
    return code == ' ' || (code >= 9 && code <= 13);
  return code == 0x85 || code == 0xa0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
         code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool isLetterOrNumber(char32_t code) {
  utf8proc_category_t c = category(code);
  return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) ||
         isDigitOrNumber(code);
}

bool isDigitOrNumber(char32_t code) {
  utf8proc_category_t c = category(code);
  return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
}

bool isWordCharacter(char32_t code) {
  utf8proc_category_t c = category(code);
  return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) ||
         (c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME) ||
         c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL ||
         c == UTF8PROC_CATEGORY_PC || code == 0x200c || code == 0x200d;
}

/// Those whose kind has changed count as in the tables of `tokenizers`, which
/// vocabularies were trained by.
bool isPunctuation(char32_t code) {
  utf8proc_category_t c = category(code);
  return code == 0x166d ||
         (c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO);
}

bool isMark(char32_t code) {
  utf8proc_category_t c = category(code);
  return c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
}
bool isNonspacingMark(char32_t code) {
  if (code == 0x1734 || code == 0x1885 || code == 0x1886) // changed since
    return code == 0x1734;
  return category(code) == UTF8PROC_CATEGORY_MN;
}

std::string_view stripSpace(std::string_view text, bool left, bool right) {
  size_t first = text.size(), last = text.size();
  for (size_t at = 0; at < text.size();) {
    size_t from = at;
    char32_t c = nextCodePoint(text, at);
    if (isSpace(c) || (c >= 0x1c && c <= 0x1f))
      continue;
    first = std::min(first, from);
    last = at;
  }
  size_t begin = left ? first : 0, end = right ? last : text.size();
  // Of space alone nothing is left.
  return first == text.size() && (left || right)
             ? std::string_view()
             : text.substr(begin, end - begin);
}

bool isControl(char32_t code) {
  utf8proc_category_t c = category(code);
  return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF ||
         c == UTF8PROC_CATEGORY_CO;
}

bool isPrintable(char32_t code) {
  utf8proc_category_t c = category(code);
  bool space = c >= UTF8PROC_CATEGORY_ZS && c <= UTF8PROC_CATEGORY_ZP;
  return code == ' ' ||
         !(space || isControl(code) || c == UTF8PROC_CATEGORY_CN ||
           c == UTF8PROC_CATEGORY_CS);
}

void appendLower(std::string &text, char32_t code) {
  if (code == 0x130) { // the one whose lower case is two code points
    text += "i\xcc\x87";
    return;
  }
  appendUtf8(text, static_cast<char32_t>(
                       utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}

std::string normalForm(std::string_view text, NormalForm form) {
  bool ascii = true;
  for (char c : text)
    ascii &= static_cast<unsigned char>(c) < 0x80;
  if (ascii)
    return std::string(text);
  int options = UTF8PROC_STABLE;
  if (form == NormalForm::nfc || form == NormalForm::nfkc)
    options |= UTF8PROC_COMPOSE;
  else
    options |= UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd)
    options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t *made = nullptr;
  utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &made,
                   static_cast<utf8proc_option_t>(options));
  // It fails without memory only: the text is valid.
  std::string result = length < 0 ? std::string(text)
                                  : std::string(reinterpret_cast<char *>(made),
                                                static_cast<size_t>(length));
  free(made);
  return result;
}

} // namespace knapper::serving
