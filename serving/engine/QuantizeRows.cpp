#include "serving/engine/QuantizeRows.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace knapper::serving {

/// What one step is, of `count` weights.
static float scaleOf(const float *weights, int64_t stride, int64_t count,
                     int64_t bits) {
  float high = 0, low = 0, all = 0;
  for (int64_t i = 0; i < count; ++i) {
    float weight = weights[i * stride];
    high = std::max(high, weight);
    low = std::min(low, weight);
    all += weight * 0; // NaN where one is not finite
  }
  if (all != 0)
    return std::numeric_limits<float>::quiet_NaN();
  float scale =
      bits == 8 ? std::max(high, -low) / 127 : (high > -low ? high : low) / -8;
  return scale == 0 ? 1 : scale;
}

void quantizeRow(const float *weights, int64_t stride, int64_t depth,
                 int64_t bits, int64_t group, std::byte *integers,
                 float *scales) {
  if (bits == 4)
    memset(integers, 0, static_cast<size_t>(integerBytes(depth, bits)));
  float least = bits == 8 ? -128 : -8, most = bits == 8 ? 127 : 7;
  for (int64_t begin = 0; begin < depth; begin += group) {
    int64_t end = std::min(begin + group, depth);
    float scale = scaleOf(weights + begin * stride, stride, end - begin, bits);
    *scales++ = scale;
    bool finite = scale == scale;
    for (int64_t i = begin; i < end; ++i) {
      // At 1.5 * 2^23 the last bit counts one: without a call, to the even.
      constexpr float whole = 12582912;
      float steps = finite ? weights[i * stride] / scale + whole - whole : 0;
      auto integer =
          static_cast<int32_t>(std::min(std::max(steps, least), most));
      if (bits == 8)
        integers[i] = static_cast<std::byte>(integer);
      else
        integers[i / 2] |=
            static_cast<std::byte>((integer & 15) << (i % 2 ? 4 : 0));
    }
  }
}

} // namespace knapper::serving
