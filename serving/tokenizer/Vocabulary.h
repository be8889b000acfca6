// The tokens of a model: text to number and back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace knapper::serving {

/// Numbers need not be dense; those without a text are empty.
class Vocabulary {
public:
  static constexpr int32_t mostTokens = 1 << 22;

  /// False where the number is negative or too large.
  bool add(std::string_view text, int32_t id);
  void reserve(size_t tokens, size_t bytes);
  int32_t find(std::string_view text) const; ///< -1: none
  /// Empty outside of the vocabulary.
  std::string_view text(int32_t id) const;
  bool has(int32_t id) const {
    return id >= 0 && id < size() && entries[id].length != missing;
  }
  /// Bytes of the longest token.
  size_t longest() const { return longestText; }
  int32_t size() const { return static_cast<int32_t>(entries.size()); }

private:
  static constexpr uint32_t missing = ~0u;
  struct Entry {
    uint32_t offset = 0, length = missing;
  };
  void rehash(size_t slotCount);
  std::string texts;
  std::vector<Entry> entries;
  std::vector<int32_t> slots;
  size_t count = 0, longestText = 0;
};

uint64_t hashText(std::string_view text);

} // namespace knapper::serving
