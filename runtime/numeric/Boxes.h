// Boxes that overlap better ones. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace knapper::numeric {

/// Which boxes are left out, and how they are written.
struct SuppressionRule {
  int64_t most; ///< boxes that are kept; negative: none
  float limit;  ///< of the overlap: what two share by what they cover
  float least;  ///< scores are above
  bool centred; ///< (x, y, width, height), else two opposite corners
};

/// The boxes [count, 4] that are kept, best first, of equal scores [count] the
/// first one: each that overlaps none before it by more than the limit. A score
/// that is no number keeps no box. `count` is below 2^32.
void keepBest(const float *boxes, const float *scores, int64_t count,
              const SuppressionRule &rule, std::vector<int64_t> &kept);

} // namespace knapper::numeric
