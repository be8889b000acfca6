// Bits that nobody can guess, of the system.
#pragma once

#include <cstdint>
#include <random>
#include <unistd.h>

namespace knapper::serving {

/// To open a random_device takes longer than all else of a short request.
inline uint64_t drawnBits() {
  uint64_t bits = 0;
  if (getentropy(&bits, sizeof(bits)) == 0)
    return bits;
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}

} // namespace knapper::serving
