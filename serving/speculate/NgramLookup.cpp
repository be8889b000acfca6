#include "serving/speculate/NgramLookup.h"

#include <algorithm>

namespace knapper::serving {

uint64_t NgramLookup::hashOf(std::span<const int32_t> tokens) {
  uint64_t hash = 0xcbf29ce484222325;
  for (int32_t token : tokens) {
    hash ^= static_cast<uint32_t>(token);
    hash *= 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
  }
  return hash;
}

void NgramLookup::extend(std::span<const int32_t> tokens) {
  // The last tokens wait until another one follows.
  for (; taken + 1 < tokens.size(); ++taken) {
    size_t end = taken + 1;
    for (size_t i = 0; i < kLengths.size(); ++i)
      if (end >= kLengths[i])
        places[i][hashOf(tokens.subspan(end - kLengths[i], kLengths[i]))] =
            static_cast<int32_t>(end);
  }
}

std::vector<int32_t> NgramLookup::propose(std::span<const int32_t> tokens,
                                          int32_t most) const {
  std::vector<int32_t> found;
  for (size_t i = 0; i < kLengths.size() && found.empty(); ++i) {
    size_t length = kLengths[i];
    if (tokens.size() <= length)
      continue;
    auto last = tokens.last(length);
    auto it = places[i].find(hashOf(last));
    if (it == places[i].end())
      continue;
    auto place = static_cast<size_t>(it->second);
    // Two may have one hash.
    if (place >= tokens.size() ||
        !std::equal(last.begin(), last.end(),
                    tokens.begin() + static_cast<long>(place - length)))
      continue;
    for (int32_t j = 0; j < most; ++j, ++place)
      found.push_back(place < tokens.size() ? tokens[place]
                                            : found[place - tokens.size()]);
  }
  return found;
}

} // namespace knapper::serving
