//===- Ranges.h - Which numbers eight bits are to stand for ---------------===//
//
// What calibration keeps of a tensor: its smallest and largest number, then, in
// a second pass over the same data, how many numbers lie in each of `bins`
// equal steps between them. A range always holds 0, which is then exact.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace knapper {

enum class RangeChoice {
  minmax,     ///< everything that was seen
  percentile, ///< all but a share of the numbers, half of it at each end
  error,      ///< the least mean square error of what is stored
};

struct Range {
  double low = 0, high = 0; ///< low <= 0 <= high
};

/// How a tensor is stored: q = round(x / scale) + zero, saturated to u8 (zero
/// 0..255) or to i8 (zero 0).
struct StepChoice {
  float scale = 1;
  int zero = 0;
};
StepChoice stepsOf(Range range, bool isSigned);

class TensorStatistics {
public:
  static constexpr int bins = 4096;

  /// First pass. False when a number is not finite.
  bool addExtent(std::span<const float> values);
  /// Second pass, over the same numbers.
  void addCounts(std::span<const float> values);

  /// `percent` of the numbers lie inside, of RangeChoice::percentile; in (0,
  /// 100].
  Range choose(RangeChoice choice, double percent, bool isSigned) const;

private:
  Range leastError(bool isSigned) const;

  float low = 0, high = 0; // with 0 among what was seen
  std::vector<uint64_t> counts;
  uint64_t total = 0;
};

} // namespace knapper
