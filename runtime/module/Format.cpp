#include "runtime/module/Format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace knapper {

uint64_t hashBytes(const void *data, size_t bytes) {
  return XXH3_64bits(data, bytes);
}

} // namespace knapper
