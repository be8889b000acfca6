// What a GPU kernel requires of its launch: a kernel's entry in the artefact is
// such a number, since code does not say it to those who ask.
#pragma once

#include <cstdint>

namespace knapper {

/// Dims of a TMA descriptor, the most.
constexpr uint32_t kMaxMapRank = 5;

struct GpuEntry {
  uint32_t threads = 0;     // of a block: 1 to 1024
  uint32_t programs = 1;    // that a block runs, side by side
  uint32_t sharedBytes = 0; // dynamic shared memory of a block, below 2^24
  // Blocks that a processor holds at once, at most 255, where a grid's blocks
  // share its programs out among themselves: no more are launched than all
  // processors hold. 0: each block has its programs.
  uint32_t ctasPerSm = 0;

  uint64_t number() const {
    return threads | uint64_t(programs) << 16 | uint64_t(sharedBytes) << 32 |
           uint64_t(ctasPerSm) << 56;
  }
  /// 0 programs are 1.
  static GpuEntry of(uint64_t number) {
    uint32_t programs = number >> 16 & 0xffff;
    return {static_cast<uint32_t>(number & 0xffff), programs ? programs : 1,
            static_cast<uint32_t>(number >> 32 & 0xffffff),
            static_cast<uint32_t>(number >> 56)};
  }
};

} // namespace knapper
