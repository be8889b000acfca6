#include "serving/tokenizer/Vocabulary.h"

#define XXH_INLINE_ALL
#include <algorithm>
#include <xxhash.h>

namespace knapper::serving {

uint64_t hashText(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  texts.reserve(bytes);
  entries.reserve(tokens);
  size_t slotCount = 64;
  while (slotCount < 2 * tokens)
    slotCount *= 2;
  rehash(slotCount);
}

void Vocabulary::rehash(size_t slotCount) {
  slots.assign(slotCount, -1);
  for (int32_t id = 0; id < size(); ++id) {
    if (!has(id))
      continue;
    size_t i = hashText(text(id)) & (slotCount - 1);
    while (slots[i] >= 0)
      i = (i + 1) & (slotCount - 1);
    slots[i] = id;
  }
}

bool Vocabulary::add(std::string_view text, int32_t id) {
  if (id < 0 || id >= mostTokens)
    return false;
  if (2 * ++count > slots.size())
    rehash(slots.empty() ? 64 : 2 * slots.size());
  if (id >= size())
    entries.resize(id + 1);
  entries[id] = {static_cast<uint32_t>(texts.size()),
                 static_cast<uint32_t>(text.size())};
  texts += text;
  longestText = std::max(longestText, text.size());
  size_t i = hashText(text) & (slots.size() - 1);
  while (slots[i] >= 0)
    i = (i + 1) & (slots.size() - 1);
  slots[i] = id;
  return true;
}

int32_t Vocabulary::find(std::string_view wanted) const {
  if (slots.empty())
    return -1;
  for (size_t i = hashText(wanted) & (slots.size() - 1); slots[i] >= 0;
       i = (i + 1) & (slots.size() - 1))
    if (text(slots[i]) == wanted)
      return slots[i];
  return -1;
}

std::string_view Vocabulary::text(int32_t id) const {
  if (!has(id))
    return {};
  return std::string_view(texts).substr(entries[id].offset, entries[id].length);
}

} // namespace knapper::serving
