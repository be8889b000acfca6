// UTF-8 texts as code points, and what Unicode says of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace knapper::serving {

/// The code point at `at`, which moves behind it. The text must be valid.
char32_t nextCodePoint(std::string_view text, size_t &at);

/// The text without white space at these ends, as Python's `str.strip`.
std::string_view stripSpace(std::string_view text, bool left, bool right);
void appendUtf8(std::string &text, char32_t code);
/// Bytes of a character by its first one: 1 to 4; 1 where it cannot be first.
inline size_t utf8Length(char first) {
  auto byte = static_cast<unsigned char>(first);
  return byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}
/// Of UTF-8, as OpenAI counts them.
size_t characters(std::string_view text);
/// How many bytes from the start are whole, valid characters.
size_t validUtf8(std::string_view text);
/// Bytes at the end (0 to 3) that begin a character which is not whole yet.
size_t unfinishedUtf8(std::string_view text);
/// The text with U+FFFD for each ill-formed part, a part being the longest
/// prefix of a character (Unicode, "maximal subpart").
std::string replaceInvalidUtf8(std::string_view text);

bool isSpace(char32_t code);         ///< White_Space
bool isWordCharacter(char32_t code); ///< as \w of regular expressions
bool isLetterOrNumber(char32_t code);
bool isDigitOrNumber(char32_t code);  ///< N*
bool isPunctuation(char32_t code);    ///< P*
bool isMark(char32_t code);           ///< M*
bool isNonspacingMark(char32_t code); ///< Mn
bool isControl(char32_t code);        ///< Cc, Cf, Co
bool isPrintable(char32_t code);      ///< as Python's `str.isprintable`
/// Full lower case; most characters have one of one code point.
void appendLower(std::string &text, char32_t code);

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };
std::string normalForm(std::string_view text, NormalForm form);

} // namespace knapper::serving
