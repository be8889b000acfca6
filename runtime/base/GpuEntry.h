// Launch parameters of a GPU kernel, packed into the kernel's entry in the
// artefact: the driver does not tell them of PTX.
#pragma once

#include <cstdint>

namespace knapper {

/// The most dims of a TMA descriptor.
constexpr uint32_t kMaxMapRank = 5;

struct GpuEntry {
  uint32_t threads = 0;     // of a CTA: 1 to 1024
  uint32_t programs = 1;    // that a CTA runs, side by side
  uint32_t sharedBytes = 0; // dynamic shared memory of a CTA, below 2^24
  // Of a persistent kernel: CTAs that an SM holds at once, at most 255. The
  // launch has as many CTAs as all SMs hold, and they share out the grid's
  // programs. 0: not persistent, each CTA has its programs.
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
