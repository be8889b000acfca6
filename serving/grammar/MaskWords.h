// Words of a mask, a bit a token: most are 0 in most masks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace knapper::serving {

/// The first word from `from` on that is not 0; the size where all are.
inline size_t nextWord(std::span<const uint32_t> words, size_t from) {
  constexpr size_t block = 16; // looked at without a branch
  for (; from + block <= words.size(); from += block) {
    uint32_t any = 0;
    for (size_t i = 0; i < block; ++i)
      any |= words[from + i];
    if (any != 0)
      break;
  }
  while (from < words.size() && words[from] == 0)
    ++from;
  return from;
}

} // namespace knapper::serving
