// Random numbers without a state: Philox 4x32 with ten rounds, as in Salmon et
// al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
#pragma once

#include <array>
#include <cstdint>

namespace knapper::serving {

inline std::array<uint32_t, 4> philox(uint64_t key,
                                      std::array<uint32_t, 4> counter) {
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * counter[0];
    uint64_t b = uint64_t(0xCD9E8D57) * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ k0,
               static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ k1,
               static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

/// In [0, 1), by 53 bits: a function of the request's seed and of the position
/// of the token that is drawn.
inline double philoxUniform(uint64_t seed, uint64_t position) {
  auto words = philox(seed, {static_cast<uint32_t>(position),
                             static_cast<uint32_t>(position >> 32), 0, 0});
  uint64_t bits = (uint64_t(words[0]) << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

} // namespace knapper::serving
