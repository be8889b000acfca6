// A set of byte strings with a number each, read byte by byte.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace knapper::serving {

/// Edges lie in one hash table: a step costs a probe, whatever the fan-out.
class ByteTrie {
public:
  static constexpr uint32_t root = 0, none = ~0u;

  ByteTrie() : values(1, -1), slots(64) {}

  /// A text that is there keeps its first number.
  void insert(std::string_view text, int32_t value);
  uint32_t step(uint32_t node, char byte) const {
    uint64_t key = keyOf(node, byte);
    for (size_t i = hash(key) & (slots.size() - 1);;
         i = (i + 1) & (slots.size() - 1)) {
      if (slots[i].key == key)
        return slots[i].node;
      if (slots[i].key == 0)
        return none;
    }
  }
  int32_t value(uint32_t node) const { return values[node]; } ///< -1: none
  int32_t find(std::string_view text) const;

private:
  struct Slot {
    uint64_t key = 0;
    uint32_t node = 0;
  };
  // Never 0, which marks an empty slot.
  static uint64_t keyOf(uint32_t node, char byte) {
    return (uint64_t(node) << 9) | 256 | static_cast<unsigned char>(byte);
  }
  static size_t hash(uint64_t key) {
    key *= 0x9e3779b97f4a7c15u;
    return key ^ key >> 32;
  }
  void place(std::vector<Slot> &table, Slot slot);

  std::vector<int32_t> values;
  std::vector<Slot> slots;
  size_t edges = 0;
};

} // namespace knapper::serving
