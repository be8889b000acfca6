#include "serving/speculate/SpeculationGain.h"

#include "gtest/gtest.h"

using namespace knapper::serving;

namespace {

/// Steps of `base` seconds and `each` for a token.
StepTimes line(double base, double each) {
  StepTimes times;
  for (int round = 0; round < 20; ++round)
    for (int32_t tokens : {1, 2, 3, 4, 5, 8, 9, 16, 32, 64})
      times.add(tokens, base + each * tokens);
  return times;
}

TEST(StepTimes, LinesBetweenAndBeyond) {
  StepTimes none;
  EXPECT_EQ(none.seconds(3), 0);
  StepTimes one;
  one.add(4, 0.5);
  EXPECT_DOUBLE_EQ(one.seconds(1), 0.5);
  EXPECT_DOUBLE_EQ(one.seconds(400), 0.5);
  StepTimes times = line(1, 0.25);
  for (int32_t tokens : {1, 2, 4, 6, 12, 48, 64, 128})
    EXPECT_NEAR(times.seconds(tokens), 1 + 0.25 * tokens, 0.15) << tokens;
}

TEST(StepTimes, OfAnyNumberOfTokens) {
  for (int32_t tokens :
       {0, 1, 2, 3, 1 << 20, (3 << 18) + 1, 1 << 30, INT32_MAX}) {
    StepTimes times;
    times.add(tokens, 0.5);
    EXPECT_DOUBLE_EQ(times.seconds(INT32_MAX), 0.5) << tokens;
  }
}

TEST(StepTimes, MoreTokensNeverTakeLess) {
  StepTimes times; // as where a larger step takes another kernel
  times.add(4, 2);
  times.add(64, 1);
  EXPECT_DOUBLE_EQ(times.seconds(16), 2);
  EXPECT_DOUBLE_EQ(times.seconds(400), 1);
}

TEST(StepTimes, OneSlowStepIsNoRule) {
  StepTimes times = line(1, 0);
  times.add(2, 50);
  EXPECT_LT(times.seconds(2), 1.2);
  for (int i = 0; i < 100; ++i)
    times.add(2, 3);
  EXPECT_NEAR(times.seconds(2), 3, 0.1) << "many are";
}

TEST(Verified, WhatCostsNothingIsTaken) {
  std::vector<Proposal> proposals{{0.9, 8}, {0.1, 8}};
  EXPECT_EQ(chooseVerified(proposals, 2, line(1, 0)),
            (std::vector<int32_t>{8, 8}));
  // A token costs as much as one alone brings.
  EXPECT_EQ(chooseVerified(proposals, 2, line(0, 1)),
            (std::vector<int32_t>{0, 0}));
}

// As many tokens a second either way: nothing is verified.
TEST(Verified, WhatGainsNothingIsLeft) {
  StepTimes times;
  for (int32_t tokens : {1, 2, 4, 8})
    times.add(tokens, tokens);
  std::vector<Proposal> sure{{1, 3}};
  EXPECT_EQ(chooseVerified(sure, 1, times), std::vector<int32_t>{0});
}

TEST(Verified, TheLikelyOnesBeforeOthers) {
  std::vector<Proposal> proposals{{0.2, 6}, {0.95, 6}};
  std::vector<int32_t> chosen = chooseVerified(proposals, 2, line(1, 0.3));
  EXPECT_GT(chosen[1], 2);
  EXPECT_EQ(chosen[0], 0);
  EXPECT_EQ(chooseVerified({}, 2, line(1, 1)), std::vector<int32_t>{});
}

TEST(Rounds, ADraftModelMustBeCheap) {
  std::vector<double> rates{0.8};
  EXPECT_GE(chooseRounds(rates, 1, 8, line(1, 0.01), line(0.05, 0)), 3);
  EXPECT_EQ(chooseRounds(rates, 1, 8, line(1, 0.01), line(1, 0)), 0);
  std::vector<double> wrong{0.02};
  EXPECT_EQ(chooseRounds(wrong, 1, 8, line(1, 0.01), line(0.05, 0)), 0);
}

TEST(AcceptanceRate, WhatFailsIsAskedLess) {
  AcceptanceRate rate;
  for (int i = 0; i < 40; ++i)
    rate.add(4, 0);
  EXPECT_LT(rate.rate(), 0.01);
  int trials = 0;
  for (int i = 0; i < 2048; ++i)
    trials += rate.pass();
  EXPECT_EQ(trials, 2);
  for (int i = 0; i < 4; ++i)
    rate.add(4, 4);
  EXPECT_GT(rate.rate(), 0.85);
  trials = 0;
  for (int i = 0; i < 160; ++i)
    trials += rate.pass();
  EXPECT_EQ(trials, 10);
}

} // namespace
