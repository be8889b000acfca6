#include "serving/engine/QuantizeRows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace knapper::serving;

namespace {

int32_t integerAt(const std::vector<std::byte> &row, int64_t i, int64_t bits) {
  if (bits == 8)
    return static_cast<int8_t>(row[i]);
  int32_t nibble = static_cast<int32_t>(row[i / 2]) >> (i % 2 ? 4 : 0) & 15;
  return nibble < 8 ? nibble : nibble - 16;
}

TEST(QuantizeRows, EveryWeightIsWithinHalfAStep) {
  std::mt19937 random(23);
  std::normal_distribution<float> draw;
  for (int64_t bits : {8, 4})
    for (int64_t depth : {1, 7, 128, 300})
      for (int64_t stride : {1, 3}) {
        int64_t group = 128, groups = (depth + group - 1) / group;
        std::vector<float> weights(depth * stride), scales(groups);
        for (float &weight : weights)
          weight = draw(random);
        std::vector<std::byte> row(integerBytes(depth, bits));
        quantizeRow(weights.data(), stride, depth, bits, group, row.data(),
                    scales.data());
        for (int64_t i = 0; i < depth; ++i) {
          float scale = scales[i / group];
          int32_t integer = integerAt(row, i, bits);
          // Of four bits the end opposite to the largest is one step short.
          float bound = bits == 4 && integer == 7 ? 1.001F : 0.501F;
          EXPECT_LE(std::abs(weights[i * stride] - integer * scale),
                    bound * std::abs(scale))
              << bits << " bits, weight " << i << " of " << depth;
        }
      }
}

TEST(QuantizeRows, TheLargestHasAllSteps) {
  std::vector<float> weights{0.5F, -1, 0.25F, 2};
  std::vector<std::byte> row(4);
  float scale = 0;
  quantizeRow(weights.data(), 1, 4, 8, 4, row.data(), &scale);
  EXPECT_EQ(integerAt(row, 3, 8), 127);
  quantizeRow(weights.data(), 1, 4, 4, 4, row.data(), &scale);
  EXPECT_EQ(integerAt(row, 3, 4), -8);
  EXPECT_EQ(scale, -0.25F);
}

TEST(QuantizeRows, ZerosAndWhatIsNotFinite) {
  std::vector<float> weights{0, 0, 1, std::numeric_limits<float>::infinity()};
  std::vector<std::byte> row(2);
  float scales[2];
  quantizeRow(weights.data(), 1, 4, 4, 2, row.data(), scales);
  EXPECT_EQ(scales[0], 1);
  EXPECT_EQ(integerAt(row, 0, 4), 0);
  EXPECT_TRUE(std::isnan(scales[1]));
}

} // namespace
