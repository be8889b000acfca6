// Ranges of numbers whose distribution is known.
#include "compiler/calibrate/Ranges.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace knapper;

static TensorStatistics statisticsOf(const std::vector<float> &values) {
  TensorStatistics statistics;
  EXPECT_TRUE(statistics.addExtent(values));
  statistics.addCounts(values);
  return statistics;
}

/// Mean square of what eight bits make of the numbers.
static double errorOf(const std::vector<float> &values, Range range,
                      bool isSigned) {
  StepChoice steps = stepsOf(range, isSigned);
  double sum = 0;
  for (float value : values) {
    double q = std::nearbyint(value / steps.scale) + steps.zero;
    q = std::clamp(q, isSigned ? -128.0 : 0.0, isSigned ? 127.0 : 255.0);
    sum += std::pow((q - steps.zero) * steps.scale - value, 2);
  }
  return sum / double(values.size());
}

static std::vector<float> normal(size_t count) {
  std::mt19937_64 engine(1);
  std::normal_distribution<float> numbers;
  std::vector<float> values(count);
  for (float &value : values)
    value = numbers(engine);
  return values;
}

TEST(Ranges, MinMaxHoldsZero) {
  Range range = statisticsOf({2, 3, 5}).choose(RangeChoice::minmax, 0, false);
  EXPECT_EQ(range.low, 0);
  EXPECT_EQ(range.high, 5);
  range = statisticsOf({-2, -7}).choose(RangeChoice::error, 0, false);
  EXPECT_EQ(range.high, 0);
  EXPECT_NEAR(range.low, -7, 0.1);
}

TEST(Ranges, Steps) {
  StepChoice steps = stepsOf({-1, 1.55}, false);
  EXPECT_FLOAT_EQ(steps.scale, 0.01f);
  EXPECT_EQ(steps.zero, 100);
  steps = stepsOf({-1, 1.27}, true);
  EXPECT_FLOAT_EQ(steps.scale, 0.01f);
  EXPECT_EQ(steps.zero, 0);
}

TEST(Ranges, NotFinite) {
  TensorStatistics statistics;
  EXPECT_FALSE(statistics.addExtent(std::vector<float>{1, NAN}));
  EXPECT_FALSE(statistics.addExtent(std::vector<float>{-INFINITY}));
}

TEST(Ranges, PercentileLeavesOutliers) {
  std::vector<float> values(10000);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i) / 10000;
  values[5] = 1000;
  values[6] = -1000;
  Range range =
      statisticsOf(values).choose(RangeChoice::percentile, 99.9, false);
  EXPECT_LT(range.high, 2);
  EXPECT_GT(range.low, -2);
  range = statisticsOf(values).choose(RangeChoice::percentile, 100, false);
  EXPECT_EQ(range.high, 1000);
  EXPECT_EQ(range.low, -1000);
}

TEST(Ranges, LeastErrorIsLess) {
  std::vector<float> values = normal(1000000);
  values[0] = 40;
  values[1] = -15;
  TensorStatistics statistics = statisticsOf(values);
  for (bool isSigned : {false, true}) {
    double all = errorOf(
        values, statistics.choose(RangeChoice::minmax, 0, isSigned), isSigned);
    Range range = statistics.choose(RangeChoice::error, 0, isSigned);
    EXPECT_LT(errorOf(values, range, isSigned), 0.5 * all);
    EXPECT_LT(range.high, 20);
  }
}

TEST(Ranges, NothingButZeros) {
  for (RangeChoice choice :
       {RangeChoice::minmax, RangeChoice::percentile, RangeChoice::error}) {
    Range range = statisticsOf({0, 0}).choose(choice, 99, false);
    EXPECT_EQ(range.low, 0);
    EXPECT_EQ(range.high, 0);
  }
}
