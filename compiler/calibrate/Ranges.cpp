#include "compiler/calibrate/Ranges.h"

#include <algorithm>
#include <cmath>

namespace knapper {

StepChoice stepsOf(Range range, bool isSigned) {
  StepChoice steps;
  if (isSigned) {
    steps.scale = static_cast<float>(std::max(-range.low, range.high) / 127);
    return steps;
  }
  steps.scale = static_cast<float>((range.high - range.low) / 255);
  steps.zero = static_cast<int>(
      std::clamp(std::nearbyint(-range.low / double(steps.scale)), 0.0, 255.0));
  return steps;
}

bool TensorStatistics::addExtent(std::span<const float> values) {
  float least = low, most = high;
  bool finite = true;
  for (float value : values) {
    finite &= std::isfinite(value);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  low = least;
  high = most;
  return finite;
}

void TensorStatistics::addCounts(std::span<const float> values) {
  counts.resize(bins);
  total += values.size();
  double width = (double(high) - low) / bins;
  if (width == 0)
    return;
  double perWidth = 1 / width;
  for (float value : values) {
    auto bin = static_cast<int>((double(value) - low) * perWidth);
    ++counts[std::clamp(bin, 0, bins - 1)];
  }
}

Range TensorStatistics::choose(RangeChoice choice, double percent,
                               bool isSigned) const {
  if (choice == RangeChoice::minmax || total == 0 || low == high)
    return {low, high};
  if (choice == RangeChoice::error)
    return leastError(isSigned);
  double outside = double(total) * (100 - percent) / 200;
  double width = (double(high) - low) / bins;
  auto end = [&](auto bin) { // bins that may go, from one end
    double passed = 0;
    int gone = 0;
    while (gone < bins - 1 && passed + double(counts[bin(gone)]) <= outside)
      passed += double(counts[bin(gone++)]);
    return gone;
  };
  int below = end([](int i) { return i; });
  int above = end([](int i) { return bins - 1 - i; });
  return {std::min(0.0, low + below * width),
          std::max(0.0, high - above * width)};
}

/// Numbers inside a range are off by up to half a step, on average by a
/// twelfth of its square; those outside by what is cut off. With running sums
/// of the counts, of bin centres and of their squares any range costs the same.
Range TensorStatistics::leastError(bool isSigned) const {
  double width = (double(high) - low) / bins;
  std::vector<double> count(bins + 1), first(bins + 1), second(bins + 1);
  for (int i = 0; i < bins; ++i) {
    double centre = low + (i + 0.5) * width, n = double(counts[i]);
    count[i + 1] = count[i] + n;
    first[i + 1] = first[i] + n * centre;
    second[i + 1] = second[i] + n * centre * centre;
  }
  // Of the bins [from, to): the sum of (x - edge)^2.
  auto beyond = [&](int from, int to, double edge) {
    return second[to] - second[from] - 2 * edge * (first[to] - first[from]) +
           edge * edge * (count[to] - count[from]);
  };
  auto binOf = [&](double x) {
    return std::clamp(static_cast<int>((x - low) / width), 0, bins);
  };
  Range best{low, high};
  double least = INFINITY;
  constexpr int cuts = 128;
  auto attempt = [&](double from, double to) {
    int begin = binOf(from), end = std::max(begin, binOf(to));
    double step = isSigned ? std::max(-from, to) / 127 : (to - from) / 255;
    double error = beyond(0, begin, from) + beyond(end, bins, to) +
                   (count[end] - count[begin]) * step * step / 12;
    if (error < least) {
      least = error;
      best = {from, to};
    }
  };
  for (int i = 0; i < cuts; ++i) {
    double keep = 1 - double(i) / cuts;
    if (isSigned) { // one number decides
      double edge = std::max(-double(low), double(high)) * keep;
      attempt(std::max(double(low), -edge), std::min(double(high), edge));
      continue;
    }
    for (int j = 0; j < (low < 0 ? cuts : 1); ++j)
      attempt(low * (1 - double(j) / cuts), high * keep);
    if (high == 0)
      break;
  }
  return best;
}

} // namespace knapper
