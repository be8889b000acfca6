// SentencePiece's normalisation table: a double-array trie of texts to replace.
#pragma once

#include "runtime/base/Error.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace knapper::serving {

/// Of the "Precompiled" normaliser. The table is base64 of: the size of the
/// trie in bytes (32 bits, little-endian), its units (darts-clone), then the
/// replacements, each ended by a zero byte.
class PrecompiledMap {
public:
  static Expected<PrecompiledMap> read(const std::string &base64);
  /// The bytes of the text; more than `longest` where it was left as it was.
  size_t apply(std::string &text, size_t longest) const;

private:
  /// The replacement of the longest prefix of `text` that has one, and its
  /// length; -1 where none has.
  const char *longestPrefix(std::string_view text, size_t &length) const;
  std::vector<uint32_t> units;
  std::string replacements; ///< ends with a zero byte
};

} // namespace knapper::serving
