#include "serving/sampling/DrawWeights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace knapper::serving {

/// 2^x of x <= 0; 0 below the smallest normal number. Without a branch, so that
/// the compiler makes vectors of it.
static inline float exp2Below(float x) {
  constexpr float least = -126, magic = 12582912; // 1.5 * 2^23: rounds
  float bounded = x > least ? x : least;
  float rounded = bounded + magic;
  float whole = rounded - magic, f = bounded - whole; // f in [-0.5, 0.5]
  // Taylor's, of ln(2) * f, whose rest is below 2^-24.
  float p = 1.5403530e-4f;
  p = p * f + 1.3333558e-3f;
  p = p * f + 9.6181291e-3f;
  p = p * f + 5.5504109e-2f;
  p = p * f + 2.4022651e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  auto bits =
      (std::bit_cast<int32_t>(rounded) - std::bit_cast<int32_t>(magic) + 127)
      << 23;
  float made = p * std::bit_cast<float>(bits);
  return x > least ? made : 0.0f;
}

void DrawWeights::fill(std::span<const float> values, float largest,
                       float scale) {
  constexpr float log2e = 1.44269504f;
  weights.resize(values.size());
  blocks.assign((values.size() + kBlock - 1) / kBlock, 0);
  total = 0;
  float factor = scale * log2e;
  for (size_t b = 0; b < blocks.size(); ++b) {
    size_t begin = b * kBlock, end = std::min(begin + kBlock, values.size());
    const float *in = values.data() + begin;
    float *out = weights.data() + begin;
    size_t count = end - begin;
    for (size_t i = 0; i < count; ++i)
      out[i] = exp2Below((in[i] - largest) * factor);
    constexpr size_t lanes = 16;
    std::array<float, lanes> sums{};
    size_t i = 0;
    for (; i + lanes <= count; i += lanes)
      for (size_t lane = 0; lane < lanes; ++lane)
        sums[lane] += out[i + lane];
    double block = 0;
    for (float sum : sums)
      block += sum;
    for (; i < count; ++i)
      block += out[i];
    blocks[b] = block;
    total += block;
  }
}

size_t DrawWeights::place(double share) const {
  double left = share * total;
  size_t b = 0, lastBlock = 0;
  for (; b < blocks.size(); ++b) {
    if (blocks[b] <= 0)
      continue;
    lastBlock = b;
    if (left < blocks[b])
      break;
    left -= blocks[b];
  }
  // Rounding may leave a rest behind the last one.
  size_t begin = lastBlock * kBlock,
         end = std::min(begin + kBlock, weights.size()), last = begin;
  for (size_t i = begin; i < end; ++i) {
    if (weights[i] <= 0)
      continue;
    last = i;
    left -= weights[i];
    if (left < 0)
      break;
  }
  return last;
}

} // namespace knapper::serving
