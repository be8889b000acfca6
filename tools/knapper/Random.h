//===- Random.h - Numbers of random inputs --------------------------------===//
#pragma once

#include <cstdint>

namespace knapper::cli {

/// splitmix64: any element of any input by its number.
inline uint64_t randomBits(uint64_t seed, uint64_t number) {
  uint64_t z = seed + (number + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

} // namespace knapper::cli
