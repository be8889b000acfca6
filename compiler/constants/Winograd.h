//===- Winograd.h - Filters of F(2x2, 3x3) --------------------------------===//
#pragma once

#include <cstdint>
#include <vector>

namespace knapper {

/// The transformed filter is as many C x F matrices.
constexpr int64_t kWinogradMatrices = 16;

/// U = G g G^T for each channel and feature of a filter g [3, 3, C, F]: row
/// major [4, 4, C, F]. Computed in float64, rounded once. `filter` may have any
/// alignment.
std::vector<float> winogradFilter(const float *filter, int64_t channels,
                                  int64_t features);

} // namespace knapper
