// Rows of weights as integers with scales, as ts.packed_dot reads them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace knapper::serving {

/// Bytes of a row of so many integers of 8 or 4 bits.
constexpr int64_t integerBytes(int64_t depth, int64_t bits) {
  return (depth * bits + 7) / 8;
}

/// `depth` weights, `stride` apart, as integers of 8 or 4 bits, two of four
/// bits in a byte, and a scale for each `group` of them, the last of which may
/// be shorter. Of 8 bits the largest magnitude is 127 steps; of 4 bits the
/// weight of the largest magnitude is -8 steps, whatever its sign. To the
/// nearest, of two the even one. A group of zeros has the scale 1, one with a
/// NaN or an infinity the scale NaN.
void quantizeRow(const float *weights, int64_t stride, int64_t depth,
                 int64_t bits, int64_t group, std::byte *integers,
                 float *scales);

} // namespace knapper::serving
