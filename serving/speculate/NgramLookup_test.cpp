#include "serving/speculate/NgramLookup.h"

#include "gtest/gtest.h"
#include <random>
#include <span>

using namespace knapper::serving;

namespace {

using Tokens = std::vector<int32_t>;

Tokens proposed(const Tokens &tokens, int32_t most = 4) {
  NgramLookup lookup;
  lookup.extend(tokens);
  return lookup.propose(tokens, most);
}

TEST(NgramLookup, WhatFollowedBefore) {
  EXPECT_EQ(proposed({1, 2, 3, 4, 5, 6, 9, 1, 2}), (Tokens{3, 4, 5, 6}));
  EXPECT_EQ(proposed({1, 2, 3, 4, 5, 6, 9, 1, 2}, 2), (Tokens{3, 4}));
  EXPECT_EQ(proposed({1, 2, 3, 4, 5}), Tokens{});
  EXPECT_EQ(proposed({2, 7, 8, 2}), Tokens{}) << "one token is no evidence";
  EXPECT_EQ(proposed({}), Tokens{});
}

TEST(NgramLookup, LongerOnesAndLaterOnesFirst) {
  // "1 2" was followed by 8 and, later, by 7; "5 6 1 2" by 8.
  EXPECT_EQ(proposed({5, 6, 1, 2, 8, 1, 2, 7, 5, 6, 1, 2}, 1), (Tokens{8}));
  EXPECT_EQ(proposed({1, 2, 8, 1, 2, 7, 1, 2}, 1), (Tokens{7}));
}

TEST(NgramLookup, ALoopGoesOn) {
  EXPECT_EQ(proposed({9, 1, 2, 1, 2}, 5), (Tokens{1, 2, 1, 2, 1}));
  EXPECT_EQ(proposed({3, 3, 3}, 3), (Tokens{3, 3, 3}));
}

// Tokens that were taken back: what followed lies behind those that are left.
TEST(NgramLookup, OfFewerTokensThanWereRead) {
  Tokens tokens{1, 2, 3, 4, 9, 8, 7, 1, 2, 3, 4, 6, 6};
  NgramLookup lookup;
  lookup.extend(tokens);
  EXPECT_EQ(lookup.propose(std::span<const int32_t>(tokens).first(4), 3),
            Tokens{});
  EXPECT_EQ(lookup.propose(std::span<const int32_t>(tokens).first(11), 3),
            Tokens{});
}

TEST(NgramLookup, PieceByPieceAsAtOnce) {
  std::mt19937 random(3);
  Tokens tokens;
  NgramLookup lookup;
  for (int i = 0; i < 2000; ++i) {
    tokens.push_back(static_cast<int32_t>(random() % 5));
    lookup.extend(tokens);
    Tokens now = lookup.propose(tokens, 6);
    if (i % 50 == 0) {
      EXPECT_EQ(now, proposed(tokens, 6)) << i;
    }
    ASSERT_TRUE(now.empty() || now.size() == 6);
  }
}

} // namespace
