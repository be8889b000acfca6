// Sizes that come again and again, so that few are ever planned and recorded.
#pragma once

#include <bit>
#include <cstddef>

namespace knapper::serving {

/// 1, 2, 4, 8, then multiples of 8, of 64.
inline size_t roundedSize(size_t size) {
  constexpr size_t few = 8, many = 256, step = 64;
  if (size <= few)
    return std::bit_ceil(size);
  size_t by = size <= many ? few : step;
  return (size + by - 1) / by * by;
}

} // namespace knapper::serving
