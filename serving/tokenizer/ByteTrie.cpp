#include "serving/tokenizer/ByteTrie.h"

namespace knapper::serving {

void ByteTrie::place(std::vector<Slot> &table, Slot slot) {
  size_t i = hash(slot.key) & (table.size() - 1);
  while (table[i].key != 0)
    i = (i + 1) & (table.size() - 1);
  table[i] = slot;
}

void ByteTrie::insert(std::string_view text, int32_t value) {
  uint32_t node = root;
  for (char byte : text) {
    uint32_t next = step(node, byte);
    if (next == none) {
      if (2 * ++edges > slots.size()) {
        std::vector<Slot> larger(2 * slots.size());
        for (const Slot &slot : slots)
          if (slot.key != 0)
            place(larger, slot);
        slots = std::move(larger);
      }
      next = static_cast<uint32_t>(values.size());
      values.push_back(-1);
      place(slots, {keyOf(node, byte), next});
    }
    node = next;
  }
  if (values[node] < 0)
    values[node] = value;
}

int32_t ByteTrie::find(std::string_view text) const {
  uint32_t node = root;
  for (char byte : text)
    if ((node = step(node, byte)) == none)
      return -1;
  return values[node];
}

} // namespace knapper::serving
