//===- DeviceLimits.h - What one program can have of a device -------------===//
//
// A program is a CTA of a GPU; on a CPU it is one thread, whose memory has no
// limit that a configuration could miss. Configurations that hold some of it
// have `fits(limits)`. configOf (codegen/schedule/core/ConfigOf.h) asks it of
// every configuration before its kernel is built.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace knapper::config {

struct Limits {
  int64_t threads = 1;              ///< of a program
  int64_t registerBytes = 0;        ///< of a thread
  int64_t clusterCtas = 1;          ///< that read each other's shared memory
  int64_t sharedBytesPerSm = 0;     ///< of all its CTAs
  int64_t reservedSharedPerCta = 0; ///< bytes of it that the system takes
  int64_t registersPerSm = 0;       ///< words of 32 bits, of all its threads
  int64_t threadsPerSm = 0;         ///< of all its CTAs

  /// Most bytes of shared memory that one CTA can use.
  constexpr int64_t sharedBytesPerCta() const {
    return sharedBytesPerSm - reservedSharedPerCta;
  }
  /// Whether an SM holds so many CTAs of so many bytes each.
  constexpr bool holds(int64_t ctas, int64_t sharedBytes) const {
    return ctas * (sharedBytes + reservedSharedPerCta) <= sharedBytesPerSm;
  }
};

/// NVIDIA GPUs from sm_80 on (CUDA C++ Programming Guide, technical
/// specifications by compute capability). Eight CTAs of a cluster are what
/// every card with clusters has.
constexpr Limits nvidiaLimits(int64_t sharedBytesPerSm, bool clusters) {
  // Of sm_80 and sm_90; of sm_86 and sm_89.
  constexpr int64_t largeShared = 164 << 10, manyThreads = 2048,
                    fewThreads = 1536;
  return {.threads = 1024,
          .registerBytes = 255 * 4,
          .clusterCtas = clusters ? 8 : 1,
          .sharedBytesPerSm = sharedBytesPerSm,
          .reservedSharedPerCta = 1024,
          .registersPerSm = 65536,
          .threadsPerSm =
              sharedBytesPerSm >= largeShared ? manyThreads : fewThreads};
}

/// Bytes of shared memory that a CTA of any NVIDIA GPU has without asking: of
/// arrays in the code.
inline constexpr int64_t kStaticSharedBytes = 48 << 10;

/// sm_90a.
inline constexpr Limits kHopper = nvidiaLimits(228 << 10, true);

} // namespace knapper::config
