// The printable characters that byte-level tokenizers write bytes as (GPT-2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace knapper::serving {

/// Appends the characters of bytes: bytes that print in Latin-1 stand for
/// themselves, the others for U+0100 and on, in their order.
void appendByteCharacters(std::string &text, std::string_view bytes);
/// The byte that a character stands for; -1 where it stands for none.
int byteOfCharacter(char32_t code);

} // namespace knapper::serving
