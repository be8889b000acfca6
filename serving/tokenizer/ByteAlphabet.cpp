#include "serving/tokenizer/ByteAlphabet.h"

#include "serving/tokenizer/Utf8.h"

#include <array>

namespace knapper::serving {
namespace {

constexpr bool printsInLatin1(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
         byte >= 0xae;
}

struct Tables {
  std::array<char32_t, 256> characters{};
  std::array<int16_t, 0x144> bytes{};
};

constexpr Tables makeTables() {
  Tables tables;
  for (int16_t &byte : tables.bytes)
    byte = -1;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    tables.characters[byte] =
        printsInLatin1(byte) ? static_cast<char32_t>(byte) : next++;
    tables.bytes[tables.characters[byte]] = static_cast<int16_t>(byte);
  }
  return tables;
}

constexpr Tables tables = makeTables();

} // namespace

void appendByteCharacters(std::string &text, std::string_view bytes) {
  for (char byte : bytes)
    appendUtf8(text, tables.characters[static_cast<unsigned char>(byte)]);
}

int byteOfCharacter(char32_t code) {
  return code < tables.bytes.size() ? tables.bytes[code] : -1;
}

} // namespace knapper::serving
