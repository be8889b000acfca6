// What a Hopper SM holds (CUDA C++ Programming Guide, compute capability 9.0).
#pragma once

#include <cstdint>

namespace knapper::config {

/// Bytes of shared memory of one SM.
inline constexpr int64_t kSharedBytesPerSm = 233472;
/// Of these the system takes so many for each CTA.
inline constexpr int64_t kReservedSharedBytesPerCta = 1024;
/// Most bytes that one CTA can use.
inline constexpr int64_t kSharedBytesPerCta =
    kSharedBytesPerSm - kReservedSharedBytesPerCta;

} // namespace knapper::config
