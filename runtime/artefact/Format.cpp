#include "runtime/artefact/Format.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace knapper {

uint64_t hashBytes(const void *data, size_t bytes) {
  return XXH3_64bits(data, bytes);
}

ConstantHash hashConstant(const void *data, uint64_t bytes) {
  if (bytes <= kHashPieceBytes)
    return {hashBytes(data, bytes), {}};
  ConstantHash made;
  auto *from = static_cast<const char *>(data);
  for (uint64_t at = 0; at < bytes; at += kHashPieceBytes)
    made.pieces.push_back(
        hashBytes(from + at, std::min(kHashPieceBytes, bytes - at)));
  made.hash =
      hashBytes(made.pieces.data(), made.pieces.size() * sizeof made.pieces[0]);
  return made;
}

} // namespace knapper
