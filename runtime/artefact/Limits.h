// What no artefact and no call exceeds.
#pragma once

#include <cstdint>

namespace knapper {

/// Dims of a tensor.
inline constexpr int32_t kMaxRank = 32;

} // namespace knapper
