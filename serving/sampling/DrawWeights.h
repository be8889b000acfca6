// Softmax without its division, in float32: what a draw walks along.
#pragma once

#include <span>
#include <vector>

namespace knapper::serving {

/// weights[i] = exp((values[i] - largest) * scale), within 3 parts in 10^7;
/// values are at most `largest`, or -inf, of which the weight is 0.
class DrawWeights {
public:
  /// `logits` may be any number of values; replaces what was there.
  void fill(std::span<const float> values, float largest, float scale);
  double sum() const { return total; }
  float at(size_t i) const { return weights[i]; }
  /// The first place where the running sum exceeds `share` of the sum, among
  /// those whose weight is not 0.
  size_t place(double share) const;

private:
  static constexpr size_t kBlock = 512;
  std::vector<float> weights;
  std::vector<double> blocks; ///< sums
  double total = 0;
};

} // namespace knapper::serving
